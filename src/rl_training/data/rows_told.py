"""How many rows an episode has had up to each of its rows, with those that the file has lost.

A time limit is told by the number of rows before it, and one row that is missing must not make a termination of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import BoolArray
from rl_training.data.formats.clocks import usual_stride
from rl_training.data.formats.raw import RawData
from rl_training.time_features import Seconds

_NEAR = 1e-6  # strides by which one may miss a whole number of them
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowsTold:
    """What the file tells of its rows beside their number. cuts: rows after which some are missing, so that reading cut
    an episode there, `[N]`. at: their steps, where a column has them, `[N]`; are_dates: by the calendar."""

    cuts: BoolArray
    at: Seconds | None = None
    are_dates: bool = False

    def counted(self, flags: BoolArray, borders: BoolArray) -> tuple[Counts, BoolArray]:
        """Of each row, which one of its episode it is, counted from 1, and whether that is known, `[N]`.

        flags, borders: rows that end an episode by a flag, and by another id behind them, `[N]`.
        """
        falls = np.zeros(len(flags), dtype=np.bool_)
        if self.at is not None:
            falls[:-1] = self.at[1:] <= self.at[:-1]
        lost = self.cuts & ~falls & ~flags  # the episode goes on behind them
        ends = (flags | borders) & ~lost
        first = np.flatnonzero(np.r_[True, ends[:-1]])
        episode = np.cumsum(np.r_[0, ends[:-1]])
        rows = np.arange(len(flags), dtype=np.int64)
        counts = rows - first[episode] + 1
        if not lost.any() and self.at is None:
            return counts, np.ones_like(flags)
        if self.at is None:
            before = np.r_[0, np.cumsum(lost)[:-1]]
            return counts, before == before[first[episode]]
        added = np.zeros(len(flags), dtype=np.int64)
        inside = ~(ends | lost)[:-1]
        stride = usual_stride(self.at, inside)
        strides = np.diff(self.at)
        if stride > 0:
            added[1:][lost[:-1]] = np.rint(strides[lost[:-1]] / stride).astype(np.int64) - 1
            begins = first[np.r_[True, (borders | falls)[first[1:] - 1]]]
            if _are_whole(strides[inside] / stride, self.at, stride, most=1):
                added[begins] += 0 if self.are_dates else self._before(begins, stride)
                added[first[1:]] += self._between(first, counts, stride)
        total = np.cumsum(added)
        return counts + total - (total - added)[first[episode]], np.ones_like(flags)

    def _before(self, begins: npt.NDArray[np.int64], stride: float) -> Counts:
        """Rows that are missing at the beginnings of episodes, where most count from 0, or from 1, by whole strides."""
        at = np.asarray(self.at)[begins] / stride
        values, often = np.unique(np.rint(at), return_counts=True)
        usual = float(values[np.argmax(often)])
        late = np.rint(at) - usual
        told = usual in (0.0, 1.0) and often.max() > 1 and 2 * often.max() > len(begins)
        if not told or (late < 0).any() or not _are_whole(at, np.asarray(self.at), stride):
            return np.zeros(len(begins), dtype=np.int64)
        return np.asarray(late, dtype=np.int64)

    def _between(self, first: npt.NDArray[np.int64], counts: Counts, stride: float) -> Counts:
        """Of all episodes but the first, the rows that are missing before them, where one counter goes on from half of
        them to the next by a stride: no more than make one as long as the longest of these."""
        at = np.asarray(self.at)
        steps = (at[first[1:]] - at[first[1:] - 1]) / stride
        missing = np.rint(steps) - 1
        whole = missing == 0
        rows = counts[np.r_[first[1:] - 1, len(counts) - 1]]
        longest = rows[np.r_[True, whole]].max()
        if 2 * whole.sum() < len(whole) or (missing < 0).any() or not _are_whole(steps, at, stride):
            return np.zeros(len(missing), dtype=np.int64)
        return np.where(rows[1:] + missing <= longest, missing, 0).astype(np.int64)


def _are_whole(strides: npt.NDArray[np.float64], at: Seconds, stride: float, most: int | None = None) -> bool:
    """Whether these are whole numbers of strides, as far as floats tell, and none above `most`."""
    near = _NEAR + 4 * float(np.spacing(np.abs(at).max())) / stride
    whole = np.rint(strides)
    return bool((np.abs(strides - whole) <= near).all() and (most is None or (whole == most).all()))


def rows_told(raw: RawData) -> RowsTold:
    """Of data as they were read."""
    rows = max((len(values) for values in raw.arrays.values() if np.ndim(values)), default=0)
    cuts = np.zeros(rows, dtype=np.bool_) if raw.recorded is None else raw.recorded.cuts
    if raw.clock is None:
        return RowsTold(cuts)
    return RowsTold(cuts, raw.clock.at[raw.in_table(np.arange(rows))], raw.clock.wall is not None)
