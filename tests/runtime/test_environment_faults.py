"""Environments that fail: told as their own failure, and never as a score, a success or a closed output."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rl_training.data.generation import generate_random_dataset
from rl_training.environments import make_env
from rl_training.errors import CheckpointError, DivergenceError, EnvironmentFailedError
from rl_training.experiment import manager
from rl_training.runtime.trainer import TrainResult, train
from small_runs import small_config
from tiny_environments import Cliff, Obs


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


RAISED = {
    "exits": SystemExit(0),
    "exits at length": SystemExit("x" * 10**6),
    "exits mutely": SystemExit(MuteError()),
    "loses its pipe": BrokenPipeError(32, "Broken pipe"),
    "is mute": MuteError(),
    "gives up": GeneratorExit("enough"),
}


PLACES = {"reward": 0, "terminated": 1, "truncated": 2}  # in what a step returns after the observation
ODD = {
    "terminated of nan": (math.nan, "terminated of nan, where true or false are expected"),
    "terminated of none": (None, r"terminated of None \(NoneType\), where true or false are expected"),
    "truncated of a text": ("False", r"truncated of 'False' \(str\), where true or false are expected"),
    "truncated of two": (np.int64(2), "truncated of 2, where true or false are expected"),
    "reward of a text": ("5", r"a reward of '5' \(str\), where a number is expected"),
}


class Fickle(Cliff):
    """Does what `fault` says at the second step of an episode that was reset with the seed `hit`."""

    fault = ""
    hit: int | None = None

    def __init__(self) -> None:
        if Fickle.fault == "does not open":
            raise OSError("no licence")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        self.is_hit = Fickle.hit in (None, seed)
        if Fickle.fault == "exits at reset":
            sys.exit(0)
        return super().reset(seed=seed, options=options)

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(np.zeros(1))
        if self.time == 2 and self.is_hit:
            if Fickle.fault in RAISED:
                raise RAISED[Fickle.fault]
            odd = {"texts": (np.array(["1", "2"]), reward), "large reward": (obs, 1e308)}
            obs, reward = odd.get(Fickle.fault, (obs, reward))
            reward = math.nan if Fickle.fault == "nan reward" else reward
            obs = np.full(2, 1e300) if Fickle.fault == "huge obs" else obs
            obs = obs * math.nan if Fickle.fault == "nan obs" else obs[:1] if Fickle.fault == "short obs" else obs
            name, _, _ = Fickle.fault.partition(" of ")
            if name in PLACES:
                answers = [reward, *rest]
                answers[PLACES[name]] = ODD[Fickle.fault][0]
                reward, *rest = answers
        return obs, reward, *rest  # type: ignore[return-value]

    def close(self) -> None:
        if Fickle.fault.endswith("does not close"):
            raise GeneratorExit("enough") if "mute" in Fickle.fault else BrokenPipeError(32, "Broken pipe")


FICKLE = "tests/Fickle-v0"
TOLD = {
    "exits": r"failed at step 2 of an episode: it called sys.exit\(0\) \(test_environment_faults.py, line \d+\)",
    "exits at reset": r"failed at reset \(seed 10000\): it called sys.exit\(0\)",
    "loses its pipe": r"failed at step 2 of an episode: BrokenPipeError: \[Errno 32\] Broken pipe",
    "exits at length": r"failed at step 2 of an episode: it called sys.exit\('x{299}\)",
    "exits mutely": r"failed at step 2 of an episode: it called sys.exit\(a MuteError that cannot be shown\)",
    "is mute": "failed at step 2 of an episode: MuteError: a MuteError that cannot be shown",
    "gives up": "failed at step 2 of an episode: GeneratorExit: enough",
    "texts": "failed at step 2 of an episode: ValueError: an observation of <U1, where numbers are expected",
    "large reward": r"failed at step 2 of an episode: ValueError: a reward of 1e\+308, which float32 does not hold",
    "does not open": "cannot be opened: OSError: no licence",
    "short obs": r"failed at step 2 of an episode: ValueError: an observation of shape \(1,\), where its space",
    **{fault: f"failed at step 2 of an episode: ValueError: {told}" for fault, (_, told) in ODD.items()},
    "nan reward": r"gave a reward that is not finite, after 2 steps of episode 0 \(reset with seed 10000\)",
    "nan obs": r"gave an observation that is not finite, after 2 steps of episode 0",
}


@pytest.fixture(autouse=True)
def fickle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`fickle(fault, hit)` has the environments misbehave from then on."""
    gymnasium.register(FICKLE, Fickle, max_episode_steps=4, disable_env_checker=True)

    def misbehave(fault: str, hit: int | None = None) -> None:
        monkeypatch.setattr(Fickle, "fault", fault)
        monkeypatch.setattr(Fickle, "hit", hit)

    yield misbehave
    del gymnasium.registry[FICKLE]


def trained(runs: Path, **changes: Any) -> TrainResult:
    data = {"source": "random", "size": 40}
    config = small_config(None, runs, env_id=FICKLE, dataset=data, **{"evaluation": {"episodes": 2}, **changes})
    return train(config)


@pytest.mark.parametrize("fault", TOLD)
def test_an_evaluation_is_refused_in_words_that_name_it(fault: str, fickle: Any, tmp_path: Path) -> None:
    policy = manager.load_policy(trained(tmp_path).run.path)
    fickle(fault)
    with pytest.raises(EnvironmentFailedError, match=f"environment '{FICKLE}' {TOLD[fault]}"):
        policy.evaluate(2)


