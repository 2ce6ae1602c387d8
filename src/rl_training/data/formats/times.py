"""The cells of a table's step column: numbers, dates with times, or times alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_IDS
from rl_training.data.formats.cells import BadCellsError, numbers
from rl_training.data.formats.clocks import DATED, NANO
from rl_training.data.formats.digit_dates import dates_in_digits
from rl_training.data.formats.whole_numbers import exactly
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.yaml_dialect import proposed

_END = r"(?=[ T,]|$)"
_DATES = (
    re.compile(rf"(?P<y>\d{{4}})([-/])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}}){_END}"),
    re.compile(rf"(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>\d{{4}}){_END}"),
)
# 3/1/2024 could be either: other rows of the column tell.
_DAY_FIRST = re.compile(rf"(?P<d>\d{{1,2}})/(?P<m>\d{{1,2}})/(?P<y>\d{{4}}){_END}")
_MONTH_FIRST = re.compile(rf"(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<y>\d{{4}}){_END}")
_LIKE_ID = re.compile(r"[^\W\d]{1,20}[-_ ]?\d{1,20}")  # `R0001`
_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?P<rest>:\d\d(:\d\d(\.\d{1,6})?)?)(?: ?(?P<half>[AP])\.?M\.?)?", re.IGNORECASE)
_FINER, _FINER_DIGITS = re.compile(r"(?<=\d[.,]\d{6})\d+"), 3  # decimals of a second that datetime has no room for
_HALF_DAY, _MONTHS = 12, 12
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1)
_NO_DATE = date(1970, 1, 1)  # of times of a day
_Kind: TypeAlias = Literal["number", "with a zone", "without", "of a day"]


class Times:
    """The steps of one column in however many parts it is read: what is ordered by them must be of one kind.

    elsewhere: gives all cells of the column, where a part of it does not tell what its dates mean."""

    def __init__(self) -> None:
        self.elsewhere: Callable[[], Iterable[str]] = tuple
        self._kind: _Kind | None = None  # of the rows so far
        self._slashed: re.Pattern[str] | None = None  # dates with slashes, once it is known what comes first in them

    @property
    def are_read(self) -> bool:
        """Whether some of the column was read already."""
        return self._kind is not None

    def steps(self, name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
        """`[N]` numbers as they are; dates, and times of a day, as `DATED`."""
        if values.dtype.names:  # read before
            return values
        try:
            found = numbers(name, values, first_row)
        except BadCellsError as error:
            if 2 * len(error.cells) <= len(values):  # numbers, and mistakes among them
                raise BadCellsError(name, error.cells, is_flag=True) from error
        except DataError:
            if values.ndim != 1 or values.dtype.kind not in "MOUST":
                raise
        else:
            if np.isfinite(found).any():
                self._require_one_kind(name, "number", first_row)
            return exactly(name, values, found)
        if values.dtype.kind == "M":
            if np.isnat(values).any():
                raise DataError(f"column {name!r}: row {first_row + int(np.argmax(np.isnat(values)))} has no time")
            self._require_one_kind(name, "without", first_row)
            return _of_datetimes(name, values)
        texts = [str(cell).strip() for cell in values.tolist()]
        if self._slashed is None and any(map(_DAY_FIRST.match, texts)):
            self._slashed = _order_of(texts) or _order_of(self.elsewhere())
        moments = [_moment(name, row, text, self._slashed) for row, text in enumerate(texts, first_row)]
        kinds = [moment.kind for moment in moments]
        for kind in dict.fromkeys(kinds):
            self._require_one_kind(name, kind, first_row + kinds.index(kind))
        return np.array([moment.as_dated() for moment in moments], dtype=DATED)

    def _require_one_kind(self, name: str, kind: _Kind, row: int) -> None:
        before, self._kind = self._kind or kind, kind
        if before == kind:
            return
        if "number" in (before, kind):
            differ, rule = "some rows hold times and others numbers", "write all as the one, or all as the other"
        elif "of a day" in (before, kind) and "with a zone" not in (before, kind):
            differ, rule = "some rows hold a date and others a time of day alone", "write all with a date"
        else:
            differ, rule = "some times have a time zone and others none", "write all with one, or all without"
        raise DataError(f"column {name!r}: {differ}, as at row {row}; {rule}")


def steps_of(name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """Those of a whole column, in which numbers may be dates, too."""
    found = Times().steps(name, values, first_row)
    return found if (dates := dates_in_digits(found)) is None else dates


def _of_datetimes(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """numpy's own, in whatever unit it counts them."""
    second = values.astype("datetime64[s]")
    rest = values - second
    nano = rest.astype("timedelta64[ns]")
    if (nano != rest).any():
        raise DataError(f"column {name!r}: holds times finer than nanoseconds; round them, or write them as numbers")
    found = np.empty(len(values), dtype=DATED)
    found["second"], found["nano"] = second.astype(np.int64), nano.astype(np.int64)
    found["wall"], found["dated"] = found["second"] + found["nano"] / NANO, True
    return found


