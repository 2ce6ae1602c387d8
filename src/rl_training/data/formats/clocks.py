"""The step column of a table: numbers, or dates by the clock that the log was written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.whole_numbers import joined
from rl_training.errors import DataError
from rl_training.time_features import Seconds

HOLE = 1.5  # of the usual stride: a longer one is a hole
DATES = "2024-03-31 08:15:00"
# An instant in whole seconds since 1970 began and nanoseconds, and the seconds that a clock on the wall shows, whose
# zone a date may name. dated: not a time of day alone, which counts from the first day of 1970.
DATED = np.dtype([("second", np.int64), ("nano", np.int64), ("wall", np.float64), ("dated", np.bool_)])
NANO = 10**9
_UNITS = (NANO, 10**6, 10**3, 1)  # nanoseconds


@dataclass(frozen=True, eq=False)
class Clock:
    """The steps of a table by its own rows, `[N]`: `at`, numbers or seconds, and by the clock on the wall where they
    are dates. open_ends: rows that end an episode though the day, or what else it was to be, goes on behind them."""

    column: str
    at: Seconds
    wall: Seconds | None = None
    open_ends: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def clock_of(name: str, steps: npt.NDArray[Any]) -> Clock:
    """Of what `steps_of` has read."""
    if not steps.dtype.names:
        return Clock(name, steps.astype(np.float64))  # as strides of unsigned numbers would wrap
    return Clock(name, _seconds(steps), np.ascontiguousarray(steps["wall"]) if steps["dated"].any() else None)


def _seconds(dates: npt.NDArray[Any]) -> Seconds:
    return np.asarray(dates["second"] + dates["nano"] / NANO)


def counted(name: str, steps: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], bool]:
    """What `steps_of` has read as numbers that tell one step from another, `[N]`, and whether they are parts of a
    second: dates as integers, in the coarsest unit that holds them, as floats of seconds since 1970 have no room for
    nanoseconds."""
    if not steps.dtype.names or not len(steps):
        return (_seconds(steps) if steps.dtype.names else steps), False
    second, nano = steps["second"], steps["nano"]
    first, last = int(second.min()), int(second.max())
    unit = next(unit for unit in _UNITS if not (nano % unit).any())
    per_second = NANO // unit
    if (last - first + 1) * per_second > np.iinfo(np.int64).max:
        way = "write fewer decimals, or numbers in place of dates"
        raise DataError(f"column {name!r}: its dates are too far apart to be told from each other so finely; {way}")
    return (second - first) * per_second + nano // unit, per_second > 1


def in_one(name: str, parts: Sequence[npt.NDArray[Any]], *, tells_apart: bool) -> npt.NDArray[Any]:
    """Pieces of a column; where some hold dates and others numbers, all are numbers."""
    if len({part.dtype.names for part in parts}) > 1:
        parts = [_seconds(part) if part.dtype.names else part for part in parts]
    return np.concatenate(parts) if parts[0].dtype.names else joined(name, parts, tells_apart=tells_apart)


def usual_stride(at: Seconds, inside: npt.NDArray[np.bool_]) -> float:
    """From row to row of an episode, or of the whole where there is none. inside: `[N - 1]`."""
    strides = np.diff(at)
    strides = strides[inside & (strides > 0)] if (inside & (strides > 0)).any() else strides[strides > 0]
    return float(np.median(strides)) if len(strides) else 0.0


def as_date(seconds: float) -> str:
    """`2024-03-31 08:15:00`."""
    return str(np.datetime64(round(seconds), "s")).replace("T", " ")
