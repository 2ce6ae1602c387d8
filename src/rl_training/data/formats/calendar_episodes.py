"""What the dates of a table's step column are read for: episodes by the calendar, and the time as an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_IDS, FIELD_OF
from rl_training.data.formats.clocks import DATES, HOLE, Clock, as_date, usual_stride
from rl_training.data.formats.raw import Arrays, Files, RawData, row_named
from rl_training.data.formats.row_order import same_as_next
from rl_training.data.resolution import LOST, is_lost_in_float64
from rl_training.errors import DataError
from rl_training.reading_choices import EpisodeEach, Period, TableChoices
from rl_training.time_features import Seconds, advanced, features, names_of

_DAY, _HOUR = 86_400, 3_600
_UNITS = {"hour": "h", "day": "D", "month": "M"}
_TURNS = (3, 4, 9, 10, 11)  # months in which summer time ends somewhere
_MONDAY = np.datetime64("1969-12-29", "D")
_SPOKEN = {"hour": "an hour", "day": "a day", "week": "a week", "month": "a month"}


def require_dates(clock: Clock | None, choices: TableChoices) -> None:
    """Refuse what needs dates where there are none."""
    said = [name for name in ("episode_each", "observe_time") if getattr(choices, name)]
    if said and clock is None:
        raise DataError(f"{said[0]}: needs a column with the date and time of each row, columns: {{step: …}}")
    if said and clock is not None and clock.wall is None:
        why = f"column {clock.column!r} holds no dates; name one that does ({DATES}), columns: {{step: …}}"
        raise DataError(f"{said[0]}: {why}")


def with_days(arrays: Arrays, clock: Clock, each: EpisodeEach, files: Files) -> tuple[Arrays, list[str]]:
    """The arrays with the hour, day, week or month of each row in its id, and notes on a clock that goes back."""
    assert clock.wall is not None
    key = next((key for key in arrays if FIELD_OF[key] == EPISODE_IDS), None)
    begun = _begun(clock.wall, each)
    titles = _titles(begun, each)
    rest = {name: values for name, values in arrays.items() if name != key}
    if key is not None:
        ids = [f"{name}, {title}" for name, title in zip(arrays[key].tolist(), titles.tolist(), strict=True)]
        return {**rest, EPISODE_IDS: np.array(ids, dtype=np.str_)}, []
    back = (np.diff(clock.at) < 0) | _comes_again(arrays, clock)
    if not back.any() or len(np.unique(clock.at)) == len(clock.at):
        return {**rest, EPISODE_IDS: titles}, []  # out of order at most, which the steps show
    times = _times(np.r_[0, np.cumsum(back)], begun).tolist()
    named = [f"{title} ({n + 1})" if n else title for title, n in zip(titles.tolist(), times, strict=True)]
    turned = np.flatnonzero(back & (np.diff(clock.at) >= -_HOUR))
    notes = []
    if turned.size:
        hour = f"the clock goes back by up to an hour after {row_named(files, int(turned[0]))}, as summer time ends"
        notes.append(f"{hour}: the {each} is cut there; dates with their zone (…+02:00) would keep it whole")
    return {**rest, EPISODE_IDS: np.array(named, dtype=np.str_)}, notes


def _comes_again(arrays: Arrays, clock: Clock) -> npt.NDArray[np.bool_]:
    """After which rows of an hourly log the same hour comes again, and no copy of it, in a night in which summer time
    may end, `[N - 1]`."""
    assert clock.wall is not None
    same = np.asarray(np.diff(clock.at) == 0)
    if not same.any() or usual_stride(clock.at, ~same) != _HOUR:
        return np.zeros_like(same)
    wall = clock.wall[:-1]
    is_night = (wall % _DAY < 4 * _HOUR) & ((wall // _DAY + 4) % 7 == 0)  # of a Sunday
    month = wall.astype(np.int64).astype("datetime64[s]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    return np.asarray(same & is_night & np.isin(month, _TURNS) & ~same_as_next(arrays))


def _times(again: npt.NDArray[np.int64], begun: Seconds) -> npt.NDArray[np.int64]:
    """How often the clock had come to this day, or whatever it is, before, `[N]`."""
    pairs, which = np.unique(np.stack([begun, again.astype(np.float64)]), axis=1, return_inverse=True)
    first = np.r_[True, np.diff(pairs[0]) != 0]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    return np.asarray((np.arange(len(first)) - starts)[which.reshape(-1)])


def _begun(wall: Seconds, each: EpisodeEach) -> Seconds:
    """When the hour, day, week or month of each row began, `[N]`."""
    if each == "week":
        monday = (_MONDAY - np.datetime64(0, "D")).astype(np.float64) * _DAY
        return np.asarray(wall - (wall - monday) % (7 * _DAY))
    moments = np.floor(wall).astype(np.int64).astype("datetime64[s]").astype(f"datetime64[{_UNITS[each]}]")
    return np.asarray(moments.astype("datetime64[s]").astype(np.float64))


def _over(begun: Seconds, each: EpisodeEach) -> Seconds:
    """When what began so is over, `[N]`."""
    if each != "month":
        return begun + {"hour": _HOUR, "day": _DAY, "week": 7 * _DAY}[each]
    months = begun.astype(np.int64).astype("datetime64[s]").astype("datetime64[M]") + 1
    return np.asarray(months.astype("datetime64[s]").astype(np.float64))


def _titles(begun: Seconds, each: EpisodeEach) -> npt.NDArray[np.str_]:
    """What an episode is called: `2025-03-01`, `week of 2025-02-24`, `2025-03`, `2025-03-01 08:00`."""
    found, which = np.unique(begun, return_inverse=True)
    length = {"hour": 16, "day": 10, "week": 10, "month": 7}[each]
    titles = [("week of " if each == "week" else "") + as_date(start)[:length] for start in found.tolist()]
    return np.array(titles, dtype=np.str_)[which.reshape(-1)]


def with_open_ends(raw: RawData, each: EpisodeEach, ids: npt.NDArray[np.generic] | None) -> RawData:
    """With the rows that end an episode before the hour, day, week or month is over, and a note on the first and the
    last episode where they are parts. ids: of the table's own episodes, by its rows."""
    clock = raw.clock
    rows = len(raw.arrays[EPISODE_IDS])
    if clock is None or clock.wall is None or not rows:
        return raw
    place = raw.in_table(np.arange(rows))
    wall, named = clock.wall[place], raw.arrays[EPISODE_IDS]
    ends = np.r_[named[1:] != named[:-1], True]
    stride = usual_stride(clock.at[place], ~ends[:-1])
    if ends.all() and rows > 1:
        apart = f"rows are {_SPOKEN[each]} or more apart, so that every episode would have a single row"
        raise DataError(f"episode_each: {each}: {apart}; choose a longer one, or leave it out")
    begun = _begun(wall, each)
    short = ends & (wall + HOLE * stride < _over(begun, each))
    if ids is not None:  # where a given episode ends in time, it ends
        given = np.unique(ids[place], return_inverse=True)[1].reshape(-1)
        in_time = np.lexsort((clock.at[place], given))
        short[in_time[np.r_[np.diff(given[in_time]) != 0, True]]] = False
    parts = []
    if wall[0] - begun[0] > HOLE * stride:
        parts.append(f"the first begins at {as_date(wall[0])}")
    if short[-1]:
        parts.append(f"the last stops at {as_date(wall[-1])}")
    note = f"of the episodes by {each}, {' and '.join(parts)}: part of {_SPOKEN[each]}, as the log has no more"
    notes = (*raw.notes, note) if parts else raw.notes
    return replace(raw, clock=replace(clock, open_ends=place[np.flatnonzero(short)]), notes=notes)


