"""Quantities along an episode, computed for all episodes at once and never across an episode's border."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import BoolArray, IndexArray
from rl_training.errors import ConfigError, DataError
from rl_training.wording import amount

ScalarT = TypeVar("ScalarT", bound=np.generic)


def discounted_returns_to_go(
    rewards: npt.NDArray[Any],
    episode_ends: IndexArray,
    gamma: float,
    final_values: npt.ArrayLike | None = None,
) -> npt.NDArray[np.float64]:
    """Discounted sums of the rewards still to come, `G_t = sum_k gamma^k r_(t+k)`, `[N]`.

    `rewards` is `[N]`, `episode_ends` holds the last row of each episode. `final_values` `[n_episodes]`, the value of
    the state after each episode's last row, adds `gamma^(T-t) V(s_T)`; give 0 for a terminated episode. None assumes
    zero value after the last row of every episode. That is exact after a termination; after a truncation it leaves
    out all that would have followed, and so understates the size of the return the more, the nearer the row is to
    the cut.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ConfigError(f"gamma: {gamma} is outside [0, 1]")
    last = _last_row_of_episode(len(rewards), episode_ends)
    remaining = last - np.arange(len(rewards))
    returns = np.array(rewards, dtype=np.float64)
    # A parallel scan: after a pass, each row holds the discounted sum of its next 2 * stride rewards. It takes
    # log2(longest episode) passes, whether the data are many short episodes or a single one of a million rows.
    stride = 1
    while stride <= remaining.max() and gamma**stride > 0.0:
        returns[:-stride] += np.where(remaining[:-stride] >= stride, gamma**stride * returns[stride:], 0.0)
        stride *= 2
    if final_values is not None:
        values = np.asarray(final_values, dtype=np.float64)
        if values.shape != episode_ends.shape:
            raise DataError(f"final_values: shape {values.shape}, for {amount(len(episode_ends), 'episode')}")
        returns += gamma ** (remaining + 1) * np.repeat(values, episode_lengths(episode_ends))
    return returns


def usual_value(rewards: npt.NDArray[Any], terminations: npt.NDArray[np.bool_], gamma: float) -> float:
    """What a state is worth where none is known from another: the mean reward for ever, ended as often as rows are."""
    going_on = 1.0 - float(terminations.mean())
    return float(rewards.mean(dtype=np.float64)) / (1.0 - gamma * going_on)


def lambda_returns(
    rewards: npt.NDArray[Any],
    next_values: npt.NDArray[Any],
    terminations: npt.NDArray[np.bool_],
    episode_ends: IndexArray,
    gamma: float,
    lam: float,
) -> npt.NDArray[np.float64]:
    """TD(λ) targets `R_t = r_t + γ[(1-λ)V(s_{t+1}) + λR_{t+1}]`, `[N]`, from the values of every row's successor.

    The last row of an episode has `r + γV(s_T)`, without V after a termination: a truncated episode bootstraps.
    λ = 0 is one step of bootstrapping, λ = 1 the discounted return with V after a truncation only.
    """
    if not 0.0 <= lam <= 1.0:
        raise ConfigError(f"lam: {lam} is outside [0, 1]")
    share = np.full(len(rewards), 1.0 - lam)
    share[episode_ends] = 1.0
    alive = ~np.asarray(terminations, dtype=np.bool_)
    immediate = np.asarray(rewards, dtype=np.float64) + gamma * share * alive * np.asarray(next_values, np.float64)
    return discounted_returns_to_go(immediate, episode_ends, gamma * lam)


def shift_within_episodes(
    array: npt.NDArray[ScalarT], episode_ends: IndexArray, fill: npt.ArrayLike
) -> npt.NDArray[ScalarT]:
    """Each row's successor in its own episode, `[N, ...]`; the last row of an episode takes `fill`.

    `fill` is a scalar or one value per episode, `[n_episodes, ...]`.
    """
    _last_row_of_episode(len(array), episode_ends)
    shifted = np.empty_like(array)
    shifted[:-1] = array[1:]
    shifted[episode_ends] = fill
    return shifted


def episode_lengths(episode_ends: IndexArray) -> IndexArray:
    """Rows of each episode, `[n_episodes]`, from the episodes' last rows."""
    return np.diff(episode_ends, prepend=-1)


def _last_row_of_episode(rows: int, episode_ends: IndexArray) -> IndexArray:
    """For each row the last row of its episode, `[N]`; the ends must rise and close the data."""
    lengths = episode_lengths(episode_ends)
    if len(episode_ends) == 0 or (lengths <= 0).any() or episode_ends[-1] != rows - 1:
        raise DataError(f"episode_ends: must rise strictly and end at the last row, {rows - 1}")
    return np.repeat(episode_ends, lengths)


def follows_episodes(rows: IndexArray, flagged: BoolArray) -> bool:
    """Whether neighbours in a selection are neighbours in an episode, or have an episode's flagged end `[N]` between.

    A selection that starts inside an episode keeps the borders; only what precedes it is gone.
    """
    return bool(((np.diff(rows) == 1) | flagged[rows[:-1]]).all())
