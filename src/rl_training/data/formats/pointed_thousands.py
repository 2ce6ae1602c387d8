"""Whole numbers whose thousands stand apart by a point, `998;1.001`, which read as 998 and 1.001: decimals may well be
written so, and therefore it is a question only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.signs import amount_of
from rl_training.data.formats.words import as_number
from rl_training.wording import WARNING

_PLAIN = re.compile(r"[-+]?[0-9]{1,3}")
_POINTED = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")
_THOUSAND, _HUNDRED = 1000, 100
_FEWEST = 10  # different numbers from a hundred on without a point: fewer may be marks, 999, among true decimals
_NEARLY_ALL = 0.95
_FAR = 2  # times


@dataclass
class _Seen:
    """Numbers of a column without their signs, each once. as_others: one is written as no such number is."""

    plain: set[int] = field(default_factory=set)
    pointed: dict[float, str] = field(default_factory=dict)
    as_others: bool = False

    def are_doubtful(self) -> bool:
        """Whether decimals would lie far below what has no point, which goes on in them as thousands."""
        hundreds = [number for number in self.plain if number >= _HUNDRED]
        if self.as_others or len(hundreds) < _FEWEST or not self.pointed:
            return False
        high, usual = np.quantile(list(self.pointed), _NEARLY_ALL), np.median(list(self.plain))
        return bool(_FAR * high < usual and min(self.pointed) * _THOUSAND < _FAR * max(hundreds))


class Points:
    """Those in the numbers of a table's columns, in however many parts it is looked at, and however often."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}  # by column

    def look(self, name: str, cells: Iterable[Any], missing: Sequence[str] = ()) -> None:
        """Take note of cells of text. missing: what stands for nothing, besides words."""
        seen = self._seen.setdefault(name, _Seen())
        nothing = {0.0, *map(as_number, missing)}
        for cell in cells:
            if seen.as_others:
                return
            if isinstance(cell, str):
                amount = amount_of(cell)
                text = cell.strip() if amount is None else amount.number
                number = as_number(text)
                if number is None or not np.isfinite(number) or number in nothing:
                    continue
                if _PLAIN.fullmatch(text):
                    seen.plain.add(abs(int(text)))
                elif _POINTED.fullmatch(text):
                    seen.pointed.setdefault(abs(number), text)
                else:
                    seen.as_others = True
            elif isinstance(cell, int | float | np.number):
                seen.as_others = cell == cell  # a number that is not written at all

    def told(self) -> list[str]:
        """A question for each column in which they may stand apart thousands."""
        notes = []
        for name, seen in self._seen.items():
            if seen.are_doubtful():
                low = min(number for number in seen.plain if number >= _HUNDRED)
                notes.append(
                    f"{WARNING}column {name!r}: {next(iter(seen.pointed.values()))!r} and all others with a point have"
                    f" three digits behind it, beside whole numbers from {low} to {max(seen.plain)}: read as decimals;"
                    " if they are thousands, write them without a point"
                )
        return notes


def may_be_pointed(values: npt.NDArray[Any], words: Iterable[float] = ()) -> bool:
    """Whether numbers as they were read may have been such, `[N]`: it is seldom worth to look at the texts. words:
    what some of them stand for."""
    if values.ndim != 1 or values.dtype.kind != "f":
        return False
    known = np.abs(values[np.isfinite(values) & ~np.isin(values, [0.0, *words])].astype(np.float64))
    known = known[known < np.finfo(np.float64).max]  # what was named as missing in parts of a sum
    if not len(known) or known.max() >= _THOUSAND:
        return False
    whole = known == np.rint(known)
    if (known[~whole] < 1).any() or len(np.unique(known[whole & (known >= _HUNDRED)])) < _FEWEST:
        return False
    return bool((np.abs(known - np.rint(known * _THOUSAND) / _THOUSAND) < 1e-9 * _THOUSAND).all())
