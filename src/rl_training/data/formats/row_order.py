"""The order of a table's rows: inside an episode each row must follow the one before it, or the episode is cut there.

A log may come in pieces, interleaved, shuffled or with rows lost. Rows are sorted where a step column says how, and
never joined where something is missing between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import IndexArray
from rl_training.data.fields import EPISODE_ENDS, EPISODE_IDS, FIELD_OF
from rl_training.data.formats.clocks import HOLE
from rl_training.data.formats.date_order import dates_in_order
from rl_training.data.formats.raw import Arrays, Files, Recorded, file_numbers, place_in, row_named
from rl_training.data.formats.repeated_ids import Again, NoEpisodeIdsError, ids_again
from rl_training.data.formats.turned_clocks import told_of, turned
from rl_training.errors import DataError
from rl_training.reading_choices import Duplicates
from rl_training.wording import WARNING, amount

_LARGEST_SHARE_OF_CUTS = 0.1  # more rows that do not follow mean that observations cannot be compared that way
_SCATTER = 0.2  # of the usual stride of a time that is no counter: of a clock that cannot tell a hole
_FAR = 20  # times as long as three quarters of the strides: a pause worth a word, where they scatter
_ENDS = ("terminations", "truncations", EPISODE_ENDS)
_DAY = 86_400  # seconds


@dataclass(frozen=True)
class Ordered:
    """Arrays in the order of time, notes on what was done, which row of the table each one was, if they moved, and the
    table's own episodes, if some were cut."""

    arrays: Arrays
    notes: tuple[str, ...] = ()
    rows: IndexArray | None = None
    recorded: Recorded | None = None


@dataclass(frozen=True)
class Steps:
    """The column that counts the rows of an episode, `[N]`, what is done where one comes twice, and how the table
    writes a row's. in_parts: integers that count parts of a second; are_dates: it holds dates; names_days: ids are made
    of them."""

    values: npt.NDArray[Any]
    name: str
    duplicates: Duplicates
    written: Callable[[int], str]
    in_parts: bool = False
    are_dates: bool = False
    names_days: bool = False

    def tell_days_alone(self) -> bool:
        """Whether they are dates that lie whole days apart."""
        return self.are_dates and not self.in_parts and not np.any(self.values % _DAY)


def in_order(
    arrays: Arrays, steps: Steps | None, files: Files = (), *, apart: bool = False, check_successors: bool
) -> Ordered:
    """The arrays with rows sorted by episode and step, cut where rows are missing.

    files: those that hold the rows, if there are several. apart: also cut where one ends, unless episodes have ids.
    check_successors: also cut where a row's stored successor is not the observation of the next row.
    """
    rows = len(next(iter(arrays.values())))
    if not rows:
        return Ordered(arrays)  # for the checks to complain about
    key = next((key for key in arrays if FIELD_OF[key] == EPISODE_IDS), None)
    notes: list[str] = []
    number = file_numbers(files) if apart and files else None
    if number is not None:
        notes += _at_borders(arrays, steps, key, number)
        if key is None and steps is None:
            arrays, key = {**arrays, EPISODE_IDS: number}, EPISODE_IDS
    episode = None if key is None else _by_appearance(arrays[key])
    if steps is not None:
        ordered = _by_step(arrays, steps, files, key, episode, number)
        return replace(ordered, notes=(*notes, *ordered.notes))
    stored = _field(arrays, "next_obs") is not None
    if episode is None and not (check_successors and stored):
        return Ordered(arrays)
    episode = np.zeros(rows, dtype=np.int64) if episode is None else episode
    order = None
    interleaved = bool((np.diff(episode) < 0).any())
    if interleaved and stored:
        order = np.argsort(episode, kind="stable")
        arrays, episode = _taken(arrays, order), episode[order]
        notes.append("episodes were interleaved: rows are brought together by episode, in the order they have in it")
    cuts = _not_following(arrays, episode) if interleaved or check_successors else np.zeros(0, dtype=np.bool_)
    comparable = interleaved or cuts.sum() <= _LARGEST_SHARE_OF_CUTS * len(cuts)
    recorded = None
    if cuts.any() and comparable:
        recorded = _as_recorded(arrays, None if key is None else arrays[key], episode, cuts)
        arrays = _cut(arrays, key, episode, cuts)
        notes.append(
            f"in {cuts.sum()} places inside an episode a row's successor is not the next row: rows are missing"
            " there, and the pieces count as episodes"
        )
    if check_successors and not (stored and comparable):
        notes.append("without a step column (t) it cannot be seen whether rows inside an episode are missing")
    return Ordered(arrays, tuple(notes), order, recorded)


