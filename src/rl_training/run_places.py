"""Where runs lie. No torch is needed to look for them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

RUNS_DIR = "runs"  # unless told otherwise
DESCRIPTION = "run.json"  # what every run directory has
DAMAGED = "damaged"  # the status of a run that cannot be read
Status = Literal["running", "finished", "interrupted", "diverged", "failed", "damaged"]


def run_folders(folder: Path) -> list[Path]:
    """The directories in `folder` that are runs, or were meant to be, by name; none where it cannot be read."""
    marks = (DESCRIPTION, "config.yaml", "checkpoints")
    try:
        inside = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(path for path in inside if any((path / mark).exists() for mark in marks))
    except OSError:
        return []
