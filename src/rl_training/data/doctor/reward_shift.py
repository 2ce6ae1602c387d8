"""Whether rewards stand one row too early or too late.

A reward is a function of the transition (s, a, s') it belongs to. A ridge regression on the transition's numbers and
their powers is fitted to the reward of the same row and to those of the rows before and after, and scored on episodes
it has not seen; a shift is reported only where a neighbour's reward is explained far better than the row's own. Another
sign is a first reward of exactly 0 in every episode: a logger that writes what the step before has earned begins so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.ridge import FAR, ROWS_PER_TERM, Ridge, held_out, rows_with_neighbours, standard
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import share
from rl_training.wording import amount

_ROWS = 12_000
_LEAST_ROWS = 400
_WIDEST = 600  # numbers of a transition; the regression's cost grows with their square
_EXPLAINED = 0.3  # what the better fit must explain of the variance at least
_NEARLY_EXACT = 2e-4  # an error of the row's own fit below which there is nothing to improve
_CLEARLY = 0.4  # the better fit's error, as a share of the other's
_LEAST_EPISODES = 5
_NEARLY_ALL, _HARDLY_EVER = 0.8, 0.02  # of the episodes, and of all other rows, with a reward of exactly 0
_LATE = (
    "Compare a few rows with the task's reward; if so, say rewards_at: next, which takes each from the row after and"
    " leaves out the last row of every episode, whose reward is not recorded."
)


def check_reward_shift(subject: Subject) -> Iterator[Finding]:
    """A finding where the rewards of the rows before or after clearly fit better."""
    scores = shift_scores(subject)
    if scores is None:
        yield from _first_rewards(subject)
        return
    shift = max((-1, 1), key=lambda offset: scores[offset])
    better, own = scores[shift], scores[0]
    if better < _EXPLAINED or 1.0 - own < _NEARLY_EXACT or 1.0 - better > _CLEARLY * (1.0 - own):
        yield from _first_rewards(subject)
        return
    direction = "late" if shift == 1 else "early"
    neighbour = "after" if shift == 1 else "before"
    what = (
        f"Rewards seem to stand one row too {direction}: a fit on observations and actions leaves"
        f" {share(min(1.0 - own, 1.0))} of the variance of their own row's reward unexplained, but only"
        f" {share(1.0 - better)} of the reward in the row {neighbour}."
    )
    advice = _LATE if shift == 1 else "Compare a few rows with the task's reward; if so, move each one row down."
    yield Finding("warning", "rewards.shifted", "rewards", what, advice)


def _first_rewards(subject: Subject) -> Iterator[Finding]:
    """Whether episodes begin with a reward of exactly 0 that hardly any other row has: nothing was earned before."""
    if subject.rewards is None or not subject.whole_episodes:
        return
    starts = subject.starts[subject.lengths > 1]
    if len(starts) < _LEAST_EPISODES:
        return
    zero = subject.rewards == 0.0
    first = int(np.count_nonzero(zero[starts]))
    others = (np.count_nonzero(zero) - first) / (subject.rows - len(starts))
    if first < _NEARLY_ALL * len(starts) or others > _HARDLY_EVER:
        return
    what = (
        f"Rewards seem to stand one row too late: {first:,} of {amount(len(starts), 'episode')} begin with a reward of"
        f" exactly 0, and of the other rows {share(others)} have it."
    )
    yield Finding("warning", "rewards.shifted", "rewards", what, _LATE, first, subject.place(int(starts[0])))


def shift_scores(subject: Subject) -> dict[int, float] | None:
    """Explained variance, on episodes left out, of the rewards of the row before (-1), the same row (0), the next (1).

    None where there is too little to tell.
    """
    obs, actions, rewards = subject.obs, subject.actions, subject.rewards
    if obs is None or actions is None or rewards is None or not subject.whole_episodes:
        return None
    if 2 * obs.shape[1] + actions.shape[1] > _WIDEST:
        return None
    rows = rows_with_neighbours(subject, _ROWS)
    if (
        len(rows) < max(_LEAST_ROWS, ROWS_PER_TERM * (2 * obs.shape[1] + actions.shape[1]))
        or float(rewards[rows].std(dtype=np.float64)) == 0.0
    ):
        return None
    transitions = standard(np.concatenate([obs[rows], actions[rows], obs[rows + 1]], axis=1).astype(np.float64))
    usual = np.abs(transitions).max(axis=1) <= FAR
    if usual.mean() > 0.5:  # a few rows far out would decide the fit, and the score
        rows, transitions = rows[usual], transitions[usual]
    fit = Ridge(np.clip(transitions, -FAR, FAR), held_out(subject, rows))
    targets = {shift: rewards[rows + shift].astype(np.float64) for shift in (-1, 0, 1)}
    return {shift: fit.explained(target) for shift, target in targets.items()}
