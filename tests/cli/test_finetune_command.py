"""`rl-training finetune`: what it says, where the new run lies, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rl_training.experiment import manager
from small_runs import files_under, script_scores, small_config


@pytest.fixture(autouse=True)
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, {5: -3.0, 12: -2.0, 20: -1.0, 30: -0.5})


@pytest.fixture
def trained(data_file: Path, tmp_path: Path) -> Path:
    config = small_config(data_file, Path("runs"), "iql", name="old", seed=[4, 2], env_id="Pendulum-v1")
    return manager.start(config).run.path


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_by_its_name(command: Any, trained: Path) -> None:
    before = files_under(trained)
    settings = ["online.prior=buffer", "online.buffer_capacity=300", "algo_kwargs.beta=2.5"]
    options = [part for setting in settings for part in ("--set", setting)]
    code, out, err = command("finetune", "old", "--steps", 12, "--name", "new", "--quiet", *options)
    assert (code, err) == (0, "")
    assert "finished after 12 steps\n" in out
    assert "last return -2 (step 12)" in " ".join(out.split())
    assert "runs/new" in out
    assert "continue: " in out
    config = yaml.safe_load(Path("runs/new/config.yaml").read_text())
    assert config["init_from"] == str(trained.resolve())
    assert (config["online"]["prior"], config["online"]["buffer_capacity"]) == ("buffer", 300)
    assert (config["algo_kwargs"]["beta"], config["algo_kwargs"]["batch_size"]) == (2.5, 8)
    assert (config["total_timesteps"], config["seed"]) == (12, [4, 2])
    assert config["algo_kwargs"]["lr_schedule"]["actor"]["kind"] == "constant"
    assert files_under(trained) == before


def test_trackers_are_told(command: Any, trained: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tracking is not installed")
    code, out, err = command("finetune", "old", "--steps", 5, "--name", "new", "--quiet", "--track", "tensorboard")
    assert (code, err) == (0, "")
    assert "tensorboard" in out
    (events,) = Path("runs/new/tensorboard").iterdir()
    assert events.stat().st_size > 0
    (entry,) = yaml.safe_load(Path("runs/new/config.yaml").read_text())["tracking"]
    assert entry["tracker"] == "tensorboard"


def test_it_can_be_resumed(command: Any, trained: Path) -> None:
    command("finetune", trained, "--steps", 12, "--name", "new", "--quiet")
    code, out, _ = command("resume", "runs/new", "--total-timesteps", 30, "--quiet")
    assert code == 0
    assert "finished after 30 steps\n" in out


def test_a_name_is_made_up(command: Any, trained: Path) -> None:
    assert command("finetune", "runs/old", "--steps", 5, "-q").code == 0
    (new,) = {path.name for path in Path("runs").iterdir()} - {"old"}
    assert new.startswith("iql-pendulum-v1-")


def test_mistakes(mistake: Any, trained: Path) -> None:
    assert mistake("finetune", "old", "--steps", 0).startswith("error: Invalid value for '--steps'")
    assert mistake("finetune", "old").startswith("error: Missing option '--steps'")
    assert (
        mistake("finetune", "odl", "--steps", 5)
        == "error: runs/odl: no such run; runs in runs: old; did you mean 'old'?"
    )
    assert mistake("finetune", "old", "--steps", 5, "--env-id", "Pendulun-v1").startswith(
        "error: unknown environment 'Pendulun-v1'; did you mean 'Pendulum-v1'?"
    )
    assert mistake("finetune", "old", "--steps", 5, "--set", "online.prior=both") == (
        "error: online.prior: must be 'mixed' or 'buffer', got 'both'"
    )
    assert mistake("finetune", "old", "--steps", 5, "--set", "prior=buffer").startswith("error: prior: no such option")
    assert mistake("finetune", "old", "--steps", 5, "--track", "tensorbord") == (
        "error: tracking: no tracker 'tensorbord'; did you mean 'tensorboard'?"
    )
    assert mistake("finetune", "old", "--steps", 5, "--name", "old") == (
        "error: name: run runs/old exists already; choose another, or train it longer:"
        " `rl-training resume runs/old --total-timesteps N`"
    )


def test_awr(mistake: Any, data_file: Path) -> None:
    manager.start(small_config(data_file, Path("runs"), "awr", name="awr", env_id="Pendulum-v1"))
    assert mistake("finetune", "awr", "--steps", 5, "--name", "new") == (
        "error: online: AWR regresses on the returns of a fixed dataset; it has no online part here"
    )
