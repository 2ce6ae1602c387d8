"""Columns of numbers in which a few cells hold a word, `n/v` or `ERR`, or nothing but nines, -9999 or 99.9. These most
likely stand for missing values."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import is_missing_word, may_stand_for_missing
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.signs import Signs
from rl_training.data.formats.words import float_of

_MOST_WORDS = 3  # in a column
_MOST_CELLS = 0.05  # of a column, with such a word
_FEWEST_NUMBERS = 5  # that differ: a code, or a flag, has fewer


_WHOLE = [10.0**digits - 1.0 for digits in range(3, 8)]
_WITH_DECIMALS = [round(10.0**digits - 0.1**places, places) for digits in range(2, 5) for places in (1, 2)]  # 999.9
NINES = tuple(sign * nines for nines in (*_WHOLE, *_WITH_DECIMALS) for sign in (-1.0, 1.0))
_FAR = 3.0  # times the largest of the others


class Marked(NamedTuple):
    """The columns with words and nines read as missing, and these as they are written, in the order they were met."""

    columns: dict[str, npt.NDArray[Any]]
    words: tuple[str, ...]


def words_as_missing(columns: Mapping[str, npt.NDArray[Any]], texts_in: Container[str] = ()) -> Marked:
    """Columns as they are, but for those of numbers with a few words, or nines far from the rest, among them. texts_in:
    columns that are known to hold texts: ids, reasons."""
    words: dict[str, None] = {}
    read = dict(columns)
    for name, cells in columns.items():
        if cells.ndim != 1 or cells.dtype.kind not in "OU" or name in texts_in:
            continue
        texts = [text_of(cell) for cell in Signs().without(name, cells).tolist()]
        numbers = np.array([number_of(text) for text in texts])
        strange = [
            text
            for text, number in zip(texts, numbers.tolist(), strict=True)
            if math.isnan(number) and not is_missing_word(text)
        ]
        if _are_marks(strange, numbers):
            read[name] = numbers
            words |= dict.fromkeys(strange)
    for name, cells in read.items():
        if cells.ndim == 1 and cells.dtype.kind in "iuf" and (mark := nines_among(cells.astype(np.float64))):
            with np.errstate(over="ignore"):
                read[name] = np.where(cells.astype(np.float32) == np.float32(mark), np.nan, cells)
            words[f"{mark:.12g}"] = None
    return Marked(read, tuple(words))


def nines_among(numbers: npt.NDArray[np.float64]) -> float | None:
    """-9999, 999.9 and the like, in a few cells and far from all others: what loggers write for the unknown."""
    with np.errstate(over="ignore"):
        as_observed = numbers.astype(np.float32)
    for mark in NINES:
        marked = as_observed == np.float32(mark)
        if 0 < marked.sum() <= _MOST_CELLS * len(numbers):
            others = np.unique(numbers[np.isfinite(numbers) & ~marked])
            if len(others) >= _FEWEST_NUMBERS and abs(mark) > _FAR * np.abs(others).max():
                return mark
    return None


def _are_marks(strange: list[str], numbers: npt.NDArray[np.float64]) -> bool:
    few = 0 < len(strange) <= _MOST_CELLS * len(numbers) and len(set(strange)) <= _MOST_WORDS
    measured = len(np.unique(numbers[~np.isnan(numbers)])) >= _FEWEST_NUMBERS
    return few and measured and all(map(may_stand_for_missing, strange))


def number_of(text: str) -> float:
    """With either sign of decimals; NaN where it is none."""
    try:
        return float_of(text.replace(",", ".", 1))
    except ValueError:
        return math.nan
