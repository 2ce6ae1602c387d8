"""Why lines of a CSV file do not fit its header: another separator, a second header, decimals with commas, totals."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from rl_training.data.formats import csv_text
from rl_training.data.formats.csv_headers import SEPARATORS, is_value, split
from rl_training.data.formats.csv_text import Layout
from rl_training.data.formats.names import first_of
from rl_training.data.guess_words import folded
from rl_training.errors import DataError
from rl_training.validation import shortened, shown
from rl_training.wording import amount

_LONGEST_LINE = 2**20  # bytes; a header is shorter
SECOND_HEADER = "a second header"
_TITLES = 5  # lines that may stand above a second header
_FEWEST = 3  # columns, or cells: fewer are of a width by chance
_TAIL = 2**16  # bytes at the end
_LAST = 20  # lines
_TOTALS = {
    "summe", "gesamt", "gesamtsumme", "summen", "total", "totals", "sum", "somme", "totale", "suma", "mittelwert",
    "durchschnitt", "average", "mean", "moyenne", "promedio", "grand total",
}  # fmt: skip
_WITHOUT_COMMAS = "export it with semicolons between cells, or with decimal points"
_EMPTY = 0.25  # of the cells of a line of totals, which has no time and no reason


def some_rows(rest: Iterator[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """The few rows that follow a line which does not fit, as far as they can be read."""
    following: list[tuple[int, list[str]]] = []
    with suppress(DataError):  # what is wrong further down is not what comes first
        for entry in islice(rest, _TITLES + 1):
            following.append(entry)
    return following


def why_misfit(layout: Layout, line: int, row: list[str], following: list[tuple[int, list[str]]]) -> str | None:
    """What a line of another width than the header, and `some_rows` after it, tell together, and what to do about it;
    nothing of a line that merely lacks a value."""
    if told := _second_header(layout, [(line, row), *following]):
        return told
    if other := _separated_by(layout, layout.separator.join(row)):
        rest = [layout.separator.join(cells) for _, cells in following if len(cells) != len(layout.names)]
        goes_on = len(rest) == len(following) > 0 and all(_separated_by(layout, text) == other for text in rest)
        where = f"from line {line:,} on" if goes_on else f"in line {line:,}"
        before = SEPARATORS[layout.separator]
        return f"{where} cells are separated by {SEPARATORS[other]}, above by {before}; write all of them alike"
    if line <= layout.lines_above + 2 and len(row) > len(layout.names) + 1 and _has_commas(layout, row, 2 * _FEWEST):
        found, named = amount(len(row), "value"), amount(len(layout.names), "column")
        told = f"line {line:,} has {found}, but the header names {named}: decimals seem to have commas, as cells"
        return f"{told}; {_WITHOUT_COMMAS}"
    return None


def about_header(layout: Layout, line: int, row: list[str]) -> str:
    """What may be wrong with the header where the first row has more values than it names; nothing of other rows."""
    width = len(layout.names)
    ends_so = not any(cell.strip() for cell in row[width:])
    is_first = line <= layout.lines_above + 1 + ends_so  # a line of units may end without the separator
    if len(row) <= width or not is_first:
        return ""
    if ends_so:
        return "; each line ends with a separator: end the header with one, too"
    ways = []
    if len(row) == width + 1:
        ways += ["if it has no name for the first column (R writes it so), put one there"]
        ways += [f"if decimals have commas, as cells, {_WITHOUT_COMMAS}"] if _has_commas(layout, row, 2) else []
    ways += ["if lines of remarks stand above the header, remove them or begin each with #"]
    return "".join(f"; {way}" for way in ways)


def _second_header(layout: Layout, rows: list[tuple[int, list[str]]]) -> str | None:
    """Of another file that was put behind the first."""
    names = layout.names if layout.has_names else None
    place = next((n for n, (_, cells) in enumerate(rows) if [cell.strip() for cell in cells] == names), None)
    if place is None:
        return None
    units = None if layout.units is None else split(layout.units, layout.separator)
    last = place + int(any(cells == units for _, cells in rows[place + 1 : place + 2]))
    at, first, end = rows[place][0], rows[0][0], rows[last][0]
    lines = f"lines {first:,} to {end:,}" if end > first else "that line"
    return f"{SECOND_HEADER} at line {at:,}: two files one after another? Split them, or delete {lines}"


def repeated_header(path: Path, layout: Layout) -> str | None:
    """That a line further down is the header again, as where another file was put behind the first, whose columns are
    the same: cells of every column then look like text. The whole file is read for it."""
    if not layout.has_names or len(layout.names) < 2:
        return None
    own, header, found = layout.lines_above - (layout.units is not None), b"", []
    with csv_text.open_bytes(path) as file:
        lines = iter(partial(file.readline, _LONGEST_LINE), b"")
        for number, line in enumerate(lines, start=1):
            if number == own:
                header = line.strip().removeprefix(codecs.BOM_UTF8)
            elif header and line.strip() == header:
                found.append(number)
    if not found:
        return None
    if len(found) == 1:
        return f"line {found[0]:,} repeats the header: leave it out (a second file behind the first)"
    return f"lines {first_of(f'{n:,}' for n in found)} repeat the header: leave them out (other files behind the first)"


def _separated_by(layout: Layout, text: str) -> str | None:
    """Another separator, with which a line has as many cells as the header, or more: decimals may have it, too."""
    width = len(layout.names)
    others = (other for other in SEPARATORS if other != layout.separator and width >= _FEWEST)
    return next((other for other in others if len(split(text, other)) >= width), None)


def _has_commas(layout: Layout, row: list[str], least: int) -> bool:
    """Whether the numbers of a row that is too wide, so many at least, have no decimals, as where commas part them."""
    numbers = [cell.strip().lstrip("+-") for cell in row if is_value(cell.strip())]
    return layout.separator == "," and len(numbers) >= least and all(map(str.isdecimal, numbers))


def last_lines(path: Path, layout: Layout) -> list[str]:
    """Notes on the end of a long file, of which only the beginning is looked at."""
    lines = _tail(path)
    others = [_separated_by(layout, line) for line in lines if len(split(line, layout.separator)) != len(layout.names)]
    found = [other for other in others if other is not None]
    notes = [told] if (told := totals(path, layout)) else []
    if 2 * len(found) > len(lines):
        apart = f"{SEPARATORS[found[-1]]}, and those above by {SEPARATORS[layout.separator]}"
        notes.append(f"cells of its last lines are separated by {apart}; write all of them alike before it is read")
    return notes


def totals(path: Path, layout: Layout) -> str | None:
    """That the last line sums up the others, if it does."""
    lines = _tail(path)
    cells = [cell.strip() for cell in split(lines[-1], layout.separator)] if lines else []
    word = next((cell for cell in cells if cell), "")
    if len(cells) < _FEWEST or folded(word.rstrip(": ")) not in _TOTALS or cells.count("") < _EMPTY * len(cells):
        return None
    return f"the last line, {shown(shortened(lines[-1]))}, looks like one of totals: delete it"


def _tail(path: Path) -> list[str]:
    """The last lines with anything in them; none of what is packed, which cannot be read from its end."""
    with path.open("rb") as file:
        packed = file.read(2) == csv_text.GZIP
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        text = b"" if packed else file.read()
    lines = text.decode("utf-8-sig", "replace").splitlines()[size > _TAIL :]
    return [line for line in lines if line.strip()][-_LAST:]
