"""What a column may be by the look of its first rows: a flag, an episode's id, a counter, a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import is_flag_word
from rl_training.data.formats.clocks import clock_of
from rl_training.data.formats.end_reasons import text_of, texts_in
from rl_training.data.formats.times import steps_of
from rl_training.errors import DataError

_FEWEST = 4  # rows that say anything
_FILLED = 0.5  # of the rows of a column that is mostly empty
_MOST_TEXTS = 30
_TWO = 2
_MOSTLY_GROWS = 0.9  # of the rows
_LIKE_TIME = 8  # characters of a text that may be a date with a time


def is_flag(values: npt.NDArray[Any]) -> bool:
    """Nothing but 0 and 1, or words for them, in the rows that were looked at."""
    if values.ndim != 1:
        return False
    if values.dtype.kind in "biuf":
        return bool(np.isin(values, (0, 1)).all())
    return values.dtype.kind in "OU" and len(values) > 0 and all(is_flag_word(str(cell)) for cell in values.tolist())


def is_in_blocks(values: npt.NDArray[Any]) -> bool:
    """The same for some rows, and never back at an earlier value, as ids of episodes are."""
    if values.ndim != 1 or len(values) < _FEWEST:
        return False
    changes = int((values[1:] != values[:-1]).sum())
    return 0 < changes < len(values) // 2 and len(set(values.tolist())) == changes + 1


def names_several(values: npt.NDArray[Any]) -> bool:
    """Texts that may be ids without a name that says so: none empty, three at least or numbers in all of them. Two
    words are as well what was reported before and after something happened."""
    texts = set(texts_in(values))
    return "" not in texts and (len(texts) > _TWO or all(any(map(str.isdecimal, text)) for text in texts))


def mostly_empty(values: npt.NDArray[Any]) -> bool:
    """A column of text with nothing in most rows, and a few texts in the others."""
    if values.ndim != 1 or values.dtype.kind not in "OU" or len(values) < _FEWEST:
        return False
    texts = texts_in(values)
    return 0 < len(texts) - texts.count("") <= _FILLED * len(texts) and len(set(texts)) <= _MOST_TEXTS


def without_usual(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column of text with its commonest text left empty, where that fills most rows and no row is empty:
    `running`, `running`, `done`."""
    if values.ndim != 1 or values.dtype.kind not in "OU" or len(values) < _FEWEST:
        return values
    texts = texts_in(values)
    usual, rows = Counter(texts).most_common(1)[0]
    if "" in texts or not _FILLED * len(texts) <= rows < len(texts):
        return values
    return np.array(["" if text == usual else text for text in texts], dtype=object)


