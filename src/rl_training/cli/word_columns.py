"""What `rl-training init` makes of columns of a few words, such as `open` and `shut`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import is_missing_word
from rl_training.data.formats.end_reasons import texts_in
from rl_training.data.formats.peek import Peek
from rl_training.data.formats.places import expand
from rl_training.data.formats.signs import number_before_unit
from rl_training.data.formats.whole_columns import Text, texts_of
from rl_training.data.formats.words import MOST_PROPOSED, PAIR, as_number, key_of, proposed
from rl_training.data.guess_words import is_control
from rl_training.data.guesses import Guess, Guesses

_MOST_COLUMNS = 8  # that are read to their end for this
_FILLED = 0.5  # of the rows that were looked at
_ROWS_FOR_EACH = 2  # of every word, on average; where each stands once they are names
_NO_MARK = "none"  # a word for nothing among numbers, and a state among words


def columns_of_words(place: Path, first: Peek, guesses: Guesses) -> tuple[Guesses, dict[str, dict[str, int]]]:
    """The columns that no field takes and that hold a few words: in how many rows each stands, of the whole table
    unless it is very large. The guesses with those of two words among what may be observed, where that is not clear."""
    if first.kind not in ("csv", "parquet"):
        return guesses, {}
    likely = [name for name in guesses.left if _may_be(first.columns[name])][:_MOST_COLUMNS]
    counted = {name: _words(texts) for name, texts in texts_of(expand(place), first.kind, likely).items()}
    words = {name: own for name, own in counted.items() if PAIR <= len(own) <= MOST_PROPOSED}
    return _with_words(guesses, words), words


def _with_words(guesses: Guesses, words: Mapping[str, Mapping[str, int]]) -> Guesses:
    """What is switched, by its name, is done; what else has two words may be seen, where that is not clear."""
    two = [name for name, own in words.items() if len(own) == PAIR]
    is_told = any(guess.field == "actions" and guess.found_by_name for guess in guesses.fields)
    switched = tuple(name for name in two if is_control(name) and not is_told)
    seen = tuple(name for name in two if name not in switched)
    fields = tuple(_wider(guess, {"actions": switched, "obs": seen}.get(guess.field, ())) for guess in guesses.fields)
    used = {name for guess in fields for columns in (guess.columns, *guess.candidates) for name in columns}
    return replace(guesses, fields=fields, left=tuple(name for name in guesses.left if name not in used))


def _wider(guess: Guess, more: tuple[str, ...]) -> Guess:
    if not more or (guess.is_clear and guess.field == "obs") or guess.found_by_name:
        return guess
    if guess.is_clear:
        return replace(guess, columns=(*guess.columns, *more))
    return replace(guess, candidates=tuple((*known, *more) for known in guess.candidates or ((),)))


def numbers_of(words: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The numbers that are proposed: of two words, which can be in no wrong order but by their sign."""
    return {name: proposed(own)[0] for name, own in words.items() if len(own) == PAIR}


def _may_be(values: npt.NDArray[np.generic]) -> bool:
    if values.ndim != 1 or values.dtype.kind not in "OU" or not len(values):
        return False
    texts = texts_in(values)
    filled = [text for text in texts if _is_word(text)]
    few = len(set(map(key_of, filled))) <= min(MOST_PROPOSED, len(filled) / _ROWS_FOR_EACH)
    return few and len(filled) >= _FILLED * len(texts) and not any(map(_is_number, filled))


def _is_number(text: str) -> bool:
    return as_number(text) is not None or number_before_unit(text) is not None


def _words(texts: Mapping[str, Text]) -> dict[str, int]:
    """Those that differ by more than their capitals, as they are first written."""
    found: dict[str, tuple[str, int]] = {}
    for text, own in texts.items():
        if _is_word(text):
            word, before = found.get(key_of(text), (text, 0))
            found[key_of(text)] = (word, before + own.rows)
    return dict(found.values())


def _is_word(text: str) -> bool:
    return key_of(text) == _NO_MARK or not is_missing_word(text)
