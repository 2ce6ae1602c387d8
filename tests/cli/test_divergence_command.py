"""What the command line says of seeds that diverged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import train
from small_runs import small_config


class PoisonFirst(Callback):
    """Makes the first member's actor NaN at the first record."""

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        if loop.progress.steps == 10:
            loop.actor.learner.policy.flat.data[0] = math.nan  # type: ignore[attr-defined]


def test_a_run_of_which_nothing_is_left_has_its_own_exit_code(command: Any, tmp_path: Path) -> None:
    """Squared errors of rewards of 1e30 are infinite in float32."""
    settings = ["transforms.reward_scale=1e30", "name=run", "runs_dir=runs", "log_interval=5", "total_timesteps=20"]
    code, _, err = command("train", "--config", "iql/pendulum", *(f"--set={one}" for one in settings))
    assert code == 3
    assert err.startswith("error: seed 0 diverged and is stopped, set back to the start: ")
    assert "likely causes: rewards up to 1" in err
    assert err.count("\n") == 1
    assert json.loads((tmp_path / "runs" / "run" / "run.json").read_text())["status"] == "diverged"
    again = command("resume", "runs/run", "--total-timesteps", 50)
    assert again.code == 2
    assert again.err.startswith("error: runs/run: diverged, and would again")
    assert "init_from" not in again.err  # there is no checkpoint to begin at
    auto = command("train", "--config", "iql/pendulum", *(f"--set={one}" for one in settings), "--resume", "auto")
    assert (auto.code, auto.err) == (again.code, again.err)


def test_a_seed_that_diverged_among_others_is_named(command: Any, data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, seed=[4, 2], env_id="Pendulum-v1", log_interval=10)
    path = train(config, callbacks=[PoisonFirst()]).run.path
    for arguments in (("predict", path, "--obs", "0,0,0", "--seed", 4), ("evaluate", path, "--episodes", 1)):
        code, out, err = command(*arguments)
        assert code == 0
        assert err.startswith("note: seed 4 diverged and is stopped, set back to the start: ")
        assert err.count("\n") == 1
        assert "seed 4" not in out


def test_what_is_refused_is_all_that_is_said(command: Any, data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, seed=[4, 2], env_id=None, log_interval=10)
    path = train(config, callbacks=[PoisonFirst()]).run.path
    (tmp_path / "policy.onnx").write_text("mine")
    refused = {
        "was trained without an environment": ("evaluate", path),
        "none.csv": ("evaluate", path, "--offline", "--data", tmp_path / "none.csv"),
        "policy.onnx": ("export", path, "-o", tmp_path / "policy.onnx", "--format", "onnx"),
        "seed: 9 is not in this run": ("export", path, "--seed", 9),
    }
    for said, arguments in refused.items():
        code, out, err = command(*arguments)
        assert (code, out) == (2, ""), err
        assert err.startswith("error: "), err
        assert said in err
        assert err.count("\n") == 1
