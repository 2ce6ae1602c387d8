"""CSV: text with a header line that names the columns, separated by commas, semicolons, tabs or bars (|): a file, or a
folder of files with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.formats import csv_text
from rl_training.data.formats.cells import BadCellsError, Faults
from rl_training.data.formats.clocks import in_one
from rl_training.data.formats.csv_files import (
    common_notes,
    described,
    doubled_notes,
    layouts_of,
    mend,
    named_alike,
    readable,
    refuse_empty,
)
from rl_training.data.formats.csv_misfits import (
    SECOND_HEADER,
    about_header,
    repeated_header,
    some_rows,
    totals,
    why_misfit,
)
from rl_training.data.formats.csv_text import Layout
from rl_training.data.formats.decimal_commas import marks_with_points, with_points
from rl_training.data.formats.folders import files_of, joined, order_note, plan_of, rows_by_file
from rl_training.data.formats.labels import labels
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import first_of
from rl_training.data.formats.plain_csv import is_plain
from rl_training.data.formats.pointed_thousands import may_be_pointed
from rl_training.data.formats.raw import Arrays, Columns, RawData, place_in
from rl_training.data.formats.repeated_ids import NoEpisodeIdsError
from rl_training.data.formats.reward_terms import doubts_on_units
from rl_training.data.formats.tables import Plan, assemble
from rl_training.data.formats.whole_numbers import may_be_rounded
from rl_training.data.formats.words import float_of
from rl_training.data.formats.written import with_beside
from rl_training.data.value_looks import is_in_blocks, names_several
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices
from rl_training.validation import printable, shortened, shown
from rl_training.wording import amount

HEADER_ALONE = "has a header, but no rows"
_LOOKED_AT = 5_000  # rows
_ROWS_AT_A_TIME = 50_000
_TOLD_LINES = 12  # that do not fit
_BETWEEN_CHECKS = 2**24  # bytes from one look at the free memory to the next


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The arrays of the file, or of all files of a folder one after another, of which no episode goes on in the next
    unless it has an id; with pyarrow installed large files are read several times faster."""
    paths = files_of(path, "csv")
    layouts = layouts_of(paths, path)
    planned = planned_columns(layouts[0], columns, choices, paths)
    _check_memory(paths, layouts, path)
    parts: list[Arrays] = []
    notes = []
    for entry, layout in zip(paths, layouts, strict=True):
        with readable(entry, path):
            if told := totals(entry, layout):
                raise DataError(told)
            notes.append([*layout.notes, *_one_of_each(entry, layout, planned)])
            parts.append(_of_file(entry, layout, planned))
    counts = [len(part[planned.columns[0]]) for part in parts]
    if path.is_dir():
        refuse_empty(paths, counts, (HEADER_ALONE, "have a header, but no rows"))
    if not sum(counts):
        raise DataError(HEADER_ALONE)
    whole = {
        name: joined(name, [part.pop(name) for part in parts], paths, tells_apart=name in planned.tell_apart)
        for name in planned.columns
    }
    files = rows_by_file(paths, counts)
    for name in planned.measured if not any(layout.decimal_commas for layout in layouts) else ():
        if may_be_pointed(whole[name], planned.words.get(name, {}).values()):
            planned.points.look(name, _cells_of(name, paths), choices.missing_words)

    def written(name: str, row: int) -> str:
        place, file = place_in(files, row)
        number = 0 if file is None else [entry.name for entry in paths].index(file)
        return _as_written(paths[number], layouts[number], name, place)

    try:
        raw = assemble(planned, whole.__getitem__, described(layouts), written, files, apart=True)
    except NoEpisodeIdsError as error:
        raise DataError(f"{error}{_such_as(paths[0], layouts[0])}") from None
    doubts = doubts_on_units(planned.terms, layouts[0].unit_of or {})
    raw = replace(raw, notes=(*order_note(paths), *common_notes(notes, paths), *raw.notes, *doubts))
    return with_beside(raw, paths)


def _such_as(path: Path, layout: Layout) -> str:
    """The columns that may name episodes, by the look of the first rows."""
    with closing(csv_text.rows(path, layout)) as table:
        some = [row for _, row in islice(table, _LOOKED_AT) if len(row) == len(layout.names)]
    cells = {name: np.array(of, dtype=object) for name, of in zip(layout.names, zip(*some, strict=True), strict=False)}
    found = [printable(name) for name, of in cells.items() if name and is_in_blocks(of) and names_several(of)]
    return f", such as {first_of(found)}" if found else ""


def _check_memory(paths: Sequence[Path], layouts: Sequence[Layout], path: Path) -> None:
    """Refuse what would not fit into memory together."""
    needed = checked = 0
    for entry, layout in zip(paths, layouts, strict=True):
        with readable(entry, path):
            needed += csv_text.memory_of(entry, layout)
        if needed - checked > _BETWEEN_CHECKS:
            check_size(needed)
            checked = needed
    check_size(needed)


