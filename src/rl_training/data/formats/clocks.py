"""The step column of a table: numbers, or dates by the clock that the log was written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.time_features import Seconds

HOLE = 1.5  # of the usual stride: a longer one is a hole
DATES = "2024-03-31 08:15:00"
# Seconds since 1970 began: of the instant, and as a clock on the wall shows it, whose zone a date may name.
DATED = np.dtype([("at", np.float64), ("wall", np.float64)])
_DAY = 86_400


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
        return Clock(name, steps)
    wall = np.ascontiguousarray(steps["wall"])
    dated = bool((wall // _DAY != 0).any())  # a time without a date counts from the first day of 1970
    return Clock(name, np.ascontiguousarray(steps["at"]), wall if dated else None)


def in_one(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Pieces of a column; where some hold dates and others numbers, all are numbers."""
    if len({part.dtype.names for part in parts}) > 1:
        parts = [part["at"] if part.dtype.names else part for part in parts]
    return np.concatenate(parts)


def usual_stride(at: Seconds, inside: npt.NDArray[np.bool_]) -> float:
    """From row to row of an episode, or of the whole where there is none. inside: `[N - 1]`."""
    strides = np.diff(at)
    strides = strides[inside & (strides > 0)] if (inside & (strides > 0)).any() else strides[strides > 0]
    return float(np.median(strides)) if len(strides) else 0.0


def as_date(seconds: float) -> str:
    """`2024-03-31 08:15:00`."""
    return str(np.datetime64(round(seconds), "s")).replace("T", " ")
