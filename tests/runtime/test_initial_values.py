"""`initial_values: data`: critics that begin at what the data's rows return on average."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import TransitionDataset
from rl_training.data.returns import usual_value
from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.runtime.initial_values import first_value
from rl_training.runtime.trainer import Trainer, train
from small_runs import StopAt, digest, small_config

WITH_CRITICS = ("td3_bc", "iql", "cql", "awac", "crr", "rebrac", "sac", "td3")


def paid_alike(terminations: bool) -> TransitionDataset:
    """Four episodes of ten rows, each row paid 3."""
    n, rng = 40, np.random.default_rng(0)
    ends = np.arange(1, n + 1) % 10 == 0
    return TransitionDataset.from_dict(
        {
            "obs": rng.normal(size=(n, 3)),
            "actions": rng.uniform(-1, 1, (n, 1)),
            "rewards": np.full(n, 3.0),
            "next_obs": rng.normal(size=(n, 3)),
            "terminations": ends & terminations,
            "truncations": ends & (not terminations),
        }
    )


@pytest.mark.parametrize(("terminations", "value"), [(False, 30.0), (True, 3.0 / (1 - 0.9 * 0.9))])
def test_the_mean_reward_for_ever_ended_as_often_as_rows_are(terminations: bool, value: float) -> None:
    data = paid_alike(terminations)
    assert usual_value(data.rewards, data.terminations, 0.9) == pytest.approx(value)


@pytest.mark.parametrize("terminations", [False, True])
def test_the_mean_return_of_all_rows(terminations: bool, tmp_path: Path) -> None:
    """By hand: with k rows left, 3(1 - γ^k)/(1 - γ) of an episode that ends; of one that goes on, the whole sum."""
    config = small_config(None, tmp_path, "iql", initial_values="data", algo_kwargs={"gamma": 0.9})
    rows = [3 * (1 - 0.9**left) / (1 - 0.9) for left in range(1, 11)]
    expected = float(np.mean(rows)) if terminations else 30.0
    data = paid_alike(terminations)
    transforms = Trainer(config, dataset=data).assemble().transforms
    assert first_value(config, data, transforms) == pytest.approx(expected)


@pytest.mark.parametrize("algo", WITH_CRITICS)
def test_every_value_is_moved_by_it_and_nothing_else(algo: str, tmp_path: Path) -> None:
    """Rewards as the networks see them: 2 · 3 + 1 = 7 a step, 70 at γ = 0.9."""
    changes = {"algo_kwargs": {"gamma": 0.9}, "seed": [0, 1], "transforms": {"reward_scale": 2.0, "reward_shift": 1.0}}
    plain, moved = (
        Trainer(small_config(None, tmp_path, algo, initial_values=where, **changes), dataset=paid_alike(False))
        .assemble()
        .learner
        for where in ("zero", "data")
    )
    obs, actions = torch.randn(2, 5, 3), torch.rand(2, 5, 1)
    for name in ("critics", "target_critics"):
        before, after = (getattr(learner.model, name).values(obs, actions) for learner in (plain, moved))
        torch.testing.assert_close(after, before + 70.0, atol=1e-4, rtol=0)
    if hasattr(plain.model, "value"):
        torch.testing.assert_close(moved.model.value.values(obs), plain.model.value.values(obs) + 70.0)
    torch.testing.assert_close(moved.policy.mode(obs), plain.policy.mode(obs), atol=0, rtol=0)


def test_values_that_are_right_from_the_start_stay(tmp_path: Path) -> None:
    """Where every row is paid alike for ever there is nothing to learn, and the TD error begins near zero."""
    found = {}
    for where in ("zero", "data"):
        config = small_config(None, tmp_path, "td3_bc", initial_values=where, name=where, algo_kwargs={"gamma": 0.9})
        found[where] = train(config, dataset=paid_alike(False)).run.records("metrics")[0]["critic/loss"][0]
    assert found["data"] < 0.5 < 10.0 < found["zero"]


def test_a_run_that_is_stopped_ends_as_if_it_never_was(data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, "iql", initial_values="data", name="whole")
    whole = train(config)
    train(config.model_copy(update={"name": "cut"}), callbacks=[StopAt(7)])
    resumed = manager.resume(tmp_path / "cut")
    assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())


@pytest.mark.parametrize("algo", ["bc", "awr"])
def test_without_critics_it_is_said_to_have_no_effect(algo: str, data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, algo, initial_values="data")
    result = train(config)
    assert f"initial_values: has no effect, as {algo} has no critics" in result.run.describe()["notices"]
    plain = train(config.model_copy(update={"name": "plain", "initial_values": "zero"}))
    assert digest(result.checkpoint.tensors) == digest(plain.checkpoint.tensors)


def test_without_data_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        train(small_config(None, tmp_path, "sac", initial_values="data", env_id="Pendulum-v1"))
    assert str(refused.value) == "initial_values: data needs a dataset, and there is none; leave it out"
    assert not (tmp_path / "run").exists()
