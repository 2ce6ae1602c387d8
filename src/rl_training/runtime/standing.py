"""Where a run stands by its newest checkpoint, which counts: run.json is told after one is saved, and may be behind.

Read without torch, as run.json is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl_training.errors import CheckpointError
from rl_training.paths import read_plain_file
from rl_training.run_places import CHECKPOINTS
from rl_training.runtime.run_description import is_score

STATE = "state.json"  # of a checkpoint
LAST = ("last", "latest")  # what the newest checkpoint is asked for as
NEXT = ".next"
STEP = re.compile(rf"step-(0|[1-9][0-9]{{0,17}})(?:{re.escape(NEXT)})?")
TOLD = ("unit", "last", "best", "engines")  # of its progress, and in run.json
_LARGEST = 2**26  # bytes of a state, which names every column of the data


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies, or would."""
    path, newer = folder / f"step-{step}", folder / f"step-{step}{NEXT}"
    return newer if os.path.lexists(newer) and not os.path.lexists(path) else path


def steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints, oldest first."""
    try:
        names = [path.name for path in folder.iterdir()] if os.path.lexists(folder) else []
    except OSError as error:  # not the same as none: a run must not begin anew because they are out of reach
        raise CheckpointError(f"{folder}: cannot be read ({error.strerror}); it has to be a folder") from error
    return sorted({int(found[1]) for name in names if (found := STEP.fullmatch(name))})


def progress_of(path: Path) -> Any:
    """What a checkpoint says of its progress; none if it is damaged."""
    try:
        return json.loads(read_plain_file(path / STATE, _LARGEST))["progress"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def standing(run: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says, with the step and the scores that the newest checkpoint has, unless that is damaged."""
    with suppress(CheckpointError):
        steps = steps_in(run / CHECKPOINTS)
        progress = progress_of(path_of(run / CHECKPOINTS, steps[-1])) if steps else None
        if isinstance(progress, Mapping) and all(
            progress.get(name) is None or is_score(progress[name]) for name in ("last", "best")
        ):
            return {**facts, "step": steps[-1], **{name: progress.get(name) for name in TOLD}}
    return dict(facts)
