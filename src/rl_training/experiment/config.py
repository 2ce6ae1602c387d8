"""Configurations from files: packaged ones by name, others by path, with values overridden one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_training import algorithms, yaml_dialect
from rl_training.errors import ConfigError, closest, did_you_mean
from rl_training.experiment.assets import ASSETS, packaged_configs
from rl_training.foreign_names import places_of
from rl_training.paths import in_shell, read_plain_file
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.presets import has_preset, with_preset
from rl_training.validation import printable, shortened, shown

_OF_ALGORITHM = "algo_kwargs."
_OF_CONFIGS = (".yaml", ".yml")
_OF_DATA = (".npz", ".hdf5", ".h5", ".parquet", ".csv", ".tsv", ".gz")


def find_config(name: str) -> Path:
    """The file a name or a path stands for."""
    try:
        path = Path(name).expanduser()
        exists, is_odd = path.is_file(), path.exists() and not path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, no such user's home
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"config: {shortened(name)} cannot be looked for ({reason})") from None
    if exists and path.suffix.lower() in _OF_DATA:
        command = f"rl-training init {in_shell(name)}"
        raise ConfigError(f"config: {name} is data, not a configuration; `{command}` writes one for it")
    if exists:
        return path
    if is_odd and (path.suffix in _OF_CONFIGS or not path.is_dir()):
        raise ConfigError(f"config: {name} is {'a folder' if path.is_dir() else 'no plain file'}; name a YAML file")
    if path.suffix in _OF_CONFIGS:
        raise ConfigError(f"config: no file {name}{_beside(path) or _packaged_hint(name)}")
    if name in packaged_configs():
        return ASSETS / f"{name}.yaml"
    close = closest(name, packaged_configs())
    hint = None if close else _beside(path)
    raise ConfigError(f"config: no packaged configuration {name!r}{hint or did_you_mean(name, packaged_configs())}")


def _beside(path: Path) -> str | None:
    """The configuration in the same folder that was perhaps meant; the endings, which all share, are not compared."""
    try:
        found = {file.stem: file for file in path.parent.iterdir() if file.suffix in _OF_CONFIGS}
    except OSError:
        return None
    close = closest(path.stem, found)
    return None if close is None else f"; did you mean {str(found[close])!r}?"


def _packaged_hint(name: str) -> str:
    return did_you_mean(Path(name).with_suffix("").as_posix().removeprefix("configs/"), packaged_configs())


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


# What to do about some of the parser's complaints.
_WAYS_IN_YAML = {
    r"'\t'": "; indent with blanks, not with tabs",
    "got '['": "; names with brackets stand in quotes: ['TI-101 [°C]', PI-205]",
    "mapping values are not allowed": "; each key is followed by a colon and a blank, and stands in its own line",
}


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml_dialect.read(read_plain_file(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file") from None
    except ValueError as error:
        way = next((told for sign, told in _WAYS_IN_YAML.items() if sign in str(error)), "")
        raise ConfigError(f"{path}: is not valid YAML {error}{way}") from None
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
