"""Returns-to-go and shifts, against numbers worked out by hand and a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from rl_training.data.returns import discounted_returns_to_go, episode_lengths, shift_within_episodes
from rl_training.errors import ConfigError, DataError


def test_returns_by_hand() -> None:
    rewards = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    returns = discounted_returns_to_go(rewards, np.array([2, 4]), gamma=0.5)
    assert returns.tolist() == [1 + 1 + 1, 2 + 2, 4, 8 + 8, 16]


def test_final_values_continue_each_episode() -> None:
    rewards = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    returns = discounted_returns_to_go(rewards, np.array([2, 4]), gamma=0.5, final_values=[80.0, 0.0])
    assert returns.tolist() == [3 + 10, 4 + 20, 4 + 40, 16, 16]


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, [1, 2, 4]), (1.0, [7, 6, 4])])
def test_extreme_discounts(gamma: float, expected: list[float]) -> None:
    returns = discounted_returns_to_go(np.array([1.0, 2.0, 4.0]), np.array([2]), gamma)
    assert returns.tolist() == expected


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [7, 1, 64, 65, 3], [500]])
def test_agrees_with_a_plain_loop(lengths: list[int], gamma: float) -> None:
    rng = np.random.default_rng(3)
    ends = np.cumsum(lengths) - 1
    rewards = rng.standard_normal(sum(lengths)).astype(np.float32)
    finals = rng.standard_normal(len(lengths))
    expected = np.empty(len(rewards))
    for episode, end in enumerate(ends):
        ahead = finals[episode]
        for row in range(end, end - lengths[episode], -1):
            ahead = float(rewards[row]) + gamma * ahead
            expected[row] = ahead
    returns = discounted_returns_to_go(rewards, ends, gamma, finals)
    assert returns.dtype == np.float64
    np.testing.assert_allclose(returns, expected, rtol=1e-12, atol=1e-12)


def test_an_episode_does_not_see_its_neighbours() -> None:
    rewards = np.ones(9)
    ends = np.array([2, 5, 8])
    changed = rewards.copy()
    changed[3:6] = 1e9
    before, after = (discounted_returns_to_go(r, ends, 0.9) for r in (rewards, changed))
    assert (before[[0, 1, 2, 6, 7, 8]] == after[[0, 1, 2, 6, 7, 8]]).all()
    assert (after[3:6] > 1e8).all()


def test_float32_rewards_accumulate_in_float64() -> None:
    # 2^24 + 1 is the first integer float32 cannot hold.
    rewards = np.array([1.0, 2.0**24], dtype=np.float32)
    assert discounted_returns_to_go(rewards, np.array([1]), 1.0)[0] == 2.0**24 + 1


def test_the_rewards_are_left_alone() -> None:
    rewards = np.array([1.0, 2.0])
    discounted_returns_to_go(rewards, np.array([1]), 1.0)
    assert rewards.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("gamma", [-0.1, 1.01, float("nan")])
def test_a_discount_outside_its_range_is_refused(gamma: float) -> None:
    with pytest.raises(ConfigError, match=rf"^gamma: {gamma} is outside \[0, 1\]$"):
        discounted_returns_to_go(np.ones(2), np.array([1]), gamma)


@pytest.mark.parametrize("ends", [[], [0], [1, 1], [1, 0], [2]])
def test_ends_must_close_the_data(ends: list[int]) -> None:
    message = "episode_ends: must rise strictly and end at the last row, 1"
    with pytest.raises(DataError, match=message):
        discounted_returns_to_go(np.ones(2), np.array(ends, dtype=np.int64), 0.9)


def test_final_values_are_one_per_episode() -> None:
    with pytest.raises(DataError, match=r"final_values: shape \(1,\), for 2 episodes"):
        discounted_returns_to_go(np.ones(2), np.array([0, 1]), 0.9, final_values=[1.0])


def test_shift_stays_inside_episodes() -> None:
    values = np.array([[0, 10], [1, 11], [2, 12], [3, 13], [4, 14]])
    ends = np.array([1, 4])
    assert shift_within_episodes(values[:, 0], ends, -1).tolist() == [1, -1, 3, 4, -1]
    assert shift_within_episodes(values, ends, values[ends]).tolist() == [[1, 11], [1, 11], [3, 13], [4, 14], [4, 14]]


def test_lengths() -> None:
    assert episode_lengths(np.array([0, 4, 6])).tolist() == [1, 4, 2]
