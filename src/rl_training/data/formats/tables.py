"""Tables: which columns hold which field. Shared by CSV, Parquet, pandas and Arrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import MATRIX_FIELDS
from rl_training.data.fields import (
    END_REASONS,
    EPISODE_ENDS,
    EPISODE_IDS,
    FIELD_OF,
    IGNORED_PREFIXES,
    REQUIRED_FIELDS,
    STEP,
    hint,
    leaving,
    missing_fields,
)
from rl_training.data.flags import DONES
from rl_training.data.formats.calendar_episodes import require_dates, with_days, with_observed_time, with_open_ends
from rl_training.data.formats.cells import (
    BadCellsError,
    Faults,
    flags,
    numbers,
    numbers_of_words,
    undeclared,
    with_declared,
)
from rl_training.data.formats.clocks import Clock
from rl_training.data.formats.end_reasons import ends_by_reason
from rl_training.data.formats.expanding import checked_mapping, expand
from rl_training.data.formats.field_columns import bearing, slot_of
from rl_training.data.formats.labels import labels
from rl_training.data.formats.names import check_names, listed
from rl_training.data.formats.plain_columns import plain_column
from rl_training.data.formats.pointed_thousands import Points
from rl_training.data.formats.raw import Arrays, Columns, Files, RawData, RewardParts, file_numbers
from rl_training.data.formats.reward_terms import Term, doubts_on_sum, note_on_sum, summed, told, with_terms
from rl_training.data.formats.row_order import Steps, in_order
from rl_training.data.formats.seen_too_late import known_too_late
from rl_training.data.formats.signs import Signs
from rl_training.data.formats.step_columns import count_rows, episodes_told, may_count, not_the_step, step_among
from rl_training.data.formats.swapped import look_swapped
from rl_training.data.formats.times import Times
from rl_training.data.formats.words import check_columns, checked
from rl_training.data.resolution import LOST, is_coarse, is_lost_in_float64
from rl_training.errors import ColumnsError, DataError
from rl_training.reading_choices import AS_IT_STANDS, EndReasons, TableChoices
from rl_training.validation import shown
from rl_training.wording import amount

_MOST_HINTS = 4
_MOST_LOOKED_AT = 200  # unused columns whose names are compared with those of fields
_FLAGS = ("terminations", "truncations", EPISODE_ENDS)
_AGENTS = ("agent_index", "agent_id")
_RLLIB_NAMES = ("eps_id", "unroll_id", "new_obs")


@dataclass(frozen=True)
class Plan:
    """Which columns become which array.

    fields: the columns of each array, by the name it is handed over with (the file's own, where it has one).
    step: the column with the number of each row inside its episode; step_named: by the user. agents: the column that
    tells agents apart.
    reasons: the column whose text says why an episode ended. choices: what was said of its cells and rows.
    words: by column, the numbers that its words stand for, in small letters. terms: of rewards that are a sum of
    columns. by_name: the field of each column that has one by its name alone, and can do without. times, signs, points:
    of what is read so far.
    """

    fields: dict[str, tuple[str, ...]]
    step: str | None
    agents: str | None
    rllib: bool
    notes: tuple[str, ...]
    hints: tuple[str, ...]
    reasons: str | None = None
    choices: TableChoices = AS_IT_STANDS
    words: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()
    step_named: bool = True
    by_name: Mapping[str, str] = field(default_factory=dict)
    times: Times = field(default_factory=Times, compare=False)
    signs: Signs = field(default_factory=Signs, compare=False)
    points: Points = field(default_factory=Points, compare=False)

    @property
    def columns(self) -> list[str]:
        """Every column that must be read, once."""
        extra = [name for name in (self.step, self.agents, self.reasons) if name is not None]
        return list(dict.fromkeys([name for columns in self.fields.values() for name in columns] + extra))

    @property
    def left_by(self) -> dict[str, str]:
        """What leaves alone an array, or its field, that was found by its name alone."""
        found = {key: slot for key, names in self.fields.items() if (slot := self.by_name.get(names[0])) is not None}
        return found | {slot: slot for slot in found.values()}

    @property
    def labels(self) -> set[str]:
        """Columns that may hold text: the names of episodes and agents."""
        named = {name for key, columns in self.fields.items() if FIELD_OF[key] == EPISODE_IDS for name in columns}
        return named | ({self.agents} if self.agents else set())

    @property
    def tell_apart(self) -> set[str]:
        """Columns of which two values that differ must never become the same."""
        return self.labels | ({self.step} if self.step else set())

    @property
    def flags(self) -> set[str]:
        """Columns that mark ends."""
        return {name for key, columns in self.fields.items() if FIELD_OF[key] in _FLAGS for name in columns}

    @property
    def measured(self) -> list[str]:
        """Columns of numbers that are no flags, steps among them."""
        others = self.flags | self.texts
        return [name for name in self.columns if name not in others]

    @property
    def texts(self) -> set[str]:
        """Columns that are read as they stand."""
        return self.labels | ({self.reasons} if self.reasons else set())

    @property
    def as_written(self) -> set[str]:
        """Columns whose cells are looked at as texts: those, columns of words, and parts of a sum in which `nan` was
        named and an empty cell says something else."""
        named = len(self.terms) > 1 and "nan" in (word.strip().casefold() for word in self.choices.missing_words)
        return self.texts | self.words.keys() | {name for term in self.terms if named for name in term.columns}

    def values(self, name: str, cells: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
        """The cells of a column as what it is read for; text is left as it is."""
        if name in self.texts:
            return cells
        if name == self.step:
            return self.times.steps(name, cells, first_row)
        if cells.ndim == 1 and cells.dtype.kind in "iuf" and name not in self.words:
            self.signs.plain(name, cells, first_row)
        return self.numbers(name, cells, first_row, is_flag=name in self.flags)

    def numbers(
        self, name: str, cells: npt.NDArray[Any], first_row: int = 0, *, is_flag: bool = False
    ) -> npt.NDArray[Any]:
        """The cells of a column as numbers."""
        try:
            return self._numbers(name, cells, first_row, is_flag=is_flag)
        except BadCellsError as error:
            error.way = leaving(self.by_name.get(name))
            raise

    def _numbers(self, name: str, cells: npt.NDArray[Any], first_row: int, *, is_flag: bool) -> npt.NDArray[Any]:
        missing = self.choices.missing_words
        if (known := self.words.get(name)) is not None:
            read = numbers_of_words(name, cells, known, first_row, missing)
        elif is_flag:
            return flags(name, cells, first_row)
        else:
            read = numbers(name, cells, first_row, missing=missing, signs=self.signs)
        return with_declared(read, cells, missing) if self.is_part(name) else read

    def is_part(self, name: str) -> bool:
        """Whether a column is one of several of which rewards are added up."""
        return name in self._parts

    @cached_property
    def _parts(self) -> Set[str]:
        """Those columns; there may be very many."""
        return {name for term in self.terms for name in term.columns} if len(self.terms) > 1 else frozenset()


def plan(names: Sequence[str], columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> Plan:
    """What the mapping says of a table's columns, and the names of `FIELD_ALIASES` for what it leaves out."""
    check_names(names)
    notes: list[str] = []
    checked_columns = checked_mapping(columns)
    left = {slot_of(key) or key for key, value in checked_columns.items() if not value}
    mapped, terms = with_terms({key: value for key, value in checked_columns.items() if value}, names)
    fields = {key: expand(key, value, names, notes, several=bool(terms)) for key, value in mapped.items()}
    step, reasons = (fields.pop(key, (None,))[0] for key in (STEP, END_REASONS))
    named = step is not None
    _check_reasons(reasons, choices.end_reasons, fields)
    taken = {name for chosen in fields.values() for name in chosen} | {step, reasons}
    free = [name for name in names if name not in taken]
    given = {slot_of(key) for key in fields} | ({"terminations", "truncations"} if reasons else set())
    found = bearing(free, notes, given | left, fields)
    fields |= found
    if step is None and STEP not in left:
        step = step_among(free)
    rllib = any(name in names for name in _RLLIB_NAMES)
    agents = next((name for name in _AGENTS if name in free), None) if rllib else None
    if "unroll_id" in free and {EPISODE_IDS, "next_obs"}.isdisjoint(FIELD_OF[key] for key in fields) and step is None:
        fields[EPISODE_IDS] = ("unroll_id",)
        notes.append("nothing but unroll_id tells fragments apart: each ends an episode where it ends")
    used = {name for chosen in fields.values() for name in chosen} | {step, agents, reasons}
    known = {FIELD_OF[key] for key in fields} | ({STEP} if step is not None else set())
    note, hints = left_aside(names, used, known | ({END_REASONS, "terminations"} if reasons else set()), left)
    notes += [*note, *known_too_late(fields, terms), *([note_on_sum(told(terms))] if terms else [])]
    if step is None and choices.duplicates != "refuse":
        raise DataError("duplicates: only a column that counts steps shows which rows are doubled: columns: {step: …}")
    words = checked(choices.words or {})
    slots = {name: slot_of(key) or key for key, several in found.items() for name in several}
    by_name = {name: slot for name, slot in slots.items() if slot not in REQUIRED_FIELDS}
    planned = Plan(fields, step, agents, rllib, tuple(notes), hints, reasons, choices, words, terms, named, by_name)
    check_columns(planned.words, names, {*planned.texts, step})
    return planned


def _check_reasons(column: str | None, end_reasons: EndReasons | None, fields: Iterable[str]) -> None:
    """Reasons and their column are told together, and no flag besides them; `dones` may mark the same ends."""
    if column is None and end_reasons is not None:
        raise DataError(f"{END_REASONS}: name the column that holds these texts as well, columns: {{{END_REASONS}: …}}")
    twice = next((key for key in fields if FIELD_OF[key] in _FLAGS and key not in DONES), None)
    if column is not None and twice is not None:
        raise DataError(f"columns.{twice}: columns.{END_REASONS} tells of ends as well; keep one of the two")


def left_aside(
    names: Iterable[str], used: Container[str | None], given: Set[str], said: Set[str] = frozenset()
) -> tuple[list[str], tuple[str, ...]]:
    """A note on the columns, or arrays, that are not used, and what a few of them look like; refused where a field is
    missing. given: the fields that there are, and `step`; said: those that no column holds, as was said."""
    present = list(names)
    unused = [name for name in present if name and name not in used and not name.startswith(IGNORED_PREFIXES)]
    looks = (hint(name, given | said) for name in unused[:_MOST_LOOKED_AT])
    hints = tuple(islice((said for said in looks if said is not None), _MOST_HINTS))
    missing = [name for name in missing_fields(given) if not (name == "terminations" and STEP in given)]
    if missing:
        told = ", ".join("terminations (or episode_ids)" if name == "terminations" else name for name in missing)
        advice = f"; say which columns hold them with columns: {{{missing[0]}: …}}"
        more = "".join(f"; {said}" for said in hints)
        raise ColumnsError(f"lacks {told}; the data have {listed(present)}{advice}{more}", advice)
    return ([f"columns not used: {listed(unused)}"] if unused else []), hints


def assemble(
    planned: Plan,
    column: Callable[[str], npt.NDArray[Any]],
    described: str,
    written: Callable[[str, int], str] | None = None,
    files: Files = (),
    *,
    apart: bool = False,
) -> RawData:
    """The arrays of a plan; `column` gives a column's values by its name, `described` is the format in words, `written`
    gives the cell of a row as its file has it, where the values are no longer that. `files`: those that hold the rows,
    if there are several; `apart`: no episode goes on from one to the next unless its id says so."""
    columns = _columns_of(planned, column)
    if planned.agents is not None:
        agents = np.unique(labels(planned.agents, columns[planned.agents]))
        if len(agents) > 1:
            raise DataError(f"column {planned.agents!r}: rows of {len(agents)} agents; keep those of one")
    choices = planned.choices
    clock, steps, counted = _counted(planned, columns, written)
    require_dates(clock, choices)
    arrays, widths, parts = _fields(planned, columns)
    counted += doubts_on_sum(planned.terms, lambda name: planned.numbers(name, columns[name]))
    ids = next((values for key, values in arrays.items() if FIELD_OF[key] == EPISODE_IDS), None)
    said: dict[int, str] | None = None
    if clock is not None and choices.episode_each is not None:
        arrays, turned = with_days(arrays, clock, choices.episode_each, files)
        counted += turned
    if planned.reasons is not None:
        alone = file_numbers(files) if apart and files else None
        episodes, are_named = episodes_told(arrays, ids, steps, alone)
        counts, texts = None if steps is None else steps.values, columns[planned.reasons]
        ended, said, notes = ends_by_reason(
            planned.reasons, texts, choices.end_reasons, episodes, counts, files, are_named=are_named
        )
        arrays, counted = arrays | ended, [*notes, *counted]
    if ids is not None and steps is not None and not planned.rllib:
        counted += _swapped(planned, ids, steps, arrays)
    ordered = in_order(arrays, steps, files, apart=apart, check_successors=planned.rllib)
    raw = RawData(
        ordered.arrays,
        described,
        notes=(*planned.notes, *planned.signs.told(columns), *planned.points.told(), *counted, *ordered.notes),
        hints=planned.hints,
        rows=ordered.rows,
        columns=widths,
        files=files,
        ends_told=said is not None,
        end_texts=said,
        end_reasons=choices.end_reasons,
        recorded=ordered.recorded,
        words={name: (choices.words or {})[name] for name in planned.words if name in columns},
        clock=clock,
        by_name=planned.left_by,
        signs_told=any(term.weight < 0 for term in planned.terms),
        reward_parts=parts,
    )
    if choices.episode_each is not None:
        raw = with_open_ends(raw, choices.episode_each, ids)
    return with_observed_time(raw, choices)


def _columns_of(planned: Plan, column: Callable[[str], npt.NDArray[Any]]) -> Arrays:
    """Every column of a plan, each with as many rows."""
    columns = {
        name: plain_column(name, column(name), is_read=name == planned.step and planned.times.are_read)
        for name in planned.columns
    }
    _check_lengths(columns)
    for name in planned.measured:
        if columns[name].dtype.kind in "OUT" and columns[name].ndim == 1:
            planned.points.look(name, columns[name].tolist(), planned.choices.missing_words)
    return columns


def _swapped(planned: Plan, ids: npt.NDArray[Any], steps: Steps, arrays: Arrays) -> list[str]:
    """A warning where the columns of episodes and of steps look swapped."""
    obs = next((values for key, values in arrays.items() if FIELD_OF[key] == "obs"), None)
    column = next(names[0] for key, names in planned.fields.items() if FIELD_OF[key] == EPISODE_IDS)
    return [] if obs is None else look_swapped((column, steps.name), ids, steps.values, obs)


def _counted(
    planned: Plan, columns: Arrays, written: Callable[[str, int], str] | None
) -> tuple[Clock | None, Steps | None, list[str]]:
    """The clock of the rows, how they are counted by it, and notes on it; its column is numbers from then on."""
    if (counter := planned.step) is None:
        return None, None, []
    named = next((names[0] for key, names in planned.fields.items() if FIELD_OF[key] == EPISODE_IDS), None)

    def ids() -> npt.NDArray[Any] | None:  # seldom asked
        return None if named is None else labels(named, columns[named])

    is_sure = planned.step_named or planned.choices.duplicates != "refuse"
    if not is_sure and not may_count(counter, columns[counter], ids):
        return None, None, [not_the_step(counter)]
    clock, steps, columns[counter], notes = count_rows(counter, columns[counter], ids, planned.choices, written)
    return clock, steps, notes


def _fields(planned: Plan, columns: Arrays) -> tuple[Arrays, dict[str, list[tuple[str, int]]], RewardParts | None]:
    """The arrays by the names they are handed over with, the columns of each with how many values they hold, and what
    a sum of rewards leaves open."""
    faults = Faults()
    arrays: Arrays = {}
    widths: dict[str, list[tuple[str, int]]] = {}
    left_open: RewardParts | None = None
    for key, names in sorted(planned.fields.items(), key=lambda item: item[0] in DONES):  # true terminations first
        field = FIELD_OF[key]
        if field == EPISODE_IDS:
            arrays[key] = labels(names[0], columns[names[0]])
            continue
        read = partial(planned.numbers, is_flag=field in _FLAGS)
        parts = {name: faults.reading(read, name, columns[name]) for name in names}
        if field == "rewards" and planned.terms:
            arrays[key], left_open = summed(planned.terms, parts)
            widths[field] = [(told(planned.terms), 1)]
            continue
        parts |= {name: undeclared(part) for name, part in parts.items() if planned.is_part(name)}
        arrays[key] = _matrix(parts) if field in MATRIX_FIELDS else parts[names[0]]
        widths.setdefault(field, [(name, math.prod(part.shape[1:])) for name, part in parts.items()])
    faults.refuse()
    return arrays, widths, left_open


def _check_lengths(columns: Arrays) -> None:
    for name, values in columns.items():
        if values.ndim == 0:
            raise DataError(f"column {name!r}: holds {shown(values.item())}, not one value per row")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        few, many = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise DataError(
            f"columns {few!r} and {many!r} have {lengths[few]} and {amount(lengths[many], 'row')}; all must agree"
        )


def _matrix(parts: Arrays) -> npt.NDArray[Any]:
    """`[N, K]` of one column of lists, or of several columns side by side."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    deep = next((name for name, part in parts.items() if part.ndim > 2), None)
    if deep is not None:
        raise DataError(f"column {deep!r}: holds nested lists; expected flat ones")
    flat = [part[:, None] if part.ndim == 1 else part for part in parts.values()]
    dtype: np.dtype[Any] = np.dtype(np.float32)
    if any(is_coarse(part) for part in flat):  # what float32 loses is told later
        common = np.result_type(*flat)
        dtype = common if common.kind in "iu" else np.dtype(np.float64)
        lost = (name for name, part in zip(parts, flat, strict=True) if dtype.kind == "f" and is_lost_in_float64(part))
        if (name := next(lost, None)) is not None:
            raise DataError(f"column {name!r}: {LOST}")
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused with its row
        return np.concatenate([part.astype(dtype) for part in flat], axis=1)
