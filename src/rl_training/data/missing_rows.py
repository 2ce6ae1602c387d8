"""Rows in which a value is missing, left out where the user says so: each cuts its episode, and nothing is stitched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import MATRIX_FIELDS, VECTOR_FIELDS
from rl_training.data.fields import FIELD_OF, TELL_ENDS
from rl_training.data.flags import complete_flags, resolve_names
from rl_training.data.formats.raw import RawData
from rl_training.errors import DataError
from rl_training.wording import amount

LEFT_OUT = " left out: a value is missing there"  # in the note, after how many of how many rows
_MEASURED = tuple(field for field in (*MATRIX_FIELDS, *VECTOR_FIELDS) if field not in TELL_ENDS)


def without_missing(raw: RawData, arrays: dict[str, Any]) -> RawData:
    """`raw` with those of its arrays, whose flags are settled, but for rows with a NaN in a field that is measured.

    The row before such a row becomes the last of its episode, a truncation, and the row after it begins another.
    """
    bad = _missing(arrays)
    if not bad.any():
        return replace(raw, arrays=arrays)
    if bad.all():
        raise DataError("missing: every row lacks a value; see which column is empty, and leave it out")
    flags = complete_flags(resolve_names(arrays))
    terminations = np.asarray(flags.get("terminations", np.zeros(len(bad)))).reshape(-1) != 0
    truncations = np.asarray(flags.get("truncations", np.zeros(len(bad)))).reshape(-1) != 0
    before = np.r_[bad[1:], False] & ~(terminations | truncations)  # inside the episode of the row that goes
    rest = {key: values for key, values in arrays.items() if FIELD_OF.get(key) not in TELL_ENDS}
    told = {**rest, "terminations": terminations, "truncations": truncations | before}
    kept = np.flatnonzero(~bad)
    count = int(bad.sum())
    cuts = int((before & ~bad).sum())
    note = f"{count:,} of {amount(len(bad), 'row')}{LEFT_OUT} (missing: drop)"
    note += f"; {amount(cuts, 'episode')} cut before them" if cuts else ""
    return replace(
        raw,
        arrays={key: np.asarray(a)[kept] if key in FIELD_OF else a for key, a in told.items()},
        rows=kept if raw.rows is None else raw.rows[kept],
        notes=(*raw.notes, note),
    )


def _missing(arrays: dict[str, Any]) -> npt.NDArray[np.bool_]:
    """Rows with a NaN, `[N]`; of lengths that do not agree, which are refused elsewhere, none."""
    measured = [np.asarray(values) for key, values in arrays.items() if FIELD_OF.get(key) in _MEASURED]
    rows = {len(values) if values.ndim else 0 for values in measured}
    if len(rows) != 1:
        return np.zeros(0, dtype=np.bool_)
    bad = np.zeros(rows.pop(), dtype=np.bool_)
    for values in measured:
        if values.dtype.kind == "f":
            bad |= np.isnan(values).reshape(len(values), -1).any(axis=1)
    return bad
