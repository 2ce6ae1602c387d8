"""What every reader hands over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FLAG_RULE, MATRIX_FIELDS, BoolArray, FaultyValueError, IndexArray, one_per_row
from rl_training.data.fields import EPISODE_IDS, FIELD_OF, TELL_ENDS, leaving
from rl_training.data.formats.clocks import Clock
from rl_training.data.formats.names import LONGEST_NAME, doubled
from rl_training.data.provenance import Provenance
from rl_training.data.space_bounds import SpaceBounds
from rl_training.errors import DataError
from rl_training.reading_choices import EndReasons, LastRowsAre, RewardsAre, Words
from rl_training.validation import printable

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Columns: TypeAlias = Mapping[str, str | Sequence[str]]  # field -> the column, or columns, that hold it
Files: TypeAlias = Sequence[tuple[str, int]]  # the files of a folder, with the number of rows that each holds

_WAY = "where it is missing, missing: hold or drop goes on"
NAMES = "names"  # in the metadata of a table with a column per field: what each value of a field is called


@dataclass(frozen=True, eq=False)
class Recorded:
    """The episodes as the file has them, where reading cut some of them into pieces.

    episodes: that of each row, by the name that the file has for it (`named`), or counted, `[N]`.
    cuts: rows after which reading cut one, `[N]`.
    """

    episodes: npt.NDArray[Any]
    cuts: BoolArray
    named: bool

    def of_rows(self, rows: IndexArray) -> Recorded:
        """Of these rows."""
        return Recorded(self.episodes[rows], self.cuts[rows], self.named)


@dataclass(frozen=True, eq=False)
class RewardParts:
    """Of rewards that are a sum of columns, what is open as long as ends of episodes are not known. By the table's own
    rows:

    filled: the sum of the cells that are filled, `[N]`; none once it is settled which empty cells add nothing.
    empty: by column, rows in which its cell is empty, `[N]`; once it is settled, those that lack a reward for it.
    """

    filled: npt.NDArray[np.float64] | None
    empty: Mapping[str, BoolArray]

    def lacking(self, row: int) -> str | None:
        """The first column that is empty in a row."""
        return next((column for column, empty in self.empty.items() if empty[row]), None)


@dataclass(frozen=True)
class RawData:
    """The arrays of a file by the names it gives them, before anything is checked or completed.

    format: what the file was recognised as, in words. env_id: the environment the file says it was recorded in.
    notes: what the reader did that its user should know. hints: what it left aside and should perhaps not have.
    rows: the file's own row of each row, where they were sorted, `[N]`.
    columns: of a field that was put together, the columns with the number of values that each holds.
    files: those of a folder.
    bounds: of its actions and observations, where it tells them.
    rewards_are: what was said of its rewards; costs have become rewards.
    ends_told: a column says why episodes ended.
    end_texts: where a column says why episodes ended, its text in the file's rows that have ended one.
    end_reasons: what these texts mean, as was said.
    recorded: its own episodes, where those of the arrays are pieces of them.
    provenance: what the file itself tells of where it comes from.
    words: numbers that the words of its columns stand for, by column.
    clock: the steps of its rows.
    time_columns: observed values that were computed from the dates of a column, with its name.
    last_rows_are: what was said of last rows that no flag or text tells of.
    by_name: arrays, and their fields, that a column was taken for by its name alone, and what leaves it alone.
    signs_told: rewards are a sum of columns, of which some are taken off.
    reward_parts: of rewards that are a sum of columns, where some of it is missing.
    added_at_ends: what at_termination has added to rewards, by the file's rows.
    left_out: rows without a value that are not among the arrays, and how many of them mark a termination.
    """

    arrays: Arrays
    format: str
    env_id: str | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    rows: IndexArray | None = None
    columns: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    files: Files = ()
    bounds: SpaceBounds | None = None
    rewards_are: RewardsAre | None = None
    ends_told: bool = False
    recorded: Recorded | None = None
    left_out: tuple[int, int] = (0, 0)
    end_texts: Mapping[int, str] | None = None
    end_reasons: EndReasons | None = None
    provenance: Provenance | None = None
    words: Words = field(default_factory=dict)
    clock: Clock | None = None
    time_columns: Mapping[str, str] = field(default_factory=dict)
    last_rows_are: LastRowsAre = "truncation"
    by_name: Mapping[str, str] = field(default_factory=dict)
    signs_told: bool = False
    reward_parts: RewardParts | None = None
    added_at_ends: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        """Rewards, flags and ids `[N, 1]` become `[N]` here, so that no step on the way to a dataset need know both."""
        of_one = {key: flat for key, given in self.arrays.items() if (flat := _flat(key, given)) is not given}
        if of_one:
            object.__setattr__(self, "arrays", {**self.arrays, **of_one})

    def row_in_file(self, row: int) -> tuple[int, str | None]:
        """Where the data have a row of the arrays: the row in its file, and the file's name where there are several."""
        return place_in(self.files, row if self.rows is None else int(self.rows[row]))

    def end_text(self, row: int) -> str | None:
        """What the data say of how the episode ended whose last row is this one of the arrays."""
        return (self.end_texts or {}).get(row if self.rows is None else int(self.rows[row]))

    def added_to(self, rows: int) -> npt.NDArray[np.float64] | None:
        """What at_termination has added to the rewards of the arrays, `[rows]`; none where it has not."""
        if self.added_at_ends is None:
            return None
        places = self.in_table(np.arange(rows)).tolist()
        return np.array([self.added_at_ends.get(place, 0.0) for place in places])

    def in_table(self, rows: IndexArray) -> IndexArray:
        """The table's own rows of these rows of the arrays."""
        return rows if self.rows is None else self.rows[rows]

    @property
    def ends_are_said(self) -> bool:
        """Whether somebody has said that the task ends with the last rows of episodes, now or when it was written."""
        return self.last_rows_are == "termination" or bool(self.provenance and self.provenance.says("last_rows_are"))

    @property
    def negated(self) -> bool:
        """Whether its costs have become rewards."""
        return self.rewards_are == "costs"

    @property
    def costs(self) -> bool:
        """Whether rewards are the negative of what the user's own file has, since now or since this one was written."""
        written_so = self.provenance is not None and self.provenance.applied().get("rewards_are") == "costs"
        return self.negated != written_so

    def of_rows(self, rows: IndexArray) -> RawData:
        """Where the data have these rows of the arrays."""
        recorded = None if self.recorded is None else self.recorded.of_rows(rows)
        return replace(self, arrays={}, rows=rows if self.rows is None else self.rows[rows], recorded=recorded)

    def with_ends_alone(self) -> RawData:
        """Without the arrays, but for those that tell where episodes end."""
        return replace(self, arrays={key: a for key, a in self.arrays.items() if FIELD_OF.get(key) in TELL_ENDS})

    def column_in_file(self, field: str, column: int | None) -> str | None:
        """What the file calls a column of a field: `x`, or `obs[3]` where one column holds several values."""
        place = column or 0
        for name, width in self.columns.get(field, ()):
            if place < width:
                return name if width == 1 else f"{name}[{place}]"
            place -= width
        return None

    def episode_name(self, row: int) -> str | None:
        """What the file calls the episode of a row; ids that only count from 0 are no names, but where pieces count."""
        if self.recorded is not None:
            return printable(str(self.recorded.episodes[row])) if self.recorded.named else None
        given = next((values for key, values in self.arrays.items() if FIELD_OF.get(key) == EPISODE_IDS), None)
        ids = np.asarray(() if given is None else given).reshape(-1)
        if row >= len(ids):
            return None
        counts = ids.dtype.kind in "iuf" and ids[0] == 0 and _grows_by_one(ids)
        return None if counts else printable(str(ids[row]))

    def names_of(self, field: str, width: int) -> tuple[str, ...] | None:
        """What the file calls the values of a field, `[width]`; none where it has no names for them."""
        names = tuple(islice(self._names(field), width))
        return names if len(names) == width else None

    def called(self, field: str, width: int) -> list[str]:
        """What the values of a field are called, `[width]`: as in the file, `obs[3]` where it has no name for one."""
        known = list(islice(self._names(field), width))
        return known + [f"{field}[{place}]" for place in range(len(known), width)]

    def _names(self, field: str) -> Iterator[str]:
        for name, several in self.columns.get(field, ()):
            yield from (name if several == 1 else f"{name}[{place}]" for place in range(several))

    def with_names(self, told: Any) -> RawData:
        """With names of single values that stand beside the table, `{field: [name, …]}`, as far as they fit it."""
        kept = dict(self.columns)
        for field_, names in told.items() if isinstance(told, Mapping) else ():
            width = self._width(field_)
            if isinstance(names, list) and len(names) == width and all(_is_name(name) for name in names):
                kept |= {field_: [(name, 1) for name in names]} if doubled(names) is None else {}
        return replace(self, columns=kept)

    def _width(self, field_: str) -> int:
        """How many values a field has, by its columns or by its array."""
        if field_ in self.columns:
            return sum(several for _, several in self.columns[field_])
        shapes = [np.shape(values) for key, values in self.arrays.items() if FIELD_OF.get(key) == field_]
        return 0 if not shapes else 1 if len(shapes[0]) < 2 else shapes[0][1]

    def located(self, fault: FaultyValueError) -> DataError:
        """The fault by the file's own row and column."""
        row, file = self.row_in_file(fault.row)
        told = f"row {row}" + (f" of {file}" if file else " of the file" if self.rows is not None else "")
        name = self.column_in_file(fault.field, fault.column)
        episode = self.episode_name(fault.row)
        if episode is not None:
            fault.step = re.sub(r"^episode \d+", lambda _: f"episode named {episode}", fault.step)
        way = f"; {_WAY}" if fault.what in ("NaN", "Inf", "-Inf") else ""
        if FLAG_RULE in fault.rule:
            way += leaving(self.by_name.get(fault.field))
        part = None if self.reward_parts is None or fault.field != "rewards" else self.reward_parts
        lacking = None if part is None else part.lacking(int(self.in_table(np.array([fault.row]))[0]))
        if lacking is not None:
            way = f"; its {lacking!r} is empty: write 0 where that means nothing{way}"
        return DataError(fault.told(told, fault.column if name is None else repr(name)) + way)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Faults are told by the file's own row and column."""
        try:
            yield
        except FaultyValueError as fault:
            raise self.located(fault) from fault


