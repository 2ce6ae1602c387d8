"""Numbers from the cells of a table's column; what is not a number is named by column and row, counted from 0."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import unmasked
from rl_training.data.formats.names import listed
from rl_training.data.formats.signs import Signs, advice_on, amount_of
from rl_training.data.formats.words import MOST_PROPOSED, as_number, float_of, is_joined, key_of, proposed
from rl_training.data.formats.words import NAME as WORDS
from rl_training.errors import DataError, did_you_mean
from rl_training.validation import shown
from rl_training.wording import amount
from rl_training.yaml_dialect import inline

_WORDS = {"": np.nan, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "on": 1.0, "off": 0.0}
_WORDS |= {"ja": 1.0, "nein": 0.0, "wahr": 1.0, "falsch": 0.0, "vrai": 1.0, "faux": 0.0}  # as spreadsheets write them
_TRUTHS = {"true": 1.0, "false": 0.0}
_FLAG_WORDS = {"y": 1.0, "n": 0.0, "t": 1.0, "f": 0.0}
_MISSING_WORDS = ("na", "n/a", "null", "none", "missing", "-", "?", "#n/a")
_LONGEST_WORD = 30
_NO_WORD = re.compile(r"""[][{},"']|^\d""")  # what lists of words are written with, and what numbers begin with
_DECIMAL_COMMA = re.compile(r"[-+]?(?:\d+,\d*|,\d+)")
_OTHER_MINUS = tuple("\u2212\u2013\u2010\u2011\ufe63\uff0d")  # minus, dash, hyphens, small and wide
NESTED = (list, tuple, np.ndarray)
_MOST_COLUMNS, _MOST_WORDS = 4, 4  # that a refusal lists
DECLARED = np.finfo(np.float64).max  # in a column of which an empty cell may mean something: named as missing


class BadCellsError(DataError):
    """Cells of a column that are no numbers, by their rows. known: the words that stand for one in it, if any do."""

    def __init__(self, column: str, cells: Mapping[int, Any], is_flag: bool = False, known: Sequence[str] = ()) -> None:
        self.column, self.cells, self.is_flag, self.known = column, dict(cells), is_flag, known
        self.way = ""
        super().__init__(self.told())

    def told(self, lines: Mapping[int, int] | None = None) -> str:
        """The complaint. lines: those that rows have in a file of text."""
        row, word = next(iter(self.cells.items()))
        advice = _advice(str(word).strip().lower())
        if self.is_first_row_alone and not (advice or any(map(str.isdecimal, str(word)))):
            advice = "; if that row holds units, leave it out"
        if str(word).strip() == self.column:
            advice = "; the header stands there again, leave out that line"
        about = [f"line {lines[row]}"] if lines and row in lines else []
        if len(self.cells) > 1:
            about.append(f"{len(self.cells):,} such cells" + self._counted())
        placed = f" ({', '.join(about)})" if about else ""
        if self.known:
            meant = did_you_mean(str(word), self.known)
            meant = meant if "did you mean" in meant else f"; say its number, {_said(self.column, {str(word): '…'})}"
            none = f"is none of its words, {listed(self.known)}"
            return f"column {self.column!r}: {shown(word)} at row {row} {none}{meant}{placed}"
        return f"column {self.column!r}: {shown(word)} at row {row} is not a number{advice}{placed}{self.way}"

    def _counted(self) -> str:
        counts = Counter(map(str, self.cells.values())).most_common()
        more = f" and {len(counts) - _MOST_WORDS:,} other texts" if len(counts) > _MOST_WORDS else ""
        told = ", ".join(f"{shown(word)} {count:,}" for word, count in counts[:_MOST_WORDS])
        return f": {told}{more}" if len(counts) > 1 else ""

    def words(self) -> list[str]:
        """Those that may stand for a missing value: no numbers in disguise, no dates and no lists."""
        texts = [] if self.is_flag else dict.fromkeys(str(word).strip() for word in self.cells.values())
        return [t for t in texts if t != self.column and may_stand_for_missing(t) and not _advice(t.lower())]

    @property
    def is_first_row_alone(self) -> bool:
        """As where a line of units follows the header."""
        return list(self.cells) == [0]


