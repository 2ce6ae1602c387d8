"""Configurations from files: packaged ones by name, others by path, with values overridden one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_training import algorithms, yaml_dialect
from rl_training.data.formats.looks import not_utf8
from rl_training.errors import ConfigError
from rl_training.experiment.assets import packaged_configs
from rl_training.experiment.config_places import find_config
from rl_training.experiment.yaml_faults import way_out
from rl_training.foreign_names import places_of
from rl_training.paths import read_plain_file
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.presets import has_preset, with_preset
from rl_training.validation import printable, shown

_OF_ALGORITHM = "algo_kwargs."


def read_config(name: str, overrides: Sequence[str] = (), values: Mapping[str, Any] | None = None) -> TrainConfig:
    """A complete configuration from a packaged name or a path, with `key.path=value` overrides applied.

    values: options that are what they are, not YAML; they win over everything else. A preset among overrides or values
    is laid over the file (in place of the file's own, which lies beneath it) and beneath the others. Where they name
    another algorithm, the file's own preset counts only if that has one of the name.
    """
    file, given = _read_file(find_config(name)), values or {}
    merged = _laid_over(file, overrides, given)
    try:
        if "preset" in given or any(override.partition("=")[0].strip() == "preset" for override in overrides):
            merged = _laid_over(with_preset(file, merged.get("algo"), merged["preset"]), overrides, given)
        elif file.get("algo") != merged.get("algo") and not has_preset(merged.get("algo"), merged.get("preset")):
            merged.pop("preset", None)
        return TrainConfig.parse(merged)
    except ConfigError as error:
        line = _misplaced(merged) or str(error)
        raise ConfigError(f"{'--set' if _is_overridden(line, overrides) else name}: {line}") from None


def _laid_over(below: Mapping[str, Any], overrides: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for override in overrides:
        apply_override(merged, override)
    return {**merged, **values}


def _kind(values: Any) -> str:
    return "empty; `rl-training init DATA` writes one" if values is None else type(values).__name__


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = read_plain_file(path)
        values = yaml_dialect.read(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {not_utf8(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid YAML {error}{way_out(text, str(error))}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of options, is {_kind(values)}")
    return {key if isinstance(key, str) else shown(key): value for key, value in values.items()}


def _misplaced(values: Mapping[str, Any]) -> str | None:
    """What to say of an algorithm's parameter that stands beside `algo_kwargs` instead of inside it, by its own name or
    by another program's."""
    if (algo := values.get("algo")) not in list(algorithms.find()):
        return None
    parameters = algorithms.load(algo).Params.model_fields
    for key in (key for key in values if key not in TrainConfig.model_fields):
        if key in parameters:
            return f"{key}: no such option; did you mean 'algo_kwargs.{key}'?"
        places = [place.removeprefix(_OF_ALGORITHM) for place in places_of(key) if place.startswith(_OF_ALGORITHM)]
        if found := [name for name in places if name in parameters]:
            return f"{key}: no such option; did you mean {' or '.join(repr(_OF_ALGORITHM + name) for name in found)}?"
        if places:
            return f"{key}: no such option; {algo} has no {places[0]} (rl-training algos {algo})"
    return None


def _is_overridden(line: str, overrides: Sequence[str]) -> bool:
    """Whether a complaint is about a key that an override gave, so that the file is not at fault."""
    key = line.partition(": ")[0]
    given = [override.partition("=")[0].strip() for override in overrides]
    return any(key == name or key.startswith(f"{name}.") for name in given)


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set `a.b=value` in nested mappings; the value is read as YAML (`0.5`, `true`, `[1, 2]`, `null`, `'2024'`)."""
    key, separator, text = override.partition("=")
    said = f"--set {printable(override)}"
    *parents, last = (part.strip() for part in key.split("."))
    if separator and not all((*parents, last)):
        where = f"the name {key.strip()!r} has an empty part" if key.strip() else "there is no name before ="
        raise ConfigError(f"{said}: {where}; the form is key=value, such as algo_kwargs.batch_size=128")
    if not separator:
        raise ConfigError(f"{said}: must have the form key=value, such as algo_kwargs.batch_size=128")
    try:
        value = yaml_dialect.read(text)
    except ValueError as error:
        raise ConfigError(f"{said}: {shown(text)} is not a valid YAML value {error}") from None
    place: Any = values
    for parent in parents:
        inner = place.get(parent)
        inner = {} if inner is None else inner
        if not isinstance(inner, Mapping):
            raise ConfigError(f"{said}: {parent} is {shown(inner)}, it has no options inside")
        place[parent] = dict(inner)
        place = place[parent]
    place[last] = value


def to_yaml(config: TrainConfig) -> str:
    """The complete configuration as text that `read_config` reads back."""
    return yaml_dialect.write(config.to_plain())


__all__ = ["TrainConfig", "apply_override", "find_config", "packaged_configs", "read_config", "to_yaml"]
