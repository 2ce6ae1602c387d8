"""Lists as text, fitted to the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from rl_training.harmless import escaped


def terminal_width() -> int | None:
    """Columns of the terminal; none where there is none and nobody says how wide to write."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(40, shutil.get_terminal_size((80, 24)).columns)
    return None


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """Columns two blanks apart; those named in `right` end flush."""
    heads, rows = [escaped(head) for head in heads], [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(
            cell.rjust(width) if head in right else cell.ljust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        ).rstrip()
        for line in (heads, *rows)
    ]


def fits(lines: Sequence[str]) -> bool:
    """Whether the terminal shows them in one line each."""
    width = terminal_width()
    return width is None or max(map(len, lines)) <= width


def beside(label: str, text: str, indent: int) -> list[str]:
    """A label and a text beside it, wrapped to the terminal; the text begins below a label that is too long."""
    width = terminal_width() or 100
    start, rest = (label, []) if len(label) < indent else ("", [label])
    wrapped = textwrap.wrap(
        text,
        max(width, indent + 20),
        initial_indent=start.ljust(indent),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*rest, *(wrapped or [start])]


def age(seconds: float | None) -> str:
    """`12 s`, `5 min`, `3 h`, `4 d`."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    """`12 kB`, `3.4 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
