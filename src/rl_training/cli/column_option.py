"""The `--columns` option of the commands that read tables."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.errors import ConfigError


def column_mapping(given: Sequence[str]) -> dict[str, str | list[str]] | None:
    """`obs=x,y` for each field, as `columns` of a `dataset:` section."""
    found: dict[str, str | list[str]] = {}
    for entry in given:
        field, _, names = (part.strip() for part in entry.partition("="))
        parts = [name.strip() for name in names.split(",")]
        if not field or not all(parts):
            raise ConfigError(f"--columns {entry}: must name a field and its columns, such as obs=x,y")
        if field in found:
            raise ConfigError(f"--columns {entry}: {field} is given twice")
        found[field] = parts if len(parts) > 1 else parts[0]
    return found or None