def _of_file(path: Path, layout: Layout, planned: Plan) -> Arrays:
    """The planned columns of one file."""
    try:
        found = _read_fast(path, layout, planned)
        if found is None:
            found = _read_plainly(path, layout, planned)
    except DataError as error:
        told = None if str(error).startswith(SECOND_HEADER) else repeated_header(path, layout)
        if told is not None:  # its names are no numbers in any column
            raise DataError(told) from None
        raise
    rows = len(next(iter(found.values())))
    names = {name: np.full(rows, path.name, dtype=object) for name in planned.columns if name not in found}
    return {name: labels(name, cells) if name in planned.labels else cells for name, cells in (found | names).items()}


def _one_of_each(path: Path, layout: Layout, planned: Plan) -> list[str]:
    """Notes on names that stand for several columns; refused where one of them is read and they are not the same."""
    if not layout.doubled:
        return []
    used = set(planned.columns)
    places = {name: layout.places[name] for name in layout.doubled if name in used}
    with closing(csv_text.rows(path, layout)) as table:
        for line, row in table if places else ():
            for name, among in places.items():
                cells = {row[place].strip() for place in among if place < len(row)}
                if len(cells) > 1:
                    differ = " and ".join(map(shown, sorted(cells)))
                    raise DataError(f"{named_alike(layout, name)}; give each its own name (line {line} has {differ})")
    why = {name: "hold the same, and one is read" if name in places else "are not used" for name in layout.doubled}
    return doubled_notes(layout, why)


def planned_columns(layout: Layout, columns: Columns | None, choices: TableChoices, paths: Sequence[Path]) -> Plan:
    """Which columns become which array; where the files name none, that is said beside what is wrong."""
    if layout.decimal_commas:  # as the file writes numbers, so may the user
        choices = replace(choices, missing_words=marks_with_points(choices.missing_words))
    try:
        planned = plan_of(list(dict.fromkeys(layout.names)), paths, columns, choices)
    except DataError as error:
        if layout.has_names:
            raise
        raise DataError(f"{error}; the first line holds values, not names, so columns go by position") from None
    if planned.step is not None:
        planned.times.elsewhere = partial(_cells_of, planned.step, paths)
    return planned


def _cells_of(name: str, paths: Sequence[Path]) -> Iterator[str]:
    """All cells of a column, whatever is wrong in other ones."""
    for path in paths:
        with suppress(DataError, UnicodeDecodeError):
            layout = csv_text.layout_of(path)
            place = layout.names.index(name) if name in layout.names else len(layout.names)
            with closing(csv_text.rows(path, layout, any_letters=True)) as table:
                yield from (cells[place].strip() for _, cells in table if place < len(cells))


def _read_fast(path: Path, layout: Layout, planned: Plan) -> dict[str, npt.NDArray[Any]] | None:
    """The planned columns by way of pyarrow; None where it is missing or the file is not plain enough for it."""
    try:
        import pyarrow as pa

        from rl_training.data.formats.arrow import column_values
    except ImportError:
        return None
    positions = {name: position for position, name in enumerate(layout.names)}
    numbers = set(planned.columns) - planned.as_written
    if not is_plain(path, layout, {place for name, place in positions.items() if name in numbers}):
        return None
    values = reading(layout, planned)
    wanted = {name: f"c{positions[name]}" for name in planned.columns if name in positions}
    texts = {wanted[name] for name in planned.as_written & wanted.keys()}
    try:
        table = _table(path, layout, list(wanted.values()), texts)
        zoned = {field.name for field in table.schema if getattr(field.type, "tz", None) is not None}
        if zoned:  # made UTC: the log's own clock is lost
            table = _table(path, layout, list(wanted.values()), texts | zoned)
    except (pa.ArrowException, OSError):  # read it again in a way that can say where the fault lies
        return None
    if any(pa.types.is_binary(field.type) for field in table.schema):  # text in another encoding
        return None
    faults = Faults()
    cells = {name: column_values(name, table.column(key)) for name, key in wanted.items()}
    if planned.step in cells and may_be_rounded(cells[planned.step]):  # as pyarrow does beyond 63 bits
        return None
    read = {name: faults.reading(values, name, found) for name, found in cells.items()}
    faults.refuse(lambda rows: _lines_of(path, layout, rows))
    return read


def _table(path: Path, layout: Layout, include: list[str], as_text: set[str]) -> Any:
    """The columns `include` as pyarrow reads them: by their position, c0, c1, …"""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = [f"c{i}" for i in range(len(layout.names))]
    with pa.input_stream(str(path), compression="gzip" if layout.is_packed else None) as stream:
        return arrow_csv.read_csv(
            stream,
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=layout.lines_above),
            parse_options=arrow_csv.ParseOptions(delimiter=layout.separator),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=include,
                column_types=dict.fromkeys(as_text, pa.string()),
                null_values=["", "nan", "NaN"],
                timestamp_parsers=[],
                decimal_point="," if layout.decimal_commas else ".",
            ),
        )


