"""Collecting: the same episodes however many environments run, true successors, honest flags, everything closed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rl_training
from rl_training.algorithms import find
from rl_training.data import Behaviour, collect, generate_pendulum_dataset, generate_random_dataset
from rl_training.data import collection as engine
from rl_training.data.collection import Budget, Runner
from rl_training.data.episodes import Episode
from rl_training.environments import Spaces, read_spaces
from rl_training.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    EnvironmentFailedError,
    EnvironmentUnsupportedError,
)
from rl_training.experiment.manager import load_policy
from rl_training.runtime.trainer import train
from small_runs import small_config
from tiny_environments import CLIFF, COUNTED, LIMIT, THRIFTY, Cliff, Counted, Obs


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
        reward = float(action[0])
        action[:] = -1.0  # what was sent is not what is left of it
        return np.array([self.start, self.count]), reward, self.count == 5, False, {}


class Failing(Cliff):
    """Shows what is not finite, as `fault` says, at the third step of every episode."""

    fault = ""

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        if self.time == 3 and self.fault == "obs":
            obs[0] = np.nan
        return obs, (np.inf if self.time == 3 and self.fault == "reward" else reward), *rest  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    kinds = {"Counter-v0": Counter, "Failing-v0": Failing}
    for name, kind in kinds.items():
        gymnasium.register(name, entry_point=kind, max_episode_steps=100)
    yield
    for name in kinds:
        del gymnasium.registry[name]


class Steps(Behaviour):
    """A tenth of the episode's number, and the step."""

    def act(self, obs: Any, episodes: Sequence[Episode]) -> Any:
        assert [episode.step for episode in episodes] == obs[:, 1].tolist()
        return np.array([[0.1 * episode.number, row[1]] for row, episode in zip(obs, episodes, strict=True)])


def still(obs: Any) -> Any:
    return np.zeros((len(obs), 1))


# What is recorded ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_envs", [1, 2, 5])
def test_what_happened(n_envs: int) -> None:
    data = collect("Counter-v0", Steps(), 13, n_envs=n_envs)
    assert data.obs[:, 1].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2]
    assert data.next_obs[:, 1].tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3]
    assert data.actions[:, 1].tolist() == data.obs[:, 1].tolist()
    assert data.rewards.tolist() == data.actions[:, 0].tolist()
    np.testing.assert_allclose(data.actions[:, 0], 0.1 * data.episode_ids, atol=1e-6)
    assert np.flatnonzero(data.terminations).tolist() == [4, 9]
    assert np.flatnonzero(data.truncations).tolist() == [12]  # cut by the budget
    assert len(set(data.obs[[0, 5, 10], 0].tolist())) == 3  # each episode starts from its own reset


def test_next_actions_are_those_of_the_same_episode_also_at_its_end() -> None:
    data = collect("Counter-v0", Steps(), 13)
    assert data.next_actions is not None
    assert data.next_actions[:, 1].tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3]
    np.testing.assert_allclose(data.next_actions[:, 0], 0.1 * data.episode_ids, atol=1e-6)


def test_an_episode_that_ends_with_the_budget_is_not_truncated() -> None:
    data = collect("Counter-v0", Steps(), 10)
    assert np.flatnonzero(data.terminations).tolist() == [4, 9]
    assert not data.truncations.any()


def test_actions_are_clipped_before_they_are_taken() -> None:
    data = collect("Counter-v0", lambda obs: np.full((len(obs), 2), [7.0, -7.0]), 3)
    assert data.actions.tolist() == [[1.0, 0.0]] * 3
    assert data.rewards.tolist() == [1.0] * 3


def test_at_a_time_limit_the_successor_is_the_true_one() -> None:
    data = collect(CLIFF, still, episodes=3)
    assert len(data) == 3 * LIMIT
    assert np.flatnonzero(data.truncations).tolist() == [5, 11, 17]
    assert not data.terminations.any()
    np.testing.assert_allclose(data.next_obs[data.truncations, 1], 0.1 * LIMIT, atol=1e-6)
    np.testing.assert_array_equal(data.next_obs[:, 0], data.obs[:, 0])


def test_a_fall_is_a_termination() -> None:
    data = collect(CLIFF, lambda obs: np.full((len(obs), 1), 2.0), episodes=4)
    assert data.terminations.sum() == 4
    assert not data.truncations.any()
    assert (np.abs(data.next_obs[data.terminations, 0]) > 1.0).all()


