"""Statistics of columns, a block of rows at a time: no copy of the data is made. And the rows to estimate one from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray, IndexArray

SAMPLE = 20_000  # rows that are enough for an estimate
_BLOCK = 16_384  # rows whose float64 copy is in memory at once


def mean_and_deviation(values: FloatArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of each column of `[N, K]`, in float64.

    Two passes, as the square of a mean far larger than the deviation would lose the digits that matter.
    """
    mean = values.mean(axis=0, dtype=np.float64)
    squares = np.zeros_like(mean)
    for first in range(0, len(values), _BLOCK):
        distance = values[first : first + _BLOCK] - mean
        squares += np.einsum("nk,nk->k", distance, distance)
    return mean, np.sqrt(squares / len(values))


def sample_rows(rows: IndexArray | int, size: int = SAMPLE) -> IndexArray:
    """At most `size` of the rows (or of so many), always the same ones, in their order. At random: every n-th of data
    that repeat themselves are all alike."""
    count = rows if isinstance(rows, int) else len(rows)
    if count > size:
        chosen = np.sort(np.random.default_rng(0).choice(count, size, replace=False))
    else:
        chosen = np.arange(count)
    return chosen if isinstance(rows, int) else rows[chosen]
