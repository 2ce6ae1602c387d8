"""`rl-training datasets`: the data that are found on this disk."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from rl_training.cli.telling import tell
from rl_training.cli.text_tables import beside, size, table
from rl_training.data.inventory import Found, take_stock


def datasets(folder: Path, *, as_json: bool) -> None:
    """One line for each, and below it what stands in its way."""
    found = take_stock(folder)
    if as_json:
        tell(json.dumps([one.to_json() for one in found], indent=1))
        return
    if not found:
        tell(f"no data in {folder}, and no Minari datasets on this machine")
        tell("record some: rl-training data collect --help")
        return
    heads = ("data", "format", "rows", "episodes", "size", "environment")
    lines = table(heads, [_cells(one) for one in found], right=("rows", "episodes", "size"))
    tell(lines[0])
    for one, line in zip(found, lines[1:], strict=True):
        tell(line)
        if one.fault is not None:
            tell("\n".join(beside("", one.fault, 2)))
        elif one.missing is not None:
            tell("\n".join(beside("", f"{one.missing}: rl-training init {_shown(one.source)}", 2)))
    tell("what is in one, and what is wrong with it: rl-training data check DATA")


def _shown(source: str) -> str:
    """As a shell takes it; nothing in it that a terminal would obey."""
    return shlex.quote(source) if source.isprintable() else ascii(source)


def _cells(one: Found) -> tuple[str, ...]:
    return (
        _shown(one.source),
        one.format,
        "" if one.fault else "?" if one.rows is None else f"{one.rows:,}",
        "" if one.fault else "?" if one.episodes is None else f"{one.episodes:,}",
        "" if one.bytes is None else size(one.bytes),
        one.env_id or "",
    )