def test_episodes_without_end_outgrow_their_first_arrays() -> None:
    gymnasium.register("Endless-v0", entry_point=Cliff)
    try:
        data = collect("Endless-v0", still, 1_500)
    finally:
        del gymnasium.registry["Endless-v0"]
    np.testing.assert_allclose(data.obs[:, 1], np.arange(1_500) / 10, rtol=1e-6)
    assert np.flatnonzero(data.truncations).tolist() == [1_499]


def test_an_array_shown_again_is_copied() -> None:
    shown_again = collect(THRIFTY, "random", 60, n_envs=3)
    assert shown_again.fingerprint() == collect(CLIFF, "random", 60).fingerprint()


# How many at once, and how long -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "epsilon"), [(0.0, 0.0), (0.3, 0.2)])
def test_the_number_of_environments_changes_nothing(noise: float, epsilon: float) -> None:
    def policy(obs: Any) -> Any:
        return 3 * obs[:, :1]

    for steps in (1, 2, 5, 6, 7, 12, 31, 60):
        made = [
            collect(CLIFF, policy, steps, seed=7, n_envs=n_envs, noise=noise, epsilon=epsilon)
            for n_envs in (1, 2, 3, 4, 16)
        ]
        assert {len(data) for data in made} == {steps}
        assert len({data.fingerprint() for data in made}) == 1, steps


@pytest.mark.parametrize("policy", ["random", "scripted"])
def test_packaged_behaviours_are_those_of_a_configuration(policy: str) -> None:
    data = collect("Pendulum-v1", policy, 450, seed=3, n_envs=4)
    expected = (
        generate_random_dataset("Pendulum-v1", 450, 3) if policy == "random" else generate_pendulum_dataset(450, 3)
    )
    assert data.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("n_envs", [1, 4])
def test_a_longer_collection_starts_with_the_shorter_one(n_envs: int) -> None:
    short = collect(CLIFF, "random", 25, n_envs=n_envs)
    long = collect(CLIFF, "random", 60).select(np.arange(25))
    for name, values in short.to_dict().items():
        if name != "truncations":  # the cut is where the short one ends
            np.testing.assert_array_equal(values, long.to_dict()[name], err_msg=name)


@pytest.mark.parametrize("n_envs", [1, 4])
def test_episodes_and_steps_end_it_whichever_comes_first(n_envs: int) -> None:
    assert collect(CLIFF, still, episodes=3, n_envs=n_envs).n_episodes == 3
    assert len(collect(CLIFF, still, 100, episodes=3, n_envs=n_envs)) == 3 * LIMIT
    cut = collect(CLIFF, still, 8, episodes=3, n_envs=n_envs)
    assert cut.episode_lengths().tolist() == [LIMIT, 2]


def test_the_seed_decides() -> None:
    first = collect(CLIFF, "random", 40, seed=1).fingerprint()
    assert collect(CLIFF, "random", 40, seed=1).fingerprint() == first
    assert collect(CLIFF, "random", 40, seed=2).fingerprint() != first