def with_observed_time(raw: RawData, choices: TableChoices) -> RawData:
    """With sine and cosine of the time behind the observations, and their successors where these are stored."""
    clock, periods = raw.clock, choices.observe_time
    if not periods or clock is None or clock.wall is None:
        return raw
    names = names_of(periods)
    keys = {field: key for key in raw.arrays if (field := FIELD_OF[key]) in ("obs", "next_obs")}
    if twice := [name for name, _ in raw.columns.get("obs", ()) if name in names]:
        raise DataError(f"observe_time: obs have a column {twice[0]!r} already; leave out one of the two")
    rows = len(raw.arrays[keys["obs"]])
    now = features(clock.wall[raw.in_table(np.arange(rows))], periods)
    arrays = {**raw.arrays, keys["obs"]: _beside(raw.arrays[keys["obs"]], now)}
    if "next_obs" in keys:
        arrays[keys["next_obs"]] = _beside(raw.arrays[keys["next_obs"]], _following(raw, now, choices))
    columns = {field: [*raw.columns.get(field, ()), *((name, 1) for name in names)] for field in keys}
    told = dict.fromkeys(names, clock.column)
    return replace(raw, arrays=arrays, columns={**raw.columns, **columns}, time_columns=told)


def _following(raw: RawData, now: npt.NDArray[np.float64], choices: TableChoices) -> npt.NDArray[np.float64]:
    """The time of each row's successor: that of the next row of its episode, else a usual stride later."""
    later = advanced(now, choices.observe_time, stride_of(raw))
    inside = goes_on(raw)
    later[:-1][inside] = now[1:][inside]
    return later


