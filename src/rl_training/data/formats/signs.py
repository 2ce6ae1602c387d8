"""Numbers as spreadsheets write them: `$1,204.50`, `25.00 €`, `66.6%`, with one and the same sign in all of a column.
Other units belong into the header: that °C and °F are not the same is nothing that a reader should have to find out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError

_CURRENCY = r"[A-Z]{0,3}[$€£¥₩₹₽₺]|EUR|USD|CHF|GBP|JPY|CNY|SEK|NOK|DKK"
_CELL = re.compile(
    rf"(?P<minus>[-+]?)\s?(?:(?P<before>{_CURRENCY})\s?)?(?P<inner>[-+]?)"
    rf"(?P<digits>(?:[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:\s?(?P<after>{_CURRENCY}|%))?"
)
_WITH_UNIT = re.compile(r"([-+]?[0-9]+(?:[.,][0-9]+)?)\s?[^\W\d_]{0,6}[%‰°℃℉]?[^\W\d_]{0,6}")
_LONGEST = 60  # characters of an amount


class Amount(NamedTuple):
    """A number as `float` reads it, and its sign, a currency or `%`. has_thousands: it has commas; shows_them: these
    stand before no decimals, as there is a point behind, or a second one."""

    number: str
    sign: str
    has_thousands: bool
    shows_them: bool


def amount_of(cell: Any) -> Amount | None:
    """A plain number in which thousands may be apart, with or without a sign; none of anything else."""
    text = cell.strip() if isinstance(cell, str) and len(cell) <= _LONGEST else ""
    found = _CELL.fullmatch(text)
    if found is None or (found["minus"] and found["inner"]) or (found["before"] and found["after"]):
        return None
    digits, sign = found["digits"], found["before"] or found["after"] or ""
    commas = digits.count(",")
    number = (found["minus"] or found["inner"]) + digits.replace(",", "")
    return Amount(number, sign, commas > 0, commas > 1 or (commas > 0 and "." in digits))


class Signs:
    """Those of a table's columns, in however many parts it is read: all numbers of a column have one and the same, or
    none has."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # by column; of plain numbers, nothing
        self._apart: set[str] = set()  # columns with commas that are known to stand between thousands

    @property
    def apart(self) -> frozenset[str]:
        """Columns whose commas stand between thousands, as far as is known by now."""
        return frozenset(self._apart)

    def plain(self, name: str, values: npt.NDArray[Any], first_row: int = 0) -> None:
        """Take note of numbers that have none."""
        finite = np.isfinite(values.astype(np.float64))
        if finite.any():
            self._require(name, "", first_row + int(np.argmax(finite)))

    def without(self, name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
        """`[N]` cells of text with the sign of their column, and commas between thousands, left out; as they are
        where there is neither, or it is in doubt."""
        cells = values.tolist()
        found = [amount_of(cell) for cell in cells]
        amounts = [(row, amount) for row, amount in enumerate(found, first_row) if amount is not None]
        signs = {amount.sign for _, amount in amounts}
        if len(signs) != 1:
            return values
        apart = name in self._apart or any(amount.shows_them for _, amount in amounts)
        if not apart and any(amount.has_thousands for _, amount in amounts):
            return values
        self._require(name, signs.pop(), amounts[0][0])
        if any(amount.has_thousands for _, amount in amounts):
            self._apart.add(name)
        return np.array([cell if a is None else a.number for cell, a in zip(cells, found, strict=True)], dtype=object)

    def _require(self, name: str, sign: str, row: int) -> None:
        known = self._known.setdefault(name, sign)
        if known != sign:
            has, had = (repr(which) if which else "none" for which in (sign, known))
            kind = "sign" if "%" in (sign, known) else "currency"
            raise DataError(
                f"column {name!r}: the {kind} at row {row} is {has}, that of rows before it {had}; write all numbers"
                " of a column alike"
            )

    def told(self, columns: Iterable[str]) -> list[str]:
        """Notes on what was left out."""
        notes = []
        for name in columns:
            left_out = [repr(self._known[name])] if self._known.get(name) else []
            left_out += ["commas between thousands"] if name in self._apart else []
            if left_out:
                notes.append(f"column {name!r}: numbers are read without {' and '.join(left_out)}")
        return notes


def number_before_unit(text: str) -> str | None:
    """`80` of `80kW` or `80 %`; none of anything else, nor of a number alone."""
    found = _WITH_UNIT.fullmatch(text.strip()[:_LONGEST])
    return None if found is None or found[0] == found[1] else found[1]


def advice_on(text: str) -> str:
    """What to do about a number that is not read for what is written in it or beside it."""
    amount = amount_of(text)
    if amount is not None and amount.has_thousands:
        return "; write thousands without a comma, and decimals with a point"
    if amount is not None and amount.sign:
        kind = "sign" if amount.sign == "%" else "currency"
        return f"; all numbers of a column must have the same {kind}, or none"
    return "; write numbers alone, and their unit into the header" if number_before_unit(text) else ""
