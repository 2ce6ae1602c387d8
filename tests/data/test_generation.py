"""Generated datasets: deterministic, inside the bounds, with true next actions and honest flags."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_training.data.dataset_loaders import load_dataset
from rl_training.data.generation import (
    PENDULUM_QUALITIES,
    generate_pendulum_dataset,
    generate_random_dataset,
    pendulum_quality,
    pendulum_torque,
)
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ConfigError, EnvironmentUnsupportedError
from rl_training.runtime.config import TrainConfig
from tiny_environments import CLIFF, THRIFTY


def test_an_environment_may_reuse_the_array_it_shows() -> None:
    assert generate_random_dataset(THRIFTY, 60, 0).fingerprint() == generate_random_dataset(CLIFF, 60, 0).fingerprint()


@pytest.mark.parametrize("source", ["scripted", "random"])
@pytest.mark.parametrize("mixed", [False, True])
def test_more_than_there_is_memory_for_is_refused_before_the_first(source: str, mixed: bool) -> None:
    section: Any = {"source": source, "size": 10**15}
    section = {"source": "mixture", "parts": [{"dataset": section}]} if mixed else section
    config = TrainConfig.parse({"algo": "bc", "total_timesteps": 1, "env_id": "Pendulum-v1", "dataset": section})
    assert config.dataset is not None
    told = r"^dataset\.size: 1,000,000,000,000,000 needs 89,406,967\.2 GiB of memory to be made, but only .* are free$"
    with pytest.raises(ConfigError, match=told):
        load_dataset(config.dataset, "Pendulum-v1", None)


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


def test_the_data_are_those_of_a_plain_loop() -> None:
    """Published scores were measured on these numbers: whatever collects them must go on making the same."""
    env = gymnasium.make("Pendulum-v1")
    rows: list[tuple[Any, ...]] = []
    for number in range(3):
        reset_seed = int(np.random.SeedSequence(5, spawn_key=(number, 0)).generate_state(1)[0])
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(number, 1)))
        quality = pendulum_quality(number)

        def act(obs: Any, rng: Any = rng, quality: Any = quality) -> Any:
            torque = quality.skill * pendulum_torque(*map(float, obs)) + quality.noise * rng.standard_normal()
            return np.clip(np.array([torque], dtype=np.float32), -2.0, 2.0)

        obs, _ = env.reset(seed=reset_seed)
        action = act(obs)
        for _ in range(200):
            next_obs, reward, _, truncated, _ = env.step(action)
            next_action = act(next_obs)
            rows.append((obs, action, reward, next_obs, False, truncated, next_action))
            obs, action = next_obs, next_action
    names = ("obs", "actions", "rewards", "next_obs", "terminations", "truncations", "next_actions")
    plain = TransitionDataset(
        **{name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    assert generate_pendulum_dataset(600, 5).fingerprint() == plain.fingerprint()


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
