"""TD(λ) targets: by hand, at both ends of λ, against a plain backward loop, and never across a border."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import discounted_returns_to_go, lambda_returns
from rl_training.errors import ConfigError, DataError

Array = npt.NDArray[np.float64]

REWARDS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
NEXT_VALUES = np.array([10.0, 20.0, 1000.0, 30.0, 40.0, 50.0, 60.0])


def three_episodes() -> TransitionDataset:
    """Rows 0-2 terminate, rows 3-4 are truncated, rows 5-6 are cut off by the end of the data."""
    terminated, truncated = np.zeros(7, dtype=bool), np.zeros(7, dtype=bool)
    terminated[2], truncated[4] = True, True
    obs = np.arange(7.0)[:, None]
    return TransitionDataset(obs, np.zeros((7, 1)), np.array(REWARDS), obs + 1, terminated, truncated)


def of(dataset: TransitionDataset, gamma: float, lam: float, values: Array = NEXT_VALUES) -> Array:
    return lambda_returns(dataset.rewards, values, dataset.terminations, dataset.episode_ends, gamma, lam)


def plain_loop(dataset: TransitionDataset, values: Array, gamma: float, lam: float) -> Array:
    """R_t = r_t + γ[(1-λ)V(s_{t+1}) + λR_{t+1}], R_{T-1} = r_{T-1} + γV(s_T), V(s_T) = 0 after a termination."""
    returns = np.empty(len(dataset))
    for row in reversed(range(len(dataset))):
        terminated, truncated = bool(dataset.terminations[row]), bool(dataset.truncations[row])
        if terminated:
            ahead = 0.0
        elif truncated or row == len(dataset) - 1:
            ahead = values[row]
        else:
            ahead = (1 - lam) * values[row] + lam * returns[row + 1]
        returns[row] = float(dataset.rewards[row]) + gamma * ahead
    return returns


def random_dataset(seed: int, rows: int = 400) -> tuple[TransitionDataset, Array]:
    rng = np.random.default_rng(seed)
    ends = rng.random(rows) < 0.07
    terminated = ends & (rng.random(rows) < 0.5)
    obs = rng.normal(size=(rows, 2))
    dataset = TransitionDataset(
        obs, np.zeros((rows, 1)), rng.normal(size=rows).astype(np.float32), obs, terminated, ends & ~terminated
    )
    return dataset, rng.normal(scale=5.0, size=rows)


def test_by_hand() -> None:
    assert of(three_episodes(), 0.5, 0.5).tolist() == [
        1 + 0.5 * (0.5 * 10 + 0.5 * 8.0),
        2 + 0.5 * (0.5 * 20 + 0.5 * 4.0),
        4,  # the end: 1000 is nobody's value
        8 + 0.5 * (0.5 * 30 + 0.5 * 36.0),
        16 + 0.5 * 40,  # a time limit: life goes on
        32 + 0.5 * (0.5 * 50 + 0.5 * 94.0),
        64 + 0.5 * 60,  # the recording stopped: so does it here
    ]


def test_lambda_zero_is_one_step_of_bootstrapping() -> None:
    dataset, values = random_dataset(1)
    expected = dataset.rewards.astype(np.float64) + 0.97 * np.where(dataset.terminations, 0.0, values)
    np.testing.assert_allclose(of(dataset, 0.97, 0.0, values), expected, rtol=1e-13)
    assert of(three_episodes(), 0.5, 0.0).tolist() == [6, 12, 4, 23, 36, 57, 94]


def test_lambda_one_with_terminations_only_is_the_monte_carlo_return() -> None:
    """No value enters at all."""
    dataset, values = random_dataset(2)
    ends = dataset.terminations | dataset.truncations
    ends[-1] = True
    arrays = {**dataset.to_dict(), "terminations": ends, "truncations": np.zeros_like(ends)}
    dataset = TransitionDataset(**arrays)
    expected, ahead = np.empty(len(dataset)), 0.0
    for row in reversed(range(len(dataset))):
        ahead = float(dataset.rewards[row]) + (0.0 if ends[row] else 0.97 * ahead)
        expected[row] = ahead
    np.testing.assert_allclose(of(dataset, 0.97, 1.0, values), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(of(dataset, 0.97, 1.0, values), of(dataset, 0.97, 1.0, 0 * values))


def test_lambda_one_adds_the_value_after_a_truncation() -> None:
    dataset = three_episodes()
    assert of(dataset, 0.5, 1.0).tolist() == [1 + 1 + 1, 2 + 2, 4, 8 + 8 + 10, 16 + 20, 32 + 32 + 15, 64 + 30]
    finals = np.array([0.0, 40.0, 60.0])
    with_finals = discounted_returns_to_go(dataset.rewards, dataset.episode_ends, 0.5, finals)
    assert of(dataset, 0.5, 1.0).tolist() == with_finals.tolist()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.3, 0.95, 1.0])
def test_agrees_with_a_plain_loop(gamma: float, lam: float) -> None:
    for seed in range(3):
        dataset, values = random_dataset(seed)
        returns = of(dataset, gamma, lam, values)
        assert returns.dtype == np.float64
        np.testing.assert_allclose(returns, plain_loop(dataset, values, gamma, lam), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("lam", [0.0, 0.4, 0.95, 1.0])
def test_exact_values_are_their_own_targets(lam: float) -> None:
    """Where r = V(s) - γV(s') holds on every row, R = V(s) whatever λ."""
    dataset, values = random_dataset(5)
    after = np.where(dataset.terminations, 0.0, values)
    own = np.random.default_rng(6).normal(size=len(dataset))
    borders = dataset.terminations | dataset.truncations
    own[1:][~borders[:-1]] = values[:-1][~borders[:-1]]  # V(s_{t+1}) seen from both sides
    rewards = own - 0.9 * after
    returns = lambda_returns(rewards, values, dataset.terminations, dataset.episode_ends, 0.9, lam)
    np.testing.assert_allclose(returns, own, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_an_episode_does_not_see_its_neighbours(lam: float) -> None:
    dataset = three_episodes()
    rewards, values = dataset.rewards.copy(), NEXT_VALUES.copy()
    rewards[3:5], values[3:5] = 1e6, -1e7
    changed = lambda_returns(rewards, values, dataset.terminations, dataset.episode_ends, 0.9, lam)
    before = of(dataset, 0.9, lam)
    outside = [0, 1, 2, 5, 6]
    assert changed[outside].tolist() == before[outside].tolist()
    assert (changed[3:5] != before[3:5]).all()


def test_the_value_after_a_termination_does_not_matter_even_where_it_is_truncated_too() -> None:
    dataset = three_episodes()
    both = dataset.truncations.copy()
    both[2] = True
    for arrays in (dataset.to_dict(), {**dataset.to_dict(), "truncations": both}):
        data = TransitionDataset(**arrays)
        other = NEXT_VALUES.copy()
        other[2] = -1e9
        assert of(data, 0.9, 0.7, other).tolist() == of(data, 0.9, 0.7).tolist()


def test_float32_accumulates_in_float64_and_inputs_are_left_alone() -> None:
    rewards = np.array([1.0, 2.0**24], dtype=np.float32)
    values, flags = np.array([0.0, 8.0], dtype=np.float32), np.array([False, False])
    assert lambda_returns(rewards, values, flags, np.array([1]), 1.0, 1.0).tolist() == [2.0**24 + 9, 2.0**24 + 8]
    assert rewards.tolist() == [1.0, 2.0**24]
    assert values.tolist() == [0.0, 8.0]
    assert flags.tolist() == [False, False]


def test_borders_and_discount_are_checked() -> None:
    flags: Any = np.zeros(2, dtype=bool)
    with pytest.raises(DataError, match="episode_ends: must rise strictly and end at the last row, 1"):
        lambda_returns(np.ones(2), np.ones(2), flags, np.array([0]), 0.9, 0.5)
    with pytest.raises(ConfigError, match=r"gamma: 1\.5 is outside \[0, 1\]"):
        lambda_returns(np.ones(2), np.ones(2), flags, np.array([1]), 1.5, 1.0)
