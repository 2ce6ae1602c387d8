"""Columns whose changes are lost in float32, in which everything is trained: judged before numbers are narrowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FIELDS = ("obs", "actions", "rewards")
_SAMPLE = 4_096  # rows that are enough to tell
_LOST = 0.5  # of the steps from row to row that float32 does not see
_COARSE = 0.05  # of the standard deviation: the distance of neighbouring float32 numbers
_NOISE = 1e-12  # of the largest value: smaller changes are float64's own rounding
_MEANT = 1e-6  # in the column's unit: a smaller deviation may be noise that nobody misses


@dataclass(frozen=True)
class CoarseColumn:
    """A column that changes by less than float32 can tell apart at its size."""

    field: str
    column: int
    size: float  # of its values
    deviation: float
    spacing: float  # of neighbouring float32 numbers of that size
    constant: bool  # all of it becomes one number
    meant: bool  # the changes are too large to be noise


def coarse_columns(arrays: Mapping[str, Any]) -> tuple[CoarseColumn, ...]:
    """Of arrays by field name, those columns of numbers wider than float32; a sample of the rows is looked at."""
    return tuple(found for name in FIELDS if name in arrays for found in _of_field(name, arrays[name]))


def is_coarse(values: npt.NDArray[Any]) -> bool:
    """Whether a column of `[N, K]` is lost in float32."""
    return next(_of_field("", values), None) is not None


def is_wider(values: Any) -> bool:
    """Whether numbers may lose digits in float32."""
    dtype = np.asarray(values).dtype
    return dtype.kind in "iuf" and dtype.itemsize > (4 if dtype.kind == "f" else 2)


def _of_field(name: str, given: Any) -> Iterator[CoarseColumn]:
    values = np.asarray(given)
    if not is_wider(values) or values.ndim not in (1, 2) or len(values) < 3:
        return
    values = values.reshape(len(values), -1)
    rows = np.unique(np.linspace(0, len(values) - 2, min(len(values) - 1, _SAMPLE)).astype(np.int64))
    with np.errstate(over="ignore"):
        here, following = values[rows].astype(np.float64), values[rows + 1].astype(np.float64)
        narrow_here, narrow_following = here.astype(np.float32), following.astype(np.float32)
    if not (here.size and np.isfinite(narrow_here).all() and np.isfinite(narrow_following).all()):
        return  # refused elsewhere; the squares of what float32 holds are finite in float64
    largest = np.abs(here).max(axis=0)
    deviation = here.std(axis=0)
    with np.errstate(over="ignore"):  # beside the largest number there is no other
        spacing = np.spacing(np.abs(here.mean(axis=0)).astype(np.float32)).astype(np.float64)
    unseen = narrow_here == narrow_following
    steps = np.abs(following - here) > _NOISE * largest
    lost = (steps & unseen).sum(axis=0) > _LOST * np.maximum(1, steps.sum(axis=0))
    varies = deviation > _NOISE * largest
    for column in np.flatnonzero(varies & (lost | (spacing > _COARSE * deviation))).tolist():
        with np.errstate(over="ignore"):  # in a row that was not looked at
            narrow: npt.NDArray[np.float32] = values[:, column].astype(np.float32)
        yield CoarseColumn(
            name,
            column,
            float(largest[column]),
            float(deviation[column]),
            float(spacing[column]),
            constant=bool((narrow == narrow[0]).all()),
            meant=bool(deviation[column] > _MEANT),
        )
