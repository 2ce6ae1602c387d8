"""Training from disk: the same batches, the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.algorithms.td3_bc import TD3BC
from rl_training.data import TransformConfig, TransitionDataset, fit_transforms
from rl_training.data.batch import PackedTransitions, are_packed
from rl_training.data.dataset_loaders import MixtureDatasetConfig
from rl_training.data.formats import columns
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import manager
from rl_training.runtime import mapped_source
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.rehearsal import first_rows
from rl_training.runtime.trainer import Trainer, train, trainer_for
from small_runs import digest, files_under, small_values


@pytest.fixture
def folder(dataset: TransitionDataset, tmp_path: Path) -> Path:
    columns.write(dataset, tmp_path / "log")
    return tmp_path / "log"


def small_config(path: Path, runs: Path, algo: str, **changes: Any) -> TrainConfig:
    """On the CPU, as data on disk are trained from there alone."""
    return TrainConfig.parse(small_values(path, runs, algo, **{"device": "cpu", **changes}))


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
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("algo", "changes", "complaint"),
    [
        (
            "td3_bc",
            {"online": {"learning_starts": 4}, "env_id": "Pendulum-v1"},
            "data_memory: mapped is for training on a fixed dataset; online use auto or ram",
        ),
        (
            "rlpd",
            {"env_id": "Pendulum-v1"},
            "data_memory: mapped is for training on a fixed dataset; online use auto or ram",
        ),
        (
            "awr",
            {"algo_kwargs": {"td_lambda": 0.9}},
            "data_memory: mapped does not go with algo_kwargs.td_lambda, whose returns are computed anew over all rows"
            " in memory; use auto or ram, or leave td_lambda out",
        ),
        (
            "bc",
            {"algo_kwargs": {"best_fraction": 0.5}},
            "data_memory: mapped trains on a column directory as it is; a best_fraction of it is held in memory:"
            " use auto or ram",
        ),
    ],
)
def test_is_refused_where_it_would_do_nothing(
    algo: str, changes: dict[str, Any], complaint: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        train(small_config(folder, tmp_path / "runs", algo, data_memory="mapped", **changes))
    assert str(caught.value) == complaint
    assert not (tmp_path / "runs").exists()


def held_open() -> set[str]:
    """Packed files of which this process has a descriptor or a map."""
    links = Path("/proc/self/fd").iterdir()
    opened = {str(link.readlink()) for link in links if link.is_symlink()}  # the listing's own is gone by now
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()}
    return {path for path in opened | mapped if ".f32" in path}


needs_proc = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")


@needs_proc
def test_nothing_stays_open(folder: Path) -> None:
    data = TransitionDataset.load(folder)
    transforms = fit_transforms(data, Spaces(3, (-2.0,), (2.0,)), TransformConfig())
    learner = TD3BC(3, 1, seeds=[0], batch_size=8)
    source = mapped_source.offline_source(data, transforms, learner, "mapped")
    source.advance(1)
    assert held_open()
    source.close()
    assert not held_open()
    source.close()  # a second time does no harm


@needs_proc
def test_nothing_stays_open_when_construction_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = TransitionDataset.load(folder)
    transforms = fit_transforms(data, Spaces(3, (-2.0,), (2.0,)), TransformConfig())

    def refuse(*_: Any) -> None:
        raise DataError("refused")

    learner = TD3BC(3, 1, seeds=[0], batch_size=8)
    for owner, name in ((PackedTransitions, "describe"), (mapped_source.MappedSource, "__init__")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refuse)
            with pytest.raises(DataError, match="refused"):
                mapped_source.offline_source(data, transforms, learner, "mapped")
        assert not held_open()


@needs_proc
def test_nothing_stays_open_after_looking_for_a_metric(folder: Path, tmp_path: Path) -> None:
    stopping = {"metric": "critic/loss", "patience": 1}
    Trainer(config(folder, tmp_path / "runs", data_memory="mapped", early_stopping=stopping)).assemble()
    assert not held_open()


@pytest.mark.parametrize("algo", ["td3_bc", "awr", "rebrac", "bc"])
def test_a_plan_writes_nothing(algo: str, folder: Path, tmp_path: Path) -> None:
    """A metric to stop by is looked for in memory."""
    before = files_under(tmp_path)
    stopping = {"metric": "actor/loss", "patience": 1}
    values = small_config(folder, tmp_path / "runs", algo, data_memory="mapped", early_stopping=stopping)
    assert any(line.startswith(f"train: {algo}") for line in trainer_for(algo)(values).plan())
    assert files_under(tmp_path) == before


def test_a_metric_is_looked_for_where_the_first_rows_lack_a_successor() -> None:
    row, cut = np.zeros((5, 1), np.float32), np.array([1, 0, 0, 0, 1], bool)
    data = TransitionDataset(row, row, row[:, 0], row, ~cut & False, cut, has_next_obs=~cut)
    few = first_rows(data)
    assert (len(few), few.n_usable, few.whole_episodes) == (4, 3, True)


def test_not_on_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = type("Elsewhere", (), {"device": torch.device("cuda")})()
    with pytest.raises(
        ConfigError, match=r"mapped: data on disk are trained from on the CPU; .*data_memory: ram, which"
    ):
        mapped_source.offline_source(TransitionDataset.load(folder), None, learner, "mapped")  # type: ignore[arg-type]
    monkeypatch.setattr(mapped_source, "free_memory", lambda: 1000)
    with pytest.raises(
        ConfigError, match=r"data_memory: auto: .* \(data_memory: ram, which takes 8e-05 GB there and here"
    ):
        mapped_source.offline_source(TransitionDataset.load(folder), None, learner, "auto")  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", ["ram", "mapped"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_damaged_folder_is_not_trained_from(folder: Path, tmp_path: Path, memory: str, mixed: bool) -> None:
    raw = bytearray((folder / "rewards.npy").read_bytes())
    raw[200] ^= 1
    (folder / "rewards.npy").write_bytes(raw)
    given = config(folder, tmp_path / "runs", data_memory="ram" if mixed else memory)
    section = MixtureDatasetConfig.model_validate({"parts": [{"dataset": str(folder)}]})
    with pytest.raises(DataError, match=r"log: rewards.npy: damaged \(its SHA-256 is not the schema's\)"):
        train(given.model_copy(update={"dataset": section}) if mixed else given)


class TestPackedRowsAreNotTrusted:
    @pytest.fixture
    def packed(self, folder: Path, tmp_path: Path) -> Path:
        train(config(folder, tmp_path / "runs", name="first", data_memory="mapped", total_timesteps=20))
        (file,) = (folder / ".packed").iterdir()
        return file

    def weights_after_resuming(self, tmp_path: Path) -> str:
        return digest(manager.resume(tmp_path / "runs" / "first", total_timesteps=30).checkpoint.tensors)

    def expected(self, folder: Path, tmp_path: Path) -> str:
        whole = config(folder, tmp_path / "runs", name="whole", data_memory="ram", total_timesteps=30)
        return digest(train(whole).checkpoint.tensors)

    def test_other_values_are_packed_again(self, packed: Path, folder: Path, tmp_path: Path) -> None:
        own = packed.read_bytes()
        packed.write_bytes(bytes(len(own)))
        assert self.weights_after_resuming(tmp_path) == self.expected(folder, tmp_path)
        assert packed.read_bytes() == own

    def test_a_link_is_not_followed(self, packed: Path, folder: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.write_bytes(packed.read_bytes())
        packed.unlink()
        packed.symlink_to(outside)
        assert self.weights_after_resuming(tmp_path) == self.expected(folder, tmp_path)
        assert not packed.is_symlink()

    def test_they_hide_no_damage_of_the_columns(self, packed: Path, folder: Path, tmp_path: Path) -> None:
        raw = bytearray((folder / "obs.npy").read_bytes())
        raw[-8000:] = bytes(8000)
        (folder / "obs.npy").write_bytes(raw)
        with pytest.raises(DataError, match=r"log: obs.npy: damaged \(its SHA-256 is not the schema's\)"):
            train(config(folder, tmp_path / "runs", name="new", data_memory="mapped"))
        assert not (tmp_path / "runs" / "new").exists()

    def test_no_folder_elsewhere_is_written_to(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (folder / ".packed").symlink_to(tmp_path / "outside")
        with pytest.raises(DataError, match=r"/log/.packed: is a link, and none is followed; remove it, and the rows"):
            train(config(folder, tmp_path / "runs", data_memory="mapped"))
        assert list((tmp_path / "outside").iterdir()) == []
        assert not (tmp_path / "runs").exists()

    def test_a_link_is_nothing_to_a_run_in_memory(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (folder / ".packed").symlink_to(tmp_path / "outside")
        for memory in ("ram", "auto"):
            assert train(config(folder, tmp_path / "runs", name=memory, data_memory=memory)).status == "finished"
        assert list((tmp_path / "outside").iterdir()) == []

    def test_they_are_compared_once_though_a_metric_is_looked_for(
        self, packed: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared = []

        def count(dataset: Any, transforms: Any, rows: Any) -> bool:
            compared.append(rows)
            return are_packed(dataset, transforms, rows)

        monkeypatch.setattr("rl_training.data.mapped.are_packed", count)
        stopping = {"metric": "critic/loss", "patience": 1}
        for name in ("a", "b"):
            train(config(folder, tmp_path / "runs", name=name, data_memory="mapped", early_stopping=stopping))
        assert len(compared) == 2  # in each run, whatever the one before found

    def test_a_file_in_the_place_of_the_folder(self, folder: Path, tmp_path: Path) -> None:
        (folder / ".packed").write_text("")
        with pytest.raises(DataError, match=r"/log/.packed: is not a folder; remove it, and the rows are packed again"):
            train(config(folder, tmp_path / "runs", data_memory="mapped"))


def test_a_folder_is_verified_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("rl_training.data.formats.columns.verify", seen.append)
    train(config(folder, tmp_path / "runs", data_memory="ram"))
    assert seen == [folder]
