"""Standard output for texts that may quote a stranger's file."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from rl_training.harmless import escaped_lines

_USUAL_WIDTH = 80  # columns


def plain_console() -> Console:
    """Standard output that shows paths and names as they are: `[old]` is no style in them, `:x:` no picture."""
    console = _HarmlessConsole(highlight=False, markup=False, emoji=False)
    if not console.width:  # COLUMNS=0, with which rich prints nothing at all
        console.width = _USUAL_WIDTH
    return console


class _HarmlessConsole(Console):
    """A console that obeys no text."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(escaped_lines(each) if isinstance(each, str) else each for each in objects), **options)
