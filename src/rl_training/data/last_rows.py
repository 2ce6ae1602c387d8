"""What the last row of an episode means where nothing but an id, or the calendar, ends it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.fields import EPISODE_IDS, FIELD_OF
from rl_training.data.flags import DONES
from rl_training.data.formats.raw import RawData
from rl_training.errors import DataError
from rl_training.reading_choices import LastRowsAre
from rl_training.wording import amount

NAME = "last_rows_are"


def with_last_rows(raw: RawData, meaning: LastRowsAre) -> RawData:
    """With a termination in the last row of every episode that ends by its id, unless a flag or a text calls it a
    truncation. Where reading cut one, or the log stops inside a day that was to be one, nothing has ended."""
    if meaning == "truncation":
        return raw
    keys = {field: key for key in raw.arrays if (field := FIELD_OF.get(key)) is not None}
    if EPISODE_IDS not in keys:
        told = "here flags mark every end" if keys.keys() & {"terminations", "truncations"} else "here are none"
        raise DataError(f"{NAME}: is for episodes that ids or episode_each tell apart, and {told}; leave it out")
    if flag := next((name for name in DONES if name in raw.arrays), None):
        raise DataError(f"{NAME}: {flag!r} marks ends itself; say what it means (dones_are), and leave this out")
    ids = np.asarray(raw.arrays[keys[EPISODE_IDS]]).reshape(-1)
    last = np.r_[ids[1:] != ids[:-1], np.ones(min(1, len(ids)), dtype=np.bool_)]
    cut = np.zeros_like(last) if raw.recorded is None else raw.recorded.cuts.copy()
    if raw.clock is not None and raw.clock.open_ends.size:
        cut |= np.isin(raw.in_table(np.arange(len(ids))), raw.clock.open_ends)
    flags = {name: np.asarray(raw.arrays[keys[name]]) for name in ("terminations", "truncations") if name in keys}
    if any(values.shape != last.shape for values in flags.values()):
        return raw  # for the checks to complain about
    ended = last & ~cut
    for values in flags.values():
        ended &= values == 0
    own = flags.get("terminations", np.zeros(len(last), dtype=np.bool_))
    terminations = np.where(ended, np.ones(1, dtype=own.dtype), own)
    note = f"{amount(int(ended.sum()), 'last row')} of episodes count as terminations ({NAME}: termination)"
    if open_ended := int((last & cut).sum()):
        note += f"; {open_ended:,} where rows are missing, or the log stops, are cuts"
    arrays = {**raw.arrays, keys.get("terminations", "terminations"): terminations}
    return replace(raw, arrays=arrays, notes=(*raw.notes, note), last_rows_are=meaning)
