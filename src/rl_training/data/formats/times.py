"""The cells of a table's step column: numbers, dates with times, or times alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import numbers
from rl_training.data.formats.clocks import DATED
from rl_training.errors import DataError
from rl_training.time_features import Seconds
from rl_training.validation import shown

# Days first where points stand between, years first where slashes do; 3/1/2024 could be either and is refused.
_DATES = (
    (re.compile(r"(?P<d>\d\d)\.(?P<m>\d\d)\.(?P<y>\d{4})(?=[ T]|$)"), "ymd"),
    (re.compile(r"(?P<y>\d{4})/(?P<m>\d\d)/(?P<d>\d\d)(?=[ T]|$)"), "ymd"),
)
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d{1,6})?)?")
_Kind: TypeAlias = Literal["number", "with a zone", "without"]


class Times:
    """The steps of one column in however many parts it is read: what is ordered by them must be of one kind."""

    def __init__(self) -> None:
        self._kind: _Kind | None = None  # of the rows so far

    def steps(self, name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
        """`[N]` numbers as they are; dates, and times of a day, as `DATED`."""
        if values.dtype.names:  # read before
            return values
        try:
            found = numbers(name, values, first_row)
        except DataError:
            if values.ndim != 1 or values.dtype.kind not in "MOUST":
                raise
        else:
            if np.isfinite(found).any():
                self._require_one_kind(name, "number", first_row)
            return found
        if values.dtype.kind == "M":
            if np.isnat(values).any():
                raise DataError(f"column {name!r}: row {first_row + int(np.argmax(np.isnat(values)))} has no time")
            self._require_one_kind(name, "without", first_row)
            return _dated(values.astype("datetime64[ns]").astype(np.int64) / 1e9)
        times = [_moment(name, row, cell) for row, cell in enumerate(values.tolist(), first_row)]
        zoned = [time.tzinfo is not None for time in times]
        for zone in dict.fromkeys(zoned):
            self._require_one_kind(name, "with a zone" if zone else "without", first_row + zoned.index(zone))
        wall = np.array([time.replace(tzinfo=UTC).timestamp() for time in times])
        return _dated(wall, np.array([time.timestamp() for time in times]) if any(zoned) else None)

    def _require_one_kind(self, name: str, kind: _Kind, row: int) -> None:
        before, self._kind = self._kind or kind, kind
        if before == kind:
            return
        if "number" in (before, kind):
            differ, rule = "some rows hold times and others numbers", "write all as the one, or all as the other"
        else:
            differ, rule = "some times have a time zone and others none", "write all with one, or all without"
        raise DataError(f"column {name!r}: {differ}, as at row {row}; {rule}")


def steps_of(name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """Those of one part by itself."""
    return Times().steps(name, values, first_row)


def _dated(wall: Seconds, at: Seconds | None = None) -> npt.NDArray[Any]:
    found = np.empty(len(wall), dtype=DATED)
    found["wall"], found["at"] = wall, wall if at is None else at
    return found


def _moment(name: str, row: int, cell: Any) -> datetime:
    text = str(cell).strip()
    for pattern, order in _DATES:
        if found := pattern.match(text):
            text = "-".join(found[part] for part in order) + text[found.end() :]
    try:
        if _CLOCK.fullmatch(text):
            text = f"1970-01-01T{text.zfill(len(text) + (text[1] == ':'))}"
        return datetime.fromisoformat(text)
    except ValueError:
        rule = "write times as 2024-03-31 08:15:00, or as numbers"
        raise DataError(f"column {name!r}: {shown(cell)} at row {row} is neither a number nor a time; {rule}") from None
