"""A complete command to type, with the names of what lies here, for whoever left something out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rl_training.errors import RLTrainingError
from rl_training.paths import OF_DATA, free_names, is_there
from rl_training.run_places import RUNS_DIR, configurations, is_run, run_folders, train_first

_NEEDS_A_RUN = ("resume", "finetune", "evaluate", "report", "predict", "export", "push")
_OF_CONFIGS = (".yaml", ".yml")


def whole_line(place: str, words: Sequence[str] = ()) -> str | None:
    """What to say after what is missing. place: `data split`; words: what was given to it."""
    if place in _NEEDS_A_RUN:
        return _of_run(place, words)
    line = _of_config(place, words) or _of_data(place, words)
    return None if line is None else f"; type for example `{shlex.join(['rl-training', *place.split(), *line])}`"


def config_here(words: Sequence[str] = ()) -> str | None:
    """A configuration among the words, else one that lies here."""
    named = [word for word in words if word.endswith(_OF_CONFIGS)]
    found = named or [str(path) for path in configurations(Path())]
    return "config.yaml" if "config.yaml" in found else next(iter(found), None)


def data_here(words: Sequence[str] = ()) -> str | None:
    """Data among the words, else the first by name that lie here."""
    named = [word for word in words if word.endswith(OF_DATA) or (not word.endswith(_OF_CONFIGS) and _exists(word))]
    try:
        return next(iter(named or sorted(path.name for path in Path().iterdir() if _is_data(path))), None)
    except OSError:
        return None


def _exists(word: str) -> bool:
    return is_there(Path(word)) and not is_run(Path(word))


def _is_data(path: Path) -> bool:
    return path.suffix.lower() in OF_DATA and path.is_file() and path.stat().st_size > 0


def _of_config(place: str, words: Sequence[str]) -> list[str] | None:
    config = config_here(words)
    match place:
        case "train":
            return None if config is None else ["-c", config]
        case "config show" | "config validate":
            return [config or "cql/pendulum"]
        case "config presets":
            return ["rebrac"]
        case "data collect":
            return ["--env-id", "Pendulum-v1", "--policy", "random", "--steps", "40000", "-o", "random.npz"]
    return None


def _of_data(place: str, words: Sequence[str]) -> list[str] | None:
    named = data_here(words) if any(word.endswith(OF_DATA) or _exists(word) for word in words) else None
    config = None if named is not None and not config_of(words) else config_here(words)
    data = named or data_here() or "log.csv"
    source = [data] if config is None or place in ("init", "data info") else ["-c", config]
    match place:
        case "init" | "data info" | "data check":
            return source
        case "data convert":
            stem = "converted" if source[0] == "-c" else Path(data).stem
            return [*source, f"{stem}{'.csv' if data.endswith('.npz') else '.npz'}"]
        case "data split":
            parts = [word for word in words if word.endswith(OF_DATA) and word != data]
            return [*source, "-o", *(parts if len(parts) == 2 else free_names("train.npz", "held_out.npz"))]
    return None


def config_of(words: Sequence[str]) -> str | None:
    """The configuration that is named."""
    return next((word for word in words if word.endswith(_OF_CONFIGS)), None)


def _of_run(place: str, words: Sequence[str]) -> str:
    """By the run that was named, else by the newest."""
    from rl_training.experiment.run_listing import list_runs, summarise

    folder = Path(RUNS_DIR)
    named = [path for word in words for path in (Path(word), folder / word) if is_run(path)]
    found = [summarise(named[0])] if named else list_runs(folder) if run_folders(folder) else []
    sound = next((run for run in found if run.fault is None), None)
    if sound is None:
        return train_first(folder / "run")
    name = sound.name if sound.path.parent == folder else str(sound.path)
    more: dict[str, list[str]] = {
        "resume": ["--total-timesteps", str(2 * (sound.steps or 1))] if sound.status == "finished" else [],
        "finetune": ["--steps", "10000", *([] if sound.env_id else ["--env-id", "ID"])],
        "evaluate": [] if sound.env_id else ["--offline"],
        "push": ["--repo", f"USER/{sound.name}", "--dry-run", "-o", "for-the-hub"],
        "predict": ["--obs", _zeros(sound.path)],
    }
    return f"; type for example `{shlex.join(['rl-training', place, name, *more.get(place, [])])}`"


def _zeros(run: Path) -> str:
    """As many as the run's observations have values."""
    from rl_training.runtime.run_description import read_description

    width = (read_description(run).get("dataset") or {}).get("obs_dim")
    if width is None:  # it learned from its own experience alone
        from rl_training.experiment.manager import load_policy

        with suppress(RLTrainingError):
            width = load_policy(run).checkpoint.spaces.obs_dim
    return ",".join(["0"] * (width if isinstance(width, int) and 0 < width <= 100 else 3))
