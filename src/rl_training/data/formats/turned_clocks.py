"""Episodes whose steps go back into a time that rows before cover: sorting would put the rows of two logs between each
other, as where summer time ends, a clock is put back or an id is given to a second run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import IndexArray
from rl_training.data.formats.clocks import HOLE
from rl_training.wording import amount

# Of a row or a stretch that was moved, steps in their order change three times from one stretch of the file to another,
# for each place where the file goes back. Logs of one time that stand one after the other change with every row.
CHANGES = 3


class Turned(NamedTuple):
    """The order of rows, `[N]`, in which episodes that hold several logs keep the file's own, and after which rows in
    that order another log of the same episode begins, `[N - 1]`."""

    order: IndexArray
    begins: npt.NDArray[np.bool_]


def turned(steps: npt.NDArray[Any], episode: npt.NDArray[np.int64]) -> Turned | None:
    """What is to be done where episodes hold several logs; none where none does. Steps that come twice, and steps that
    are evenly spaced in their order, tell of something else."""
    as_written = np.argsort(episode, kind="stable")
    whose = episode[as_written]
    inside = whose[1:] == whose[:-1]
    falls = inside & (steps[as_written][1:] < steps[as_written][:-1])
    if not falls.any():
        return None
    by_step = np.lexsort((steps, episode))
    place = np.empty_like(by_step)
    place[as_written] = np.arange(len(by_step))
    stretch = np.cumsum(np.r_[False, falls])[place[by_step]]
    strides = np.diff(steps[by_step].astype(np.float64))

    def count(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        return np.bincount(whose[1:], which.astype(np.float64), int(whose[-1]) + 1).astype(np.float64)

    back, changes = count(falls), count(inside & (stretch[1:] != stretch[:-1]))
    shortest = np.full(len(back), np.inf)
    longest = np.zeros(len(back))
    np.minimum.at(shortest, whose[1:][inside], strides[inside])
    np.maximum.at(longest, whose[1:][inside], strides[inside])
    may = (back > 0) & (shortest > 0) & (longest > HOLE * shortest)
    several = may & (changes > CHANGES * back)
    if changes[may].sum() <= CHANGES * back[may].sum() or not several.any():  # rows that were shuffled, by chance so
        return None
    order = np.where(several[whose], as_written, by_step)
    return Turned(order, falls & several[whose[1:]])


def told_of(begins: npt.NDArray[np.bool_], place: Callable[[int], str], name: str) -> str:
    """A note on episodes that hold several logs; they are cut where another one begins."""
    many = int(begins.sum())
    where = f"in {amount(many, 'place')}, {'first ' * (many > 1)}after {place(int(np.argmax(begins)))}"
    why = "as where summer time ends, a clock is put back or an id is given twice"
    return f"column {name!r} goes back {where}, into a time that rows of the episode cover, {why}: it is cut there"
