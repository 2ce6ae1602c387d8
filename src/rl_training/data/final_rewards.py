"""Rewards that a log has for whole episodes, in their last rows: until then nothing was paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.checks import BoolArray
from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.raw import RawData, RewardParts
from rl_training.data.missing_rows import ends_of
from rl_training.errors import DataError
from rl_training.wording import WARNING, amount

_MOST_ENDS = 0.5  # of the episodes must have one, or it is a gap like others


def with_final_rewards(raw: RawData) -> RawData:
    """`raw`, whose flags are settled, with 0 in the place of missing rewards where only last rows have any. A last row
    without one still lacks it."""
    key = next((key for key in raw.arrays if FIELD_OF.get(key) == "rewards"), None)
    values = np.zeros(0) if key is None else np.asarray(raw.arrays[key])
    if key is None or values.ndim != 1 or values.dtype.kind != "f" or not np.isnan(values).any():
        return raw
    if raw.reward_parts is not None:
        return _with_parts(raw, key, raw.reward_parts)
    terminations, last = _ends(raw)
    paid = ~np.isnan(values)
    if not _stands_at_ends(paid, last):
        return raw
    column = raw.column_in_file("rewards", None)
    named = "rewards" if column is None else f"column {column!r}"
    fields = {FIELD_OF.get(name) for name in raw.arrays}
    if "next_obs" not in fields and not (paid & terminations).any():
        raise DataError(f"{named}: only last rows of episodes have a reward, and {_cut(raw)}")
    note = f"{named}: only last rows of episodes have a reward; it is 0 in all others"
    return replace(raw, arrays={**raw.arrays, key: np.where(paid | last, values, 0.0)}, notes=(*raw.notes, note))


def _ends(raw: RawData) -> tuple[BoolArray, BoolArray]:
    """Terminations, and last rows of the file's own episodes, `[N]` each: where rows are missing none has ended."""
    terminations, truncations = ends_of(raw)
    last = terminations | truncations
    return terminations, last if raw.recorded is None else last & ~raw.recorded.cuts


def _stands_at_ends(paid: BoolArray, last: BoolArray) -> bool:
    """Whether only last rows of episodes have it, and most of them."""
    return bool(paid.any() and not (paid & ~last).any() and paid.sum() >= _MOST_ENDS * last.sum())


def _cut(raw: RawData) -> str:
    """What to do about rewards in last rows that are not trained on."""
    way = "termination for its text in end_reasons" if raw.ends_told else "last_rows_are: termination"
    why = "those of cut episodes are left out, as nothing tells what follows"
    return f"{why}: if the task ends there, say so, {way}"


def _with_parts(raw: RawData, key: str, parts: RewardParts) -> RawData:
    """Of a sum: a column that only last rows have adds nothing in all others; what else is empty, or was named as
    missing, is a missing reward. That holds of each column: where one is missing, the others are no whole reward."""
    if parts.filled is None:
        return raw
    terminations, last = _ends(raw)
    stored = "next_obs" in {FIELD_OF.get(name) for name in raw.arrays}
    rows = raw.in_table(np.arange(len(last)))
    lacking, notes, left = np.zeros_like(last), [], {}
    for column, cells in parts.empty.items():
        empty = cells[rows]
        if _stands_at_ends(~empty, last):
            without = f"empty in {int(empty.sum()):,} of {amount(len(empty), 'row')}, where it adds nothing"
            notes.append(f"column {column!r}: {without} to the reward")
            if not stored and not (~empty & terminations).any():
                notes.append(f"{WARNING}column {column!r}: only last rows of episodes have it, and {_cut(raw)}")
            empty = empty & last
        lacking |= empty
        left[column] = np.zeros_like(cells)
        left[column][rows] = empty
    filled = -parts.filled[rows] if raw.negated else parts.filled[rows]
    values = np.where(lacking, np.nan, filled)
    settled = RewardParts(None, left)
    return replace(raw, arrays={**raw.arrays, key: values}, notes=(*raw.notes, *notes), reward_parts=settled)
