"""run.json and config.yaml of a run, read without torch: lists of runs should not wait for it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.errors import CheckpointError
from rl_training.paths import in_shell, read_plain_file
from rl_training.run_places import DESCRIPTION
from rl_training.validation import is_count, shown

_ENGINES = tuple(f"{mode} on {device}" for mode in ("eager", "compiled") for device in ("cpu", "cuda"))
_LARGEST = 2**26  # bytes; it names every column of the data, some hundred bytes each, and there may be very many


def read_description(run: Path) -> dict[str, Any]:
    """The contents of run.json: status, versions, machine, dataset, scores."""
    file = run / DESCRIPTION
    try:
        contents = json.loads(read_plain_file(file, _LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: {_damaged(run, error)}") from error
    mappings = ("dataset", "best")  # or nothing
    if not isinstance(contents, dict) or not all(isinstance(contents.get(name), dict | None) for name in mappings):
        raise CheckpointError(f"{file}: is not a description of a run")
    if not isinstance(contents.get("status"), str) or "dataset" not in contents:
        raise CheckpointError(f"{file}: is not a description of a run (status and dataset are missing)")
    for name, fits in (("step", is_count), ("last", is_score), ("best", is_score), ("engines", are_engines)):
        value = contents.get(name)
        if value is not None and not fits(value):
            raise CheckpointError(f"{file}: {name}: {shown(value)} is not a value it can have")
    return contents


def _damaged(run: Path, error: Exception) -> str:
    """What is wrong with the file, and what of the run can still be used: its checkpoints stand for themselves."""
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or error})"
    kept = [place for place in (run / "checkpoints").glob("step-*") if place.name.removeprefix("step-").isdecimal()]
    newest = max(kept, key=lambda place: int(place.name.removeprefix("step-")), default=None)
    way = "" if newest is None else f", or name a checkpoint in place of the run: {in_shell(newest)}"
    return f"cannot be read ({error}); put back a copy of this file{way}"


def began(run: Path, created: Any) -> float:
    """The moment at which a run was started, in seconds since 1970: as it says, wherever its clock was, else as old as
    its folder."""
    try:
        return datetime.strptime(str(created), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return run.stat().st_mtime


def is_score(value: Any) -> bool:
    """Whether it is what an evaluation leaves in run.json and in checkpoints."""
    if not isinstance(value, dict) or not is_count(value.get("step")):
        return False
    score = value.get("return_mean")
    return (isinstance(score, float) and math.isfinite(score)) or (type(score) is int and abs(score) < 2**63)


def are_engines(value: Any) -> bool:
    """Whether it is what computed a run's updates, one after another, as run.json and checkpoints tell it."""
    return isinstance(value, list) and all(one in _ENGINES for one in value)


def lack_of_checkpoints(facts: Mapping[str, Any]) -> str:
    """In words: a run that has saved some, as its run.json tells, does not begin anew because they are out of reach."""
    if facts.get("step") is None and facts.get("status") == "running":
        return "has no checkpoint yet; if it is being trained, the first comes after a tenth of it, or as it was told"
    if facts.get("step") is None:
        return "has no checkpoint yet"
    return (
        f"{DESCRIPTION} tells of a checkpoint at step {shown(facts['step'])}, but there is none in checkpoints/; put it"
        " back, or start another run"
    )


def read_plain_config(path: Path) -> dict[str, Any]:
    """config.yaml of a run as plain values."""
    file = path / "config.yaml"
    try:
        values = yaml_dialect.read(read_plain_file(file))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{file}: is not a configuration")
    return values


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested options by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return found