@dataclass(frozen=True)
class _Moment:
    """A time as it is written. finer: nanoseconds that `time` has no room for; has_date: it is not a time of day alone,
    which is one of the first day of 1970."""

    time: datetime
    finer: int
    has_date: bool

    @property
    def kind(self) -> _Kind:
        if self.time.tzinfo is not None:
            return "with a zone"
        return "without" if self.has_date else "of a day"

    def as_dated(self) -> tuple[int, int, float, bool]:
        """As `DATED` has it."""
        since = self.time - (_EPOCH if self.time.tzinfo is None else _EPOCH.replace(tzinfo=UTC))
        second = since.days * _DAY + since.seconds
        wall = self.time.replace(tzinfo=UTC).timestamp() + self.finer / NANO
        return second, 1_000 * since.microseconds + self.finer, wall, self.has_date


def _order_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Dates with slashes, by the first that has a number above twelve; none where no date tells."""
    dates = filter(None, map(_DAY_FIRST.match, texts))
    told = next((date for date in dates if max(int(date["d"]), int(date["m"])) > _MONTHS), None)
    return None if told is None else _DAY_FIRST if int(told["d"]) > _MONTHS else _MONTH_FIRST


def _moment(name: str, row: int, text: str, slashed: re.Pattern[str] | None) -> _Moment:
    finer = _FINER.search(text)
    whole = text if finer is None else text[: finer.start()] + text[finer.end() :]
    digits = "" if finer is None else finer[0].rstrip("0")
    if len(digits) > _FINER_DIGITS:
        raise DataError(f"column {name!r}: {shown(text)} at row {row} is finer than nanoseconds; write nine decimals")
    try:
        written, has_date = _iso(whole, slashed)
        return _Moment(datetime.fromisoformat(written), int(digits.ljust(_FINER_DIGITS, "0")), has_date)
    except ValueError:
        rule = "write times as 2024-03-31 08:15:00, or as numbers"
        if slashed is None and _DAY_FIRST.match(text):
            rule = f"days or months may come first, and no row tells which; {rule}"
        if _LIKE_ID.fullmatch(text):
            rule += f"; if it tells episodes apart, columns: {proposed(EPISODE_IDS, name)}"
        raise DataError(f"column {name!r}: {shown(text)} at row {row} is neither a number nor a time; {rule}") from None


def _iso(text: str, slashed: re.Pattern[str] | None) -> tuple[str, bool]:
    """A date with a time as ISO 8601 has it, and whether it has a date; times of a day are of the first of 1970. What
    is not understood stays."""
    day, clock = None, text
    for pattern in (*_DATES, *([slashed] if slashed else [])):
        if found := pattern.match(text):
            day, clock = f"{found['y']}-{int(found['m']):02}-{int(found['d']):02}", text[found.end() :].lstrip(" T,")
    if day is not None and not clock:
        return day, True
    time = _CLOCK.fullmatch(clock)
    if time is None:
        return (text if day is None else f"{day}T{clock}"), True
    hour = int(time["hour"])
    if time["half"]:
        if not 0 < hour <= _HALF_DAY:
            return text, True
        hour = hour % _HALF_DAY + (_HALF_DAY if time["half"].upper() == "P" else 0)
    return f"{day or _NO_DATE}T{hour:02}{time['rest']}", day is not None
