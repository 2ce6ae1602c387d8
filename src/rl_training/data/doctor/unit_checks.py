"""Columns that some episodes have in another unit than the others: mbar among bar, °F among °C, 0–1 among per cent.

Another unit moves the values of an episode and how far they vary in it by one and the same known factor, closely; a
process that ran elsewhere for a while, or another product, hardly ever does. A factor of ten is left alone: two
products or seasons may well be that far apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import capital, column_in_words, number
from rl_training.wording import amount

_LEAST_EPISODES, _FEWEST = 6, 2  # in all, and on either side
_MOST_EPISODES, _MOST_ROWS = 1_000, 500  # that are looked at, and of each
_POWERS = range(2, 7)
_NEAR, _NEAR_OFFSET = 0.1, 0.05  # powers of ten
_NEAR_LEVEL = 3.0  # °C
_ALONE = 3.0  # times the largest of the other steps: a step that happens once
_MOST_TOLD = 3  # columns

Vector = npt.NDArray[np.float64]


class _Offset(NamedTuple):
    """Units that differ by more than a factor."""

    scale: float
    zero: float
    what: str


_OFFSETS = (_Offset(1.8, 32.0, "°F do beside °C"), _Offset(1.0, 273.15, "kelvins do beside °C"))


def check_units(subject: Subject) -> Iterator[Finding]:
    """A warning for each column of the observations and actions that looks like two units."""
    if not subject.whole_episodes or len(subject.ends) < _LEAST_EPISODES:
        return
    told = 0
    episodes = np.unique(np.linspace(0, len(subject.ends) - 1, _MOST_EPISODES).astype(np.int64))
    for field, values, names in (
        ("obs", subject.obs, subject.obs_names),
        ("actions", subject.actions, subject.action_names),
    ):
        if values is None:
            continue
        middle, spread = _by_episode(subject, values, episodes)
        for column in range(values.shape[1]):
            found = _two_units(middle[:, column], spread[:, column]) or _changed_inside(
                subject, values[:, column], episodes, middle[:, column], spread[:, column]
            )
            if found is None or (told := told + 1) > _MOST_TOLD:
                continue
            yield _finding(subject, field, column_in_words(column, names), column, episodes, *found)


def _finding(
    subject: Subject,
    field: str,
    name: str,
    column: int,
    episodes: npt.NDArray[np.int64],
    other: npt.NDArray[np.bool_],
    how: str,
    row: int | None = None,
) -> Finding:
    """other: which of the episodes have the other unit. row: the first, if it is not the first of an episode."""
    first, count = int(np.argmax(other)), int(other.sum())
    whole = len(episodes) == len(subject.ends)
    which = "the last " * bool(other[first:].all() and whole)
    where = f"in {which}{count:,} of {amount(len(other), 'episode')}" + (" looked at" * (not whole))
    what = f"{capital(name)}: {where} {how}: another unit?"
    advice = "Bring all episodes to one unit, or leave those out: a policy takes the numbers as they are."
    place = subject.place(int(subject.starts[episodes[first]]) if row is None else row, column)
    return Finding("warning", f"{field}.units", field, what, advice, count, place)


def _by_episode(subject: Subject, values: FloatArray, episodes: npt.NDArray[np.int64]) -> tuple[Vector, Vector]:
    """The median of every column in each of these episodes, and how far it varies around it, `[E, K]` each."""
    middle = np.empty((len(episodes), values.shape[1]))
    spread = np.empty_like(middle)
    for place, episode in enumerate(episodes.tolist()):
        stride = max(1, int(subject.lengths[episode]) // _MOST_ROWS)
        rows = values[subject.starts[episode] : subject.ends[episode] + 1 : stride].astype(np.float64)
        middle[place] = np.median(rows, axis=0)
        spread[place] = np.abs(rows - middle[place]).mean(axis=0)
    return middle, spread


def _two_units(middle: Vector, spread: Vector) -> tuple[npt.NDArray[np.bool_], str] | None:
    """Which episodes, `[E]`, have a column in another unit, the fewer or the later ones, and how they differ."""
    if not (np.isfinite(middle).all() and np.isfinite(spread).all() and (spread > 0).any()):
        return None
    if (middle > 0).all() and (high := _upper(np.log10(middle))) is not None:
        level, varies = (np.log10(_ratio(values, high)) for values in (middle, spread))
        for power in _POWERS:
            if abs(level - power) <= _NEAR and abs(varies - power) <= _NEAR:
                other = _other(high)
                way = "larger" if other[high].all() else "smaller"
                return other, f"values, and how far they vary, are about {number(10.0**power)} times {way}"
    if (high := _upper(middle)) is not None:
        for unit in _OFFSETS:
            apart = float(np.median((middle[high] - unit.zero) / unit.scale) - np.median(middle[~high]))
            if abs(apart) <= _NEAR_LEVEL and abs(np.log10(_ratio(spread, high) / unit.scale)) <= _NEAR_OFFSET:
                return _other(high), f"values lie, and vary, as {unit.what}"
    return None


def _changed_inside(
    subject: Subject, values: FloatArray, episodes: npt.NDArray[np.int64], middle: Vector, spread: Vector
) -> tuple[npt.NDArray[np.bool_], str, int] | None:
    """The same, with the first row, of a unit that changed once, inside an episode, where levels of episodes differ too
    much to leave a gap: by far the largest step goes to what the value before is in the other unit, and levels and
    spreads agree."""
    if not subject.inner.size or not (np.isfinite(middle).all() and np.isfinite(spread).all()):
        return None
    steps = np.abs(values[subject.inner + 1].astype(np.float64) - values[subject.inner])
    place = int(np.argmax(steps))
    usual = float(np.delete(steps, place).max(initial=0.0))
    row = int(subject.inner[place])
    own = int(np.searchsorted(subject.ends, row))
    before, after = episodes < own, episodes > own
    if steps[place] <= _ALONE * usual or min(before.sum(), after.sum()) < _LEAST_EPISODES // 2:
        return None
    last, first = float(values[row]), float(values[row + 1])
    for unit in _OFFSETS:
        for low, high, lower, upper in ((before, after, last, first), (after, before, first, last)):
            levels = (np.median((middle[high] - unit.zero) / unit.scale), np.median(middle[low]))
            ratio = max(float(np.median(spread[high])), 1e-30) / max(float(np.median(spread[low])), 1e-30)
            alike = abs(levels[0] - levels[1]) <= _NEAR_LEVEL and abs(np.log10(ratio / unit.scale)) <= _NEAR_OFFSET
            if alike and abs(lower * unit.scale + unit.zero - upper) <= max(usual, 1e-6):
                return np.asarray(episodes >= own), f"values lie, and vary, as {unit.what}", row + 1
    return None


def _upper(levels: Vector) -> npt.NDArray[np.bool_] | None:
    """Which episodes lie above the widest gap, where that is wider than what is on either side of it."""
    ordered = np.sort(levels)
    gaps = np.diff(ordered)
    place = int(np.argmax(gaps))
    low, high = ordered[: place + 1], ordered[place + 1 :]
    if min(len(low), len(high)) < _FEWEST or gaps[place] <= max(np.ptp(low), np.ptp(high)):
        return None
    return np.asarray(levels > low[-1])


def _ratio(values: Vector, high: npt.NDArray[np.bool_]) -> float:
    """Of the medians above and below; vanishing where there is nothing to compare."""
    return max(float(np.median(values[high])), 1e-30) / max(float(np.median(values[~high])), 1e-30)


def _other(high: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The episodes that differ from the usual: the fewer, or those that do not begin the data where none are fewer."""
    fewer = 2 * int(high.sum()) < len(high) or (2 * int(high.sum()) == len(high) and not high[0])
    later = int(np.count_nonzero(np.diff(high))) == 1
    return np.asarray(high != high[0]) if later else np.asarray(high if fewer else ~high)
