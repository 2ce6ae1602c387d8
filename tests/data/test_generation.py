"""Generated datasets: deterministic, inside the bounds, with true next actions and honest flags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl_training.data.generation import (
    PENDULUM_QUALITIES,
    Policy,
    collect,
    generate_pendulum_dataset,
    generate_random_dataset,
    pendulum_quality,
    pendulum_torque,
)
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ConfigError, EnvironmentUnsupportedError
from tiny_environments import CLIFF, THRIFTY


class Counter(gymnasium.Env[Any, Any]):
    """Observes (episode's random start, step); terminates at step 5; the reward is the action's first entry."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
    action_space = spaces.Box(np.float32([-1, 0]), np.float32([1, 10]))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.start, self.count = self.np_random.random(), 0
        return np.array([self.start, 0.0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.array([self.start, self.count]), float(action[0]), self.count == 5, False, {}


@pytest.fixture
def counter() -> Iterator[str]:
    gymnasium.register("Counter-v0", Counter, max_episode_steps=100)
    yield "Counter-v0"
    del gymnasium.registry["Counter-v0"]


def step_policy(episode: int, rng: np.random.Generator) -> Policy:
    return lambda obs: np.array([0.1 * episode, obs[1]])


def test_an_environment_may_reuse_the_array_it_shows() -> None:
    assert generate_random_dataset(THRIFTY, 60, 0).fingerprint() == generate_random_dataset(CLIFF, 60, 0).fingerprint()


def test_collect_records_what_happened(counter: str) -> None:
    data = collect(counter, step_policy, 13, seed=0)
    assert data.obs[:, 1].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2]
    assert data.next_obs[:, 1].tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3]
    assert data.actions[:, 1].tolist() == data.obs[:, 1].tolist()
    assert data.rewards.tolist() == data.actions[:, 0].tolist()
    np.testing.assert_allclose(data.actions[:, 0], 0.1 * data.episode_ids, atol=1e-6)
    assert np.flatnonzero(data.terminations).tolist() == [4, 9]
    assert np.flatnonzero(data.truncations).tolist() == [12]  # cut by the budget
    assert len(set(data.obs[[0, 5, 10], 0].tolist())) == 3  # each episode starts from its own reset


def test_next_actions_are_those_of_the_same_episode_also_at_its_end(counter: str) -> None:
    data = collect(counter, step_policy, 13, seed=0)
    assert data.next_actions is not None
    assert data.next_actions[:, 1].tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3]
    np.testing.assert_allclose(data.next_actions[:, 0], 0.1 * data.episode_ids, atol=1e-6)


def test_an_episode_that_ends_with_the_budget_is_not_truncated(counter: str) -> None:
    data = collect(counter, step_policy, 10, seed=0)
    assert np.flatnonzero(data.terminations).tolist() == [4, 9]
    assert not data.truncations.any()


def test_actions_are_clipped_before_they_are_taken(counter: str) -> None:
    data = collect(counter, lambda episode, rng: lambda obs: np.array([7.0, -7.0]), 3, seed=0)
    assert data.actions.tolist() == [[1.0, 0.0]] * 3
    assert data.rewards.tolist() == [1.0] * 3


def test_a_longer_collection_starts_with_the_shorter_one() -> None:
    short = generate_random_dataset("Pendulum-v1", 250, seed=4)
    long = generate_random_dataset("Pendulum-v1", 450, seed=4).select(np.arange(250))
    for name, values in short.to_dict().items():
        if name != "truncations":  # the cut is where the short one ends
            assert (values == long.to_dict()[name]).all(), name


@pytest.mark.parametrize(
    "generate", [generate_pendulum_dataset, lambda n, s: generate_random_dataset("Pendulum-v1", n, s)]
)
def test_the_seed_decides_every_byte(generate: Any) -> None:
    first = generate(300, 1).fingerprint()
    assert generate(300, 1).fingerprint() == first
    assert generate(300, 2).fingerprint() != first


