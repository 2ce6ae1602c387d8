"""Where runs lie. No torch is needed to look for them."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from rl_training.errors import CheckpointError, closest
from rl_training.paths import NOT_A_PATH, OF_DATA, in_shell, resolved
from rl_training.validation import shortened, shown

RUNS_DIR = "runs"  # unless told otherwise
DESCRIPTION = "run.json"  # what every run directory has
OWN_CONFIG = "config.yaml"  # the configuration that a run was trained with
MANIFEST = "manifest.json"  # what every checkpoint has
CHECKPOINTS = "checkpoints"  # the folder of a run that has them
LOCK = ".lock"  # held by the process that trains it
TEMPORARY = ".tmp-"  # in the name of whatever is being written or removed
STOPPED = "stopped"  # the status of a run that says it is running while no process trains it: it was killed
DAMAGED = "damaged"  # the status of a run that cannot be read
_MOST_LINKS = 40  # one after another, as many as the system follows
_OF_CONFIGS = (".yaml", ".yml")
_MOST_ENTRIES, _MOST_CONFIGS = 1000, 20  # of a folder: looked at for configurations, and opened
_BEGINNING = 2**16  # characters of a file in which a configuration names its algorithm
Status = Literal["running", "finished", "interrupted", "diverged", "failed", "stopped", "damaged"]


def is_run(path: Path) -> bool:
    """Whether a directory is a run, was meant to be one, or may not be looked into: it may be one then."""
    if path.name.startswith("."):
        return False
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return False
    except PermissionError:  # a link into a folder that may not be entered
        return True
    except OSError:
        return False
    marks = (DESCRIPTION, OWN_CONFIG, CHECKPOINTS)
    return not os.access(path, os.X_OK) or any(os.path.lexists(path / mark) for mark in marks)


def run_folder_of(place: Path) -> Path | None:
    """The run that lies at a path, or has its checkpoint there, be it by links; none where there is none. A folder that
    has runs in it may be called as a run's own folder of checkpoints is."""
    among = [one for one in (_followed(place), resolved(place)) if one.parent.name == CHECKPOINTS]
    folders = [place, *(one.parent.parent for one in among)]
    return next((folder for folder in folders if (folder / DESCRIPTION).is_file()), None)


def _followed(place: Path) -> Path:
    """What a link names, in the words of the link: the folders above may be links, too, and only their names tell what
    they are to a run."""
    for _ in range(_MOST_LINKS):
        if not place.is_symlink():
            break
        place = place.parent / place.readlink()
    return place.absolute()


def run_folders(folder: Path) -> list[Path]:
    """The directories in `folder` that are runs, by name; CheckpointError where it cannot be told which."""
    try:
        return sorted(path for path in folder.iterdir() if is_run(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"{folder}: what is in it cannot be listed ({error.strerror})") from None


def is_locked(run: Path) -> bool:
    """Whether a process trains this run now; where that cannot be told (no such locks on that disk), it may be."""
    try:
        if not (run / LOCK).is_file():
            return False
        with (run / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until the file is closed, at once
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def find_run(path: str | Path) -> Path:
    """The run or checkpoint at a path; a bare name that is not here, or is of something else, is looked for in
    `runs/`."""
    if not isinstance(path, str | PurePath):
        raise CheckpointError(f"path: {NOT_A_PATH} of a run or a checkpoint, got {shown(path)}")
    try:
        place = Path(path).expanduser()
        is_here = (place / MANIFEST).is_file() or is_run(place)  # raises whatever keeps us from looking inside
        runs = Path(RUNS_DIR)
        is_there = is_run(runs / place) or (not place.exists() and runs.is_dir())
        return runs / place if len(place.parts) == 1 and not is_here and is_there else place
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, no such user's home
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{shortened(str(path))}: cannot be looked for ({reason})") from None


def require_runs(*paths: Path) -> None:
    """Refuse a path where nothing lies, before anything is imported that takes seconds."""
    for path in paths:
        if not os.path.lexists(place := find_run(path)):
            raise CheckpointError(f"{place}: {what_it_is(place)}{other_runs(place)}")


def other_runs(path: Path) -> str:
    """Names of runs beside a path that is none, as help for the message."""
    above = Path("..", RUNS_DIR)
    for parent in (path.parent, Path(RUNS_DIR), *(() if path.is_absolute() else (above,))):
        names = sorted(file.parent.name for file in parent.glob("[!.]*/run.json"))
        if names:
            like = closest(path.name, names)
            meant = str(parent / like) if like and parent == above else like
            return f"; runs in {parent}: {', '.join(names[-5:])}" + (f"; did you mean {meant!r}?" if meant else "")
    return "" if path.exists() else train_first(path)


def what_it_is(path: Path) -> str:
    """What lies at a path that is no run, and what to do with it."""
    if is_configuration(path):
        return f"is a configuration, not a run; rl-training train -c {in_shell(path)} makes one"
    if path.is_dir():
        return "holds no run (no run.json)"
    if not path.is_file():
        return "no such run"
    if path.suffix == ".onnx":
        return "is an exported policy, which onnxruntime runs (docs/export.md); here give the run's name"
    if path.name.lower().endswith(OF_DATA):
        return f"is data, not a run; rl-training init {in_shell(path)} writes a configuration to train one from them"
    return "is a file, not a run; give a run's folder or its name"


def train_first(path: Path) -> str:
    """What to say after `no such run` where no run is anywhere: the command that trains one, with the configuration
    that lies nearby."""
    found = {file.stem: file for folder in (path.parent, Path()) for file in configurations(folder)}
    like = closest(path.name, found)
    if like != path.name and "config" in found:  # as `init` names it
        like = "config"
    if like is None and len(found) == 1:
        (like,) = found
    name = "FILE" if like is None else shlex.quote(str(found[like]))
    way = "" if found else "; for data of your own `rl-training init DATA` writes FILE"
    is_name = len(path.parts) == 1 or path.parent == Path(RUNS_DIR)
    where = f": runs are looked for in ./{RUNS_DIR}, one elsewhere is given by its path" if is_name else ""
    return f" (nothing was trained here yet{where}); train first: rl-training train -c {name}{way}"


def is_configuration(path: Path) -> bool:
    """Whether a file is YAML that names an algorithm, as every configuration to train with does."""
    if path.suffix.lower() not in _OF_CONFIGS:
        return False
    try:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return re.search(r"^algo\s*:", file.read(_BEGINNING), re.MULTILINE) is not None
    except OSError:
        return False


def configurations(folder: Path) -> Iterator[Path]:
    """Those that lie in a folder, by name; nothing where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name for entry in islice(entries, _MOST_ENTRIES) if entry.name.lower().endswith(_OF_CONFIGS)
            )
    except OSError:
        return
    yield from (folder / name for name in names[:_MOST_CONFIGS] if is_configuration(folder / name))
