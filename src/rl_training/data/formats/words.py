"""Words that stand for numbers, as `shut` for 0 and `open` for 1: a column of them can be observed, or done."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.names import listed, suggest
from rl_training.data.formats.raw import RawData
from rl_training.errors import DataError
from rl_training.validation import printable, shown

NAME = "words"  # in a `dataset:` section, and in the metadata of a file
MOST_PROPOSED = 6  # kinds of words that a column may have to be one of them
PAIR = 2  # words, of which none lies between others
_LARGEST = 3.4e38  # that float32 holds
_MUST = f"must give words their numbers by column: {NAME}: {{door: {{shut: 0, open: 1}}}}"
# What is off, closed or not so first.
_PAIRS = (
    ("off", "on"), ("no", "yes"), ("false", "true"), ("closed", "open"), ("close", "open"), ("shut", "open"),
    ("low", "high"), ("stopped", "running"), ("stop", "run"), ("idle", "running"), ("inactive", "active"),
    ("disabled", "enabled"), ("absent", "present"), ("empty", "full"), ("down", "up"), ("night", "day"),
    ("manual", "auto"), ("zu", "auf"), ("zu", "offen"), ("geschlossen", "offen"), ("nein", "ja"), ("aus", "an"),
    ("aus", "ein"), ("nacht", "tag"), ("ferme", "ouvert"), ("non", "oui"), ("cerrado", "abierto"), ("chiuso", "aperto"),
)  # fmt: skip


def checked(given: Any) -> dict[str, dict[str, float]]:
    """The user's numbers by column and by word, words in small letters as `key_of` has them."""
    if not isinstance(given, Mapping) or not all(isinstance(words, Mapping) for words in given.values()):
        raise DataError(f"{NAME}: {_MUST}")
    numbers: dict[str, dict[str, float]] = {}
    for column, words in given.items():
        if not words:
            raise DataError(f"{NAME}.{printable(str(column))}: names no word; {_MUST}")
        own = numbers.setdefault(str(column), {})
        for word, number in words.items():
            told = f"{NAME}.{printable(str(column))}: {shown(text_of(word))}"
            if not _is_finite(number):
                raise DataError(f"{told} must stand for a number, got {shown(number)}")
            if as_number(text_of(word)) is not None:
                raise DataError(f"{told} is a number itself, and stays one; leave it out")
            if own.setdefault(key_of(word), float(number)) != number:
                raise DataError(f"{told} is given two numbers; capitals make no difference")
    return numbers


def check_columns(columns: Iterable[str], names: Sequence[str], otherwise: Collection[str | None]) -> None:
    """Refuse words of a column that is not there, or that is read as something else than numbers (`otherwise`)."""
    for column in columns:
        if column not in names:
            raise DataError(f"{NAME}: no column {column!r}{suggest(column, names)}")
        if column in otherwise:
            raise DataError(f"{NAME}: column {column!r} is read for its texts or steps, not as numbers; leave it out")


def key_of(word: Any) -> str:
    """A word, or a cell, as they are compared."""
    return text_of(word).casefold()


def is_joined(cell: Any) -> bool:
    """Whether a cell has an underscore, as a label such as `1_0` has, which Python would read as 10."""
    return (isinstance(cell, str) and "_" in cell) or (isinstance(cell, bytes) and b"_" in cell)


def float_of(cell: Any) -> float:
    """As `float` has it, but for what `is_joined`."""
    if is_joined(cell):
        raise ValueError(cell)
    return float(cell)


def as_number(text: str) -> float | None:
    """The number that a text is; none where it is none, NaN included."""
    try:
        number = float_of(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def proposed(words: Iterable[str]) -> tuple[dict[str, int], bool]:
    """A number for each word, and whether two of them are a pair whose order is known; others go by the alphabet."""
    given = sorted(dict.fromkeys(words), key=key_of)
    pair = next((pair for pair in _PAIRS if sorted(pair) == [key_of(word) for word in given]), None)
    order = given if pair is None else sorted(given, key=lambda word: pair.index(key_of(word)))
    return {word: number for number, word in enumerate(order)}, pair is not None


def in_words(numbers: Mapping[str, float]) -> str:
    """`shut 0, open 1`."""
    return listed(f"{word} {number:g}" for word, number in numbers.items())


def contradict(words: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Whether a word stands for one number here and for another there."""
    known = {key_of(word): number for word, number in others.items()}
    return any(known.get(key_of(word), number) != number for word, number in words.items())


def united(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """All words of a column that several know, each as it is written first."""
    found: dict[str, tuple[str, float]] = {}
    for words in several:
        for word, number in words.items():
            found.setdefault(key_of(word), (word, number))
    return dict(found.values())


def told(given: Any) -> dict[str, dict[str, float]]:
    """What a file tells of its words, as far as it can be understood; nothing where it is another program's."""
    try:
        checked(given)
    except DataError:
        return {}
    return {str(c): {str(word): float(number) for word, number in words.items()} for c, words in given.items()}


def with_told(raw: RawData, names: Any, words: Any) -> RawData:
    """With the names of values, and their words, that a file of this package tells beside its rows."""
    return replace(raw.with_names(names), words=raw.words or told(words))


def _is_finite(number: Any) -> bool:
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return plain and abs(number) <= _LARGEST  # NaN is not, either
