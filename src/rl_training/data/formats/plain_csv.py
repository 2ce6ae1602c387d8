"""CSV files that are so plain that a faster reader makes of them what Python's own does."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Container, Generator, Iterator
from contextlib import closing
from pathlib import Path

from rl_training.data.formats.csv_headers import split
from rl_training.data.formats.csv_text import Layout, open_bytes

# In what only some readers take for numbers. The last sign first, which is rare and so is found fast.
_ODD = re.compile(rb"[xX(](?:(?<=[^0-9A-Za-z.]0.)|(?<=\A0.)|(?<=[nN][aA][nN].))")
_LONGEST = 2**22  # bytes of a line
_MOST_PASSED = 8  # times as many bytes as there are: places are counted from the beginning of a line
_BLOCK = 2**20


def is_plain(path: Path, layout: Layout, numbers: Container[int]) -> bool:
    """Whether faster readers make of the rows what `rows` does: every quote that opens a cell closes it on its line,
    and no cell of `numbers`, the places of columns, may be written as `0x1f` or `nan(1)`."""
    between = b"\r\n" + re.escape(layout.separator.encode())
    quoted, unquoted = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"', rb'[^"%b][^%b]*+' % (between, between)
    cells = re.compile(rb"(?:%b[%b]|%b[%b]|[%b])*+" % (quoted, between, unquoted, between, between))
    with closing(_blocks_of_rows(path, layout)) as blocks:
        for lines in blocks:
            if lines is None or (b'"' in lines and not cells.fullmatch(lines)):
                return False
            if any(place is None or place in numbers for place in _places_of_odd(lines, layout.separator)):
                return False
    return True


def _blocks_of_rows(path: Path, layout: Layout) -> Generator[bytes | None, None, None]:
    """The rows below the header, many whole lines at a time; None where it is in doubt what a line is."""
    with open_bytes(path) as file:
        for _ in range(layout.lines_above):
            if b"\r" in file.readline().rstrip(b"\r\n"):
                yield None
        rest = b"" if layout.lines_above else file.read(len(BOM_UTF8)).removeprefix(BOM_UTF8)
        while block := file.read(_BLOCK):
            lines, end, rest = (rest + block).rpartition(b"\n")
            yield None if len(rest) > _LONGEST else lines + end
        yield rest + b"\n"


def _places_of_odd(lines: bytes, separator: str) -> Iterator[int | None]:
    """The places in their lines of cells that may be odd numbers; None where there are so many that finding them out
    would take longer than the slower reader."""
    passed = 0
    for odd in _ODD.finditer(lines):
        start = lines.rfind(b"\n", 0, odd.start()) + 1
        passed += odd.start() - start
        if passed > _MOST_PASSED * len(lines):
            yield None
            return
        before = lines[start : odd.start()].rpartition(b"\r")[2]
        if b'"' in before:
            yield len(split(before.decode("utf-8", "replace"), separator)) - 1
        else:
            yield before.count(separator.encode())
