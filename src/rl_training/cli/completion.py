"""What the shell offers on the tab key. Whatever goes wrong here offers nothing; it must never be seen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from rl_training.errors import RLTrainingError
from rl_training.run_places import RUNS_DIR, run_folders
from rl_training.tracker_names import TrackerName


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
    names = _runs_in(RUNS_DIR)
    folder = _folder(incomplete)
    paths = [f"{folder}{name}" for name in _runs_in(folder)] if folder else []
    return [text for text in (*names, *paths) if text.startswith(incomplete)]


def trackers(incomplete: str) -> list[str]:
    """Programs that can be told how a run goes."""
    return [name for name in get_args(TrackerName) if name.startswith(incomplete)]


def _runs_in(folder: str) -> list[str]:
    try:
        return [path.name for path in run_folders(Path(folder))]
    except RLTrainingError:
        return []


def _folder(incomplete: str) -> str:
    """As it was typed, up to its last slash."""
    return incomplete[: incomplete.rfind("/") + 1]


def _paths(incomplete: str, suffixes: Iterable[str]) -> list[str]:
    """Files with one of the suffixes and folders whose path begins with what is typed."""
    folder = _folder(incomplete)
    try:
        entries = sorted(path for path in Path(folder).iterdir() if not path.name.startswith("."))
        texts = [f"{folder}{path.name}{'/' if path.is_dir() else ''}" for path in entries]
    except OSError:
        return []
    return [text for text in texts if text.startswith(incomplete) and text.endswith(("/", *suffixes))]
