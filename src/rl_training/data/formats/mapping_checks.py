"""What is said of a file's columns and their texts, held to the file before it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import END_REASONS
from rl_training.data.formats import csv, recognise
from rl_training.data.formats.cells import BadCellsError, Faults
from rl_training.data.formats.csv_files import layouts_of, readable
from rl_training.data.formats.csv_text import Layout
from rl_training.data.formats.end_reasons import meanings_of
from rl_training.data.formats.folders import blamed_on, files_of, plan_of, some_of
from rl_training.data.formats.names import suggest
from rl_training.data.formats.peek import peek
from rl_training.data.formats.raw import Columns
from rl_training.data.formats.tables import Plan
from rl_training.data.formats.whole_columns import Text, texts_of
from rl_training.errors import DataError
from rl_training.reading_choices import EndReasons, TableChoices
from rl_training.validation import printable

_CHECKED = 5_000  # rows of a table whose cells are looked at
_MOST_CELLS = 10**6  # of them, its other columns included


def check_columns(path: Path, columns: Columns | None, choices: TableChoices) -> None:
    """Refuse a mapping that names columns, or arrays, which the file has not, and columns of a table whose first cells
    are not what they are read for."""
    kind = recognise(path)
    if kind == "csv":
        files = files_of(path, kind)
        layout, planned = _csv_plan(path, columns, choices)
        with readable(files[0], path):
            csv.check_first_rows(files[0], layout, planned, max(1, min(_CHECKED, _MOST_CELLS // len(layout.names))))
    elif kind == "parquet":
        cells = peek(path, _CHECKED, ends=False).columns
        planned, faults = plan_of(list(cells), files_of(path, kind), columns, choices), Faults()
        for name in (name for name in planned.columns if name in cells):
            faults.reading(planned.values, name, cells[name])
        faults.refuse()
    elif kind in ("npz", "hdf5"):
        names = list(peek(path, ends=False).columns)
        for field, value in (columns or {}).items():
            for word in [value] if isinstance(value, str) else value:
                if word not in names and "*" not in word:
                    raise DataError(f"columns.{field}: no array {word!r}{suggest(word, names)}")


def check_texts(path: Path, columns: Columns | None, choices: TableChoices) -> None:
    """Refuse texts of which nothing is said, wherever they stand: among reasons of ends, and in columns of words."""
    kind = recognise(path)
    if kind in ("csv", "parquet"):
        planned, read = _reader(path, kind, columns, choices)
        reasons, worded = planned.reasons, [name for name in planned.words if name in planned.columns]
        found = texts_of(path, kind, [*worded, *([reasons] if reasons else [])])
        if reasons:
            _check_reasons(path, reasons, found[reasons], choices.end_reasons)
        _check_words(path, {name: found[name] for name in worded}, read)
    elif kind in ("npz", "hdf5") and isinstance(column := (columns or {}).get(END_REASONS), str):
        _check_reasons(path, column, texts_of(path, kind, [column])[column], choices.end_reasons)


def _reader(path: Path, kind: str, columns: Columns | None, choices: TableChoices) -> tuple[Plan, csv.Reading]:
    """What becomes of a table's columns, and of the cells of each."""
    if kind == "csv":
        layout, planned = _csv_plan(path, columns, choices)
        return planned, csv.reading(layout, planned)
    planned = plan_of(list(peek(path, ends=False).columns), files_of(path, kind), columns, choices)
    return planned, planned.values


def _csv_plan(path: Path, columns: Columns | None, choices: TableChoices) -> tuple[Layout, Plan]:
    files = files_of(path, "csv")
    layout = layouts_of(some_of(files), path)[0]
    return layout, csv.planned_columns(layout, columns, choices, files)


def _check_reasons(path: Path, column: str, texts: Mapping[str, Text], reasons: EndReasons | None) -> None:
    def place_of(text: str) -> str:
        found = texts[text]
        return f"row {found.row}" + ("" if found.file == path else f" of {printable(found.file.name)}")

    meanings_of(column, {text: found.rows for text, found in texts.items()}, reasons, place_of)


def _check_words(path: Path, words: Mapping[str, Mapping[str, Text]], read: csv.Reading) -> None:
    """Hand every text once to what reads its column; what it refuses is told by the row that has it first."""
    for file in dict.fromkeys(found.file for texts in words.values() for found in texts.values()):
        faults = Faults()
        for name, texts in words.items():
            own = [found for found in texts.values() if found.file == file]
            faults.reading(_by_rows(read, own), name, np.array([found.cell for found in own], dtype=object))
        with blamed_on(file, path):
            faults.refuse()


def _by_rows(read: csv.Reading, texts: Sequence[Text]) -> csv.Reading:
    def of_texts(name: str, cells: Any, first_row: int = 0) -> npt.NDArray[Any]:
        try:
            return read(name, cells, first_row)
        except BadCellsError as error:
            rows = {texts[place].row: cell for place, cell in error.cells.items()}
            raise BadCellsError(name, rows, error.is_flag, error.known) from None

    return of_texts
