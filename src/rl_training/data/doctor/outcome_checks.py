"""Whether a column of the observations is what was done in the same row, or what that brought about.

Energy used in a slot, the speed at its end: recorded beside the action, known only after it. A policy that is trained
on such a column reads its action off it, and has nothing to read where it acts. What is measured before an action
follows from the row before; what the action brings about follows from the action, and hardly from the row before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
    """A finding for each column that the action tells, and neither the row before nor the rest of the row does; but for
    one that is an action itself, which is told when it is read."""
    actions, names = subject.action_names or (), subject.obs_names or ()
    suspects = [one for one in _suspects(subject) if not names or names[one.column] not in actions]
    for found in [suspect for suspect in suspects if suspect.is_of_action][:_MOST_TOLD]:
        name = column_in_words(found.column, subject.obs_names)
        before, beside = (share(max(part, 0.0)) for part in (found.before, found.beside))
        what = (
            f"{capital(name)} follows from the action of the same row: {share(found.told)} of its variance, but only"
            f" {before} from the row before and {beside} from the other observations: it looks like what the action"
            " brought about."
        )
        advice = (
            "A policy can see only what is known before it acts: if this is recorded after, take it out of obs; leave"
            " it where the recorded actions were chosen by it."
        )
        yield Finding("warning", OUTCOME, "obs", what, advice)


class _Suspect(NamedTuple):
    """A column of observations that the row before does not foresee: what of its variance that row, the other columns,
    and these together with the action explain, on episodes left out."""

    column: int
    before: float
    beside: float
    told: float

    @property
    def is_of_action(self) -> bool:
        without = max(self.before, self.beside)
        return without <= _SUSPECT and self.told >= _TOLD and 1.0 - self.told <= _CLEARLY * (1.0 - without)


def _suspects(subject: Subject) -> list[_Suspect]:
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
    few = [column for column, explained in before.items() if explained <= _SUSPECT]
    few.sort(key=lambda column: -float(np.abs(seen[:, column] @ done).max()))
    found = []
    for column in few[:_MOST_SUSPECTS]:
        others = np.delete(seen, column, axis=1)
        beside, told = (Ridge(of, kept).explained(seen[:, column]) for of in (others, np.append(others, done, axis=1)))
        found.append(_Suspect(column, before[column], beside, told))
    return found