def test_random_actions_fill_the_bounds() -> None:
    data = generate_random_dataset("Pendulum-v1", 2000, seed=0)
    assert (data.actions.shape, data.obs.shape) == ((2000, 1), (2000, 3))
    assert np.abs(data.actions).max() <= 2.0
    counts, _ = np.histogram(data.actions, bins=4, range=(-2, 2))
    assert (np.abs(counts - 500) < 100).all()  # five standard deviations
    assert data.episode_lengths().tolist() == [200] * 10
    assert data.truncations.sum() == 10


def test_recorded_next_actions_agree_with_shifted_ones_inside_episodes() -> None:
    data = generate_random_dataset("Pendulum-v1", 450, seed=0)
    shifted = data.with_next_actions()
    assert data.next_actions is not None
    assert shifted.next_actions is not None
    differ = np.flatnonzero((data.next_actions != shifted.next_actions).any(axis=1))
    assert differ.tolist() == data.episode_ends.tolist() == [199, 399, 449]
    first_of_next_episode = data.actions[data.episode_ends[:-1] + 1]
    assert (data.next_actions[data.episode_ends[:-1]] != first_of_next_episode).all()


@pytest.fixture(scope="module")
def pendulum() -> TransitionDataset:
    return generate_pendulum_dataset()


def returns_of(data: TransitionDataset, name: str) -> Any:
    return data.episode_returns()[[pendulum_quality(e).name == name for e in range(data.n_episodes)]]


def test_pendulum_qualities_are_ranked_and_mixed(pendulum: TransitionDataset) -> None:
    means = [float(returns_of(pendulum, quality.name).mean()) for quality in PENDULUM_QUALITIES]
    assert -200 < means[0] < -120
    assert means == sorted(means, reverse=True)
    assert means[-1] < -1100
    returns = pendulum.episode_returns()
    assert -800 < returns.mean() < -550
    assert (returns > -250).mean() > 0.2
    assert (returns < -900).mean() > 0.2
    assert len(pendulum) == 40_000


def test_qualities_take_turns() -> None:
    names = [pendulum_quality(e).name for e in range(10)]
    assert {quality.name: quality.episodes for quality in PENDULUM_QUALITIES} == {n: names.count(n) for n in names}
    assert len(set(names[:4])) == 4
    assert names == [pendulum_quality(e).name for e in range(10, 20)]


def test_pendulum_actions_vary_and_seldom_saturate(pendulum: TransitionDataset) -> None:
    good = np.isin(pendulum.episode_ids, [e for e in range(200) if pendulum_quality(e).name == "good"])
    assert np.abs(pendulum.actions).max() <= 2.0
    assert (np.abs(pendulum.actions[good]) >= 2.0).mean() < 0.02
    assert pendulum.actions[good].std() > 0.3


def test_torque_by_hand() -> None:
    assert pendulum_torque(1.0, 0.0, 0.1) == pytest.approx(-0.25)  # upright: -(10 * 0 + 2.5 * 0.1)
    assert pendulum_torque(-1.0, 0.0, 1.0) == 1.7  # hanging: far too little energy, push along
    assert pendulum_torque(-1.0, 0.0, -1.0) == -1.7
    assert pendulum_torque(0.0, 1.0, 6.0) == pytest.approx(-1.5)  # energy 6 of 5: brake by 1.5 * 1


def test_what_cannot_be_generated() -> None:
    with pytest.raises(ConfigError, match=r"^size: 0 transitions; at least 1 is needed$"):
        generate_pendulum_dataset(0)
    with pytest.raises(ConfigError, match=r"^seed: -1 is negative; use 0 or more$"):
        generate_random_dataset("Pendulum-v1", 10, -1)
    with pytest.raises(EnvironmentUnsupportedError, match=r"'CartPole-v1': action space is Discrete\(2\)"):
        generate_random_dataset("CartPole-v1", 10, 0)
