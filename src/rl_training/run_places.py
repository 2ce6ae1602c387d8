"""Where runs lie. No torch is needed to look for them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Literal

RUNS_DIR = "runs"  # unless told otherwise
DESCRIPTION = "run.json"  # what every run directory has
LOCK = ".lock"  # held by the process that trains it
STOPPED = "stopped"  # the status of a run that says it is running while no process trains it: it was killed
DAMAGED = "damaged"  # the status of a run that cannot be read
Status = Literal["running", "finished", "interrupted", "diverged", "failed", "stopped", "damaged"]


def run_folders(folder: Path) -> list[Path]:
    """The directories in `folder` that are runs, or were meant to be, by name; none where it cannot be read."""
    marks = (DESCRIPTION, "config.yaml", "checkpoints")
    try:
        inside = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(path for path in inside if any(os.path.lexists(path / mark) for mark in marks))
    except OSError:
        return []


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
