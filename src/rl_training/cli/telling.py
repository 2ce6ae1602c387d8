"""Saying something on standard output or error: names in it may be a stranger's, and no terminal obeys them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import typer

from rl_training.harmless import escaped_lines


def tell(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or more lines."""
    typer.echo(escaped_lines(text), err=err, nl=nl)


def program() -> str:
    """How this program can be called from here: by its name, or by its path where the name is not found."""
    called = Path(sys.argv[0])
    by_path = called.name == "rl-training" and called.is_file() and not shutil.which(called.name)
    return shlex.quote(os.path.relpath(called)) if by_path else "rl-training"
