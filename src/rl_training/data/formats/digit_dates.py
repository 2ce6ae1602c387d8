"""Dates with nothing between their parts, which read as numbers: 20250301, 202503010800, 20250301080000."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.clocks import DATED, as_date

_DIGITS = (8, 12, 14)  # of a day, a minute, a second
_YEARS = (1970, 2100)


def dates_in_digits(numbers: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Numbers as `DATED`, `[N]`, if every one of them is such a date: a counter soon leaves the minutes of an hour, and
    the days of a month, behind it."""
    if numbers.dtype.kind not in "iuf" or numbers.ndim != 1 or not len(numbers):
        return None
    for digits in _DIGITS:
        low, high = (year * 10 ** (digits - 4) for year in _YEARS)
        if low <= numbers[0] < high:
            whole = bool(((numbers >= low) & (numbers < high) & (numbers == np.round(numbers))).all())
            return _read(numbers.astype(np.int64) * 10 ** (_DIGITS[-1] - digits)) if whole else None
    return None


def _read(numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any] | None:
    """Of fourteen digits each; none where one is no date."""
    day, clock = np.divmod(numbers, 10**6)
    hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
    months = (day // 10_000 - 1970) * 12 + day // 100 % 100 - 1
    dates = months.astype("datetime64[M]").astype("datetime64[D]") + (day % 100 - 1)
    in_month = (dates.astype("datetime64[M]").astype(np.int64) == months) & (day % 100 > 0)
    in_year = (day // 100 % 100 > 0) & (day // 100 % 100 <= 12)
    if not (in_month & in_year & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    found = np.empty(len(numbers), dtype=DATED)
    found["second"] = dates.astype("datetime64[s]").astype(np.int64) + 3_600 * hour + 60 * minute + second
    found["nano"], found["wall"], found["dated"] = 0, found["second"], True
    return found


def note_on_digits(name: str, cells: npt.NDArray[Any], steps: npt.NDArray[Any], written: str) -> list[str]:
    """What is said of a column whose numbers were read as dates. written: the first of its cells."""
    if not len(cells) or cells.dtype.names or not steps.dtype.names or not written.isdecimal():
        return []
    return [f"column {name!r}: numbers such as {written} are read as dates ({as_date(steps['wall'][0])})"]
