"""Scores: fixed seeds, raw reward, the same as a plain loop would measure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_training.experiment.manager import LoadedPolicy
from rl_training.runtime.config import EvaluationConfig
from rl_training.runtime.evaluation import EnvironmentEvaluator, Evaluation
from rl_training.runtime.trainer import train
from small_runs import small_config

TRANSFORMS = {"normalise_observations": True, "reward_scale": 0.01, "reward_shift": 5.0}


def policy(data_file: Path, runs: Path, name: str, **changes: Any) -> LoadedPolicy:
    """A Gaussian BC policy, so that it can be sampled too."""
    own = {"deterministic_policy": False}
    config = small_config(data_file, runs, name=name, total_timesteps=5, algo_kwargs=own, **changes)
    result = train(config)
    return LoadedPolicy(result.checkpoint, result.actor)


@pytest.fixture(scope="module")
def three(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    return policy(data_file, tmp_path_factory.mktemp("runs"), "three", seed=[4, 5, 6], transforms=TRANSFORMS)


@pytest.fixture(scope="module")
def one(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    return policy(data_file, tmp_path_factory.mktemp("runs"), "one", seed=5, transforms=TRANSFORMS)


def evaluate(scored: LoadedPolicy, env_id: str = "Pendulum-v1", **settings: Any) -> Evaluation:
    evaluator = EnvironmentEvaluator(env_id, EvaluationConfig(**{"episodes": 3, "max_steps": 40, **settings}))
    try:
        return evaluator.evaluate(scored.actor, 5)
    finally:
        evaluator.close()


class TestFixedSeeds:
    @pytest.mark.parametrize("deterministic", [True, False])
    def test_the_same_twice(self, deterministic: bool, three: LoadedPolicy) -> None:
        first, second = (evaluate(three, deterministic=deterministic) for _ in range(2))
        np.testing.assert_array_equal(first.returns, second.returns)

    def test_the_same_twice_in_environments_kept_open(self, one: LoadedPolicy) -> None:
        evaluator = EnvironmentEvaluator("Pendulum-v1", EvaluationConfig(episodes=2, max_steps=40))
        first, second = (evaluator.evaluate(one.actor, 5) for _ in range(2))
        evaluator.close()
        np.testing.assert_array_equal(first.returns, second.returns)

    @pytest.mark.parametrize("max_envs", [1, 4, 6, 9])
    def test_whatever_the_number_of_environments(self, max_envs: int, three: LoadedPolicy) -> None:
        expected = evaluate(three)
        np.testing.assert_allclose(evaluate(three, max_envs=max_envs).returns, expected.returns, rtol=1e-4)

    def test_whoever_is_scored_beside(self, three: LoadedPolicy, one: LoadedPolicy) -> None:
        assert three.actor.learner.seeds[1] == one.actor.learner.seeds[0] == 5
        np.testing.assert_allclose(evaluate(three).of_seed(5), evaluate(one).of_seed(5), rtol=1e-4)

    def test_sampled_actions_whatever_the_number_of_environments(self, one: LoadedPolicy) -> None:
        expected = evaluate(one, deterministic=False)
        np.testing.assert_allclose(evaluate(one, deterministic=False, max_envs=1).returns, expected.returns, rtol=1e-4)

    def test_sampled_actions_whoever_is_scored_beside(self, three: LoadedPolicy, one: LoadedPolicy) -> None:
        settings = {"deterministic": False, "max_envs": 3}
        np.testing.assert_allclose(
            evaluate(three, **settings).of_seed(5), evaluate(one, **settings).of_seed(5), rtol=1e-4
        )

    def test_another_seed_is_another_episode(self, one: LoadedPolicy) -> None:
        shifted, plain = evaluate(one, seed=10_001).returns[0], evaluate(one, seed=10_000).returns[0]
        np.testing.assert_allclose(shifted[:2], plain[1:], rtol=1e-4)
        assert len(np.unique(plain)) == 3


class TestReturns:
    @pytest.mark.parametrize("member", [0, 2])
    def test_equal_a_plain_loop_on_the_raw_reward(self, member: int, three: LoadedPolicy) -> None:
        """Observations are normalised and rewards rescaled in training; the score knows nothing of it."""
        evaluation = evaluate(three, max_steps=1000, seed=77)
        seed = three.actor.learner.seeds[member]
        env = gymnasium.make("Pendulum-v1")
        for episode in range(3):
            obs, _ = env.reset(seed=77 + episode)
            total, length, over = 0.0, 0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(three.predict(obs, seed=seed))
                total, length, over = total + float(reward), length + 1, terminated or truncated
            np.testing.assert_allclose(evaluation.returns[member, episode], total, rtol=1e-3)
            assert evaluation.lengths[member, episode] == length == 200
        env.close()

    def test_sampling_is_not_the_mode(self, one: LoadedPolicy) -> None:
        sampled, mode = evaluate(one, deterministic=False).returns, evaluate(one).returns
        assert (np.abs(sampled - mode) > 1e-3).all()
        assert len(np.unique(sampled)) == 3

    def test_an_episode_that_does_not_end_is_cut(self, one: LoadedPolicy) -> None:
        short, long = evaluate(one, max_steps=7), evaluate(one, max_steps=8)
        assert (short.lengths == 7).all()
        assert (long.lengths == 8).all()
        assert (long.returns < short.returns).all()  # Pendulum's reward is never above 0

    def test_episodes_of_unequal_length(self, one: LoadedPolicy, register_env: Any) -> None:
        """An episode that is over counts no more, however long the others go on."""
        evaluation = evaluate(one, register_env(_Countdown), episodes=4, seed=3, max_envs=3)
        np.testing.assert_array_equal(evaluation.lengths[0], [3, 4, 5, 6])
        np.testing.assert_array_equal(evaluation.returns[0], [3.0, 4.0, 5.0, 6.0])


class _Countdown(gymnasium.Env[Any, Any]):
    """Ends after as many steps as its seed says; each is worth 1."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.left = seed or 0
        return np.zeros(3, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        assert self.left >= 0, "stepped after its end"
        return np.zeros(3, dtype=np.float32), 1.0, self.left == 0, False, {}


@pytest.fixture
def register_env() -> Any:
    added: list[str] = []

    def register(entry_point: Any) -> str:
        name = f"Test{entry_point.__name__.strip('_')}-v0"
        gymnasium.register(name, entry_point=entry_point, disable_env_checker=True)
        added.append(name)
        return name

    yield register
    for name in added:
        gymnasium.registry.pop(name)


class TestRecord:
    def test_statistics_per_member(self) -> None:
        returns, lengths = np.array([[1.0, 3.0], [10.0, 30.0]]), np.array([[5, 6], [7, 8]])
        evaluation = Evaluation(40, (2, 9), returns, lengths)
        assert evaluation.mean == 11.0
        assert evaluation.std == pytest.approx(np.std([1.0, 3.0, 10.0, 30.0]))
        np.testing.assert_array_equal(evaluation.of_seed(9), [10.0, 30.0])
        assert evaluation.to_json() == {
            "step": 40,
            "seeds": [2, 9],
            "episodes": 2,
            "return_mean": [2.0, 20.0],
            "return_std": [1.0, 10.0],
            "return_min": [1.0, 10.0],
            "return_max": [3.0, 30.0],
            "length_mean": [5.5, 7.5],
        }
        ends = replace(evaluation, terminated=np.array([[True, False], [True, True]]))
        assert ends.to_json()["terminations"] == [1, 2]
        assert ends.only([9]).to_json()["terminations"] == [2]
