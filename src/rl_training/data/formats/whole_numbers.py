"""Whole numbers beyond 2**53, which floats round to their neighbours: kept as they are where they tell rows apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError

ROUNDED_FROM = 2**53
_WAY = "write all as whole numbers of 64 bits, such as by subtracting the first"


def may_be_rounded(values: npt.NDArray[Any]) -> bool:
    """Whether floats are so large that one may stand for several whole numbers."""
    return values.dtype.kind == "f" and bool((np.abs(values) >= ROUNDED_FROM).any())


def exactly(name: str, cells: npt.NDArray[Any], found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`found`, the numbers of cells, `[N]`; as integers where the cells hold texts, or anything, that floats round."""
    if cells.dtype.kind == "f" or found.ndim != 1 or not may_be_rounded(found) or not np.isfinite(found).all():
        return found
    numbers = [_decimal(cell, number) for cell, number in zip(cells.tolist(), found.tolist(), strict=True)]
    if any(number != number.to_integral_value() for number in numbers):
        raise DataError(f"column {name!r}: its fractions are lost beside numbers beyond 2**53; {_WAY}")
    whole = as_integers(map(int, numbers))
    if whole is None:
        raise DataError(f"column {name!r}: holds {found[np.argmax(np.abs(found))]:g}, which is too large; {_WAY}")
    return whole


def _decimal(cell: Any, number: float) -> Decimal:
    if isinstance(cell, float):
        return Decimal(cell)
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
    try:
        return Decimal(text.strip())
    except InvalidOperation:  # a word that stands for a number
        return Decimal(number)


def as_integers(values: Iterable[int]) -> npt.NDArray[Any] | None:
    """Integers of any size in 64 bits; none where these cannot hold them all."""
    given = np.array(list(values), dtype=object)
    for kind in (np.int64, np.uint64):
        with suppress(OverflowError):
            return given.astype(kind)
    return None


def joined(name: str, parts: Sequence[npt.NDArray[Any]], *, tells_apart: bool) -> npt.NDArray[Any]:
    """Pieces of a column one after another. numpy makes floats of signed and unsigned integers, and of integers beside
    floats: they become integers where these would be rounded, or are refused if the column tells rows apart."""
    if not _are_rounded(parts):
        return np.concatenate(parts)
    floats = [part for part in parts if part.dtype.kind == "f"]
    if all((np.isfinite(part) & (part == np.round(part))).all() for part in floats):
        shape = (-1, *parts[0].shape[1:])
        numbers = [int(number) for part in parts for number in part.reshape(-1).tolist()]
        whole = as_integers(numbers)
        return (np.array(list(map(str, numbers))) if whole is None else whole).reshape(shape)
    if tells_apart and not any(np.isnan(part).any() for part in floats):  # which is refused with its row
        raise DataError(f"column {name!r}: holds fractions beside whole numbers beyond 2**53; {_WAY}")
    return np.concatenate(parts)


def _are_rounded(parts: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether joining may make floats of integers that are no floats; of such alone it never should."""
    kinds = {part.dtype.kind for part in parts}
    if kinds.isdisjoint("iu") or not kinds <= set("biuf") or np.result_type(*parts).kind != "f":
        return False
    if "f" not in kinds:
        return True
    whole = [part for part in parts if part.dtype.kind in "iu" and part.size]
    return any(int(part.max()) > ROUNDED_FROM or int(part.min()) < -ROUNDED_FROM for part in whole)
