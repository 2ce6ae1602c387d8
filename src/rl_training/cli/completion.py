"""What the shell offers on the tab key. Whatever goes wrong here offers nothing; it must never be seen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rl_training.run_places import RUNS_DIR, run_folders


def algos(incomplete: str) -> list[tuple[str, str]]:
    """Names of algorithms, with what they are."""
    from rl_training.algorithms import find

    return [(name, summary) for name, summary in find().items() if name.startswith(incomplete)]


def configs(incomplete: str) -> list[str]:
    """Packaged configurations, and YAML files from here on."""
    from rl_training.experiment.assets import packaged_configs

    packaged = [name for name in packaged_configs() if name.startswith(incomplete)]
    return [*packaged, *_paths(incomplete, (".yaml", ".yml"))]


def runs(incomplete: str) -> list[str]:
    """Runs by their names in `runs/`, or by their paths."""
    folder = Path(RUNS_DIR)
    names = [path.name for path in run_folders(folder) if path.name.startswith(incomplete)]
    beside = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    paths = [str(path) for path in run_folders(beside)] if "/" in incomplete else []
    return [*names, *(path for path in paths if path.startswith(incomplete))]


def _paths(incomplete: str, suffixes: Iterable[str]) -> list[str]:
    """Files with one of the suffixes and folders whose path begins with what is typed."""
    whole = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    try:
        entries = sorted(path for path in whole.iterdir() if not path.name.startswith("."))
        texts = [f"{path}/" if path.is_dir() else str(path) for path in entries]
    except OSError:
        return []
    return [text for text in texts if text.startswith(incomplete) and text.endswith(("/", *suffixes))]
