"""Observations for `predict` in a file: `.npy`, `.npz`, `.csv` or `.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.cli.named_observations import by_names
from rl_training.cli.observed_columns import (
    by_number,
    by_their_names,
    computed,
    dates_of,
    in_lines,
    refuse_missing,
    require_all,
)
from rl_training.data.column_names import require_named
from rl_training.data.formats import csv_text, npz
from rl_training.data.formats.cells import (
    BadCellsError,
    numbers,
    numbers_of_words,
)
from rl_training.data.formats.csv_files import named_alike
from rl_training.data.formats.decimal_commas import marks_with_points, with_points
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.looks import not_utf8
from rl_training.data.formats.names import listed
from rl_training.data.formats.raw import NAMES, RawData, told_as_json
from rl_training.data.formats.signs import Signs
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import as_number, key_of, with_told
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.wording import NO_VALUE, amount

SUFFIXES = (".csv", ".tsv", ".npy", ".npz", ".json")

_Read: TypeAlias = tuple[Any, list[str]]  # observations by row, and notes on them
_BYTES_PER_BYTE_OF_JSON = 10  # a digit and a comma become a Python number
_CELLS_AT_A_TIME = 500_000
_ENOUGH_FAULTS = 100_000  # cells of a column that are no numbers: further rows are not read
# What json and text of another encoding raise. A RecursionError is a RuntimeError.
_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, MemoryError, OverflowError)


def read_observations(path: Path, columns: Sequence[NamedColumn] = (), missing: Sequence[str] = ()) -> _Read:
    """Observations by row from a file, recognised by its suffix; `columns` that the policy sees. missing: words that
    stood for a missing value in training."""
    try:
        if path.exists() and not path.is_file():
            raise DataError("is not a file")
        match path.suffix:
            case ".json":
                rows = json.loads(_text(path))
                if (named := by_names(rows, columns)) is not None:
                    return named, []
                _require_numbers(rows)
            case ".csv" | ".tsv":
                return _read_csv(path, columns, missing)
            case ".npy":
                return npz.read_alone(path), []
            case ".npz":
                return _read_npz(path, columns)
            case _:
                raise DataError("must end in .npy, .npz, .csv or .json")
    except DataError as error:
        raise DataError(f"--obs-file {path}: {error}") from None
    except OSError as error:
        raise DataError(f"--obs-file {path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"--obs-file {path}: {not_utf8(error)}") from None
    except _DAMAGE as error:
        raise DataError(f"--obs-file {path}: holds no observations ({error})") from None
    return rows, []


def _text(path: Path) -> str:
    check_size(_BYTES_PER_BYTE_OF_JSON * path.stat().st_size)
    return path.read_text("utf-8-sig")


def _require_numbers(value: Any) -> None:
    """JSON also holds text, null and objects, of which numpy would make numbers where it can."""
    several = isinstance(value, list) and any(isinstance(row, list) for row in value)
    for number, row in enumerate(value if several else [value]):
        for entry in row if isinstance(row, list) else [row]:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                told = f"null; {NO_VALUE}" if entry is None else shown(entry)
                raise DataError(f"row {number}: values must be numbers, got {told}")


def _read_npz(path: Path, known: Sequence[NamedColumn]) -> _Read:
    """Its observations, if they are the policy's own by what the file tells of them."""
    observations = npz.read_array(path, "obs")
    told: list[Any] = []
    for name in (NAMES, WORDS):
        try:
            told.append(told_as_json(npz.read_array(path, f"{npz.TOLD}{name}")))
        except DataError:  # of another program, or without
            told.append(None)
    raw = with_told(RawData({"obs": observations}, "npz"), *told)
    names = list(raw.names_of("obs", len(known)) or ())
    try:
        return observations, list(require_named(names, raw.words, known, str(path)))
    except DataError as error:  # which is told with the file's name anyway
        raise DataError(str(error).removeprefix(f"{path}: ")) from None


