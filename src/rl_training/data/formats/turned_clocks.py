"""Episodes whose steps go back into a time that rows before cover: sorting would put the rows of two logs between each
other, as where summer time ends, a clock is put back or an id is given to a second run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import BoolArray, IndexArray
from rl_training.wording import WARNING, amount

# Of a row or a stretch that was moved, steps in their order change three times from one stretch of the file to another,
# for each place where the file goes back. Logs of one time that stand one after the other change with every row.
CHANGES = 3
_FEWEST = 10  # strides: fewer may be even by chance
_MORE_EVEN = 0.5  # of the deviation of strides in the order of steps: at most that of the file's own, of several logs
_UNEVEN = 0.4  # of their mean: at least the deviation of strides in the order of steps, which no jitter comes to
_LONG = 2  # usual strides: as which a longer one counts, be it a pause or a hole

Floats = npt.NDArray[np.float64]


class Turned(NamedTuple):
    """The order of rows, `[N]`, in which episodes that hold several logs keep the file's own, and after which rows in
    that order another log of the same episode begins, `[N - 1]`."""

    order: IndexArray
    begins: BoolArray


def turned(steps: npt.NDArray[Any], episode: npt.NDArray[np.int64]) -> Turned | None:
    """What is to be done where episodes hold several logs; none where none does.

    Of the strides that sorting takes apart and those that it makes instead, the first are much more even: of the parts
    of one log, in whatever order they were written, none is more even than the whole. Events without any beat do not
    tell, nor do steps that come twice: these are sorted."""
    as_written = np.argsort(episode, kind="stable")
    whose = episode[as_written]
    inside = whose[1:] == whose[:-1]
    falls = inside & (steps[as_written][1:] < steps[as_written][:-1])
    if not falls.any():
        return None
    by_step = np.lexsort((steps, episode))
    in_file, in_time = np.empty_like(by_step), np.empty_like(by_step)
    in_file[as_written] = np.arange(len(by_step))
    at = in_file[by_step]
    in_time[at] = np.arange(len(by_step))
    stretch = np.cumsum(np.r_[False, falls])[at]
    made = inside & (stretch[1:] != stretch[:-1])
    taken_apart = inside & ~falls & (np.diff(in_time) != 1)
    many, of, times = int(whose[-1]) + 1, whose[1:], steps.astype(np.float64)
    file_strides, strides = np.diff(times[as_written]), np.diff(times[by_step])
    twice, back, changes = (np.bincount(of[which], minlength=many) for which in (inside & (strides == 0), falls, made))
    may = (twice == 0) & (changes > CHANGES * back)
    usual = _medians(file_strides[taken_apart], of[taken_apart], many)
    file_count, _, own = _spread(file_strides[taken_apart], of[taken_apart], usual)
    _, mean, sorted_ = _spread(strides[made], of[made], usual)
    several = may & (file_count >= _FEWEST) & (own < _MORE_EVEN * sorted_) & (sorted_ > _UNEVEN * mean)
    if not several.any() or 2 * several.sum() < may.sum():  # a few of many are so by chance
        return None
    order = np.where(several[whose], as_written, by_step)
    return Turned(order, falls & several[of])


def _spread(strides: Floats, of: IndexArray, usual: Floats) -> tuple[IndexArray, Floats, Floats]:
    """How many there are in each episode, their mean, and how far they are from their median on average."""
    many = len(usual)
    shortened = np.minimum(strides, _LONG * usual[of])
    count = np.bincount(of, minlength=many)
    each = np.maximum(count, 1)
    far = np.abs(shortened - _medians(shortened, of, many)[of])
    return count, np.bincount(of, shortened, many) / each, np.bincount(of, far, many) / each


def _medians(strides: Floats, of: IndexArray, many: int) -> Floats:
    """Of each episode; 0 where there is none."""
    count = np.bincount(of, minlength=many)
    first = np.cumsum(count) - count
    ranked = np.append(strides[np.lexsort((strides, of))], 0.0)
    low, high = first + np.maximum(count - 1, 0) // 2, first + count // 2
    return np.where(count > 0, (ranked[low] + ranked[high]) / 2, 0.0)


def told_of(begins: BoolArray, place: Callable[[int], str], name: str) -> str:
    """A warning of episodes that hold several logs; they are cut where another one begins."""
    many = int(begins.sum())
    where = f"in {amount(many, 'place')}, {'first ' * (many > 1)}after {place(int(np.argmax(begins)))}"
    why = "as where summer time ends, a clock is put back or an id is given twice"
    told = f"column {name!r} goes back {where}, into a time that rows of the episode cover, {why}: it is cut there"
    return f"{WARNING}{told}; if it is one log, sort its rows by {name!r}, else give every log an id of its own"
