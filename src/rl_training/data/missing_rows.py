"""Values that are missing: held, or their rows left out, where the user says so.

A row that is left out cuts its episode, and nothing is stitched over the hole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from rl_training.wording import amount

LEFT_OUT = " left out: a value is missing there"  # in the note, after how many of how many rows
_MEASURED = tuple(field for field in (*MATRIX_FIELDS, *VECTOR_FIELDS) if field not in TELL_ENDS)


def with_held(raw: RawData) -> RawData:
    """Observations and actions with the last value that the same column has before, in the same episode, where one is
    missing; flags are settled. What the first rows of an episode lack stays missing."""
    if not _missing(raw.arrays).any():
        return raw
    terminations, truncations = _ends(raw)
    rows = np.arange(len(terminations))
    starts = np.r_[True, (terminations | truncations)[:-1]]
    first = np.maximum.accumulate(np.where(starts, rows, 0))
    arrays = dict(raw.arrays)
    counts: dict[str, int] = {}
    longest = 0
    for key, given in raw.arrays.items():
        field = FIELD_OF.get(key)
        values = np.asarray(given)
        if field not in MATRIX_FIELDS or values.dtype.kind != "f" or np.isfinite(values).all():
            continue
        table = values.reshape(len(values), -1).copy()
        for column in np.flatnonzero(~np.isfinite(table).all(axis=0)).tolist():
            known = np.isfinite(table[:, column])
            last = np.maximum.accumulate(np.where(known, rows, -1))
            held = np.flatnonzero(~known & (last >= first))
            table[held, column] = table[last[held], column]
            if held.size:
                name = raw.column_in_file(field, column) or f"{field}[{column}]"
                counts[name] = counts.get(name, 0) + int(held.size)
                longest = max(longest, int((held - last[held]).max()))
        arrays[key] = table.reshape(values.shape)
    if not counts:
        return raw
    told = first_of(f"{printable(name)} {count:,}" for name, count in counts.items())
    note = f"{amount(sum(counts.values()), 'missing value')} held at the last one before (missing: hold): {told}"
    note += f"; for {longest:,} rows at most" if longest > 1 else ""
    return replace(raw, arrays=arrays, notes=(*raw.notes, note))


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
    terminations, truncations = _ends(raw)
    before = np.r_[bad[1:], False] & ~(terminations | truncations)  # inside the episode of the row that goes
    recorded = _recorded(raw, terminations | truncations)
    recorded = replace(recorded, cuts=recorded.cuts | before)
    rest = {key: values for key, values in arrays.items() if FIELD_OF.get(key) not in TELL_ENDS}
    told = {**rest, "terminations": terminations, "truncations": truncations | before}
    kept = np.flatnonzero(~bad)
    lost = int((terminations & bad).sum())
    ends = (told["terminations"] | told["truncations"])[kept]
    note = f"{int(bad.sum()):,} of {amount(len(bad), 'row')}{LEFT_OUT} (missing: {missing}{_infinite(arrays)})"
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


def _ends(raw: RawData) -> tuple[BoolArray, BoolArray]:
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


def _infinite(arrays: dict[str, Any]) -> str:
    """`; 2 infinite ones among them`, if there are such."""
    count = sum(int(np.isinf(values).sum()) for values in _measured(arrays) if values.dtype.kind == "f")
    return f"; {amount(count, 'infinite one')} among them" if count else ""


def _missing(arrays: dict[str, Any]) -> BoolArray:
    """Rows with a value that is not finite, `[N]`; of lengths that do not agree, which are refused elsewhere, none."""
    measured = _measured(arrays)
    rows = {len(values) if values.ndim else 0 for values in measured}
    if len(rows) != 1:
        return np.zeros(0, dtype=np.bool_)
    bad = np.zeros(rows.pop(), dtype=np.bool_)
    for values in measured:
        if values.dtype.kind == "f":
            bad |= ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return bad
