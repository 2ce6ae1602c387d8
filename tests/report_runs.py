"""Runs for the report: of every kind, hardly trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.trainer import train
from small_runs import Poison, StopAt, small_config
from tiny_environments import Cliff

ENV = "Cliff-report-v0"


@contextmanager
def registered() -> Iterator[None]:
    """The runs' environment, for as long as they are used."""
    gymnasium.register(ENV, Cliff, max_episode_steps=8)
    try:
        yield
    finally:
        del gymnasium.registry[ENV]


def make_runs(folder: Path, *, only_sound: bool = False) -> Path:
    """`one` and `two` of three seeds, `cloned` of one; and, of other fates, `blind`, `stopped`, `part-diverged`."""
    data = folder / "log.npz"
    rng = np.random.default_rng(0)
    rows = 64
    TransitionDataset.from_dict(
        {
            "obs": rng.uniform(-1, 1, (rows, 2)),
            "next_obs": rng.uniform(-1, 1, (rows, 2)),
            "actions": rng.uniform(-2, 2, (rows, 1)),
            "rewards": rng.normal(size=rows),
            "terminations": np.arange(rows) % 8 == 7,
            "truncations": np.zeros(rows, bool),
        }
    ).save(data)
    usual: dict[str, Any] = {"env_id": ENV, "eval_interval": 4, "evaluation": {"episodes": 2}, "total_timesteps": 12}
    usual |= {"log_interval": 4, "engine": "eager", "algo_kwargs": {}}
    for name, algo, changes in (
        ("one", "iql", {"seed": [0, 1, 2]}),
        ("two", "td3_bc", {"seed": [0, 1, 2]}),
        ("cloned", "bc", {"seed": 5}),
    ):
        train(small_config(data, folder, algo, **{**usual, **changes}, name=name))
    if only_sound:
        return folder
    train(small_config(data, folder, "bc", name="blind", log_interval=4, total_timesteps=8))
    stopped = small_config(data, folder, "iql", **usual, name="stopped")
    train(stopped, callbacks=[StopAt(6)])
    part = small_config(data, folder, "iql", **{**usual, "seed": [0, 1]}, name="part-diverged")
    train(part, callbacks=[Poison(1, 6)])
    return folder
