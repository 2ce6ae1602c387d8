"""Rewards that a log has for whole episodes, in their last rows: until then nothing was paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.raw import RawData
from rl_training.data.missing_rows import ends_of
from rl_training.errors import DataError

_MOST_ENDS = 0.5  # of the episodes must have one, or it is a gap like others


def with_final_rewards(raw: RawData) -> RawData:
    """`raw`, whose flags are settled, with 0 in the place of missing rewards where only last rows have any. A last row
    without one still lacks it."""
    key = next((key for key in raw.arrays if FIELD_OF.get(key) == "rewards"), None)
    values = np.zeros(0) if key is None else np.asarray(raw.arrays[key])
    if key is None or values.ndim != 1 or values.dtype.kind != "f" or not np.isnan(values).any():
        return raw
    terminations, truncations = ends_of(raw)
    last, paid = terminations | truncations, ~np.isnan(values)
    if (paid & ~last).any() or paid.sum() < _MOST_ENDS * last.sum():
        return raw
    column = raw.column_in_file("rewards", None)
    named = "rewards" if column is None else f"column {column!r}"
    fields = {FIELD_OF.get(name) for name in raw.arrays}
    if "next_obs" not in fields and not (paid & terminations).any():
        way = "termination for its text in end_reasons" if raw.ends_told else "last_rows_are: termination"
        raise DataError(
            f"{named}: only last rows of episodes have a reward, and those of cut episodes are left out, as nothing"
            f" tells what follows: if the task ends there, say so, {way}"
        )
    note = f"{named}: only last rows of episodes have a reward; it is 0 in all others"
    return replace(raw, arrays={**raw.arrays, key: np.where(paid | last, values, 0.0)}, notes=(*raw.notes, note))
