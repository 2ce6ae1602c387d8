"""Columns whose changes are lost in float32, in which everything is trained: judged before numbers are narrowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FIELDS = ("obs", "actions", "rewards")
LOST = "its integers change by less than floats of their size can tell; subtract an offset, such as the first of them"
_SAMPLE = 4_096  # rows that are enough to tell
_LOST = 0.5  # of the steps from row to row that float32 does not see
_COARSE = 0.05  # of the standard deviation: the distance of neighbouring float32 numbers
_NOISE = 1e-12  # of the largest value: smaller changes of floats are float64's own rounding
_FAR = 2.0**62  # two integers of 64 bits that are further apart need not be told apart exactly
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


def is_lost_in_float64(values: npt.NDArray[Any]) -> bool:
    """Whether a column of integers `[N, K]` is lost in float32, which float64 would no longer show."""
    if values.dtype.kind not in "iu" or not is_coarse(values):
        return False
    shown = {found.column for found in _of_field("", values.astype(np.float64))}
    return any(found.column not in shown for found in _of_field("", values))


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
    changes, noise = here, _NOISE * largest
    change = following - here
    if values.dtype.kind in "iu":  # exact, whatever their size
        changes, noise = _distance(values[rows], values[0]), np.zeros_like(largest)
        change = _distance(values[rows + 1], values[rows])
    deviation = changes.std(axis=0)
    with np.errstate(over="ignore"):  # beside the largest number there is no other
        spacing = np.spacing(np.abs(here.mean(axis=0)).astype(np.float32)).astype(np.float64)
    unseen = narrow_here == narrow_following
    steps = np.abs(change) > noise
    lost = (steps & unseen).sum(axis=0) > _LOST * np.maximum(1, steps.sum(axis=0))
    varies = deviation > noise
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


def _distance(values: npt.NDArray[Any], start: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """From integers to others: float64 would round them to the same number first."""
    rounded = values.astype(np.float64) - start.astype(np.float64)
    exact = (values.astype(np.uint64) - start.astype(np.uint64)).view(np.int64)  # wraps, and back again
    return np.where(np.abs(rounded) < _FAR, exact, rounded)
