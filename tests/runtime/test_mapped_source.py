"""Training from disk: the same batches, the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rl_training.algorithms.td3_bc import TD3BC
from rl_training.data import TransformConfig, TransitionDataset, fit_transforms
from rl_training.data.formats import columns
from rl_training.environments import Spaces
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


def test_through_the_map_where_direct_reads_do_not_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = train(config(folder, tmp_path / "runs", name="direct", data_memory="mapped"))
    monkeypatch.setattr("platform.machine", lambda: "another")
    plain = train(config(folder, tmp_path / "runs", name="plain", data_memory="mapped"))
    assert digest(direct.checkpoint.tensors) == digest(plain.checkpoint.tensors)


def test_goes_where_the_clock_goes(folder: Path) -> None:
    """Batches are a function of the update's number, in whatever order updates come."""
    data = TransitionDataset.load(folder)
    transforms = fit_transforms(data, Spaces(3, (-2.0,), (2.0,)), TransformConfig())
    learner = TD3BC(3, 1, seeds=[0, 1], batch_size=8)
    mapped, ram = (mapped_source.offline_source(data, transforms, learner, where) for where in ("mapped", "ram"))
    for update in (0, 160, 96, 128, 160, 192, 31):
        learner.clock.fill_(update)
        mapped.advance(1)
        pairs = zip(*(s.batch(learner.keys, learner.clock, 8) for s in (mapped, ram)), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs if a is not None)
    mapped.close()


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
