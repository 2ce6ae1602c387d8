"""Values that are missing: held, or their rows left out, where the user says so.

A row that is left out cuts its episode, and nothing is stitched over the hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import MATRIX_FIELDS, VECTOR_FIELDS, BoolArray
from rl_training.data.fields import EPISODE_IDS, FIELD_OF, TELL_ENDS
from rl_training.data.flags import complete_flags, resolve_names
from rl_training.data.formats.names import first_of
from rl_training.data.formats.raw import RawData, Recorded
from rl_training.errors import DataError
from rl_training.reading_choices import Missing
from rl_training.validation import printable
from rl_training.wording import WARNING, amount

_MOST = 0.5  # of the rows: whoever loses more of them should look again
LEFT_OUT = " left out: a value is missing there"  # in the note, after how many of how many rows
_SUCCESSOR_OF = {"next_obs": "obs", "next_actions": "actions"}
Table: TypeAlias = npt.NDArray[Any]  # [N, K]
_MEASURED = tuple(field for field in (*MATRIX_FIELDS, *VECTOR_FIELDS) if field not in TELL_ENDS)


def with_held(raw: RawData) -> RawData:
    """Observations and actions with the last value that the same column has before, in the same episode, where one is
    missing; flags are settled. What the first rows of an episode lack stays missing.

    What a row stores of its successor is what the next row holds, and the other way round, as far as the two agree.
    """
    if not _missing(raw.arrays).any():
        return raw
    terminations, truncations = ends_of(raw)
    ends = terminations | truncations
    keys = {field: key for key in raw.arrays if (field := FIELD_OF.get(key, "")) in MATRIX_FIELDS}
    given = {field: np.asarray(raw.arrays[key]) for field, key in keys.items()}
    given = {field: values for field, values in given.items() if values.dtype.kind in "biuf"}
    tables = {field: values.reshape(len(values), -1).copy() for field, values in given.items()}
    pairs = {after: own for after, own in _SUCCESSOR_OF.items() if own in tables and after in tables}
    pairs = {after: own for after, own in pairs.items() if tables[after].shape == tables[own].shape}
    follows = {after: _agree(tables[own], tables[after], ends) for after, own in pairs.items()}
    known = 0
    for after, own in pairs.items():
        known += _take(tables[own][1:], tables[after][:-1], follows[after])
        known += _take(tables[after][:-1], tables[own][1:], follows[after])
    left = {field: np.isfinite(table) for field, table in tables.items()}
    longest = max((_hold(table, ends) for field, table in tables.items() if field not in pairs), default=0)
    for after, own in pairs.items():
        _take(tables[after][:-1], tables[own][1:], follows[after])
        _take(tables[after], tables[own], np.ones(len(ends), dtype=np.bool_))  # nothing was seen since
    held = {field: np.isfinite(table) & ~left[field] for field, table in tables.items()}
    infinite = sum(
        int((np.isinf(values.reshape(tables[f].shape)) & np.isfinite(tables[f])).sum()) for f, values in given.items()
    )
    notes = tuple(_what_was_held(raw, held, known, longest, infinite))
    made = {keys[field]: table.reshape(given[field].shape) for field, table in tables.items()}
    return replace(raw, arrays={**raw.arrays, **made}, notes=(*raw.notes, *notes)) if notes else raw


def _agree(own: Table, after: Table, ends: BoolArray) -> BoolArray:
    """After which rows the episode goes on in the next one, as far as both are known, `[N - 1]`."""
    unknown = ~np.isfinite(after[:-1]) | ~np.isfinite(own[1:])
    return np.asarray(~ends[:-1] & ((after[:-1] == own[1:]) | unknown).all(axis=1))


def _take(to: Table, given: Table, rows: BoolArray) -> int:
    """Fill what is missing in these rows, and tell how much of it was given."""
    places = ~np.isfinite(to) & np.isfinite(given) & rows[:, None]
    to[places] = given[places]
    return int(places.sum())


def _hold(table: Table, ends: BoolArray) -> int:
    """Fill what is missing with the last value before in the same episode; for how many rows at most."""
    rows = np.arange(len(ends))
    first = np.maximum.accumulate(np.where(np.r_[True, ends[:-1]], rows, 0))
    longest = 0
    for column in np.flatnonzero(~np.isfinite(table).all(axis=0)).tolist():
        known = np.isfinite(table[:, column])
        last = np.maximum.accumulate(np.where(known, rows, -1))
        held = np.flatnonzero(~known & (last >= first))
        table[held, column] = table[last[held], column]
        longest = max(longest, int((held - last[held]).max(initial=0)))
    return longest


def _what_was_held(
    raw: RawData, held: Mapping[str, BoolArray], known: int, longest: int, infinite: int
) -> Iterator[str]:
    """held: which values of a field, `[N, K]`; known: how many more stood elsewhere."""
    some = f"{amount(infinite, 'infinite one')} among them" if infinite else ""
    if known:
        told = f" ({some})" if some else ""
        yield f"{amount(known, 'missing value')} taken from the same one as the row before or after has it{told}"
    counts = {
        name: int(count)
        for field, places in held.items()
        for name, count in zip(raw.called(field, places.shape[1]), places.sum(axis=0), strict=True)
        if count
    }
    if counts:
        told = first_of(f"{printable(name)} {count:,}" for name, count in counts.items())
        rows = f"; for {longest:,} rows at most" if longest > 1 else ""
        total = amount(sum(counts.values()), "missing value")
        way = "missing: hold" if known or not some else f"missing: hold; {some}"
        yield f"{total} held at the last one before ({way}): {told}{rows}"


def without_missing(raw: RawData, missing: Missing) -> RawData:
    """`raw`, whose flags are settled, but for rows with a NaN or an infinite value in a field that is measured.

    The row before such a row becomes the last of its episode, a truncation, and the row after it begins another.
    """
    arrays = raw.arrays
    bad = _missing(arrays)
    if not bad.any():
        return raw
    if bad.all():
        raise DataError("missing: every row lacks a value; see which column is empty, and leave it out")
    terminations, truncations = ends_of(raw)
    before = np.r_[bad[1:], False] & ~(terminations | truncations)  # inside the episode of the row that goes
    recorded = _recorded(raw, terminations | truncations)
    recorded = replace(recorded, cuts=recorded.cuts | before)
    rest = {key: values for key, values in arrays.items() if FIELD_OF.get(key) not in TELL_ENDS}
    told = {**rest, "terminations": terminations, "truncations": truncations | before}
    kept = np.flatnonzero(~bad)
    lost = int((terminations & bad).sum())
    ends = (told["terminations"] | told["truncations"])[kept]
    why = f"missing: {missing}{_infinite(arrays)}"
    why += ", which holds no rewards, and nothing before an episode's first value" if missing == "hold" else ""
    note = f"{int(bad.sum()):,} of {amount(len(bad), 'row')}{LEFT_OUT} ({why})"
    if bad.mean() > _MOST:
        note = f"{WARNING}{note}, mostly {_most_often(raw)}; is that what is meant?"
    if (before & ~bad).any():
        pieces = int(np.count_nonzero(ends[:-1])) + 1
        whole = amount(len(np.unique(recorded.episodes)), "recorded episode")
        note += f"; {whole} became {amount(pieces, 'piece')}, and returns are those of pieces"
    return replace(
        raw,
        arrays={key: np.asarray(a)[kept] if key in FIELD_OF else a for key, a in told.items()},
        rows=kept if raw.rows is None else raw.rows[kept],
        notes=(*raw.notes, note),
        recorded=recorded.of_rows(kept),
        ends_told=raw.ends_told or _ids(arrays) is not None,
        left_out=(int(bad.sum()), lost),
    )


def ends_of(raw: RawData) -> tuple[BoolArray, BoolArray]:
    """Terminations and truncations of settled data, `[N]` each."""
    flags = complete_flags(resolve_names(raw.arrays))
    rows = len(next(iter(flags.values())))
    terminations, truncations = (
        np.asarray(np.asarray(flags.get(name, np.zeros(rows))).reshape(-1) != 0) for name in TELL_ENDS[:2]
    )
    return terminations, truncations


def _recorded(raw: RawData, ends: BoolArray) -> Recorded:
    """The episodes as the file has them: by its names, else counted by the ends."""
    if raw.recorded is not None:
        return raw.recorded
    ids, none = _ids(raw.arrays), np.zeros_like(ends)
    if ids is None:
        return Recorded(np.r_[0, np.cumsum(ends)[:-1]], none, named=False)
    return Recorded(np.asarray(ids).reshape(-1), none, named=True)


def _ids(arrays: dict[str, Any]) -> Any:
    return next((values for key, values in arrays.items() if FIELD_OF.get(key) == EPISODE_IDS), None)


def _measured(arrays: dict[str, Any]) -> list[npt.NDArray[Any]]:
    return [np.asarray(values) for key, values in arrays.items() if FIELD_OF.get(key) in _MEASURED]


def _most_often(raw: RawData) -> str:
    """The column that lacks most values."""
    lacking: dict[str, int] = {}
    for key, values in raw.arrays.items():
        field = FIELD_OF.get(key)
        if field in _MEASURED and (table := np.asarray(values)).dtype.kind == "f":
            counts = (~np.isfinite(table.reshape(len(table), -1))).sum(axis=0).tolist()
            lacking |= dict(zip(raw.called(field, len(counts)), counts, strict=True))
    return printable(max(lacking, key=lambda name: lacking[name]))


def _infinite(arrays: dict[str, Any]) -> str:
    """`; 2 infinite ones among them`, if there are such."""
    count = sum(int(np.isinf(values).sum()) for values in _measured(arrays) if values.dtype.kind == "f")
    return f"; {amount(count, 'infinite one')} among them" if count else ""


def _missing(arrays: dict[str, Any]) -> BoolArray:
    """Rows with a value that is not finite, `[N]`; none of no rows, or of lengths that do not agree, which are refused
    elsewhere."""
    measured = _measured(arrays)
    rows = {len(values) if values.ndim else 0 for values in measured}
    if len(rows) != 1 or rows == {0}:
        return np.zeros(0, dtype=np.bool_)
    bad = np.zeros(rows.pop(), dtype=np.bool_)
    for values in measured:
        if values.dtype.kind == "f":
            bad |= ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return bad
