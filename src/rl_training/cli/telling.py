"""Saying something on standard output or error: names in it may be a stranger's, and no terminal obeys them."""

from __future__ import annotations

import typer

from rl_training.harmless import escaped_lines


def tell(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or more lines."""
    typer.echo(escaped_lines(text), err=err, nl=nl)
