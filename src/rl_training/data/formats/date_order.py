"""Dates of a table without episode ids: they never start again, so that rows out of order are sorted by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import IndexArray
from rl_training.data.formats.turned_clocks import CHANGES
from rl_training.wording import amount

_FEWEST_ROWS = 3  # of a stretch, on average, where dates that come twice are those of another log


def dates_in_order(
    name: str,
    dates: npt.NDArray[Any],
    number: npt.NDArray[np.int64] | None,
    *,
    same_as_next: Callable[[IndexArray], npt.NDArray[np.bool_]],
    place: Callable[[int], str],
) -> tuple[IndexArray | None, list[str]]:
    """The order of the rows by their dates, `[N]`, if it is not theirs, and a note on it. number: the file of each row,
    where episodes end with it. same_as_next: of rows in some order, those that the next one repeats.

    Where going back leads into a time that rows before it cover, as of another log or of a clock put back, the rows
    stay as they are.
    """
    group = np.zeros(len(dates), dtype=np.int64) if number is None else number
    together = group[1:] == group[:-1]
    falls = together & (dates[1:] < dates[:-1])
    back = int(falls.sum())
    if not back:
        return None, []
    newest_first = back > int((together & (dates[1:] > dates[:-1])).sum())
    rows = np.arange(len(dates))
    order = np.lexsort((-rows if newest_first else rows, dates, group))
    stretch = np.r_[0, np.cumsum(falls)][order]
    changes = together & (stretch[1:] != stretch[:-1])  # files stay in their places
    again = changes & (dates[order][1:] == dates[order][:-1])
    differ = again.any() and bool((again & ~same_as_next(order)).any())
    if changes.sum() > CHANGES * back or (differ and back * _FEWEST_ROWS <= len(dates)):
        where = f"in {amount(back, 'place')}, {'first ' * (back > 1)}after {place(int(np.argmax(falls)))}"
        return None, [
            f"column {name!r}: dates go back {where}, into a time that rows before cover: an episode begins there; if"
            " it is one log, sort its rows, else give episode_ids"
        ]
    moved = int((order != rows).sum())
    return order, [f"{amount(moved, 'row')} were out of order: rows are sorted by {name}"]
