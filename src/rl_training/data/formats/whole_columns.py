"""Single columns of a table, read to their end: what a first look at some rows cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats import csv_text
from rl_training.data.formats.cells import is_missing_word
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.folders import blamed_on, files_of
from rl_training.data.formats.limits import LONGEST_TEXT
from rl_training.data.formats.looks import damage_told
from rl_training.errors import DataError

_MOST_KINDS = 200  # of the texts in a column
_BATCH = 500  # rows that are unpacked at once
_BUFFER = 2**15  # bytes of a column that are read at once, however large it is
_MOST_CELLS = 2 * 10**7  # of a table that is read to its end, its other columns included
_MOST_COLUMNS = 4
_FILLED = 0.1  # of the rows of a column whose texts are rare


def texts_of(path: Path, kind: str, column: str) -> Counter[str]:
    """How often each text stands in a column of a whole table; of many kinds of text, the first `_MOST_KINDS`."""
    counts: Counter[str] = Counter()
    for cell in _cells(path, kind, column):
        text = text_of(cell)
        if text in counts or len(counts) < _MOST_KINDS:
            counts[text] += 1
    return counts


def rare_texts(path: Path, kind: str, sample: Mapping[str, npt.NDArray[Any]]) -> dict[str, dict[int, str]]:
    """By its row, each text of the columns that hold one in a few rows only; none of what is too large to be read to
    its end for this. sample: the first rows of every column."""
    names = [name for name, values in sample.items() if kind in ("csv", "parquet") and _may_be_rare(values)]
    most_rows = _MOST_CELLS // max(1, len(sample))
    found = {name: _texts_by_row(path, kind, name, most_rows) for name in names[:_MOST_COLUMNS]}
    return {name: texts for name, texts in found.items() if texts}


def last_rows(path: Path, kind: str, column: str) -> set[int]:
    """The rows after which a column of ids has another, and the last of all."""
    last, before, row = set(), None, -1
    for row, cell in enumerate(_cells(path, kind, column)):
        if row and cell != before:
            last.add(row - 1)
        before = cell
    return last | {row}


def rows_before_restarts(path: Path, kind: str, column: str) -> set[int]:
    """The rows after which a column of steps does not grow, as `row_order` takes it, and the last of all; none where
    the steps are no numbers."""
    last, before, row = set(), None, -1
    for row, cell in enumerate(_cells(path, kind, column)):
        try:
            step = float(cell.replace(",", ".", 1) if isinstance(cell, str) else cell)
        except (TypeError, ValueError):
            return set()
        if before is not None and step <= before:
            last.add(row - 1)
        before = step
    return last | {row}


def _may_be_rare(values: npt.NDArray[Any]) -> bool:
    if values.ndim != 1 or values.dtype.kind not in "OU" or not len(values):
        return False
    return bool(np.mean([_is_filled(cell) for cell in values.tolist()]) <= _FILLED)


def _is_filled(cell: Any) -> bool:
    return not is_missing_word(text_of(cell))


def _texts_by_row(path: Path, kind: str, column: str, most_rows: int) -> dict[int, str]:
    """None where they are not rare, of too many kinds, or cannot be read."""
    found: dict[int, str] = {}
    kinds: set[str] = set()
    row = -1
    try:
        for row, cell in enumerate(_cells(path, kind, column)):
            if _is_filled(cell):
                found[row] = text_of(cell)
                kinds.add(found[row])
            if row >= most_rows or len(kinds) > _MOST_KINDS:
                return {}
    except DataError:
        return {}
    return found if len(found) <= _FILLED * (row + 1) else {}


def _cells(path: Path, kind: str, column: str) -> Iterator[Any]:
    with damage_told():  # which may lie beyond the rows that were looked at first
        yield from _READERS[kind](path, column)


def _csv_cells(path: Path, column: str) -> Iterator[Any]:
    for entry in files_of(path, "csv"):
        with blamed_on(entry, path), damage_told():
            layout = csv_text.layout_of(entry)
            if column not in layout.names:
                raise DataError(f"has no column {column!r}")
            position = layout.names.index(column)
            for _, row in csv_text.rows(entry, layout):
                if len(row) == len(layout.names):
                    yield row[position]


def _parquet_cells(path: Path, column: str) -> Iterator[Any]:
    """Of text every word is kept once, however many rows it stands in."""
    import pyarrow.parquet as pq

    from rl_training.data.formats.arrow import column_values
    from rl_training.data.formats.parquet_footer import read_footer

    for entry in files_of(path, "parquet"):
        with blamed_on(entry, path), damage_told():
            footer = read_footer(entry)
            if column in footer.uneven:
                what = (
                    f"a text of more than {LONGEST_TEXT} bytes"
                    if column in footer.texts
                    else "lists of several lengths"
                )
                raise DataError(f"column {column!r}: holds {what}, and is not read to its end")
            with pq.ParquetFile(entry, read_dictionary=sorted(footer.texts), buffer_size=_BUFFER) as file:
                for batch in file.iter_batches(batch_size=_BATCH, columns=[column]):
                    yield from column_values(column, batch.column(0)).tolist()


def _hdf5_cells(path: Path, column: str) -> Iterator[Any]:
    from rl_training.data.formats import hdf5
    from rl_training.data.formats.hdf5_files import opened

    with opened(path) as file:
        cells = hdf5.texts_of(file, column)
    yield from () if cells is None else cells.tolist()


def _npz_cells(path: Path, column: str) -> Iterator[Any]:
    from rl_training.data.formats import npz

    yield from npz.read_array(path, column).tolist()


_READERS = {"csv": _csv_cells, "parquet": _parquet_cells, "hdf5": _hdf5_cells, "npz": _npz_cells}
