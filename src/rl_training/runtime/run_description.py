"""run.json of a run, read without torch: lists of runs should not wait for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_training.errors import CheckpointError
from rl_training.run_places import DESCRIPTION


def read_description(run: Path) -> dict[str, Any]:
    """The contents of run.json: status, versions, machine, dataset, scores."""
    file = run / DESCRIPTION
    try:
        contents = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{file}: cannot be read ({reason})") from error
    if not isinstance(contents, dict):
        raise CheckpointError(f"{file}: is not a description of a run")
    return contents