def test_a_policy_that_gives_no_number_is_named_and_not_the_environment(tmp_path: Path) -> None:
    policy = manager.load_policy(trained(tmp_path, seed=[4, 2]).run.path)
    policy.actor.learner.policy.flat.data.view(2, -1)[1] = math.nan  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match=r"^seed 2 cannot be scored: the policy gave an action .* after 0 steps"):
        policy.evaluate(2)
    assert policy.evaluate(2, members=[4]).seeds == (4,)


@pytest.mark.parametrize(
    ("fault", "raised"), [("does not close", "BrokenPipeError"), ("mutely does not close", "GeneratorExit: enough")]
)
def test_closing_badly_spoils_nothing(fault: str, raised: str, fickle: Any) -> None:
    fickle(fault)
    with pytest.warns(UserWarning, match=f"environment '{FICKLE}' could not be closed: {raised}"):
        make_env(FICKLE).close()


@pytest.mark.parametrize("fault", ODD)
def test_neither_are_odd_answers_learned_from_nor_collected(fault: str, fickle: Any, tmp_path: Path) -> None:
    fickle(fault)
    own = {"learning_starts": 4, "buffer_capacity": 100, "batch_size": 8}
    config = small_config(None, tmp_path, "sac", env_id=FICKLE, algo_kwargs=own, evaluation={"episodes": 1})
    told = f"environment '{FICKLE}' failed at step 2 of an episode: ValueError: {ODD[fault][1]}"
    with pytest.raises(EnvironmentFailedError, match=told):
        train(config)
    with pytest.raises(EnvironmentFailedError, match=told):
        generate_random_dataset(FICKLE, 40, 0)


@pytest.mark.parametrize("one", [True, np.True_, 1, np.uint8(1), np.array([True])])
def test_flags_may_be_of_any_kind_that_is_one(one: Any, fickle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ODD, "terminated of one", (one, ""))
    fickle("terminated of one")
    env = make_env(FICKLE)
    env.reset(seed=0)
    env.step(np.zeros(1))
    assert env.step(np.zeros(1))[2] is True


def test_ctrl_c_in_an_environment_is_the_user_s(fickle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RAISED, "is stopped", KeyboardInterrupt())
    fickle("is stopped")
    env = make_env(FICKLE)
    env.reset(seed=0)
    env.step(np.zeros(1))
    with pytest.raises(KeyboardInterrupt):
        env.step(np.zeros(1))


class TestWhileTraining:
    def test_a_failed_evaluation_loses_no_update_and_is_made_again(self, fickle: Any, tmp_path: Path) -> None:
        whole = trained(tmp_path, name="whole", eval_interval=10)
        fickle("exits", hit=10_001)
        with pytest.raises(EnvironmentFailedError, match=r"sys\.exit"):
            trained(tmp_path, eval_interval=10)
        facts = manager.describe(tmp_path / "run")
        assert facts["status"] == "failed"
        assert facts["reason"].startswith(f"EnvironmentFailedError: environment '{FICKLE}' failed")
        assert facts["step"] == 10
        fickle("")
        end = manager.resume(tmp_path / "run")
        assert end.run.records("evaluations") == whole.run.records("evaluations")
        assert end.run.records("metrics") == whole.run.records("metrics")

    @pytest.mark.parametrize("fault", ["nan reward", "nan obs"])
    def test_what_is_no_score_is_left_out_and_said_once(self, fault: str, fickle: Any, tmp_path: Path) -> None:
        fickle(fault, hit=10_001)
        result = trained(tmp_path, seed=[4, 2], eval_interval=10)
        assert result.status == "finished"
        assert result.progress.last is None
        assert result.run.records("evaluations") == []
        assert [finding.seed for finding in result.progress.divergences] == [4, 2]
        assert not result.progress.stopped_seeds
        told = str(result.progress.divergences[0])
        assert told.startswith(f"warning: environment '{FICKLE}' gave a")
        assert "episode 1 (reset with seed 10001), in an evaluation of seed 4 between step" in told
        assert "likely causes: the environment itself" in told

    def test_experience_that_is_no_number_is_named_as_the_cause(self, fickle: Any, tmp_path: Path) -> None:
        own = {"learning_starts": 4, "buffer_capacity": 100, "batch_size": 8}
        config = small_config(None, tmp_path, "sac", env_id=FICKLE, algo_kwargs=own, evaluation={"episodes": 1})
        fickle("nan reward")
        cause = f"likely causes: environment '{FICKLE}', which gave a reward that is not finite at step 1, "
        with pytest.raises(DivergenceError, match=re.escape(cause)):
            train(config)

    @pytest.mark.parametrize("fault", ["nan obs", "huge obs", "nan reward"])
    def test_also_before_the_first_update(self, fault: str, fickle: Any, tmp_path: Path) -> None:
        own = {"learning_starts": 1000, "buffer_capacity": 100, "batch_size": 8}
        config = small_config(None, tmp_path, "td3", env_id=FICKLE, algo_kwargs=own, log_interval=3)
        fickle(fault)
        with pytest.raises(DivergenceError, match=rf"not finite between step 0 and 3; likely causes: .*'{FICKLE}'"):
            train(config)
        assert manager.describe(tmp_path / "run")["status"] == "diverged"
