"""Named settings of an algorithm, from `assets/presets/<algo>.yaml`: the papers' own, and those of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.algorithms import find, require
from rl_training.errors import ConfigError, did_you_mean
from rl_training.validation import shown

PRESETS = Path(__file__).parent.parent / "assets" / "presets"


@cache
def presets(algo: str) -> dict[str, dict[str, Any]]:
    """Every preset of an algorithm: its `source` in words and the `config` values it sets."""
    require(algo)
    file = PRESETS / f"{algo}.yaml"
    return dict(yaml_dialect.read(file.read_text("utf-8"))) if file.is_file() else {}


def preset_values(algo: str, name: str) -> dict[str, Any]:
    """The configuration values of one preset."""
    known = presets(algo)
    if name not in known:
        hint = did_you_mean(name, known) if known else f"; {algo} has none"
        if known and any(name in presets(file.stem) for file in PRESETS.glob("*.yaml")):  # as of a file for another
            hint += "; null goes without"
        raise ConfigError(f"preset: {algo} has no preset {shown(name)}{hint}")
    return dict(known[name]["config"])


def has_preset(algo: Any, name: Any) -> bool:
    """What is no algorithm, or no name, is refused elsewhere."""
    return not (isinstance(algo, str) and algo in find() and isinstance(name, str)) or name in presets(algo)


def with_preset(values: Mapping[str, Any], algo: Any, name: Any) -> dict[str, Any]:
    """A configuration under a preset that somebody asked for after it was written; none changes nothing."""
    if not isinstance(algo, str) or not isinstance(name, str):  # what is not text is refused with the other values
        return dict(values)
    return merge(values, preset_values(algo, name))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings laid over each other; what is above wins."""
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        merged[key] = merge(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged
