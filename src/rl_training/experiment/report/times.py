"""The dates and times of a recorded episode, for the axis of its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rl_training.data.column_names import names_of
from rl_training.data.offline_dataset import TransitionDataset

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_APART = (  # seconds from tick to tick
    *(1, 5, 10, 30, _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR),
    *(12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 28 * _DAY, 91 * _DAY, 364 * _DAY),
)
_MOST_TICKS, _MOST_DAYS = 8, 5


@dataclass(frozen=True)
class Times:
    """When the rows of an episode were recorded. dated: whether the day is known, too."""

    wall: npt.NDArray[np.float64]  # [T], seconds since 1970 began, or since a midnight
    dated: bool

    @property
    def day(self) -> str:
        """`2025-03-01`, on which it begins; empty where that is not known."""
        return _written(float(self.wall[0]), "D") if self.dated else ""

    @property
    def label(self) -> str:
        return f"time, from {self.day}" if self.dated else "time of day"

    def ticks(self) -> list[tuple[float, str]]:
        """Places among the steps, and what is written there."""
        first, last = float(self.wall[0]), float(self.wall[-1])
        most = [(one, _MOST_TICKS if one < _DAY else _MOST_DAYS) for one in _APART]
        apart = next((one for one, ticks in most if (last - first) / one <= ticks), _APART[-1])
        at = np.arange(np.ceil(first / apart), np.floor(last / apart) + 1) * apart
        unit, skipped = ("s" if apart < _MINUTE else "m"), 11  # without the day
        if apart >= _DAY and self.dated:
            unit, skipped = "D", 0
        places = np.interp(at, self.wall, np.arange(len(self.wall)))
        return [
            (place, _written(time, unit)[skipped:]) for place, time in zip(places.tolist(), at.tolist(), strict=True)
        ]


def times_of(data: TransitionDataset, rows: slice) -> Times | None:
    """By the clock of the table, or by the time of day among the observations; none where neither tells."""
    raw, steps = data.in_file, np.arange(rows.start, rows.stop)
    if raw is not None and raw.clock is not None and raw.clock.wall is not None:
        return _rising(Times(raw.clock.wall[raw.in_table(steps)], dated=True))
    names = names_of(data, "obs", data.obs_dim)
    if "sin_day" not in names or "cos_day" not in names:
        return None
    sine, cosine = (data.obs[rows, names.index(name)].astype(np.float64) for name in ("sin_day", "cos_day"))
    angles = np.unwrap(np.arctan2(sine, cosine) % (2 * np.pi))
    return _rising(Times(np.round(angles / (2 * np.pi) * _DAY), dated=False))


def _rising(times: Times) -> Times | None:
    """None where a clock stands still or goes back: no axis could be made of it."""
    return times if len(times.wall) > 1 and bool((np.diff(times.wall) > 0).all()) else None


def _written(seconds: float, unit: str) -> str:
    """`2025-03-01T06:00`, as far as the unit tells."""
    return str(np.datetime64(round(seconds), "s").astype(f"datetime64[{unit}]"))