def test_no_episode_runs_far_ahead_of_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first episode does not end; the others fall off at once and would pile up."""
    monkeypatch.setattr(engine, "_MAX_WAITING_ROWS", 20)

    class FirstStays(Behaviour):
        def act(self, obs: Any, episodes: Sequence[Episode]) -> Any:
            return np.array([[0.0 if episode.number == 0 else 2.0] for episode in episodes])

    gymnasium.register("Endless-v0", entry_point=Cliff)
    try:
        runner = Runner("Endless-v0", FirstStays(), Budget(steps=500), seed=0, n_envs=4)
        most = 0

        def watch(_: Any) -> None:
            nonlocal most
            most = max(most, sum(map(len, runner.waiting.values())))

        runner.watch = watch
        assert [len(trajectory) for trajectory in runner.run()] == [500]
    finally:
        del gymnasium.registry["Endless-v0"]
    assert 20 <= most <= 40


# Exploration --------------------------------------------------------------------------------------------------------


def test_noise_is_relative_to_half_the_range_and_clipped() -> None:
    data = collect("Pendulum-v1", still, 4_000, noise=0.25)
    assert data.actions.std() == pytest.approx(0.25 * 2.0, rel=0.05)  # bounds are -2 and 2
    loud = collect("Pendulum-v1", still, 1_000, noise=5.0)
    assert np.abs(loud.actions).max() == 2.0
    assert (np.abs(loud.actions) == 2.0).mean() > 0.5


def test_epsilon_is_the_share_of_uniform_actions() -> None:
    data = collect("Pendulum-v1", still, 4_000, epsilon=0.3)
    changed = data.actions[data.actions != 0.0]
    assert len(changed) / 4_000 == pytest.approx(0.3, abs=0.03)
    assert changed.std() == pytest.approx(4.0 / np.sqrt(12.0), rel=0.05)
    everything = collect("Pendulum-v1", still, 200, epsilon=1.0)
    assert (everything.actions != 0.0).all()


def test_noise_is_seen_in_the_next_action_too() -> None:
    data = collect("Pendulum-v1", still, 300, noise=0.1)
    assert data.next_actions is not None
    inside = np.setdiff1d(np.arange(300), data.episode_ends)
    np.testing.assert_array_equal(data.next_actions[inside], data.actions[inside + 1])
    assert (data.next_actions[data.episode_ends] != 0.0).all()


# Trained policies ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members whose networks are wide enough for a matrix product to round by its number of rows."""
    wide = {"actor_hidden": [64, 64]}
    config = small_config(data_file, tmp_path_factory.mktemp("runs"), "cql", seed=[4, 2], algo_kwargs=wide)
    return train(config).run.path


@pytest.mark.parametrize("sampling_seed", [None, 5])
def test_a_trained_policy_with_any_number_of_environments(run: Path, sampling_seed: int | None) -> None:
    policy = load_policy(run)
    made = [
        collect("Pendulum-v1", policy.behaviour("Pendulum-v1", sampling_seed=sampling_seed), 900, n_envs=n_envs)
        for n_envs in (1, 4, 11)
    ]
    assert len({data.fingerprint() for data in made}) == 1


def test_a_path_is_the_deterministic_policy_of_the_first_member(run: Path) -> None:
    data = collect("Pendulum-v1", run, 230)
    policy = load_policy(run)
    np.testing.assert_allclose(data.actions, policy.predict(data.obs), atol=1e-5)
    assert data.next_actions is not None
    np.testing.assert_allclose(data.next_actions, policy.predict(data.next_obs), atol=1e-5)  # at the ends too
    assert collect("Pendulum-v1", str(run), 230).fingerprint() == data.fingerprint()
    other = collect("Pendulum-v1", policy.behaviour("Pendulum-v1", seed=2), 230)
    np.testing.assert_allclose(other.actions, policy.predict(other.obs, seed=2), atol=1e-5)
    assert other.fingerprint() != data.fingerprint()


def test_samples_differ_by_episode_step_and_seed(run: Path) -> None:
    policy = load_policy(run)

    def sampled(seed: int) -> Any:
        return collect("Pendulum-v1", policy.behaviour("Pendulum-v1", sampling_seed=seed), 400)

    data = sampled(1)
    away = (data.actions - policy.predict(data.obs))[:, 0]
    assert np.unique(away).size > 390
    assert abs(np.corrcoef(away[:200], away[200:])[0, 1]) < 0.3
    assert sampled(2).fingerprint() != data.fingerprint() == sampled(1).fingerprint()


@pytest.mark.parametrize("algo", sorted(find().keys() - {"rlpd", "sac", "td3"}))  # those act as the others do
def test_every_algorithm_can_be_sampled(algo: str, data_file: Path, tmp_path: Path) -> None:
    """Some draw several candidates for an action (CRR), whose noise has its batch elsewhere."""
    own = {"cwp_samples": 3} if algo == "crr" else {}
    policy = load_policy(train(small_config(data_file, tmp_path, algo, total_timesteps=2, algo_kwargs=own)).run.path)
    made = [
        collect("Pendulum-v1", policy.behaviour("Pendulum-v1", sampling_seed=0), 30, n_envs=n_envs) for n_envs in (1, 2)
    ]
    assert made[0].fingerprint() == made[1].fingerprint()


def test_policies_are_loaded_by_the_root_package_too(run: Path) -> None:
    assert rl_training.load_policy is load_policy
    assert "load_policy" in dir(rl_training)


