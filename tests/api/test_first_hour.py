"""What a stranger trips over in the first hour, and what is said then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training import BC, IQL, Callback
from rl_training.cli import main
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.callbacks import EarlyStopping
from rl_training.runtime.config import EarlyStoppingConfig
from rl_training.runtime.trainer import Trainer
from small_runs import small_config


def arrays(**changes: object) -> dict[str, object]:
    plain = {"obs": np.zeros((20, 2)), "actions": np.zeros((20, 1)), "rewards": np.zeros(20)}
    return {**plain, "next_obs": np.zeros((20, 2)), **changes}


def test_data_without_a_single_end_are_announced(tmp_path: Path) -> None:
    data = TransitionDataset.from_dict(arrays(terminations=np.zeros(20)))
    trainer = Trainer(small_config(None, tmp_path), dataset=data)
    trainer.assemble()
    assert trainer.notices == ["no row of the data ends an episode (terminations, truncations): all 20 count as one"]


def test_dones_alone_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="'dones' are read as terminations, which stop the bootstrap"):
        TransitionDataset.from_dict(arrays(dones=np.zeros(20)))


@pytest.mark.parametrize("callback", [lambda *_: True, Callback, [Callback]])
def test_a_callback_that_is_none(callback: object, tmp_path: Path) -> None:
    model = BC(dataset=arrays(terminations=np.zeros(20)), total_timesteps=2, runs_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"^callback: must be a rl_training\.Callback"):
        model.learn(callback=callback)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dataset", [5, np.zeros((3, 2))])
def test_a_dataset_that_is_none(dataset: object) -> None:
    with pytest.raises(DataError, match=r"^dataset: must be a mapping of arrays by name, is "):
        BC(dataset=dataset, total_timesteps=2)


def test_a_policy_saved_from_a_named_run_trains_on(tmp_path: Path) -> None:
    data = TransitionDataset.from_dict(arrays(terminations=np.arange(20) % 10 == 9))
    IQL(dataset=data, total_timesteps=2, name="named", runs_dir=tmp_path, batch_size=4).learn().save(tmp_path / "saved")
    again = IQL.load(tmp_path / "saved", dataset=data).learn(total_timesteps=4)
    assert again.policy.checkpoint.progress["updates"] == 4
    assert again.run_dir is not None
    assert again.run_dir.name != "named"


@pytest.mark.parametrize(
    ("metric", "mode", "better"),
    [("critic/loss", None, 1.0), ("critic/loss", "max", 3.0), ("return_mean", None, 3.0), ("value/mean", "min", 1.0)],
)
def test_a_loss_is_better_when_smaller_unless_told_otherwise(metric: str, mode: str | None, better: float) -> None:
    class Loop:
        reason = ""

        def stop(self, reason: str) -> None:
            self.reason = reason

    stopping = EarlyStopping(EarlyStoppingConfig(metric=metric, mode=mode, patience=1))  # type: ignore[arg-type]
    loop = Loop()
    stopping._judge(loop, 2.0)  # type: ignore[arg-type]
    stopping._judge(loop, better)  # type: ignore[arg-type]
    assert loop.reason == ""
    stopping._judge(loop, 2.0)  # type: ignore[arg-type]
    assert loop.reason == f"{metric} has not improved for 1 records"


def test_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def exhausted(**_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes")

    monkeypatch.setattr(main, "app", exhausted)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "error: out of memory; smaller networks (algo_kwargs.*_hidden), batch_size, data or fewer seeds need less\n"
    )