class Faults:
    """The cells of all columns that are no numbers, to be refused together."""

    def __init__(self) -> None:
        self._found: dict[str, BadCellsError] = {}  # by column
        self._rows: Counter[str] = Counter()  # that were read of each column
        self._empty: Counter[str] = Counter()  # of those, the ones without a value

    def __bool__(self) -> bool:
        return bool(self._found)

    def reading(
        self, read: Callable[..., npt.NDArray[Any]], name: str, cells: Any, first_row: int = 0
    ) -> npt.NDArray[Any]:
        """What `read` makes of the cells; NaN where it refuses them."""
        self._rows[name] += len(cells)
        try:
            values = read(name, cells, first_row)
        except BadCellsError as error:
            self._found.setdefault(name, error).cells.update(error.cells)
            self._empty[name] += sum(map(_is_empty, cells))
            return np.full(len(cells), np.nan)
        self._empty[name] += int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
        return values

    def refuse(self, lines_of: Callable[[set[int]], Mapping[int, int]] | None = None) -> None:
        """Raise what was found, if anything. lines_of: the lines that rows have in a file of text."""
        found = list(self._found.values())
        if not found:
            return
        lines = lines_of({next(iter(error.cells)) for error in found}) if lines_of else None
        told = [error.told(lines) for error in found[:_MOST_COLUMNS]]
        if len(found) > _MOST_COLUMNS:
            told.append(f"and {amount(len(found) - _MOST_COLUMNS, 'more column')} with such cells")
        texts = [error for error in found if self._holds_text(error) and error.words()]
        told += [_of_texts(error, self._rows[error.column]) for error in texts[:_MOST_COLUMNS] if not error.known]
        words = list(dict.fromkeys(word for error in found if error not in texts for word in error.words()))
        words = words[:_MOST_WORDS]
        if words and not (len(found) > 1 and all(error.is_first_row_alone for error in found)):
            said = f"missing_words: {inline(words)}, and missing: hold or drop"
            told.append(f"if {'it stands' if len(words) == 1 else 'they stand'} for a missing value, say {said}")
        raise DataError("; ".join(told))

    def _holds_text(self, error: BadCellsError) -> bool:
        """In most rows, or in all that hold anything."""
        rows, texts = self._rows[error.column], len(error.cells)
        return 2 * texts > rows or (texts > 1 and texts + self._empty[error.column] >= rows)


def _is_empty(cell: Any) -> bool:
    return str(cell).strip().lower() in ("", "none", "nan", "nat", "<na>", "--")  # the last: one under a mask


def _of_texts(error: BadCellsError, rows: int) -> str:
    """What to do with a column of so many rows that holds words instead of numbers."""
    if 2 * len(error.cells) <= rows:
        name = error.column
        return f"{name!r} holds texts and no numbers: leave it out; what tells why episodes end is named as end_reasons"
    words = list(dict.fromkeys(str(word).strip() for word in error.cells.values()))
    way = "write numbers in its place, such as 0 and 1"
    if 1 < len(words) <= MOST_PROPOSED:
        way = f"say what number each word stands for, {_said(error.column, proposed(words)[0])}"
    return f"{error.column!r} holds text in most rows: {way}, or leave it out"


def _said(column: str, numbers: Mapping[str, Any]) -> str:
    return f"{WORDS}: {inline({column: dict(numbers)})}"


def numbers_of_words(
    name: str, values: npt.NDArray[Any], known: Mapping[str, float], first_row: int = 0, missing: Sequence[str] = ()
) -> npt.NDArray[Any]:
    """`[N]` numbers of a column of words, by these in small letters; a number stands for itself, nothing is NaN."""
    if values.dtype.kind in "iuf":  # words may have become numbers before
        return _without_marks(values, [mark for mark in missing if as_number(mark) not in known.values()])
    cells = values.tolist()
    if values.ndim > 1 or any(isinstance(cell, NESTED) for cell in cells[:1]):
        raise DataError(f"column {name!r}: holds lists, not words; leave it out of {WORDS}")
    keys = [key_of(cell) for cell in cells]
    has_truths = values.dtype.kind == "b" or any(isinstance(cell, bool) for cell in cells)
    by_key = _numbers_of_keys(set(keys), known, missing, has_truths=has_truths)
    found = [
        _number(cell, {}) if isinstance(cell, int | float) and not isinstance(cell, bool) else by_key[key]
        for cell, key in zip(cells, keys, strict=True)
    ]
    if bad := {first_row + row: _decoded(cells[row]) for row, number in enumerate(found) if number is None}:
        raise BadCellsError(name, bad, known=tuple(known))
    read = np.array(found, dtype=np.float64)
    is_word = np.array([key in known or key in _TRUTHS for key in keys], dtype=bool)
    return np.where(is_word, read, _without_marks(read, missing))  # a mark is a number in the file


