"""Training from disk: the same batches, the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rl_training.data import TransitionDataset
from rl_training.data.formats import columns
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import manager
from rl_training.runtime import mapped_source
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.trainer import Trainer, train
from small_runs import digest, small_config


@pytest.fixture
def folder(dataset: TransitionDataset, tmp_path: Path) -> Path:
    columns.write(dataset, tmp_path / "log")
    return tmp_path / "log"


def config(path: Path, runs: Path, **changes: Any) -> TrainConfig:
    return small_config(path, runs, "td3_bc", seed=[0, 1], **changes)


def test_gives_the_weights_and_metrics_of_memory(folder: Path, tmp_path: Path) -> None:
    ram = train(config(folder, tmp_path / "runs", name="ram", data_memory="ram"))
    mapped = train(config(folder, tmp_path / "runs", name="mapped", data_memory="mapped"))
    assert digest(ram.checkpoint.tensors) == digest(mapped.checkpoint.tensors)
    records = [(run.run.path / "metrics.jsonl").read_text() for run in (ram, mapped)]
    assert records[0] == records[1]


def test_resumes_exactly(folder: Path, tmp_path: Path) -> None:
    whole = train(config(folder, tmp_path / "runs", name="whole", data_memory="mapped", total_timesteps=60))
    part = train(config(folder, tmp_path / "runs", name="part", data_memory="mapped", total_timesteps=31))
    resumed = manager.resume(part.run.path, total_timesteps=60)
    assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)


def test_packs_once_for_every_choice_of_transforms(folder: Path, tmp_path: Path) -> None:
    for name, transforms in (("a", {}), ("b", {}), ("c", {"normalise_observations": True})):
        train(config(folder, tmp_path / "runs", name=name, data_memory="mapped", transforms=transforms))
    files = sorted((folder / ".packed").iterdir())
    assert len(files) == 2
    assert all(file.suffix == ".f32" for file in files)


@pytest.mark.parametrize(("free", "kind"), [(10**12, "OfflineSource"), (1_000, "MappedSource")])
def test_is_chosen_where_memory_is_short(
    free: int, kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_source, "free_memory", lambda: free)
    loop = Trainer(config(folder, tmp_path / "runs")).prepare()
    assert type(loop.engine.source).__name__ == kind
    loop.engine.source.close()


def test_only_from_a_column_directory(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only a column directory can be trained from disk"):
        train(config(data_file, tmp_path / "runs", data_memory="mapped"))


def test_not_on_a_gpu(folder: Path, dataset: TransitionDataset) -> None:
    learner = type("Elsewhere", (), {"device": torch.device("cuda")})()
    with pytest.raises(ConfigError, match="data_memory: data on disk are trained from on the CPU"):
        mapped_source.offline_source(TransitionDataset.load(folder), None, learner, "mapped")  # type: ignore[arg-type]