def _read_csv(path: Path, known: Sequence[NamedColumn], missing: Sequence[str]) -> _Read:
    """Rows of numbers; a first row that is not numbers is a header. One that has the policy's columns, among others or
    in another order, is read by name; of a policy without names, `obs_0`, `obs_1`, … by their numbers. Without a
    header, as many columns as the policy sees are just these."""
    layout = by_their_names(path, csv_text.layout_of(path), known)
    notes: list[str] = []
    names = [column.name for column in known]
    words = {column.name: column.words for column in known if column.words}
    titles: Sequence[str] = layout.names
    places: Sequence[int] = range(len(titles))
    are_these = not layout.has_names and len(layout.names) == len(names)
    dates = {column.name: found for column in known if (found := dates_of(column, layout.places)) is not None}
    seen = {name.casefold() for name in (*names, *dates.values())}
    by_name = are_these or bool({name.casefold() for name in layout.names} & seen)
    if by_name and not are_these:
        require_all(known, layout.names)
        if several := [name for name in layout.doubled if name in names]:
            raise DataError(f"{named_alike(layout, several[0])}; leave in the one that the policy sees")
        places = [layout.places[dates.get(name, name)][0] for name in names]
    elif not names and (numbered := by_number(layout)):
        titles, places = numbered, [layout.places[name][0] for name in numbered]
    elif layout.has_names and names:
        notes.append(f"{path} has none of the policy's names: columns are taken in its order, {listed(names)}")
    check_size(csv_text.memory_of(path, layout))
    kinds: list[_Numbers | _Dates] = []
    for name in names if by_name else titles:
        is_date = by_name and name in dates
        told = dict(words.get(name, ()))
        kinds.append(_Dates(name, dates[name]) if is_date else _Numbers(name, told, missing, layout.decimal_commas))
    lines = _read_rows(path, layout, list(zip(kinds, places, strict=True)))
    if not len(lines):
        _refuse_numbers_as_names(layout)
        return np.zeros((0, len(kinds))), notes
    return np.stack([column.values(lines) for column in kinds], axis=1), notes


class _Numbers:
    """A column of numbers, read some rows at a time; what is wrong with it is told when all are read."""

    def __init__(self, name: str, words: Mapping[str, float], missing: Sequence[str], commas: bool) -> None:
        self.faults: dict[int, Any] = {}
        self._name, self._commas = name, commas
        self._words = {key_of(word): number for word, number in words.items()}
        self._missing = marks_with_points(missing) if commas else missing
        self._signs = Signs()
        self._parts: list[npt.NDArray[Any]] = []
        self._fault: BadCellsError | None = None
        self._without_value: str | None = None  # the first such cell

    def add(self, cells: Sequence[str], first_row: int) -> None:
        try:
            read = self._read(cells, first_row)
        except BadCellsError as error:
            self._fault = self._fault or error
            self._fault.cells.update(error.cells)
            self.faults = self._fault.cells
            return
        if self._without_value is None and np.isnan(read).any():
            self._without_value = cells[int(np.argmax(np.isnan(read)))]
        self._parts.append(read)

    def _read(self, cells: Sequence[str], first_row: int) -> npt.NDArray[Any]:
        """The numbers of these cells, NaN where one is missing."""
        pointed = with_points(self._name, cells, first_row, among_words=bool(self._words)) if self._commas else cells
        given = np.array(pointed, dtype=object)
        if self._words:
            return numbers_of_words(self._name, given, self._words, first_row, self._missing)
        return numbers(self._name, given, first_row, missing=self._missing, signs=self._signs)

    def values(self, lines: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """`[N]` of all rows. lines: those that rows have in the file."""
        if self._fault is not None:
            raise in_lines(self._fault, lines)
        values = np.concatenate(self._parts) if self._parts else np.zeros(0)
        refuse_missing(self._name, values, lines, self._without_value or "")
        return values


class _Dates:
    """A column of dates that a value is computed from, whole: a row may tell how others are to be read."""

    def __init__(self, name: str, column: str) -> None:
        self.faults: dict[int, Any] = {}
        self._name, self._column = name, column
        self._cells: list[str] = []

    def add(self, cells: Sequence[str], _: int) -> None:
        self._cells += cells

    def values(self, _: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return computed(self._name, self._column, self._cells)


def _read_rows(
    path: Path, layout: csv_text.Layout, columns: Sequence[tuple[_Numbers | _Dates, int]]
) -> npt.NDArray[np.int64]:
    """Hand every row to the columns, each with its place, some rows at a time: as texts a table takes many times the
    memory. The lines that rows have in the file, `[N]`."""
    lines: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    done, width = 0, len(layout.names)
    with closing(csv_text.rows(path, layout, strict=True)) as table:
        while piece := list(islice(table, max(1, _CELLS_AT_A_TIME // width))):
            for number, (_, row) in enumerate(piece, done):
                if len(row) != width:
                    raise DataError(f"row {number} has {amount(len(row), 'value')}, not {width} as the first line")
            for column, place in columns:
                column.add([row[place] for _, row in piece], done)
            lines.append(np.array([line for line, _ in piece]))
            done += len(piece)
            if any(len(column.faults) > _ENOUGH_FAULTS for column, _ in columns):
                break
    return np.concatenate(lines)


def _refuse_numbers_as_names(layout: csv_text.Layout) -> None:
    """Of a single line that is taken for names, as `0x1,2,3` or `1,5;2,5`: what in it is no number."""
    strange = [name for name in layout.names if as_number(name) is None]
    if not strange or len(strange) == len(layout.names):
        return
    line = layout.separator.join(layout.names)
    way = f"{shown(strange[0])} is not a number"
    if ";" in line:
        way = f"write decimals with a point: {shown(line.replace(',', '.').replace(';', ','))}"
    raise DataError(f"its only line, {shown(line)}, is taken for names of columns; {way}")