def test_mujoco() -> None:
    pytest.importorskip("mujoco")

    def policy(obs: Any) -> Any:
        return np.sin(obs[:, :3])

    made = [collect("Hopper-v5", policy, 120, n_envs=n_envs, noise=0.3) for n_envs in (1, 3)]
    assert made[0].fingerprint() == made[1].fingerprint()
    assert made[0].terminations.sum() >= 2
    assert made[0].obs_dim == 11


# Ends and mistakes --------------------------------------------------------------------------------------------------


def test_environments_are_closed_however_it_ends() -> None:
    Counted.start_counting()
    collect(COUNTED, "random", 40, n_envs=3)
    assert Counted.closed == Counted.opened >= 3

    def fails(obs: Any) -> Any:
        raise RuntimeError("no idea")

    for policy, resets, error in ((fails, None, "no idea"), ("random", 4, "no more resets")):
        Counted.start_counting(resets)
        with pytest.raises((RuntimeError, EnvironmentFailedError), match=error):
            collect(COUNTED, policy, 400, n_envs=3)
        assert Counted.closed == Counted.opened >= 3
    Counted.start_counting()
    behaviour = Runner(COUNTED, _uniform(COUNTED), Budget(steps=40), seed=0, n_envs=3)
    episodes = behaviour.run()
    next(episodes)
    episodes.close()
    assert Counted.closed == Counted.opened >= 3


def _uniform(env_id: str) -> Behaviour:
    from rl_training.data.behaviours import Uniform

    return Uniform(read_spaces(env_id))


def test_only_as_many_environments_as_are_needed_are_opened() -> None:
    Counted.start_counting()
    collect(COUNTED, "random", episodes=2, n_envs=50)
    assert Counted.opened == 1 + 2  # one to read the spaces of


@pytest.mark.parametrize("fault", ["obs", "reward"])
def test_what_is_not_finite_is_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "fault", fault)
    expected = {
        "obs": r"^the environment gave an observation that is not finite: episode 0, step 3$",
        "reward": r"^the environment gave a reward that is not finite: episode 0, step 2$",
    }
    with pytest.raises(DataError, match=expected[fault]):
        collect("Failing-v0", still, 40, n_envs=2)


def test_an_action_that_is_not_finite_is_the_policys_fault() -> None:
    with pytest.raises(DataError, match=r"^the policy gave an action that is not finite: episode 0, step 0$"):
        collect("Pendulum-v1", lambda obs: np.full((len(obs), 1), np.nan), 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps: 0 transitions; at least 1 is needed"),
        ({"episodes": 0}, "episodes: 0 episodes; at least 1 is needed"),
        ({}, "steps: is required, or a number of episodes"),
        ({"steps": 5, "seed": -1}, "seed: -1 is negative; use 0 or more"),
        ({"steps": 5, "n_envs": 0}, "n_envs: 0 environments; at least 1 is needed"),
        ({"steps": 5, "noise": -0.1}, "noise: must be at least 0, got -0.1"),
        ({"steps": 5, "epsilon": 1.5}, "epsilon: must be between 0 and 1, got 1.5"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        collect("Pendulum-v1", still, **arguments)
    assert str(caught.value) == message


def test_wrong_policies(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^policy: gave actions of shape \(2, 3\) for 2 rows, not \(2, 1\)$"):
        collect("Pendulum-v1", lambda obs: obs, 400, n_envs=2)
    with pytest.raises(ConfigError, match="'scripted' knows 'Pendulum-v1' only, not 'tests/Cliff-v0'"):
        collect(CLIFF, "scripted", 10)
    with pytest.raises(ConfigError, match="noise: random actions have nothing to add it to"):
        collect(CLIFF, "random", 10, noise=0.1)
    with pytest.raises(CheckpointError, match="no such run"):
        collect(CLIFF, tmp_path / "none", 10)
    with pytest.raises(EnvironmentUnsupportedError, match="has observations of 2 and actions of 1 values; this policy"):
        collect(CLIFF, run, 10)
    with pytest.raises(EnvironmentUnsupportedError, match="action space is Discrete"):
        collect("CartPole-v1", "random", 10)


def test_the_random_numbers_of_an_episode_are_its_own() -> None:
    spaces_ = Spaces(1, (-1.0,), (1.0,))
    drawn = [Episode(number, seed, spaces_).rng.random() for number, seed in itertools.product(range(3), range(3))]
    assert len(set(drawn)) == 9
    assert Episode(2, 1, spaces_).reset_seed == Episode(2, 1, spaces_).reset_seed != Episode(1, 2, spaces_).reset_seed
