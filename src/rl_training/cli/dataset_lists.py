"""`rl-training datasets`: the data that are found on this disk."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from rl_training.cli.text_tables import beside, size, table
from rl_training.data.inventory import Found, take_stock


def datasets(folder: Path, *, as_json: bool) -> None:
    """One line for each, and below it what stands in its way."""
    found = take_stock(folder)
    if as_json:
        typer.echo(json.dumps([one.to_json() for one in found], indent=1))
        return
    if not found:
        typer.echo(f"no data in {folder}, and no Minari datasets on this machine")
        typer.echo("record some: rl-training data collect --help")
        return
    heads = ("data", "format", "rows", "episodes", "size", "environment")
    lines = table(heads, [_cells(one) for one in found], right=("rows", "episodes", "size"))
    typer.echo(lines[0])
    for one, line in zip(found, lines[1:], strict=True):
        typer.echo(line)
        if one.fault is not None:
            typer.echo("\n".join(beside("", one.fault, 2)))
        elif one.missing is not None:
            typer.echo("\n".join(beside("", f"{one.missing}: rl-training init {_shown(one.source)}", 2)))
    typer.echo("what is in one, and what is wrong with it: rl-training data check DATA")


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
