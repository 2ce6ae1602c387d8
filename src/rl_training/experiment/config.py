"""Configurations from files: packaged ones by name, others by path, with values overridden one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rl_training.errors import ConfigError, did_you_mean
from rl_training.experiment.assets import ASSETS, packaged_configs
from rl_training.runtime.config import TrainConfig


def find_config(name: str) -> Path:
    """The file a name or a path stands for."""
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if path.is_file():
            return path
        raise ConfigError(f"config: no file {name}{_packaged_hint(name)}")
    if name in packaged_configs():
        return ASSETS / f"{name}.yaml"
    raise ConfigError(f"config: no packaged configuration {name!r}{did_you_mean(name, packaged_configs())}")


def _packaged_hint(name: str) -> str:
    return did_you_mean(Path(name).with_suffix("").as_posix().removeprefix("configs/"), packaged_configs())


def read_config(name: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """A complete configuration from a packaged name or a path, with `key.path=value` overrides applied."""
    path = find_config(name)
    values = _read_yaml(path)
    for override in overrides:
        apply_override(values, override)
    try:
        return TrainConfig.parse(values)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        raise ConfigError(f"{path}: is not valid YAML{line} ({getattr(error, 'problem', None) or error})") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of options, is {type(values).__name__}")
    return {str(key): value for key, value in values.items()}


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set `a.b=value` in nested mappings; the value is read as YAML (`0.5`, `true`, `[1, 2]`, `null`)."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {override}: must have the form key=value, such as algo_kwargs.batch_size=128")
    try:
        value = _scalar(yaml.safe_load(text))
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: {text!r} is not a valid YAML value") from None
    *parents, last = key.strip().split(".")
    place: Any = values
    for parent in parents:
        inner = place.get(parent)
        inner = {} if inner is None else inner
        if not isinstance(inner, Mapping):
            raise ConfigError(f"--set {override}: {parent} is {inner!r}, it has no options inside")
        place[parent] = dict(inner)
        place = place[parent]
    place[last] = value


def _scalar(value: Any) -> Any:
    """YAML 1.1 reads 3e-4 as text; people mean a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def to_yaml(config: TrainConfig) -> str:
    """The complete configuration as text that `read_config` reads back."""
    return yaml.safe_dump(config.to_plain(), sort_keys=False, allow_unicode=True)


__all__ = ["TrainConfig", "apply_override", "find_config", "packaged_configs", "read_config", "to_yaml"]
