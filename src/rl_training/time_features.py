"""The time of a row as a policy sees it: sine and cosine of its place in a day, a week or a year."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rl_training.reading_choices import Period

Seconds = npt.NDArray[np.float64]  # [N]; since 1970 began, by the clock on the wall

_DAY = 86_400.0
_LENGTHS: dict[Period, float] = {"day": _DAY, "week": 7 * _DAY, "year": 365.25 * _DAY}  # in seconds
_SINCE: dict[Period, str] = {"day": "midnight", "week": "Monday 00:00", "year": "1 January 00:00"}
_THURSDAY = 3 * _DAY  # 1970 began on one


def names_of(periods: Sequence[Period]) -> list[str]:
    """`sin_day, cos_day`, …"""
    return [f"{function}_{period}" for period in periods for function in ("sin", "cos")]


def formula(name: str) -> str | None:
    """How whoever feeds a policy computes such a value; none of other names."""
    function, _, period = name.partition("_")
    for known, length in _LENGTHS.items():
        if known == period and function in ("sin", "cos"):
            return f"{function}(2π · seconds since {_SINCE[known]} / {length:.0f})"
    return None


def features(wall: Seconds, periods: Sequence[Period]) -> npt.NDArray[np.float64]:
    """The values of `names_of`, `[N, 2 P]`."""
    angles = [2 * np.pi * _since(wall, period) / _LENGTHS[period] for period in periods]
    return np.stack([function(angle) for angle in angles for function in (np.sin, np.cos)], axis=1)


def feature(wall: Seconds, name: str) -> Seconds:
    """The values of one name, `[N]`."""
    period = next(known for known in _LENGTHS if name.endswith(f"_{known}"))
    return features(wall, [period])[:, 0 if name.startswith("sin") else 1]


def advanced(values: npt.NDArray[np.floating], periods: Sequence[Period], seconds: float) -> npt.NDArray[np.float64]:
    """What `features` are so much later, `[N, 2 P]`; of a year but for its last day."""
    turned = []
    for place, period in enumerate(periods):
        sine, cosine = (values[:, 2 * place + side].astype(np.float64) for side in (0, 1))
        angle = 2 * np.pi * seconds / _LENGTHS[period]
        turned += [sine * np.cos(angle) + cosine * np.sin(angle), cosine * np.cos(angle) - sine * np.sin(angle)]
    return np.stack(turned, axis=1)


def _since(wall: Seconds, period: Period) -> Seconds:
    if period == "year":
        begun = wall.astype("datetime64[s]").astype("datetime64[Y]").astype("datetime64[s]").astype(np.float64)
        return np.asarray(wall - begun)
    return np.asarray((wall + (_THURSDAY if period == "week" else 0.0)) % _LENGTHS[period])
