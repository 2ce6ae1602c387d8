"""How much of the spaces the data visit, and how predictable the behaviour is from the state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.doctor.action_checks import Bounds
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import columns_in_words, share
from rl_training.data.statistics import sample_rows

_QUERIES = 1_000
_CANDIDATES = 8_000
_LEAST_QUERIES = 50
_LEAST_EPISODES = 10
_WIDEST = 2_000
_NARROW = 0.25
_DETERMINISTIC = 0.02
_RANDOM = 0.9


def effective_dimension(values: FloatArray) -> float | None:
    """The number of independent directions the rows vary in: `(Σλ)² / Σλ²` over the correlations' eigenvalues.

    It is the number of columns where these are independent, and 1 where they all move together.
    """
    rows = sample_rows(len(values))
    if len(rows) < 2 or values.shape[1] > _WIDEST:
        return None
    some = values[rows].astype(np.float64)
    deviation = some.std(axis=0)
    varying = deviation > 1e-9 * np.maximum(1.0, np.abs(some).max(axis=0))
    if not varying.any():
        return 0.0
    standard = (some[:, varying] - some[:, varying].mean(axis=0)) / deviation[varying]
    correlation = standard.T @ standard / len(standard)
    return float(np.trace(correlation) ** 2 / np.sum(correlation * correlation))


def action_range_visited(actions: FloatArray, bounds: Bounds) -> npt.NDArray[np.float64]:
    """The share of each dimension's bounds that the middle 99% of the actions span."""
    least, most = np.percentile(actions[sample_rows(len(actions))], [0.5, 99.5], axis=0)
    width = bounds.high - bounds.low
    return np.asarray(np.clip((most - least) / np.where(width > 0, width, np.inf), 0.0, 1.0))


def action_spread(subject: Subject) -> float | None:
    """Variance of the actions in neighbouring states as a share of their whole variance, estimated on a sample.

    Near 0 the state decides the action; near 1 the action has nothing to do with the state, or the states are too far
    apart to tell. A neighbour, of another episode, is never nearer than the data are dense: it is an upper bound.
    """
    obs, actions = subject.obs, subject.actions
    if obs is None or actions is None or obs.shape[1] > _WIDEST:
        return None
    rows = np.random.default_rng(2).permutation(sample_rows(subject.rows, _CANDIDATES))
    queries = rows[: min(_QUERIES, len(rows) // 2)]
    if len(queries) < _LEAST_QUERIES or (subject.whole_episodes and len(subject.ends) < _LEAST_EPISODES):
        return None
    total = actions[rows].astype(np.float64).var(axis=0).sum()
    if total == 0.0:
        return None
    states = obs[rows].astype(np.float64)
    scale = states.std(axis=0)
    states = ((states - states.mean(axis=0)) / np.where(scale > 0, scale, 1.0)).astype(np.float32)
    mine = states[: len(queries)]
    # |x - y|² without its constant part: smallest where the distance is
    distance = np.einsum("nk,nk->n", states, states)[None, :] - 2.0 * (mine @ states.T)
    distance[np.arange(len(queries)), np.arange(len(queries))] = np.inf
    if subject.whole_episodes:  # the row before or after is near in time, too
        episodes = np.searchsorted(subject.ends, rows)
        distance[episodes[: len(queries), None] == episodes[None, :]] = np.inf
    nearest = rows[np.argmin(distance, axis=1)]
    gap = actions[queries].astype(np.float64) - actions[nearest]
    return float(min(0.5 * (gap * gap).mean(axis=0).sum() / total, 1.0))


def check_coverage(
    visited: npt.NDArray[np.float64] | None, spread: float | None, names: tuple[str, ...] | None = None
) -> Iterator[Finding]:
    """Actions that keep to a corner, and behaviour that leaves nothing or everything to chance."""
    if visited is not None and (visited < _NARROW).any():
        narrow = np.flatnonzero(visited < _NARROW).tolist()
        what = (
            f"99% of the actions keep to less than {share(_NARROW)} of their range in {columns_in_words(narrow, names)}"
        )
        what += f" (least: {share(float(visited.min()))})."
        advice = "A policy cannot learn what lies outside; check that actions and bounds have the same units."
        yield Finding("note", "actions.narrow", "actions", what, advice, len(narrow))
    if spread is not None and spread < _DETERMINISTIC:
        what = f"The behaviour looks deterministic: in neighbouring states actions vary by {share(spread)} of their"
        what += " whole variance."
        advice = "Other actions are never seen in the same state, so stay close to the data (TD3+BC, ReBRAC, IQL)."
        yield Finding("note", "behaviour.deterministic", "actions", what, advice)
    elif spread is not None and spread > _RANDOM:
        what = f"The behaviour looks random: in neighbouring states actions vary by {share(spread)} of their whole"
        what += " variance."
        advice = "Cloning it gives the mean action, not a good one: learn values. (Sparse data, and behaviour that goes"
        advice += " by what was not recorded, look so, too.)"
        yield Finding("note", "behaviour.random", "actions", what, advice)
