"""Numbers from the cells of a table's column; what is not a number is named by column and row, counted from 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.limits import check_size
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.wording import amount

_WORDS = {"": np.nan, "true": 1.0, "false": 0.0}
_FLAG_WORDS = {"yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0, "t": 1.0, "f": 0.0, "on": 1.0, "off": 0.0}
_NESTED = (list, tuple, np.ndarray)


def numbers(
    name: str, values: npt.NDArray[Any], first_row: int = 0, *, also: Mapping[str, float] | None = None
) -> npt.NDArray[Any]:
    """`[N]` numbers, or `[N, …]` where cells hold lists. Text may be numbers, true or false; nothing is NaN.

    first_row: the number of the first cell in the whole column, where `values` is only a part of it.
    also: further words that stand for a number.
    """
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind not in "OUST":
        raise DataError(f"column {name!r}: {values.dtype} values are not numbers")
    if values.ndim > 1 or any(isinstance(cell, _NESTED) for cell in values[:1]):
        return _stacked(name, values)
    try:
        return values.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        words = _WORDS | dict(also or {})
        return np.array([_number(name, row, cell, words) for row, cell in enumerate(values.tolist(), first_row)])


def flags(name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """As `numbers`; text may also be yes or no, y or n, t or f, on or off."""
    return numbers(name, values, first_row, also=_FLAG_WORDS)


def is_flag_word(text: str) -> bool:
    """Whether a text is one of those that `flags` reads."""
    return text.strip().lower() in {*_FLAG_WORDS, "true", "false", "0", "1"}


def _number(name: str, row: int, cell: Any, words: Mapping[str, float]) -> float:
    try:
        return float(cell)
    except OverflowError:
        return np.inf
    except (ValueError, TypeError):
        word = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    text = "" if word is None or _is_missing(word) else str(word).strip().lower()
    if text in words and not isinstance(word, _NESTED):
        return words[text]
    raise DataError(f"column {name!r}: {shown(word)} at row {row} is not a number{_advice(text)}")


def moments(name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """`[N]` numbers, where a date with a time is its seconds since 1970."""
    try:
        return numbers(name, values, first_row)
    except DataError:
        if values.ndim != 1 or values.dtype.kind not in "MOUST":
            raise
        plain = values if values.dtype.kind == "M" else np.array([str(cell).removesuffix("Z") for cell in values])
        try:
            times = plain.astype("datetime64[ns]")
        except (ValueError, OverflowError):
            times = np.array(["NaT"], dtype="datetime64[ns]")
        if np.isnat(times).any():  # the message names the cell
            raise
    return times.astype(np.int64) / 1e9


def _is_missing(cell: Any) -> bool:
    """pandas' NA and NaT; both compare as nothing else does."""
    return type(cell).__name__ in ("NAType", "NaTType")


def _advice(text: str) -> str:
    if text[:1] in ("[", "("):
        return "; give one column per value (obs_0, obs_1, …)"
    if text.replace(",", "", 1).lstrip("+-").isdigit():
        return "; write decimals with a point"
    return "; write 1 and 0 for such words, or true and false" if text in _FLAG_WORDS else ""


def _stacked(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lists of one length as the rows of a matrix."""
    width = np.shape(values[0])
    for row, cell in enumerate(values):
        if not isinstance(cell, _NESTED):
            raise DataError(f"column {name!r}: row {row} holds {shown(cell)}, not a list as row 0 does")
        if len(cell) != len(values[0]):
            raise ragged(name, row, len(cell), len(values[0]))
    try:
        stacked = np.array([np.asarray(cell, dtype=np.float64) for cell in values])
    except (ValueError, TypeError) as error:
        row = next((row for row, cell in enumerate(values) if not _is_numeric(cell, width)), 0)
        cell = values[row].tolist() if isinstance(values[row], np.ndarray) else values[row]
        raise DataError(f"column {name!r}: row {row} is not a list of numbers: {shown(cell)}") from error
    return stacked


def _is_numeric(cell: Any, shape: tuple[int, ...]) -> bool:
    try:
        return np.asarray(cell, dtype=np.float64).shape == shape
    except (ValueError, TypeError):
        return False


def ragged(name: str, row: int, found: int, expected: int) -> DataError:
    """The complaint about lists of different lengths."""
    return DataError(
        f"column {name!r}: row {row} has {amount(found, 'value')}, row 0 has {expected}; all must have as many"
    )


def labels(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`[N]` names of episodes: numbers or text, none of them missing."""
    if values.ndim != 1:
        raise DataError(f"column {name!r}: holds lists; the episode of a row is one number or name")
    if values.dtype.kind in "biu":
        return values
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.array([cell is None or cell == "" or cell != cell or _is_missing(cell) for cell in values])
    if missing.any():
        raise DataError(f"column {name!r}: row {int(np.argmax(missing))} has no episode")
    if values.dtype.kind in "fU":
        return values
    longest = max(map(len, map(str, values)), default=0)
    check_size(4 * longest * len(values))  # numpy gives every text the room of the longest
    return values.astype(str)