def _flat(key: str, values: Any) -> Any:
    """`[N]` of a field with one value per row, where it is an array `[N, 1]`; anything else as it is."""
    field_ = FIELD_OF.get(key)
    return values if field_ is None or field_ in MATRIX_FIELDS else one_per_row(values)


def place_in(files: Files, row: int) -> tuple[int, str | None]:
    """The row that a row of all files has in its own, and that file's name; none where there is but one."""
    for name, rows in files:
        if row < rows:
            return row, name
        row -= rows
    return row, None


def file_numbers(files: Files) -> npt.NDArray[np.int64]:
    """The file of each row, counted from 0, `[N]`."""
    return np.repeat(np.arange(len(files)), [rows for _, rows in files])


def row_named(files: Files, row: int) -> str:
    """`row 3`, or `row 3 of e07.csv` where there are several files."""
    place, file = place_in(files, row)
    return f"row {place}" + ("" if file is None else f" of {file}")


def _grows_by_one(ids: npt.NDArray[Any]) -> bool:
    """Whether ids stay or grow by one from row to row; the difference of unsigned ones that fall could be anything."""
    grown = (ids[1:] > ids[:-1]) & (np.diff(ids) == 1)
    return bool((grown | (ids[1:] == ids[:-1])).all())


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME


def told_as_json(value: Any) -> Any:
    """What a writer put there as JSON text, in whatever form a file hands it over; of anything else, nothing."""
    value = value.item() if isinstance(value, np.ndarray | np.generic) and value.shape == () else value
    try:
        return json.loads(value) if isinstance(value, str | bytes) else None
    except (ValueError, RecursionError):
        return None


@contextmanager
def by_the_files_rows(dataset: TransitionDataset) -> Iterator[None]:
    """A fault of a dataset's rows is told by the row and the column of the file they were read from."""
    with nullcontext() if dataset.in_file is None else dataset.in_file.locating():
        try:
            yield
        except FaultyValueError as fault:
            if dataset.mixture is None:
                raise
            raise DataError(fault.told(f"row {fault.row} of the mixture", fault.column)) from fault