def _at_borders(arrays: Arrays, steps: Steps | None, key: str | None, number: npt.NDArray[np.int64]) -> list[str]:
    """A note on what is done where one file ends and another follows. number: the file of each row, `[N]`."""
    last = np.flatnonzero(np.diff(number))
    if key is not None:
        count = int((arrays[key][last] == arrays[key][last + 1]).sum())
        told = f"in {amount(count, 'place')} an episode goes on in the next file, by its id"
        if steps is not None and steps.names_days:
            return []  # a day may well
        return [f"{told}; if ids start again in each file, give every episode its own"] if count else []
    rows = len(next(iter(arrays.values())))
    step = None if steps is None else steps.values
    if steps is not None and step is not None and steps.are_dates:
        order = np.lexsort((step, number))
        step, flags = step[order], {name: flags for name, flags in arrays.items() if FIELD_OF[name] in _ENDS}
        arrays = _taken(flags, order)
    unmarked = _inside(arrays, np.zeros(rows, dtype=np.int64))[last]
    if step is not None and step.ndim == 1:
        unmarked &= step[last + 1] > step[last]
    count = int(unmarked.sum())
    told = f"in {amount(count, 'place')} an episode is cut where its file ends"
    return [f"{told}: no column tells that it goes on in the next (columns: {{episode_ids: …}})"] if count else []


def _by_appearance(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Episodes numbered in the order in which they first appear, `[N]`."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def _by_step(
    arrays: Arrays,
    steps: Steps,
    files: Files,
    key: str | None,
    episode: npt.NDArray[np.int64] | None,
    number: npt.NDArray[np.int64] | None,
) -> Ordered:
    """number: the file of each row, `[N]`, where episodes without ids end with it."""
    step, name = steps.values, steps.name
    _require_numbers(step, name, files)
    again = ids_again(
        None if key is None else arrays[key], episode, step, _DAY if steps.are_dates and not steps.in_parts else None
    )
    several = None if episode is None else turned(step, episode)
    moved, notes = _order(arrays, steps, episode, number, files) if several is None else (several.order, [])
    if moved is not None:
        arrays, step = _taken(arrays, moved), step[moved]
        episode = None if episode is None else episode[moved]
    if several is not None and episode is not None:
        notes.append(told_of(several.begins, lambda row: _place(row, files, moved, arrays[str(key)]), name))
        episode = np.cumsum(np.r_[True, (np.diff(episode) != 0) | several.begins])
    notes += [again.note] if again.note else []
    doubled = np.asarray(step[1:] == step[:-1])  # compared, not subtracted: unsigned numbers would wrap
    if episode is None:
        begins = _changes(number, doubled)
        doubled &= ~begins
        changes = np.r_[True, ~doubled]
        restarts = np.r_[True, (step[1:] < step[:-1]) | begins][changes]  # of the first of a row of equal steps
        doubled &= ~restarts[np.cumsum(changes)[:-1] - 1]  # else episodes of one row
    else:
        doubled &= np.diff(episode) == 0
    copies = doubled & same_as_next(arrays) if doubled.any() else doubled
    if steps.duplicates == "drop" and copies.any():
        kept = np.flatnonzero(np.r_[True, ~copies])
        arrays, step, doubled = _taken(arrays, kept), step[kept], doubled[~copies]
        episode, moved = None if episode is None else episode[kept], kept if moved is None else moved[kept]
        number = None if number is None else number[kept]
        copied = int(copies.sum())
        notes.append(f"{amount(copied, 'row')} left out: {_A_COPY[copied > 1]} of the row before (duplicates: drop)")
    if episode is None:  # a flag between two rows of one step ends an episode there
        doubled = doubled & _inside(arrays, np.zeros(len(step), dtype=np.int64))
    _refuse_doubled(doubled, copies, steps, files, moved, None if key is None else arrays[key], again)
    if episode is None:
        episode = np.cumsum(np.r_[True, (step[1:] <= step[:-1]) | _changes(number, doubled)]) - 1
        if not episode.any() and all(_field(arrays, flag) is None for flag in ("terminations", EPISODE_ENDS)):
            raise DataError(
                f"column {name!r}: never starts again, and nothing else tells where episodes end;"
                f" give terminations, or episode_ids{', or say episode_each: day' * steps.are_dates}"
            )
    ids = None if key is None else arrays[key]
    gaps, note = _gaps(step, steps, _inside(arrays, episode), lambda row: _place(row, files, moved, ids))
    if note:
        notes.append(note)
    if several is not None and ids is not None:
        gaps = gaps | ((np.diff(episode) != 0) & (ids[1:] == ids[:-1]))
    recorded = _as_recorded(arrays, ids, episode, gaps) if gaps.any() else None
    if gaps.any() or (key is None and episode.any()):
        arrays = _cut(arrays, key, episode, gaps)
    return Ordered(arrays, tuple(notes), moved, recorded)


