"""Ids that come again after those of others: given twice, or no episodes' at all, as of who was on duty."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError
from rl_training.validation import printable
from rl_training.wording import amount

_FEW, _OFTEN = 20, 3  # values, and how often each comes again, of what names no episodes
_LONG = 10.0  # usual strides: a pause, and no rows that were shuffled


class NoEpisodeIdsError(DataError):
    """Of a column that names no episodes: whoever has the others may name one that does."""


class Again(NamedTuple):
    """What is said of ids that come again: where all is well with their rows, and where steps occur twice in them."""

    note: str = ""
    refusal: str = ""


def ids_again(
    ids: npt.NDArray[Any] | None, episode: npt.NDArray[np.int64] | None, step: npt.NDArray[Any], day: float | None
) -> Again:
    """episode: the ids numbered, in the rows' own order, `[N]`. day: how long one is, where steps are dates."""
    if ids is None or episode is None or not len(step):
        return Again()
    begins = np.flatnonzero(np.r_[True, np.diff(episode) != 0])
    of, values = episode[begins], step.astype(np.float64)
    kinds = int(episode.max()) + 1
    refusal = ""
    if 1 < kinds <= _FEW and len(begins) >= _OFTEN * kinds:
        refusal = f"episode_ids has only {kinds} values, which take turns {len(begins):,} times: they seem to name no"
        refusal += " episodes; name a column that has a value of its own for each"
    first, last = np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins)
    order = np.lexsort((first, of))
    same = of[order][1:] == of[order][:-1]
    inside = np.diff(values)[np.diff(episode) == 0]
    pause = (first[order][1:] - last[order][:-1])[same]
    usual = float(np.median(inside[inside > 0])) if (inside > 0).any() else np.inf
    if day is None or not pause.size or not (pause > _LONG * usual).all():
        return Again(refusal=refusal)
    several = np.unique(of[order][1:][same])
    name = printable(str(ids[begins[np.flatnonzero(of == several[0])[0]]]))
    days = float(pause.min()) / day
    later = f"at least {amount(int(days), 'day')} later" if days >= 1 else "hours later"
    note = f"{amount(len(several), 'id')} come{'s' * (len(several) == 1)} again after others, {later} ({name} is the"
    note += " first): parted where an end is marked or the dates leave a hole; give every episode an id of its own"
    return Again(note, refusal)
