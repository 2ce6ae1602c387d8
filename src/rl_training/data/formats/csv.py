"""CSV: text with a header line that names the columns, separated by commas, semicolons, tabs or bars (|)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.limits import check_size
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import Plan, assemble, plan
from rl_training.errors import DataError
from rl_training.reading_choices import EndReasons
from rl_training.validation import shortened, shown
from rl_training.wording import amount

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LONGEST_HEADER = 2**20  # bytes
_SAMPLE = 2**20  # bytes
_LONGEST_NUMBER = 100  # characters
_POINT, _COMMA = re.compile(rb"[-+]?\d*\.\d+"), re.compile(rb"[-+]?(?:\d*,(?:\d{1,2}|\d{4,})|0,\d+)")
_ROWS_AT_A_TIME = 50_000
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def is_text(start: bytes) -> bool:
    """Whether the beginning of a file reads like a header line: printable, with a separator, no JSON or markup."""
    if start.startswith(_BYTE_ORDER_MARKS):
        return True
    line = start.decode("utf-8-sig", "replace").splitlines()[:1]
    if b"\0" in start or not line or line[0].lstrip()[:1] in ("{", "[", "<"):
        return False
    return line[0].replace("\t", "").isprintable() and any(separator in line[0] for separator in _SEPARATORS)


def read(path: Path, columns: Columns | None = None, end_reasons: EndReasons | None = None) -> RawData:
    """The arrays of the file; with pyarrow installed large files are read several times faster."""
    try:
        names, separator = header(path)
        planned = plan(names, columns, end_reasons)
        check_size(_unpacked_size(path, separator))
        comma = has_decimal_commas(path, separator)
        found = _read_fast(path, names, separator, planned, decimal_point="," if comma else ".")
        if found is None:
            found = _read_plainly(path, names, separator, planned, decimal_commas=comma)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"is not UTF-8 text (byte 0x{byte:02x}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"not a readable CSV file ({error})") from error
    raw = assemble(planned, found.__getitem__, f"CSV, separated by {_SEPARATORS[separator]}")
    return replace(raw, notes=("decimals are read with a comma", *raw.notes)) if comma else raw


def header(path: Path) -> tuple[list[str], str]:
    with path.open("rb") as file:
        line = file.readline(_LONGEST_HEADER)
    if line.startswith(_BYTE_ORDER_MARKS):
        raise DataError("is UTF-16 text; save it as UTF-8")
    if len(line) == _LONGEST_HEADER:
        raise DataError("the first line is longer than 1 MiB; it must name the columns")
    text = line.decode("utf-8-sig").rstrip("\r\n")
    if "\r" in text:
        raise DataError("its lines end with carriage returns alone; save it with line feeds (LF or CRLF)")
    split = {separator: _split(text, separator) for separator in _SEPARATORS}
    separator = max(split, key=lambda separator: len(split[separator]))
    names = [name.strip() for name in split[separator]]
    if all(_is_value(name) for name in names if name) or not any(names):
        raise DataError(f"the first line must name the columns; it is {shown(shortened(text))}")
    return names, separator


def has_decimal_commas(path: Path, separator: str) -> bool:
    """Whether numbers have a comma before their decimals, and none a point; `1,234` alone could be a thousand."""
    if separator == ",":
        return False
    with path.open("rb") as file:
        cells = re.split(rb"[\r\n]|" + re.escape(separator.encode()), file.read(_SAMPLE))
    return not any(map(_POINT.fullmatch, cells)) and any(map(_COMMA.fullmatch, cells))


def _unpacked_size(path: Path, separator: str) -> int:
    """Bytes of the text and of its numbers, of which there are as many everywhere as in the beginning."""
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    numbers = sample.count(separator.encode()) + sample.count(b"\n")
    size = path.stat().st_size
    return size + 8 * numbers * size // max(1, len(sample))


def _split(text: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # not with this separator: a value would be longer than the reader allows
        return []


def _is_value(text: str) -> bool:
    """Whether a cell is a number or a flag, and so no name."""
    if text.lower() in ("true", "false"):
        return True
    try:
        float(text[:_LONGEST_NUMBER])
    except ValueError:
        return False
    return True


def _read_fast(
    path: Path, names: list[str], separator: str, planned: Plan, decimal_point: str = "."
) -> dict[str, npt.NDArray[Any]] | None:
    """The planned columns by way of pyarrow; None where it is missing or the file is not plain enough for it."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        from rl_training.data.formats.arrow import column_values
    except ImportError:
        return None
    positions = {name: position for position, name in enumerate(names)}
    wanted = {name: f"c{positions[name]}" for name in planned.columns}
    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=[f"c{i}" for i in range(len(names))], skip_rows=1),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(wanted.values()),
                column_types={wanted[name]: pa.string() for name in planned.texts},
                null_values=["", "nan", "NaN"],
                timestamp_parsers=[],
                decimal_point=decimal_point,
            ),
        )
    except (pa.ArrowException, OSError):  # read it again in a way that can say where the fault lies
        return None
    if any(pa.types.is_binary(field.type) for field in table.schema):  # text in another encoding
        return None
    return {name: planned.values(name, column_values(name, table.column(key))) for name, key in wanted.items()}


def _read_plainly(
    path: Path, names: list[str], separator: str, planned: Plan, *, decimal_commas: bool = False
) -> dict[str, npt.NDArray[Any]]:
    """The planned columns by way of Python's own reader, some rows at a time."""
    everywhere = {name: position for position, name in enumerate(names)}
    positions = {name: everywhere[name] for name in planned.columns}
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in positions}
    with path.open(encoding="utf-8-sig", newline="") as file:
        next(file)
        reader = csv.reader(file, delimiter=separator, strict=True)
        done = 0
        while rows := list(islice(_complete(reader, len(names)), _ROWS_AT_A_TIME)):
            cells = list(zip(*rows, strict=True))
            for name, position in positions.items():
                given = cells[position]
                if decimal_commas and name not in planned.texts:
                    given = tuple(cell.replace(",", ".", 1) for cell in given)
                parts[name].append(_values(name, given, done, planned))
            done += len(rows)
    return {name: np.concatenate(found) if found else np.empty(0) for name, found in parts.items()}


def _values(name: str, cells: tuple[str, ...], first_row: int, planned: Plan) -> npt.NDArray[Any]:
    try:
        if name not in planned.texts:
            return np.array(list(map(float, cells)))
    except ValueError:  # true, false, nothing, a date, or a mistake
        pass
    return planned.values(name, np.array(cells, dtype=object), first_row)


def _complete(reader: Any, width: int) -> Iterator[list[str]]:
    """Rows with a value for every column; empty lines are passed over."""
    for row in reader:
        if not row:
            continue
        if len(row) != width:
            found, named = amount(len(row), "value"), amount(width, "column")
            raise DataError(f"line {reader.line_num + 1} has {found}, but the header names {named}")
        yield row