def _require_numbers(step: npt.NDArray[Any], name: str, files: Files) -> None:
    if step.ndim != 1 or not np.isfinite(step).all():
        if step.ndim != 1:
            raise DataError(f"column {name!r}: the step inside an episode must be one number")
        row = row_named(files, int(np.argmin(np.isfinite(step))))
        way = "name one that counts the rows of an episode, or their times, in every row"
        raise DataError(f"column {name!r}: no number at {row}, and the step inside an episode must be one; {way}")


def _order(
    arrays: Arrays,
    steps: Steps,
    episode: npt.NDArray[np.int64] | None,
    number: npt.NDArray[np.int64] | None,
    files: Files,
) -> tuple[IndexArray | None, list[str]]:
    """The order of rows by episode and step, or by date alone, `[N]`, where it is not theirs, and a note on it."""
    if episode is not None:
        order = np.lexsort((steps.values, episode))
        told = f"rows were not in order: they are sorted by episode and {steps.name}"
        return (order, [told]) if (np.diff(order) != 1).any() else (None, [])
    if not steps.are_dates:
        return None, _mostly_back(arrays, steps, number)
    return dates_in_order(
        steps.name,
        steps.values,
        number,
        same_as_next=lambda order: same_as_next(_taken(arrays, order)),
        place=lambda row: row_named(files, row),
    )


def _mostly_back(arrays: Arrays, steps: Steps, number: npt.NDArray[np.int64] | None) -> list[str]:
    """A warning where most rows would be episodes of their own, as the step goes back from one to the next."""
    falls = np.asarray(steps.values[1:] < steps.values[:-1])
    falls &= ~_changes(number, falls) & _inside(arrays, np.zeros(len(steps.values), dtype=np.int64))
    if 2 * falls.sum() <= len(falls):
        return []
    what = f"column {steps.name!r} goes back after {falls.sum():,} of {amount(len(steps.values), 'row')}"
    way = "if the newest row stands first, turn the order of the rows; else give episode_ids, or another step"
    return [f"{WARNING}{what}, and each such row ends an episode: {way}"]


