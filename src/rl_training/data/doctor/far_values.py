"""Single values that lie orders of magnitude beyond all others of their column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_TIMES = 1e3  # as far from the median as the farthest of the others
_MOST = 0.001  # of the values, but one in any case
_FEWEST_OTHERS = 5


def far_beyond(values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The places of a few values, `[K]`, that are a thousand times as far from the median as any other of `[N]`. A
    deviation does not tell: a single value of that kind makes it as large as itself."""
    values = values.astype(np.float64)
    return far_apart(np.abs(values - np.median(values))) if len(values) else np.empty(0, dtype=np.intp)


def far_apart(apart: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Of distances from what is usual, `[N]`, the places of a few that are a thousand times as long as any other."""
    none = np.empty(0, dtype=np.intp)
    most = max(1, int(_MOST * len(apart)))
    if len(apart) < most + _FEWEST_OTHERS:
        return none
    farthest = np.sort(np.partition(apart, -most - 1)[-most - 1 :])
    cuts = np.flatnonzero((farthest[1:] > _TIMES * farthest[:-1]) & (farthest[:-1] > 0))
    return np.flatnonzero(apart >= farthest[cuts[0] + 1]) if cuts.size else none