def check_first_rows(path: Path, layout: Layout, planned: Plan, rows: int) -> None:
    """Refuse cells of the first rows that are not what their column is read for."""
    _read_plainly(path, layout, planned, rows)


def _read_plainly(path: Path, layout: Layout, planned: Plan, most: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """The planned columns by way of Python's own reader, some rows at a time; of so many rows, if `most` is said."""
    everywhere = {name: position for position, name in enumerate(layout.names)}
    positions = {name: everywhere[name] for name in planned.columns if name in everywhere}
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in positions}
    faults, known = Faults(), planned.signs.apart
    plain = partial(_values, planned)
    values = _with_commas(planned, plain) if layout.decimal_commas else plain
    done = 0
    with closing(_complete(path, layout)) as every:
        complete = islice(every, most)
        while rows := list(islice(complete, _ROWS_AT_A_TIME)):
            cells = list(zip(*rows, strict=True))
            for name, position in positions.items():
                csv_text.require_utf8(cells[position])  # of other columns it is not asked
                parts[name].append(faults.reading(values, name, cells[position], done))
            done += len(rows)
    if faults and planned.signs.apart > known:  # what later rows have shown may hold for those before
        return _read_plainly(path, layout, planned, most)
    faults.refuse(lambda wanted: _lines_of(path, layout, wanted))
    return {
        name: in_one(name, found, tells_apart=name in planned.tell_apart) if found else np.empty(0)
        for name, found in parts.items()
    }


Reading: TypeAlias = Callable[[str, Any, int], npt.NDArray[Any]]  # of a column's cells, the first of which is a row


def reading(layout: Layout, planned: Plan) -> Reading:
    """What becomes of the cells of a planned column."""
    return _with_commas(planned, planned.values) if layout.decimal_commas else planned.values


def _with_commas(planned: Plan, values: Reading) -> Reading:
    """The same for cells whose decimals have commas."""

    def read(name: str, cells: Any, first_row: int = 0) -> npt.NDArray[Any]:
        if name in planned.texts or (isinstance(cells, np.ndarray) and cells.dtype.kind != "O"):
            return values(name, cells, first_row)
        pointed = with_points(name, cells, first_row, among_words=name in planned.words)
        try:
            return values(name, np.array(pointed, dtype=object), first_row)
        except BadCellsError as error:  # told as the file has them
            written = {row: cells[row - first_row] for row in error.cells}
            told = BadCellsError(name, written, error.is_flag, error.known)
            told.way = error.way
            raise told from error

    return read


def _values(planned: Plan, name: str, cells: Sequence[str], first_row: int = 0) -> npt.NDArray[Any]:
    try:
        if name not in planned.as_written and name != planned.step:  # whose digits are all kept
            return planned.values(name, np.array(list(map(float_of, cells))), first_row)
    except ValueError:  # true, false, nothing, a date, or a mistake
        pass
    return planned.values(name, np.array(cells, dtype=object), first_row)


def _lines_of(path: Path, layout: Layout, rows: set[int]) -> dict[int, int]:
    """The lines that rows have in the file."""
    with closing(csv_text.rows(path, layout, any_letters=True)) as table:
        return {row: line for row, (line, _) in enumerate(islice(table, max(rows) + 1)) if row in rows}


def _as_written(path: Path, layout: Layout, name: str, row: int) -> str:
    """A cell as the file has it, and its line."""
    with closing(csv_text.rows(path, layout, any_letters=True)) as table:
        line, cells = next(islice(table, row, None))
    return f"{printable(shortened(cells[layout.places[name][0]].strip()))} (line {line})"


def _complete(path: Path, layout: Layout) -> Generator[list[str], None, None]:
    """Rows with a value for every column."""
    width = len(layout.names)
    with closing(csv_text.rows(path, layout, strict=True, any_letters=True)) as table:
        for line, row in table:
            if len(row) != width:
                following = some_rows(table)
                if told := why_misfit(layout, line, row, following):
                    raise DataError(told)
                found, named = amount(len(row), "value"), amount(width, "column")
                above = about_header(layout, line, row)
                told = f"line {line} has {found}, but the header names {named}"
                told += "" if above else _other_lines(chain(following, table), width)
                raise DataError(f"{told}{above or mend(len(row), width)}")
            yield row


def _other_lines(table: Iterator[tuple[int, list[str]]], width: int) -> str:
    """Which others do not fit either, as far as they can be read: what is wrong further down comes later."""
    first: list[int] = []
    count = 0
    with suppress(DataError):
        for line, cells in table:
            if len(cells) != width:
                first += [line] if count < _TOLD_LINES else []
                count += 1
    if not count:
        return ""
    more = f" and {count - _TOLD_LINES:,} more" if count > _TOLD_LINES else ""
    does = "nor do" if count > 1 else "nor does"
    return f" ({does} {amount(count, 'other line')} fit: {', '.join(map(str, first))}{more})"
