"""The text of a CSV file, plain or packed with gzip: what separates its columns, what they are called, its rows."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any
from unicodedata import category

from rl_training.data.formats.csv_headers import (
    SEPARATORS,
    are_names,
    are_units,
    are_units_alone,
    is_open,
    is_value,
    refuse_names_apart,
    split,
)
from rl_training.data.formats.limits import check_size, most_unpacked
from rl_training.data.formats.looks import BYTE_ORDER_MARKS, marked_otherwise
from rl_training.errors import DataError
from rl_training.validation import shortened, shown
from rl_training.wording import amount

GZIP = b"\x1f\x8b"
_LONGEST_HEADER = 2**20  # bytes
_SAMPLE = 2**20  # bytes
_LONGEST_LINE = 2**26  # characters
_MOST_EMPTY = 1_000_000  # lines, one after another
_BLOCK = 2**20
_BETWEEN_CHECKS = 2**26  # bytes unpacked from one look at the free memory to the next
_MOST_ABOVE = 50  # lines above the header that do not begin with #
_MOST_REMARKS = 1_000  # lines that do
_BEFORE, _BEHIND = (rf"(?:\$|€|£{more})".encode() for more in ("", "|%"))  # a number: its currency, or per cent
_UNIT_ALONE = re.compile(r"""\s*\[[^][{}"',;|\t]+\](?!\s*,?\s*$)""")  # at the beginning of a line: `[s],[m]`
_BLANK = "Zs"  # the kind that blanks are of in Unicode, those that do not break among them
_POINT = re.compile(rb"(?:%b *)?[-+]?\d*\.\d+(?: *%b)?" % (_BEFORE, _BEHIND))
_COMMA = re.compile(rb"(?:%b *)?[-+]?(?:\d*,(?:\d{1,2}|\d{4,})|0,\d+)(?: *%b)?" % (_BEFORE, _BEHIND))


@dataclass(frozen=True)
class Layout:
    """How a file is laid out. lines_above: those before the first row of data. has_names: the last of them is a header;
    otherwise columns are called by their position, `column_0` first. decimals: what stands before them, a point or a
    comma, if any number shows it."""

    names: list[str]
    separator: str
    lines_above: int
    has_names: bool
    decimals: str | None
    is_packed: bool
    units: str | None = None  # the line below the header, where it holds units
    is_bare: bool = False  # nothing is below the header, as far as was looked

    @property
    def decimal_commas(self) -> bool:
        return self.decimals == ","

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The columns of each name, by their position."""
        found: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            found.setdefault(name, []).append(place)
        return found

    @property
    def doubled(self) -> list[str]:
        """Names that stand for more than one column."""
        return [name for name, places in self.places.items() if len(places) > 1 and name]

    @property
    def unit_of(self) -> dict[str, str] | None:
        """The unit of each column, where there is a line of them."""
        cells = () if self.units is None else split(self.units, self.separator)
        return {name: cell.strip() for name, cell in zip(self.names, cells, strict=False)} if cells else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out that its user should know."""
        notes = ["decimals are read with a comma"] if self.decimal_commas else []
        if not self.has_names:
            notes.append("there is no header line: columns are called by their position, column_0, column_1, …")
        if self.units is not None:
            notes.append(f"the line below the header is taken for units: {shortened(self.units)}")
        remarks = self.lines_above - self.has_names - (self.units is not None)
        return (*notes, f"{amount(remarks, 'line')} of remarks above the table left out") if remarks else tuple(notes)


def is_text(start: bytes) -> bool:
    """Whether the beginning of a file reads like a header line: printable, with a separator, no JSON or markup."""
    if start.startswith(tuple(BYTE_ORDER_MARKS)):
        return True
    lines = start.decode("utf-8-sig", "replace").splitlines()
    if lines and all(_is_remark(line) or not line.strip() for line in lines):  # the table begins further down
        return b"\0" not in start
    first = next((line for line in lines if _fields(line) > 1 and not _is_remark(line)), lines[0] if lines else "")
    named = _UNIT_ALONE.match(first) is not None and _fields(first) > 1  # and no list of JSON
    if b"\0" in start or not first or (first.lstrip()[:1] in ("{", "[", "<") and not named):
        return False
    plain = "".join(" " if category(letter) == _BLANK else letter for letter in first.replace("\t", ""))
    return plain.isprintable() and _fields(first) > 1


def unpacked_start(start: bytes) -> bytes:
    """The beginning of what is packed with gzip, as far as the packed beginning goes."""
    try:
        return zlib.decompressobj(wbits=31).decompress(start, 4096)
    except zlib.error:
        return b""


class _Measured(io.RawIOBase):
    """What is unpacked, up to as much as a file of its size may hold."""

    def __init__(self, unpacked: gzip.GzipFile, stored: int) -> None:
        self._unpacked, self._stored = unpacked, stored
        self._left = most_unpacked(stored)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._unpacked.read(len(buffer))
        buffer[: len(block)] = block
        self._left -= len(block)
        if self._left < 0:
            check_size(most_unpacked(self._stored) + 1, self._stored)
        return len(block)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The file's own bytes, unpacked where it is packed with gzip."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        if not packed:
            yield file
            return
        try:
            with gzip.open(file) as unpacked:
                yield io.BufferedReader(_Measured(unpacked, path.stat().st_size), _BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"is packed with gzip, and damaged or cut off ({error}); pack it again") from error


def layout_of(path: Path) -> Layout:
    """Look at the first lines."""
    with open_bytes(path) as file:
        lines = _first_lines(file)
        are_all = not file.read(1)
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP
    if not any(line.strip() for line in lines):
        raise DataError("is empty; the first line must name the columns")
    separator = _separator(lines)
    width, _ = _usual_width(lines, separator)
    above = next((n for n, line in enumerate(lines) if not _is_above(line, lines[n + 1 :], separator, width)), 0)
    text = lines[above]
    for number in (max(0, above - 1), above):
        if not _is_remark(lines[number]) and is_open(lines[number], separator):
            way = "write what it holds, such as the name of a column, in one line"
            raise DataError(f'line {number + 1}: a quote (") is opened and not closed in the same line; {way}')
    if _is_remark(text) and above + 1 == len(lines) and separator not in text:
        if are_all:
            raise DataError("holds nothing but remarks (lines that begin with #)")
        raise DataError(
            f"its first {amount(len(lines), 'line')} are remarks (#), too many to look for a table behind them"
        )
    names = [name.strip() for name in split(text, separator)]
    if not any(names):
        raise DataError(f"the first line must name the columns; it is {shown(shortened(text))}")
    below = next((line for line in lines[above + 1 :] if line.strip()), None)
    has_names = are_names(names, None if below is None else split(below, separator))
    if not has_names or len(names) != width:
        refuse_names_apart(lines[: above + 3], separator, width)
    if not has_names:
        names = [f"column_{place}" for place in range(len(names))]
    decimals = _decimals(path, separator)
    is_alone = has_names and are_units_alone(lines[above + 1 :], separator, len(names))
    has_units = has_names and (is_alone or are_units(lines[above + 1 : above + 3], separator, len(names)))
    units = lines[above + 1] if has_units else None
    require_utf8([text if has_names else "", units or ""])
    above_data = above + has_names + (units is not None)
    return Layout(names, separator, above_data, has_names, decimals, is_packed, units, below is None or is_alone)


def rows(
    path: Path, layout: Layout, *, strict: bool = False, any_letters: bool = False
) -> Generator[tuple[int, list[str]], None, None]:
    """The number of the line and the cells of every row below the header; empty lines are passed over. any_letters:
    what is not UTF-8 is left for `require_utf8` to find in the cells that are read.

    The file is open until the last row, or until this is closed: who may stop before, has it closed."""
    with open_bytes(path) as file:
        errors = "surrogateescape" if any_letters else "strict"
        lines = _lines(io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline=""))
        for _ in islice(lines, layout.lines_above):
            pass
        reader = csv.reader(lines, delimiter=layout.separator, strict=strict)
        empty, line = 0, layout.lines_above
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise _unreadable(error, line + 1, reader.line_num + layout.lines_above) from error
            if row is None:
                return
            line = reader.line_num + layout.lines_above
            if row:
                empty = 0
                yield line, row
            elif (empty := empty + 1) > _MOST_EMPTY:
                raise DataError(f"line {line:,}: more than {_MOST_EMPTY:,} empty lines in a row; leave them out")


