"""Sensors that stood still for whole episodes: one value in all rows of these, where it changes in the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import capital, column_in_words
from rl_training.wording import amount

_LEAST_ROWS, _LEAST_EPISODES = 10, 5  # of an episode, and as many of these
_MOST_FROZEN = 0.2  # of the episodes: a column that stands still more often is like that
_MOSTLY_CHANGES = 0.5  # of the rows of the others
_MOST_TOLD = 3  # columns


def check_frozen(subject: Subject) -> Iterator[Finding]:
    """A note on each such column of the observations."""
    if subject.obs is None or not subject.whole_episodes:
        return
    long = subject.lengths >= _LEAST_ROWS
    if np.count_nonzero(long) < _LEAST_EPISODES:
        return
    told = 0
    for column in range(subject.obs.shape[1]):
        values = subject.obs[:, column]
        changes = np.r_[False, values[1:] != values[:-1]]
        changes[subject.starts] = False
        counted = np.add.reduceat(changes, subject.starts, dtype=np.int64)
        frozen = np.flatnonzero(long & (counted == 0))
        moving = (counted / np.maximum(subject.lengths - 1, 1))[long & (counted > 0)]
        if not 0 < frozen.size <= _MOST_FROZEN * np.count_nonzero(long) or np.median(moving) < _MOSTLY_CHANGES:
            continue
        if (told := told + 1) > _MOST_TOLD:
            return
        what = f"{capital(column_in_words(column, subject.obs_names))} has one value in all rows of"
        what += f" {frozen.size:,} of {amount(len(long), 'episode')}, and changes from row to row in the others."
        advice = "See whether the sensor was frozen there; if it was, leave those episodes out."
        place = subject.place(int(subject.starts[frozen[0]]), column)
        yield Finding("note", "obs.frozen", "obs", what, advice, int(frozen.size), place)
