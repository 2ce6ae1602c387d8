"""Where runs lie. No torch is needed to look for them."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from rl_training.errors import CheckpointError, closest

RUNS_DIR = "runs"  # unless told otherwise
DESCRIPTION = "run.json"  # what every run directory has
LOCK = ".lock"  # held by the process that trains it
TEMPORARY = ".tmp-"  # in the name of whatever is being written or removed
STOPPED = "stopped"  # the status of a run that says it is running while no process trains it: it was killed
DAMAGED = "damaged"  # the status of a run that cannot be read
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
    marks = (DESCRIPTION, "config.yaml", "checkpoints")
    return not os.access(path, os.X_OK) or any(os.path.lexists(path / mark) for mark in marks)


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


def train_first(path: Path) -> str:
    """What to say after `no such run` where no run is anywhere: the command that trains one, with the configuration
    that lies nearby."""
    found = {file.stem: file for folder in (path.parent, Path()) for file in configurations(folder)}
    like = closest(path.name, found)
    if like is None and len(found) == 1:
        (like,) = found
    name = "FILE" if like is None else shlex.quote(str(found[like]))
    way = "" if found else "; for data of your own `rl-training init DATA` writes FILE"
    return f" (nothing was trained here yet); train first: rl-training train -c {name}{way}"


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
