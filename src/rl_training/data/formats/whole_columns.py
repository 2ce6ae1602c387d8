"""A few columns of a table, read to their end: what a first look at some rows cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import one_per_row
from rl_training.data.formats import csv_text
from rl_training.data.formats.cells import is_missing_word
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.folders import blamed_on, files_of
from rl_training.data.formats.limits import LONGEST_TEXT
from rl_training.data.formats.looks import damage_told
from rl_training.data.formats.words import float_of
from rl_training.errors import DataError

_MOST_KINDS = 200  # of the texts in a column
_BATCH = 500  # rows that are read at once
_BUFFER = 2**15  # bytes of a column that are read at once, however large it is
_MOST_CELLS = 2 * 10**7  # of a table that is read to its end, its other columns included
_MOST_COLUMNS = 4
_FILLED = 0.1  # of the rows of a column whose texts are rare


@dataclass
class Text:
    """A text of a column: the first cell with it, the row of that in its own file, and how many rows have it."""

    cell: Any
    file: Path
    row: int
    rows: int = 0


class _Block(NamedTuple):
    """Some rows of a file, `cells` by column. read: the cells that were read for them, of other columns included."""

    file: Path
    first_row: int
    cells: Sequence[Sequence[Any]]
    read: int


def texts_of(path: Path, kind: str, columns: Sequence[str]) -> dict[str, dict[str, Text]]:
    """The texts of columns, which are read together: of a table of more than `_MOST_CELLS`, those of its first rows;
    of many kinds of text in a column, the first `_MOST_KINDS`."""
    found: dict[str, dict[str, Text]] = {name: {} for name in columns}
    read = 0
    with closing(_blocks(path, kind, columns)) as blocks:
        for block in blocks if columns else ():
            for name, cells in zip(columns, block.cells, strict=True):
                _add(found[name], cells, block)
            read += block.read
            if read >= _MOST_CELLS:
                break
    return found


def _add(texts: dict[str, Text], cells: Sequence[Any], block: _Block) -> None:
    for cell, rows in _counted(cells):
        text = text_of(cell)
        if text not in texts and len(texts) < _MOST_KINDS:
            texts[text] = Text(cell, block.file, block.first_row + cells.index(cell))
        if text in texts:
            texts[text].rows += rows


def _counted(cells: Sequence[Any]) -> Iterable[tuple[Any, int]]:
    try:
        return Counter(cells).items()
    except TypeError:  # lists, which have no hash
        return ((cell, 1) for cell in cells)


def rare_texts(path: Path, kind: str, sample: Mapping[str, npt.NDArray[Any]]) -> dict[str, dict[int, str]]:
    """By its row, each text of the columns that hold one in a few rows only; none of what is too large to be read to
    its end for this. sample: the first rows of every column."""
    names = [name for name, values in sample.items() if kind in ("csv", "parquet") and _may_be_rare(values)]
    most_rows = _MOST_CELLS // max(1, len(sample))
    found = {name: _texts_by_row(path, kind, name, most_rows) for name in names[:_MOST_COLUMNS]}
    return {name: texts for name, texts in found.items() if texts}


def counting(path: Path, kind: str, sample: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float64]]:
    """The numbers of columns that mostly grow by one from row to row, and begin again; none of what is too large to be
    read to its end for this. sample: the first rows of the columns that are looked at."""
    names = [name for name, values in sample.items() if kind in ("csv", "parquet") and _mostly_counts(values)]
    found = {}
    for name in names[:_MOST_COLUMNS]:
        with suppress(DataError, TypeError, ValueError), closing(_cells(path, kind, name)) as cells:
            read = [_step(cell) for cell in islice(cells, _MOST_CELLS // _MOST_COLUMNS)]
            found[name] = np.array(read, dtype=np.float64)
    return found


def _mostly_counts(values: npt.NDArray[Any]) -> bool:
    if values.ndim != 1 or values.dtype.kind not in "iuf" or len(values) < 3:
        return False
    steps = np.diff(values.astype(np.float64))
    return bool(np.median(steps) == 1.0 and (steps < 0).any())


def last_rows(path: Path, kind: str, column: str) -> set[int]:
    """The rows after which a column of ids has another, and the last of all."""
    last, before, row = set(), None, -1
    with closing(_cells(path, kind, column)) as cells:
        for row, cell in enumerate(cells):
            if row and cell != before:
                last.add(row - 1)
            before = cell
    return last | {row}


def rows_before_restarts(path: Path, kind: str, column: str) -> set[int]:
    """The rows after which a column of steps does not grow, as `row_order` takes it, and the last of all; none where
    the steps are no numbers."""
    last, before, row = set(), None, -1
    with closing(_cells(path, kind, column)) as cells:
        for row, cell in enumerate(cells):
            try:
                step = _step(cell)
            except (TypeError, ValueError):
                return set()
            if before is not None and step <= before:
                last.add(row - 1)
            before = step
    return last | {row}


def _step(cell: Any) -> int | float:
    """Whole numbers of any size as they are: Python compares them with floats without rounding either."""
    if isinstance(cell, str):
        with suppress(ValueError):
            float_of(cell)  # which refuses what `int` does not
            return int(cell)
        cell = cell.replace(",", ".", 1)
    return cell if isinstance(cell, int) else float_of(cell)


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
        with closing(_cells(path, kind, column)) as cells:
            for row, cell in enumerate(cells):
                if _is_filled(cell):
                    found[row] = text_of(cell)
                    kinds.add(found[row])
                if row >= most_rows or len(kinds) > _MOST_KINDS:
                    return {}
    except DataError:
        return {}
    return found if len(found) <= _FILLED * (row + 1) else {}


def _cells(path: Path, kind: str, column: str) -> Generator[Any, None, None]:
    with closing(_blocks(path, kind, [column])) as blocks:
        for block in blocks:
            yield from block.cells[0]


def _blocks(path: Path, kind: str, columns: Sequence[str]) -> Generator[_Block, None, None]:
    with damage_told():  # which may lie beyond the rows that were looked at first
        yield from _READERS[kind](path, columns)


def _csv_blocks(path: Path, columns: Sequence[str]) -> Generator[_Block, None, None]:
    for entry in files_of(path, "csv"):
        with blamed_on(entry, path), damage_told():
            layout = csv_text.layout_of(entry)
            _require(columns, layout.names)
            places, width = [layout.places[name][0] for name in columns], len(layout.names)
            done = 0
            with closing(csv_text.rows(entry, layout)) as table:
                while rows := list(islice(table, _BATCH)):
                    cells = [[row[place] for _, row in rows if len(row) == width] for place in places]
                    yield _Block(entry, done, cells, width * len(rows))
                    done += len(rows)


def _parquet_blocks(path: Path, columns: Sequence[str]) -> Generator[_Block, None, None]:
    """Of text every word is kept once, however many rows it stands in."""
    import pyarrow.parquet as pq

    from rl_training.data.formats.arrow import column_values
    from rl_training.data.formats.parquet_footer import read_footer

    for entry in files_of(path, "parquet"):
        with blamed_on(entry, path), damage_told():
            footer, done = read_footer(entry), 0
            for column in footer.uneven.intersection(columns):
                what = (
                    f"a text of more than {LONGEST_TEXT} bytes"
                    if column in footer.texts
                    else "lists of several lengths"
                )
                raise DataError(f"column {column!r}: holds {what}, and is not read to its end")
            texts = sorted(footer.texts.intersection(columns))
            with pq.ParquetFile(entry, read_dictionary=texts, buffer_size=_BUFFER) as file:
                _require(columns, file.schema_arrow.names)
                for batch in file.iter_batches(batch_size=_BATCH, columns=list(columns)):
                    cells = [column_values(name, batch.column(name)).tolist() for name in columns]
                    yield _Block(entry, done, cells, len(columns) * len(batch))
                    done += len(batch)


def _require(columns: Sequence[str], names: Sequence[str]) -> None:
    if lacks := [name for name in columns if name not in names]:
        raise DataError(f"has no column {lacks[0]!r}")


def _hdf5_blocks(path: Path, columns: Sequence[str]) -> Generator[_Block, None, None]:
    from rl_training.data.formats import hdf5
    from rl_training.data.formats.hdf5_files import opened

    with opened(path) as file:
        found = [hdf5.texts_of(file, name) for name in columns]
    yield _of_arrays(path, [[] if cells is None else cells.tolist() for cells in found])


def _npz_blocks(path: Path, columns: Sequence[str]) -> Generator[_Block, None, None]:
    from rl_training.data.formats import npz

    yield _of_arrays(path, [one_per_row(npz.read_array(path, name)).tolist() for name in columns])


def _of_arrays(path: Path, cells: Sequence[Sequence[Any]]) -> _Block:
    return _Block(path, 0, cells, sum(map(len, cells)))


_READERS = {"csv": _csv_blocks, "parquet": _parquet_blocks, "hdf5": _hdf5_blocks, "npz": _npz_blocks}
