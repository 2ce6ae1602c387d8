"""Units that the numbers of a column are written with: `$1,204.50`, `25 %`, `3.4 kWh`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.words import as_number
from rl_training.errors import DataError

_CURRENCY = r"[A-Z]{0,3}[$€£¥₩₹₽₺]|EUR|USD|CHF|GBP|JPY|CNY|SEK|NOK|DKK"
_MEASURE = r"[%‰°℃℉]?[A-Za-zµμΩÅ²³·^]{0,8}[23]?(?:/[A-Za-z]{1,5}[23²³]?)?"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+"
_CELL = re.compile(
    rf"(?P<sign>[-+]?)\s?(?:(?P<before>{_CURRENCY})\s?)?(?P<inner>[-+]?)(?P<digits>{_DIGITS})"
    rf"(?:\s?(?P<after>{_CURRENCY}|{_MEASURE}))?"
)
_LONGEST = 60  # characters of a number with its unit


class Quantity(NamedTuple):
    """A number as `float` reads it, and its unit. is_pointed: it shows that commas stand between thousands here, not
    before decimals; needs_point: it is read rightly only if they do."""

    number: str
    unit: str
    is_pointed: bool
    needs_point: bool


def quantity_of(cell: Any) -> Quantity | None:
    """A number with a unit, or alone, in which thousands may be apart; none of anything else."""
    text = cell.strip() if isinstance(cell, str) and len(cell) <= _LONGEST else ""
    found = _CELL.fullmatch(text)
    if found is None or not found["digits"].isascii() or (found["sign"] and found["inner"]):
        return None
    before, after, digits = found["before"] or "", found["after"] or "", found["digits"]
    if before and after:
        return None
    is_pointed = "." in digits or digits.count(",") > 1
    number = (found["sign"] or found["inner"]) + digits.replace(",", "")
    return Quantity(number, before or after, is_pointed, "," in digits and not is_pointed)


class Units:
    """Those of a table's columns, in however many parts it is read: all numbers of a column have one and the same, or
    none has."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # by column; of plain numbers, nothing
        self._pointed: set[str] = set()  # columns in which commas stand between thousands

    def plain(self, name: str, values: npt.NDArray[Any], first_row: int = 0) -> None:
        """Take note of numbers that have none."""
        finite = np.isfinite(values.astype(np.float64))
        if finite.any() and (unit := self._known.setdefault(name, "")):
            lacks = f"row {first_row + int(np.argmax(finite))} has no unit, rows before it have {unit!r}"
            raise DataError(f"column {name!r}: {lacks}; write it with all numbers, or with none")

    def without(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`[N]` cells of text with the unit of their column left out; as they are where there is none, or several."""
        cells = values.tolist()
        found = [quantity_of(cell) for cell in cells]
        units = {quantity.unit for quantity in found if quantity is not None}
        if len(units | {self._known.get(name, unit) for unit in units}) != 1:
            return values
        if any(quantity is not None and quantity.is_pointed for quantity in found):
            self._pointed.add(name)
        if name not in self._pointed and any(quantity is not None and quantity.needs_point for quantity in found):
            return values
        self._known[name] = units.pop()
        return np.array([cell if q is None else q.number for cell, q in zip(cells, found, strict=True)], dtype=object)

    def told(self, columns: Iterable[str]) -> list[str]:
        """Notes on what was left out."""
        known = [(name, unit) for name in columns if (unit := self._known.get(name))]
        return [f"column {name!r}: numbers are written with {unit!r}, which is left out" for name, unit in known]


def advice_on(text: str) -> str:
    """What to do about a number that is not read for what is written beside it."""
    quantity = quantity_of(text)
    if quantity is None or as_number(text) is not None:
        return ""
    if quantity.needs_point:
        return "; write thousands without a comma, and decimals with a point"
    return "; numbers of a column must all have the same unit, or none" if quantity.unit else ""
