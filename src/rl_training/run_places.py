"""Where runs lie. No torch is needed to look for them."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Literal

from rl_training.errors import CheckpointError

RUNS_DIR = "runs"  # unless told otherwise
DESCRIPTION = "run.json"  # what every run directory has
LOCK = ".lock"  # held by the process that trains it
STOPPED = "stopped"  # the status of a run that says it is running while no process trains it: it was killed
DAMAGED = "damaged"  # the status of a run that cannot be read
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