def days_of(raw: RawData, rows: int) -> npt.NDArray[np.int64] | None:
    """The day of each row of the arrays, counted, `[N]`; none where steps are no dates."""
    if raw.clock is None or raw.clock.wall is None:
        return None
    return np.asarray(raw.clock.wall[raw.in_table(np.arange(rows))] // _DAY, dtype=np.int64)


def goes_on(raw: RawData, *, flags: bool = True) -> npt.NDArray[np.bool_]:
    """After which rows of the arrays their episode goes on, `[N - 1]`, by its id and by flags, if these count."""
    rows = len(next(iter(raw.arrays.values())))
    inside = np.ones(max(0, rows - 1), dtype=np.bool_)
    for name, values in raw.arrays.items():
        if FIELD_OF.get(name) == EPISODE_IDS:
            inside &= values[1:] == values[:-1]
        elif flags and FIELD_OF.get(name) in ("terminations", "truncations", "episode_terminals") and values.ndim == 1:
            inside &= values[:-1] == 0
    return inside


def stride_of(raw: RawData) -> float:
    """From row to row of an episode, as is usual, in the unit of the steps; 0 where there are none."""
    if raw.clock is None or not raw.arrays:
        return 0.0
    inside = goes_on(raw)
    return usual_stride(raw.clock.at[raw.in_table(np.arange(len(inside) + 1))], inside)


def _beside(matrix: npt.NDArray[np.generic], now: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    flat = matrix.reshape(len(matrix), -1)
    if is_lost_in_float64(flat):
        raise DataError(f"obs: {LOST}")
    kind = flat.dtype if flat.dtype.kind == "f" else np.dtype(np.float64)
    return np.concatenate([flat.astype(kind), now.astype(kind)], axis=1)


def with_time_after_ends(
    raw: RawData, obs: npt.NDArray[np.float32], next_obs: npt.NDArray[np.float32], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Successors taken from the next rows, `[N, O]`, with the observed time a usual stride later behind last rows,
    where there is no next one."""
    if raw.clock is None or not raw.time_columns:
        return next_obs
    periods = [period for period in get_args(Period) if f"sin_{period}" in raw.time_columns]
    order = list(raw.time_columns)
    periods.sort(key=lambda period: order.index(f"sin_{period}"))
    made = next_obs.copy()
    made[ends, -len(order) :] = advanced(obs[ends, -len(order) :], periods, stride_of(raw))
    return made