def _changes(number: npt.NDArray[np.int64] | None, like: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """After which rows another file follows, `[N - 1]`; none where that ends nothing."""
    return np.zeros_like(like) if number is None else np.asarray(np.diff(number) != 0)


def _as_recorded(
    arrays: Arrays, ids: npt.NDArray[Any] | None, episode: npt.NDArray[np.int64], cuts: npt.NDArray[np.bool_]
) -> Recorded:
    """The file's own episodes: by their names, else counted where the step or a flag ends them."""
    counted = np.r_[0, np.cumsum(~_inside(arrays, episode))] if ids is None else ids
    return Recorded(counted, np.r_[cuts, False], ids is not None)


DROPPED = "duplicates: drop leaves"  # in what is said of rows that are copies
_A_COPY = ("it is a copy", "each is a copy")


def same_as_next(arrays: Arrays) -> npt.NDArray[np.bool_]:
    """Rows that the next one repeats in everything that is read, `[N - 1]`."""
    same = np.ones(len(next(iter(arrays.values()))) - 1, dtype=np.bool_)
    for values in arrays.values():
        table = values.reshape(len(values), -1)
        alike = table[:-1] == table[1:]
        if table.dtype.kind == "f":
            alike |= np.isnan(table[:-1]) & np.isnan(table[1:])
        same &= alike.all(axis=1)
    return same


def _refuse_doubled(
    doubled: npt.NDArray[np.bool_],
    copies: npt.NDArray[np.bool_],
    steps: Steps,
    files: Files,
    moved: IndexArray | None,
    ids: npt.NDArray[Any] | None,
    taken_again: Again,
) -> None:
    """`doubled`: after which rows the same step of the same episode comes again, `[N - 1]`, `copies` of them, where
    they are still there, with a row that is the same throughout; `moved`: their rows in the table."""
    count = int(doubled.sum())
    if not count:
        return
    row = int(np.argmax(doubled))
    first, again = (row, row + 1) if moved is None else sorted(moved[row : row + 2].tolist())
    which = "one episode" if ids is None else f"the episode named {ids[row]}"
    what = f"column {steps.name!r}: {steps.written(first)} occurs twice in {which}, at {_rows(files, first, again)}"
    what += f", and {count - 1:,} more do so" if count > 1 else ""
    if taken_again.refusal:
        raise NoEpisodeIdsError(f"{what}; {taken_again.refusal}")
    if 2 * count >= len(doubled) and steps.tell_days_alone():
        way = "export it with the time of day, or leave out columns.step where rows stand in the order of time"
        raise DataError(f"{what}: it tells the day, but not the time, so that rows of a day are not told apart; {way}")
    same = 0 if steps.duplicates == "drop" else int((doubled & copies).sum())
    if same == count:
        said = "the row is an exact copy" if count == 1 else f"all {count:,} rows are exact copies"
        raise DataError(f"{what}; {said}: {DROPPED} {'it' if count == 1 else 'them'} out")
    some = f"; {DROPPED} out the {same:,} that are exact copies" if same else ""
    ways = "the two rows differ: remove one" if count == 1 else f"{count - same:,} differ: remove one of the two rows"
    if steps.are_dates and again - first > 1:
        ways = f"where a clock was put back, as summer time ends, write dates with their zone (…+02:00); else {ways}"
    raise DataError(f"{what}{some}; {ways}")


def _gaps(
    step: npt.NDArray[Any], steps: Steps, inside: npt.NDArray[np.bool_], place: Callable[[int], str]
) -> tuple[npt.NDArray[np.bool_], str | None]:
    """After which rows steps are missing, `[N - 1]`: where the stride is too long for the usual one."""
    none, name = np.zeros_like(inside), steps.name
    if not inside.any():
        return none, None
    strides, is_float = _strides(step).astype(np.float64), step.dtype.kind == "f"
    is_whole = bool((step == np.round(step)).all()) if is_float else not steps.in_parts
    resolution = 2 * np.spacing(np.abs(step).max()) if is_float and not is_whole else 0.0
    usual = np.median(strides[inside])
    # Missing rows only lengthen strides, and few of them: anything else is a clock that scatters.
    low, high = np.percentile(strides[inside], [10, 75])
    uneven = low < (1 - _SCATTER) * usual - resolution or high > HOLE * usual + resolution
    odd = inside & (np.abs(strides - usual) > _SCATTER * usual + resolution)
    if is_whole:
        values, counts = np.unique(strides[inside], return_counts=True)
        commonest = values[np.argmax(counts)]
        odd = inside & (strides != commonest)
        if 2 * counts.max() >= counts.sum():  # however many are missing
            usual, uneven = commonest, False
    if uneven:
        what = f"column {name!r} is not evenly spaced (first after {place(int(np.argmax(odd)))})"
        told = f"{what}: it tells the order of rows, but not whether any is missing"
        if (pauses := inside & (strides > _FAR * high)).any():
            told += f"; {_places(pauses, 'it pauses', place)}: what begins behind needs an id of its own, if it is new"
        return none, told
    gaps = inside & (strides > HOLE * usual + resolution)
    where = _places(gaps, f"column {name!r} skips", place)
    return gaps, f"{where}: rows are missing there, and the pieces count as episodes" if gaps.any() else None


def _places(those: npt.NDArray[np.bool_], what: str, place: Callable[[int], str]) -> str:
    many = int(those.sum())
    return f"{what} in {amount(many, 'place')}, {'first ' * (many > 1)}after {place(int(np.argmax(those)))}"


def _strides(step: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """From row to row, `[N - 1]`: exact wherever a step is not below the one before, as unsigned numbers of 64 bits
    hold every distance between two integers."""
    return np.diff(step.astype(np.float64 if step.dtype.kind == "f" else np.uint64))


def _rows(files: Files, first: int, second: int) -> str:
    """`rows 3 and 4`, of one file or of two."""
    (one, file), (other, beside) = place_in(files, first), place_in(files, second)
    if file != beside:
        return f"row {one} of {file} and row {other} of {beside}"
    return f"rows {one} and {other}" + ("" if file is None else f" of {file}")


def _place(row: int, files: Files, rows: IndexArray | None, ids: npt.NDArray[Any] | None) -> str:
    """A row as the table counts it, with the name its episode has there."""
    place, file = place_in(files, row if rows is None else int(rows[row]))
    told = f"row {place:,}" + ("" if file is None else f" of {file}")
    return told if ids is None else f"{told} (episode named {ids[row]})"


def _not_following(arrays: Arrays, episode: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """After which rows of an episode the next one is not the stored successor, `[N - 1]`."""
    obs, successor = _field(arrays, "obs"), _field(arrays, "next_obs")
    inside = _inside(arrays, episode)
    if obs is None or successor is None or obs.shape != successor.shape:
        return np.zeros_like(inside)
    differs = (successor[:-1] != obs[1:]).reshape(len(inside), -1).any(axis=1)
    return np.asarray(inside & differs)


def _inside(arrays: Arrays, episode: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """After which rows the same episode should go on, `[N - 1]`: no other one begins, and no flag ends it."""
    inside = np.asarray(np.diff(episode) == 0)
    for name, flags in arrays.items():
        if FIELD_OF[name] in _ENDS and flags.ndim == 1:
            inside = np.logical_and(inside, flags[:-1] == 0)
    return inside


def _cut(arrays: Arrays, key: str | None, episode: npt.NDArray[np.int64], cuts: npt.NDArray[np.bool_]) -> Arrays:
    """The arrays with every piece numbered as an episode of its own."""
    pieces = np.r_[0, np.cumsum((np.diff(episode) != 0) | cuts)]
    return {**{name: values for name, values in arrays.items() if name != key}, EPISODE_IDS: pieces}


def _field(arrays: Arrays, field: str) -> npt.NDArray[Any] | None:
    return next((values for name, values in arrays.items() if FIELD_OF[name] == field), None)


def _taken(arrays: Arrays, order: npt.NDArray[np.int64]) -> Arrays:
    return {name: values[order] for name, values in arrays.items()}