def together(*several: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The rows that all of them have: of some more are looked at, as of flags, and arrays of a file may differ."""
    rows = min(map(len, several))
    return [values[:rows] for values in several]


def at_ends(values: npt.NDArray[Any], episodes: npt.NDArray[Any]) -> bool:
    """Whether the cells with text, or a number, are in the last rows of episodes, and in most of them."""
    values, episodes = together(values, episodes)
    if values.dtype.kind == "f":
        filled = ~np.isnan(values)
    else:
        filled = np.array([bool(text_of(cell)) for cell in values.tolist()])
    last = np.r_[episodes[1:] != episodes[:-1], True][: len(filled)]
    ended = int(last[:-1].sum())  # the last row of those that were looked at need not be one
    return bool(filled.any() and not (filled & ~last).any() and 2 * int(filled[:-1].sum()) >= ended)


def borders_of(ids: npt.NDArray[Any] | None, step: npt.NDArray[Any] | None) -> npt.NDArray[np.bool_] | None:
    """After which rows another episode begins, `[K - 1]`: by the ids of the rows, else where a counter starts again."""
    if ids is not None:
        return np.asarray(ids[1:] != ids[:-1])
    if step is None or step.dtype.kind not in "biuf":
        return None
    return np.asarray(step[1:] <= step[:-1])


def _changes(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """From row to row, `[K - 1]`."""
    with np.errstate(over="ignore", invalid="ignore"):  # of what nobody has checked yet: 1e308 after -1e308
        return np.diff(values.astype(np.float64))


def marked_ends(flags: npt.NDArray[Any], borders: npt.NDArray[np.bool_]) -> int:
    """How many last rows of episodes a flag marks; 0 where it is set in any other row, too.

    borders: after which rows another episode begins, `[K - 1]`. The last row that was looked at need not be an end.
    """
    if flags.ndim != 1 or flags.dtype.kind not in "biuf" or len(flags) != len(borders) + 1:
        return 0
    inside, last = flags[:-1] != 0, borders
    return 0 if (inside & ~last).any() else int((inside & last).sum())


def is_time(name: str, values: npt.NDArray[Any]) -> bool:
    """Numbers, or text that is a date with a time."""
    if values.ndim != 1 or not len(values):
        return False
    if values.dtype.kind in "iuf":
        return True
    if values.dtype.kind not in "OU" or not all(len(str(cell)) >= _LIKE_TIME for cell in values[:3]):
        return False
    try:
        return bool(np.isfinite(clock_of(name, steps_of(name, values)).at).all())
    except DataError:
        return False


def counts_up(values: npt.NDArray[Any], episodes: npt.NDArray[Any] | None) -> bool:
    """Whole numbers that grow by the same amount from row to row of an episode, and start again with each.

    episodes: the ids of the rows, `[N]`; without them, the numbers must start again by themselves.
    """
    if episodes is not None:
        values, episodes = together(values, episodes)
    if values.ndim != 1 or len(values) < _FEWEST or values.dtype.kind not in "iuf":
        return False
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any():
        return False
    strides = _changes(numbers)
    inside = strides > 0 if episodes is None else np.asarray(episodes[1:] == episodes[:-1])
    starts = numbers[np.r_[True, ~inside]]
    if not inside.any() or len(starts) < 2 or (starts != starts[0]).any():
        return False
    grown = strides[inside]
    return bool(grown[0] > 0 and (grown == grown[0]).all())


def counts_by_one(values: npt.NDArray[Any]) -> bool:
    """From 0 or 1: without a name or ids that speak for it, nothing else is taken for a counter."""
    return bool(values[0] in (0, 1) and values[1] == values[0] + 1)


def starts_at_ends(counter: npt.NDArray[Any], flags: Mapping[str, npt.NDArray[Any] | None]) -> bool:
    """Whether a counter starts again where flags, by their fields, have episodes end; what cannot be read disagrees.

    Flags of both kinds, or of either, mark every end; of one kind, the counter may tell of more.
    """
    starts = np.asarray(counter[1:] <= counter[:-1])
    marked = np.zeros_like(starts)
    for values in flags.values():
        if values is None or values.dtype.kind not in "biuf" or values.shape != counter.shape:
            return False
        marked |= values[:-1] != 0
    strays = starts & ~marked if "dones" in flags or len(flags) > 1 else marked & ~starts
    return not strays.any()


def is_whole(values: npt.NDArray[Any]) -> bool:
    """Numbers without a fraction."""
    return values.dtype.kind in "iuf" and bool((values == np.round(values)).all())


def only_grows(values: npt.NDArray[Any]) -> bool:
    """Whether numbers hardly ever fall from row to row, as a running sum does; one that starts again falls then."""
    changes = _changes(values) if values.dtype.kind in "iuf" else np.zeros(0)
    changes = changes[np.isfinite(changes)]
    return len(changes) >= _FEWEST and bool((changes > 0).mean() > _MOSTLY_GROWS)


def repeats(columns: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Rows that say the same in every column as the row before them, `[K]`; none where columns differ in length."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or not min(lengths):
        return np.zeros(0, dtype=np.bool_)
    same = np.ones(lengths.pop() - 1, dtype=np.bool_)
    for values in columns.values():
        if values.dtype.kind == "O":  # lists among them compare as no single truth
            values = np.array([str(cell) for cell in values.tolist()])
        equal = values[1:] == values[:-1]
        if values.dtype.kind == "f":
            equal |= np.isnan(values[1:]) & np.isnan(values[:-1])
        same &= np.asarray(equal).all(axis=tuple(range(1, values.ndim)))
    return np.asarray(np.r_[False, same])


def tells_apart(values: npt.NDArray[Any], episodes: npt.NDArray[Any] | None) -> bool:
    """Whether no number occurs twice in an episode, in whatever order its rows stand."""
    if episodes is None:
        return False
    values, episodes = together(values, episodes)
    if values.ndim != 1 or len(values) < _FEWEST or not np.isfinite(values).all():
        return False
    pairs = set(zip(np.asarray(episodes).tolist(), values.tolist(), strict=True))
    return len(pairs) == len(values) > len(set(np.asarray(episodes).tolist()))