def _numbers_of_keys(
    keys: Iterable[str], known: Mapping[str, float], missing: Sequence[str], *, has_truths: bool
) -> dict[str, float | None]:
    """What texts, as `key_of` has them, stand for: nothing, themselves, or what is known of them; None of what tells
    nothing. has_truths: true and false are among the cells, and no words, unless they are known as such."""
    nothing = {"", "nan", *_MISSING_WORDS, *(word.strip().casefold() for word in missing)}
    plain = {key: np.nan if key in nothing else as_number(key) for key in keys}
    truths = _TRUTHS if has_truths and _TRUTHS.keys().isdisjoint(known) else {}
    return plain | truths | dict(known)


def numbers(
    name: str,
    values: npt.NDArray[Any],
    first_row: int = 0,
    *,
    also: Mapping[str, float] | None = None,
    missing: Sequence[str] = (),
    signs: Signs | None = None,
) -> npt.NDArray[Any]:
    """`[N]` numbers, or `[N, …]` where cells hold lists. Text may be numbers or true, yes, on and their
    opposites; nothing, and a word for it, is NaN.

    first_row: the number of the first cell in the whole column, where `values` is only a part of it.
    also: further words that stand for a number. missing: further words, or numbers, that stand for nothing.
    signs: those of the parts before, where numbers may have one.
    """
    return _without_marks(_numbers(name, values, first_row, also, missing, signs), missing)


def _without_marks(found: npt.NDArray[Any], missing: Sequence[str]) -> npt.NDArray[Any]:
    """NaN where a number is one that stands for nothing."""
    marks = np.array([float(word) for word in missing if _is_number(word)])
    if found.dtype.kind == "f":
        marks = marks.astype(found.dtype)  # as the column itself rounds them
    return np.where(np.isin(found, marks), np.nan, found) if marks.size else found


def with_declared(read: npt.NDArray[Any], cells: npt.NDArray[Any], missing: Sequence[str]) -> npt.NDArray[Any]:
    """What was read of cells, `[N]`, with `DECLARED` where one is not just empty, but one of the words for nothing."""
    if not missing or read.ndim != 1 or read.dtype.kind != "f":
        return read
    if cells.dtype.kind in "biuf":
        empty = np.isnan(cells.astype(np.float64))
    else:
        nothing = {"", "nan", "none", *_MISSING_WORDS} - {word.strip().casefold() for word in missing}
        empty = np.array([is_missing(cell) or str(_decoded(cell)).strip().casefold() in nothing for cell in cells])
    return np.where(np.isnan(read) & ~empty, DECLARED, read)


