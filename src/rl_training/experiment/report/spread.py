"""Values of one kind: what they are in brief, where nearly all of them lie, and how many lie beyond."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.findings import Distribution

_BINS, _FEWEST_BINS = 24, 8
_TAIL, _MOST_TAIL, _FEW = 0.005, 0.05, 2  # of the values at each end: a share of many, a couple of few
_ROOM = 0.5  # beyond the others, in their span, before a value is out of range


@dataclass(frozen=True)
class Spread:
    """All values in brief, the histogram of those in range, and how many are below and above it.

    bounds: what the values may be, where that is known. rest: where nearly all values are the same, the others, whose
    bars can hardly be seen.
    """

    every: Distribution
    inside: Distribution
    below: int
    above: int
    bounds: tuple[float, float] | None = None
    rest: Rest | None = None

    @classmethod
    def of(cls, values: npt.NDArray[Any], bounds: tuple[float, float] | None = None) -> Spread:
        """Of finite values that are not all the same."""
        low, high = usual_range(values)
        exact = values.astype(np.float64)  # the range may be beyond float32
        below, above = (int(side.sum()) for side in (exact < low, exact > high))
        bins = min(_BINS, max(_FEWEST_BINS, 2 * math.isqrt(len(values))))  # few values leave many bins empty
        inside = values[(exact >= low) & (exact <= high)] if below or above else values
        rest = Rest.of(exact) if math.isinf(low) else None
        return cls(Distribution.of(values, bins), Distribution.of(inside, bins), below, above, bounds, rest)


@dataclass(frozen=True)
class Rest:
    """Those of `total` values that are not the usual one: how many, and from where to where they lie."""

    usual: float
    total: int
    count: int
    low: float
    high: float

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Rest:
        """Of values that are not all the same, though nearly."""
        usual = float(np.median(values))
        others = values[values != usual]
        return cls(usual, len(values), len(others), float(others.min()), float(others.max()))


def usual_range(values: npt.NDArray[Any]) -> tuple[float, float]:
    """What holds nearly all values: without it, four outliers would press thousands of values into one bar.

    Everything, where nearly all values are the same: the others are then what there is to see.
    """
    tail = max(_TAIL, min(_MOST_TAIL, _FEW / len(values)))
    exact = values.astype(np.float64)
    first, last = np.quantile(exact, [tail, 1.0 - tail]).tolist()
    room = _ROOM * (last - first)
    low, high = first - room, last + room
    inside = exact[(exact >= low) & (exact <= high)]
    return (low, high) if inside.min() < inside.max() else (-math.inf, math.inf)
