"""Stopped anywhere by a signal, a run ends as if never stopped: every algorithm, every source, both engines.

The stopping points are drawn at random from a seed of the case's own, so they differ between cases and repeat.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from rl_training import algorithms
from rl_training.algorithms.base import OnlineParams
from rl_training.data.formats import columns
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.experiment import manager
from rl_training.experiment.registry import entries
from rl_training.runtime import checkpoint_writer
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import TrainResult
from small_runs import digest, files_under, knobs, one_update_at_a_time

TOTAL = 40
ALGOS = [e.name for e in entries()]
COLLECTS = {"learning_starts": 5, "buffer_capacity": 25, "n_envs": 2, "train_frequency": 2}


@pytest.fixture(autouse=True)
def saved_beside_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "INSTANT_SECONDS", 0.0)


class Signalled(Callback):
    """Has the system send this process a signal at one step."""

    def __init__(self, step: int, number: signal.Signals) -> None:
        self.step, self.number = step, number

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.steps == self.step:
            os.kill(os.getpid(), self.number)


def values(algo: str, dataset: Any, runs: Path, **changes: Any) -> dict[str, Any]:
    return {
        "algo": algo,
        "env_id": "Pendulum-v1",
        "dataset": dataset,
        "total_timesteps": TOTAL,
        "log_interval": 7,
        "eval_interval": 20,
        "checkpoint_interval": 6,
        "evaluation": {"episodes": 1, "max_steps": 20},
        "algo_kwargs": {**knobs(algo), **changes.pop("algo_kwargs", {})},
        "runs_dir": str(runs),
        **changes,
    }


def require_exact(case: str, config: TrainConfig, stops: int = 2) -> None:
    """Weights, optimiser, buffer, environments, counters, metrics and evaluations are those of the unbroken run."""
    whole = manager.start(config.model_copy(update={"name": "whole"}))
    dice = random.Random(case)
    points = sorted(dice.sample(range(1, TOTAL), stops))
    result: TrainResult | None = None
    for point in points:
        sender = Signalled(point, dice.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]))
        if result is None:
            result = manager.start(config.model_copy(update={"name": "cut"}), callbacks=[sender])
        else:
            result = manager.resume(result.run.path, callbacks=[sender])
        assert (result.status, result.progress.steps) == ("interrupted", point)
    assert result is not None
    resumed = manager.resume(result.run.path)
    assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
    last = [files_under(r.run.checkpoint_path(TOTAL)) for r in (whole, resumed)]
    for name in last[0]:
        if name.endswith(".safetensors"):
            assert last[0][name] == last[1][name], f"{name}, stopped at {points}"
    assert whole.checkpoint.progress == resumed.checkpoint.progress
    for kind in ("metrics", "evaluations"):
        a, b = ((r.run.path / f"{kind}.jsonl").read_bytes() for r in (whole, resumed))
        assert a == b, f"{kind}, stopped at {points}"


@pytest.fixture
def mixture(data_file: Path) -> dict[str, Any]:
    random_data = {"source": "random", "size": 400}
    parts = [{"dataset": str(data_file), "weight": 3}, {"dataset": random_data, "weight": 1}]
    return {"source": "mixture", "parts": parts}


@pytest.mark.parametrize("algo", ALGOS)
def test_every_algorithm_on_data(algo: str, data_file: Path, tmp_path: Path) -> None:
    """RLPD collects as well: its source is both at once."""
    online = issubclass(algorithms.load(algo).Params, OnlineParams)
    require_exact(
        algo, TrainConfig.parse(values(algo, str(data_file), tmp_path, algo_kwargs=COLLECTS if online else {}))
    )


@pytest.mark.parametrize("algo", [a for a in ALGOS if issubclass(algorithms.load(a).Params, OnlineParams)])
def test_every_algorithm_that_collects(algo: str, data_file: Path, tmp_path: Path) -> None:
    data = str(data_file) if algo == "rlpd" else None
    config = values(algo, data, tmp_path, algo_kwargs=COLLECTS, seed=[0, 3])
    require_exact(f"online {algo}", TrainConfig.parse(config), stops=3)


@pytest.mark.parametrize("exact", [False, True])
def test_a_mixture(exact: bool, mixture: dict[str, Any], tmp_path: Path) -> None:
    config = values("td3_bc", {**mixture, "exact": exact}, tmp_path)
    require_exact(f"mixture {exact}", TrainConfig.parse(config))


def test_a_mixture_as_prior_data(mixture: dict[str, Any], tmp_path: Path) -> None:
    knob = {**COLLECTS, "offline_pretrain_updates": 11}
    require_exact("prior mixture", TrainConfig.parse(values("rlpd", mixture, tmp_path, algo_kwargs=knob)), stops=3)


@pytest.mark.parametrize("prior", ["mixed", "buffer"])
def test_offline_to_online(prior: str, data_file: Path, tmp_path: Path) -> None:
    online = {**COLLECTS, "prior": prior, "learning_starts": 0, "buffer_capacity": 90}
    require_exact(f"iql {prior}", TrainConfig.parse(values("iql", str(data_file), tmp_path, online=online)))


def test_data_on_disk(dataset: TransitionDataset, tmp_path: Path) -> None:
    columns.write(dataset, tmp_path / "log")
    config = values("rebrac", str(tmp_path / "log"), tmp_path, data_memory="mapped", seed=[0, 1])
    require_exact("mapped", TrainConfig.parse(config))


def test_returns_computed_anew(data_file: Path, tmp_path: Path) -> None:
    knob = {"td_lambda": 0.9, "critic_updates": 5, "actor_updates": 4}
    require_exact("awr", TrainConfig.parse(values("awr", str(data_file), tmp_path, algo_kwargs=knob)), stops=3)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["td3_bc", "sac"])
def test_compiled(algo: str, data_file: Path, tmp_path: Path) -> None:
    data, own = (str(data_file), {}) if algo == "td3_bc" else (None, COLLECTS)
    config = values(algo, data, tmp_path, engine="compiled", algo_kwargs=own)
    require_exact(f"compiled {algo}", TrainConfig.parse(config), stops=1)
