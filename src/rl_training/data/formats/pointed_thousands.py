"""Whole numbers whose thousands stand apart by a point, `998;1.001`, which read as 998 and 1.001 without a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError

_PLAIN = re.compile(r"[-+]?[0-9]{1,3}")
_POINTED = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")
_THOUSAND, _HUNDRED = 1000, 100
_FEWEST = 10  # different numbers from a hundred on without a point: fewer may be marks, 999, among true decimals
_BEGINNING = 10_000  # rows; a column that has only points in them is one of decimals


def refuse_pointed(
    name: str, values: npt.NDArray[Any], cells: Callable[[], Iterable[str]], place: Callable[[int], str]
) -> None:
    """Refuse a column of which every number with a point has three digits behind it and is from 1 on, and many without
    one are from 100 to 999, and none above: decimals are not written like that. `[N]`

    cells: its texts, asked for where the numbers may be such; place: names a row.
    """
    if not _may_be(values):
        return
    hundreds: set[str] = set()
    first: tuple[int, str] | None = None
    for row, text in enumerate(cells()):
        if _PLAIN.fullmatch(text):
            hundreds |= {text} if abs(int(text)) >= _HUNDRED else set()
        elif _POINTED.fullmatch(text):
            first = first or (row, text)
        elif _is_number(text):
            return
        if row == _BEGINNING and not hundreds:
            return
    if first is None or len(hundreds) < _FEWEST:
        return
    row, text = first
    plain = min(hundreds)
    raise DataError(
        f"column {name!r}: {text!r} at {place(row)} may be a thousand, as every number with a point has three digits"
        f" behind it, and none without one is above 999; write {text.replace('.', '')}, or, if these are decimals,"
        f" {plain}.000 in place of {plain} as well"
    )


def _is_number(text: str) -> bool:
    """Whether it is one, and not nothing or a word for it."""
    try:
        return not np.isnan(float(text or "nan"))
    except ValueError:
        return False


def _may_be(values: npt.NDArray[Any]) -> bool:
    """Whether numbers as they were read may have been such, `[N]`: it is seldom worth to look at the texts."""
    if values.ndim != 1 or values.dtype.kind != "f":
        return False
    known = np.abs(values[np.isfinite(values)].astype(np.float64))
    if not len(known) or known.max() >= _THOUSAND:
        return False
    whole = known == np.rint(known)
    if (known[~whole] < 1).any() or len(np.unique(known[whole & (known >= _HUNDRED)])) < _FEWEST:
        return False
    return bool((np.abs(known - np.rint(known * _THOUSAND) / _THOUSAND) < 1e-9 * _THOUSAND).all())