def undeclared(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same, `[N]`, with nothing there: as it stands in any field but the rewards."""
    return np.where(values == DECLARED, np.nan, values)


def _numbers(
    name: str,
    values: npt.NDArray[Any],
    first_row: int,
    also: Mapping[str, float] | None,
    missing: Sequence[str],
    signs: Signs | None,
) -> npt.NDArray[Any]:
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind not in "OUST":
        raise DataError(f"column {name!r}: {values.dtype} values are not numbers")
    values = _singles(values)
    if values.ndim > 1 or any(isinstance(cell, NESTED) for cell in values[:1]):
        return _stacked(name, values)
    if any(isinstance(cell, np.datetime64 | np.timedelta64) for cell in values.flat):
        raise DataError(f"column {name!r}: holds dates or durations as objects; give them as an array of one type")
    try:
        if any(map(is_joined, values.tolist())):
            raise ValueError
        found = values.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        values = values if signs is None else signs.without(name, values, first_row)
    else:
        if signs is not None:
            signs.plain(name, found, first_row)
        return found
    none = dict.fromkeys(map(str.casefold, map(str.strip, missing)), np.nan)
    words = _WORDS | (dict.fromkeys(_MISSING_WORDS, np.nan) | none if also is None else dict(also))
    cells = values.tolist()
    read = [_number(cell, words) for cell in cells]
    bad = {first_row + place: _decoded(cells[place]) for place, value in enumerate(read) if value is None}
    if bad:
        raise BadCellsError(name, bad, is_flag=also is not None)
    return np.array(read, dtype=np.float64)


def flags(name: str, values: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """As `numbers`; text may also be y or n, t or f, which would be strange among measurements."""
    return numbers(name, values, first_row, also=_FLAG_WORDS)


def is_flag_word(text: str) -> bool:
    """Whether a text is one of those that `flags` reads."""
    return text.strip().lower() in {*_FLAG_WORDS, *_WORDS, "0", "1"} - {""}


def _number(cell: Any, words: Mapping[str, float]) -> float | None:
    """None of what is no number."""
    try:
        return float_of(cell)
    except OverflowError:
        return np.inf
    except (ValueError, TypeError):
        word = _decoded(cell)
    text = "" if word is None or is_missing(word) else str(word).strip().casefold()
    return None if isinstance(word, NESTED) else words.get(text)


def number_said(text: str) -> float:
    """The number that a text is, or stands for in any column of numbers, as `yes` does; ValueError of others."""
    word = text.strip().casefold()
    return _WORDS[word] if word and word in _WORDS else float_of(text)


def _decoded(cell: Any) -> Any:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


def _is_number(text: str) -> bool:
    try:
        return float_of(text) == float_of(text)
    except ValueError:
        return False


def is_missing(cell: Any) -> bool:
    """pandas' NA and NaT; both compare as nothing else does."""
    return type(cell).__name__ in ("NAType", "NaTType")


def _advice(text: str) -> str:
    if text[:1] in ("[", "("):
        return _in_brackets(text) or "; give one column per value (obs_0, obs_1, …)"
    if text[:1] in _OTHER_MINUS and any(map(str.isdecimal, text)):  # a dash alone is no number
        return "; its minus is another sign that looks alike: write -"
    if _DECIMAL_COMMA.fullmatch(text):
        return "; write decimals with a point"
    if "." in text and _is_number(text):
        return "; decimals have commas in this file, so write it without a point, or with a comma in its place"
    if text in _MISSING_WORDS:
        return "; a missing value: fill it in, or leave out its row where a step column shows the hole"
    return "; write 1 and 0 for such letters, or yes and no" if text in _FLAG_WORDS else advice_on(text)


def _in_brackets(text: str) -> str:
    """What to do about `(5)` and `($4.50)`, as bookkeepers write negative numbers; `(1,234)` may be two numbers."""
    inner = text[1:-1].strip().upper() if text.startswith("(") and text.endswith(")") else ""
    amount = amount_of(inner)
    if amount is None or (amount.has_thousands and not amount.shows_them):
        return ""
    if amount.number[0] in "+-":
        return "; write numbers without brackets"
    return f"; write negative numbers with a sign, -{amount.sign}{amount.number}"


def is_missing_word(text: str) -> bool:
    """Whether a text stands for a value that is not there."""
    return text.strip().lower() in ("", "nan", *_MISSING_WORDS)


def may_stand_for_missing(text: str) -> bool:
    """Whether a text in a column of numbers may be a word for nothing: `ERR`, `n/v`, `#WERT!`, but not `-3 °C`."""
    if not 0 < len(text) <= _LONGEST_WORD or not text.isprintable() or _NO_WORD.search(text):
        return False
    return text[0].isalpha() or not any(map(str.isdecimal, text))


def _singles(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """With numbers for arrays of no dimensions, which some environments give for a reward; nothing for masked ones."""
    if values.dtype.kind != "O" or values.ndim != 1:
        return values
    read = values
    for row, cell in enumerate(values):
        if isinstance(cell, np.ndarray) and not cell.ndim:
            read = values.copy() if read is values else read
            read[row] = None if np.ma.is_masked(cell) else cell.item()
    return read


def _stacked(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lists of one length as the rows of a matrix."""
    width = np.shape(values[0])
    for row, cell in enumerate(values):
        if not isinstance(cell, NESTED):
            raise DataError(f"column {name!r}: row {row} holds {shown(cell)}, not a list as row 0 does")
        if len(cell) != len(values[0]):
            raise ragged(name, row, len(cell), len(values[0]))
    try:
        stacked = np.array([np.asarray(unmasked(cell), dtype=np.float64) for cell in values])
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
