"""One-line explanations of what a validated model refused."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from rl_training.errors import did_you_mean


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first fault in one line: the key, what was given, what is allowed, the nearest valid name."""
    faults = error.errors(include_url=False)
    first = faults[0]
    path = [str(part) for part in first["loc"]]
    where = f"{prefix}{'.'.join(path)}: " if path else ""
    line = where + _complaint(dict(first), model, path)
    return line if len(faults) == 1 else f"{line} (and {len(faults) - 1} more)"


def _complaint(fault: dict[str, Any], model: type[BaseModel], path: list[str]) -> str:
    given = fault.get("input")
    shown = repr(given) if len(repr(given)) <= 60 else f"{repr(given)[:57]}..."
    if fault["type"] == "extra_forbidden":
        return f"no such option{did_you_mean(path[-1], _options(model, path[:-1]))}"
    if fault["type"] == "missing":
        return "is required"
    if fault["type"] == "union_tag_invalid":
        context = fault.get("ctx", {})
        return f"unknown {context.get('discriminator', 'kind')} {context.get('tag', '')}; choose from {context.get('expected_tags', '')}"
    if not path:
        return str(fault["msg"]).removeprefix("Value error, ")
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input ").replace("should be", "must be")
    return f"{message}, got {shown}"


def _options(model: type[BaseModel], path: list[str]) -> list[str]:
    """The field names that exist at `path` inside a model (empty where the path leaves what can be followed)."""
    candidates: list[type[BaseModel]] = [model]
    for part in path:
        inner = [m for c in candidates if part in c.model_fields for m in _models(c.model_fields[part].annotation)]
        candidates = inner or candidates
    return sorted({name for candidate in candidates for name in candidate.model_fields})


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The model classes an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [model for part in typing.get_args(annotation) for model in _models(part)]
    return []