def require_utf8(cells: Iterable[str]) -> None:
    """Raise what decoding would have raised."""
    text = "".join(cells)
    if not text.isascii():
        text.encode("utf-8", "surrogateescape").decode("utf-8")


def _unreadable(error: csv.Error, first: int, last: int) -> DataError:
    """What the reader complains of, in a row that goes from one line to another: as far as a quote is open."""
    if "unexpected end" in str(error):
        return DataError(f'line {first}: a quote (") is opened and never closed')
    begun = f"; its row begins in line {first}" if last > first else ""
    return DataError(f"line {last}: cannot be read as CSV ({error}{begun})")


def _lines(text: IO[str]) -> Iterator[str]:
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise DataError(f"line {number:,}: is longer than {_LONGEST_LINE:,} characters; no row of a table is")
        yield line


def memory_of(path: Path, layout: Layout) -> int:
    """Bytes that the text and the numbers of a file take. What is packed is unpacked once, a piece at a time, and
    refused where that would not fit into memory, or is packed to mislead."""
    with open_bytes(path) as file:
        sample = file.read(_SAMPLE)
        size, stored = path.stat().st_size, path.stat().st_size
        if layout.is_packed:
            size = len(sample)
            checked = 0
            while block := file.read(_BLOCK):
                size += len(block)
                if size - checked > _BETWEEN_CHECKS:
                    check_size(size, stored)
                    checked = size
    numbers = sample.count(layout.separator.encode()) + sample.count(b"\n")
    needed = size + 8 * numbers * size // max(1, len(sample))
    if layout.is_packed:
        check_size(needed, 9 * stored)
    return needed


