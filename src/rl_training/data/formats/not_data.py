"""What is taken for data and is none: a configuration, or the folder of a run; and the data that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.data.formats.names import first_of
from rl_training.data.formats.places import MINARI_PREFIX
from rl_training.run_places import DESCRIPTION
from rl_training.validation import printable

_OF_CONFIGS = (".yaml", ".yml")
_LARGEST = 2**18  # bytes of a configuration


def told_apart(path: Path) -> str | None:
    """What a path is in place of data, and which data it names; none where it may be data."""
    if path.is_dir():
        config = path / "config.yaml"
        if not ((path / DESCRIPTION).is_file() and config.is_file()):
            return None
        named = _data_named(config)
        return "is a run, not data" + (f"; it was trained on {first_of(named)}" if named else "")
    if path.suffix.lower() not in _OF_CONFIGS:
        return None
    named = _data_named(path)
    return "is a configuration, not data" + (f"; the data that it names: {first_of(named)}" if named else "")


def _data_named(config: Path) -> list[str]:
    """The files, or `minari:ID`, of a configuration; nothing where it cannot be read."""
    try:
        if config.stat().st_size > _LARGEST:
            return []
        values = yaml_dialect.read(config.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    named = _sources(values.get("dataset")) if isinstance(values, Mapping) else ()
    return [printable(name) for name in dict.fromkeys(named)]


def _sources(section: Any) -> Iterator[str]:
    if isinstance(section, str):
        yield section
    elif isinstance(section, Mapping):
        if isinstance(path := section.get("path"), str):
            yield path
        if isinstance(identity := section.get("id"), str):
            yield f"{MINARI_PREFIX}{identity}"
        for part in section["parts"] if isinstance(section.get("parts"), list) else ():
            yield from _sources(part.get("dataset") if isinstance(part, Mapping) else None)
