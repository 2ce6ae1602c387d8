"""Whether a column of the observations is what the action of the same row brought about.

Energy used in a slot, the speed at its end: recorded beside the action, known only after it. A policy that is trained
on such a column reads its action off it, and has nothing to read where it acts. What is measured before an action
follows from the row before; what the action brings about follows from the action, and hardly from the row before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.ridge import FAR, ROWS_PER_TERM, Ridge, held_out, rows_with_neighbours, standard
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import capital, column_in_words, share

OUTCOME = "obs.outcome"
_ROWS = 6_000
_LEAST_ROWS = 400
_WIDEST = 120  # numbers of a row; every suspect column has regressions of its own
_TOLD = 0.9  # of the variance, by the action and the rest of the row
_SUSPECT = 0.6  # of the variance, by the row before or the rest of the same row: above it, nothing is amiss
_CLEARLY = 0.25  # the error left with the action, as a share of the one without it
_MOST_SUSPECTS, _MOST_TOLD = 12, 3  # columns


def check_outcomes(subject: Subject) -> Iterator[Finding]:
    """A finding for each column that the action tells, and neither the row before nor the rest of the row does."""
    for column, before, beside, told in _outcomes(subject)[:_MOST_TOLD]:
        name = column_in_words(column, subject.obs_names)
        what = (
            f"{capital(name)} follows from the action of the same row: {share(told)} of its variance, but only"
            f" {share(max(before, 0.0))} from the row before and {share(max(beside, 0.0))} from the other observations:"
            " it looks like what the action brought about."
        )
        advice = (
            "A policy can see only what is known before it acts: if this is recorded after, take it out of obs; leave"
            " it where the recorded actions were chosen by it."
        )
        yield Finding("warning", OUTCOME, "obs", what, advice)


def _outcomes(subject: Subject) -> list[tuple[int, float, float, float]]:
    """Columns of observations, each with what of its variance the row before, the other columns, and these together
    with the action explain, on episodes left out."""
    obs, actions = subject.obs, subject.actions
    if obs is None or actions is None or not subject.whole_episodes:
        return []
    width = obs.shape[1] + actions.shape[1]
    rows = rows_with_neighbours(subject, _ROWS)
    if width > _WIDEST or len(rows) < max(_LEAST_ROWS, ROWS_PER_TERM * width):
        return []
    kept = held_out(subject, rows)
    seen, done = (np.clip(standard(of[rows].astype(np.float64)), -FAR, FAR) for of in (obs, actions))
    previous = np.concatenate([obs[rows - 1], actions[rows - 1]], axis=1).astype(np.float64)
    after = Ridge(np.clip(standard(previous), -FAR, FAR), kept)
    before = {column: after.explained(seen[:, column]) for column in np.flatnonzero(seen.any(axis=0)).tolist()}
    suspects = [column for column, explained in before.items() if explained <= _SUSPECT]
    suspects.sort(key=lambda column: -float(np.abs(seen[:, column] @ done).max()))
    found = []
    for column in suspects[:_MOST_SUSPECTS]:
        others = np.delete(seen, column, axis=1)
        beside, told = (Ridge(of, kept).explained(seen[:, column]) for of in (others, np.append(others, done, axis=1)))
        without = max(before[column], beside)
        if without <= _SUSPECT and told >= _TOLD and 1.0 - told <= _CLEARLY * (1.0 - without):
            found.append((column, before[column], beside, told))
    return found
