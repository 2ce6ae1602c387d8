"""The column that counts a table's rows: which one it is, where none is named, and what its cells tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_IDS, FIELD_OF, STEP
from rl_training.data.formats.clocks import Clock, as_date, clock_of, counted
from rl_training.data.formats.digit_dates import note_on_digits
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.field_columns import plain
from rl_training.data.formats.raw import Arrays
from rl_training.data.formats.row_order import Steps
from rl_training.data.formats.times import steps_of
from rl_training.reading_choices import TableChoices
from rl_training.validation import printable
from rl_training.wording import WARNING, amount
from rl_training.yaml_dialect import proposed

_NAMES = ("step", "t")
_DAY = 86_400  # seconds
Ids: TypeAlias = Callable[[], npt.NDArray[Any] | None]  # of the rows' episodes, `[N]`, where a column tells them


class Counted(NamedTuple):
    """What a column of steps tells. numbers: its cells as such, `[N]`."""

    clock: Clock
    steps: Steps
    numbers: npt.NDArray[Any]
    notes: list[str]


def step_among(names: Sequence[str]) -> str | None:
    """The column that is called like one."""
    return next((name for name in names if plain(name) in _NAMES), None)


def may_count(name: str, cells: npt.NDArray[Any], ids_of_rows: Ids) -> bool:
    """Whether a column that nobody named as the step may be it: a `T` that goes back inside an episode is a
    temperature, unless it is whole numbers that count once they are sorted."""
    if plain(name) != "t" or cells.dtype.kind not in "iuf" or cells.ndim != 1:
        return True
    ids = ids_of_rows()
    if ids is None or not _falls(cells, ids)[1].any():
        return True
    episode = np.unique(ids, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((cells, episode))
    strides = np.diff(cells[order])[np.diff(episode[order]) == 0]
    most = int(np.unique(strides, return_counts=True)[1].max())
    return bool((cells == np.round(cells)).all() and 2 * most >= len(strides))


def not_the_step(name: str) -> str:
    """What is said of such a one."""
    return (
        f"{WARNING}column {name!r} goes back inside episodes, and is not taken for the time: rows stay in the file's"
        f" order; if they are to be sorted by it, say so, columns: {proposed(STEP, name)}"
    )


def count_rows(
    name: str,
    cells: npt.NDArray[Any],
    ids_of_rows: Ids,
    choices: TableChoices,
    written: Callable[[str, int], str] | None,
) -> Counted:
    """The rows as a column counts them. written: gives the cell of a row as its file has
    it, where the values are no longer that."""
    read, notes = _over_midnight(name, steps_of(name, cells), ids_of_rows)
    clock = clock_of(name, read)
    digits = note_on_digits(name, cells, read, _as_text(cells[0]) if len(cells) else "")
    numbers = cells if digits else clock.at if read.dtype.names else read
    values, in_parts = counted(name, read)
    shown_as = written or (lambda _, row: _as_text(cells[row]))
    dated, by_day = clock.wall is not None, choices.episode_each is not None
    steps = Steps(values, name, choices.duplicates, lambda row: shown_as(name, row), in_parts, dated, by_day)
    return Counted(clock, steps, numbers, [*digits, *notes])


def episodes_told(
    arrays: Arrays, ids: npt.NDArray[Any] | None, steps: Steps | None, number: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[Any] | None, bool]:
    """The episodes of the rows as far as they are told before any flag, `[N]`: by ids, the calendar, files or a step
    that starts again; and whether names of the table's own tell them. number: the file of each row, if episodes end
    with it."""
    if ids is not None or steps is None:
        return (number if ids is None else ids), True
    by_calendar = next((values for key, values in arrays.items() if FIELD_OF[key] == EPISODE_IDS), None)
    if by_calendar is not None or steps.values.ndim != 1:
        return by_calendar, False
    begins = np.zeros(len(steps.values) - 1, dtype=np.bool_) if number is None else np.diff(number) != 0
    if not steps.are_dates:  # which never start again
        begins = begins | (steps.values[1:] < steps.values[:-1])
    return (np.cumsum(np.r_[0, begins]) if begins.any() else None), False


def _over_midnight(name: str, read: npt.NDArray[Any], ids_of_rows: Ids) -> tuple[npt.NDArray[Any], list[str]]:
    """Times of a day, with a day more after the one place where those of an episode fall by most of a day, as they
    stand: its rows would else be turned round."""
    is_of_day = bool(read.dtype.names) and len(read) > 0 and not read["dated"].any()
    ids = ids_of_rows() if is_of_day else None
    if ids is None:
        return read, []
    order, falls = _falls(read["second"], ids)
    episode = np.unique(ids, return_inverse=True)[1].reshape(-1)[order]
    count = np.bincount(episode[1:], weights=falls)
    far = np.diff(read["second"][order]) < -_DAY // 2
    once = falls & far & (count[episode[1:]] == 1)
    if not once.any():
        return read, []
    before = np.cumsum(np.r_[False, once])
    starts = np.maximum.accumulate(np.where(np.r_[True, np.diff(episode) != 0], np.arange(len(order)), 0))
    later = read.copy()
    later["second"][order] += _DAY * (before - before[starts])
    told = f"in {amount(int(once.sum()), 'episode')} the time goes past midnight: a day is added there"
    return later, [f"column {name!r}: {told}"]


def _falls(values: npt.NDArray[Any], ids: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The rows by episode, in the order in which they stand, `[N]`, and after which of these the next one of the same
    episode is not above it, `[N - 1]`."""
    episode = np.unique(ids, return_inverse=True)[1].reshape(-1)
    order = np.argsort(episode, kind="stable")
    inside = np.diff(episode[order]) == 0
    given = values[order]
    return order, np.asarray(inside & ~(given[1:] >= given[:-1]))


def _as_text(cell: Any) -> str:
    if isinstance(cell, np.void):
        return as_date(cell["wall"])
    return text_of(cell) if isinstance(cell, float | np.floating) else printable(str(cell))