def _first_lines(file: IO[bytes]) -> list[str]:
    """Those that may stand above the table, the header and the first row."""
    lines: list[str] = []
    remarks = size = 0
    while remarks <= _MOST_REMARKS and len(lines) - remarks < _MOST_ABOVE + 2 and size < _MOST_ABOVE * _LONGEST_HEADER:
        number = len(lines)
        line = file.readline(_LONGEST_HEADER)
        if not number and (told := marked_otherwise(line)):
            raise DataError(told)
        if len(line) == _LONGEST_HEADER:
            if number:
                break
            raise DataError("the first line is longer than 1 MiB; it must name the columns")
        if not line:
            break
        text = line.decode("utf-8-sig", "strict" if number == 0 else "surrogateescape").rstrip("\r\n")
        if "\r" in text and not number:
            raise DataError("its lines end with carriage returns alone; save it with line feeds (LF or CRLF)")
        lines.append(text)
        remarks, size = remarks + _is_remark(text), size + len(line)
    return lines


def _is_remark(line: str) -> bool:
    return line.lstrip().startswith("#")


def _separator(lines: list[str]) -> str:
    """The one that splits most lines into as many columns; of several, the one that makes more of them."""

    def regularity(separator: str) -> tuple[float, int]:
        width, share = _usual_width(lines, separator)
        return (share if width > 1 else 0.0), width

    return max(SEPARATORS, key=regularity)


def _usual_width(lines: list[str], separator: str) -> tuple[int, float]:
    """Into how many columns most lines are split, and the share of lines that are; several rather than one."""
    table = [line for line in lines if line.strip() and not _is_remark(line)] or lines
    if not any(separator in line for line in table):
        return 1, 0.0
    widths = Counter(len(split(line, separator)) for line in table)
    width, count = max(widths.items(), key=lambda entry: (entry[0] > 1, entry[1], entry[0]))
    return width, count / len(table)


def _is_above(line: str, below: list[str], separator: str, width: int) -> bool:
    """Whether a line stands above the table: empty, a remark (`# exported on Monday`) that is no header itself, or what
    spreadsheets and plants' systems put there (`Export; plant 7; 4.11.2025`): a title in its first cell alone, or no
    more than half as many texts as the table has columns, above the names of most of them."""
    if not line.strip():
        return bool(below)
    following = next((other for other in below if other.strip()), None)
    if following is None:
        return False
    if _is_remark(line):
        return not _names_columns(line, following, separator)
    if _filled(line, separator) == 1 < _filled(following, separator):
        return True
    return 2 * _filled(line, separator) <= width and _names_are_below(below, separator, width)


def _names_are_below(below: list[str], separator: str, width: int) -> bool:
    """Whether the first line that fills more than half of the columns names them all."""
    rest = [line for line in below if line.strip() and not _is_remark(line)]
    place = next((n for n, line in enumerate(rest) if 2 * _filled(line, separator) > width), None)
    if place is None or place + 1 == len(rest):
        return False
    names, following, *_ = below_names = [split(line, separator) for line in rest[place : place + 3]]
    if len(names) < width and not any(map(is_value, filter(None, names))):
        # Rows that are too wide for their header are told where they are read.
        return any(is_value(cell.strip()) for cells in below_names[1:] for cell in cells if cell)
    return len(names) == width == len(following) and are_names(names, following)


def _filled(line: str, separator: str) -> int:
    return sum(bool(cell.strip()) for cell in split(line, separator))


def _names_columns(remark: str, following: str, separator: str) -> bool:
    """Whether a remark is the header itself: `# x,y,u` right above a row with a value for each."""
    if _is_remark(following) or not 0 < remark.count(separator) == following.count(separator):
        return False
    return any(is_value(cell.strip()) for cell in split(following, separator))


def _fields(line: str) -> int:
    return max(line.count(separator) for separator in SEPARATORS) + 1


def _decimals(path: Path, separator: str) -> str | None:
    """What stands before decimals in more of the first cells; `1,234` alone could be a thousand. A number with the
    other sign is refused where it is read."""
    if separator == ",":
        return "."
    with open_bytes(path) as file:
        sample = re.split(rb"[\r\n]|" + re.escape(separator.encode()), file.read(_SAMPLE))
    cells = [cell.strip(b' "') for cell in sample]
    points, commas = (sum(sign.fullmatch(cell) is not None for cell in cells) for sign in (_POINT, _COMMA))
    return None if points == commas == 0 else "," if commas > points else "."
