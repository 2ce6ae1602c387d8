"""`resume --dataset FILE`: the run's data lie elsewhere, and whatever it says of them holds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import BC
from rl_training.data.generation import generate_random_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment import manager
from rl_training.runtime.run_directory import RunDirectory
from small_runs import small_config, small_values

SECTION: dict[str, Any] = {
    "columns": {"obs": ["x", "y"], "actions": "u", "rewards": "spent", "episode_ids": "day"},
    "rewards_are": "costs",
    "action_low": -3.0,
    "action_high": 3.0,
    "last_rows_are": "termination",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(0).uniform(-1, 1, (60, 4)).round(6)
    path = tmp_path / "log.csv"
    rows = [[i // 10, *row] for i, row in enumerate(numbers.tolist())]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["day", "x", "y", "u", "spent"], *rows])
    return path


def started(tmp_path: Path, dataset: Any, **changes: Any) -> RunDirectory:
    values = small_values(None, tmp_path / "runs", total_timesteps=4, **changes)
    return manager.start(small_config(None, tmp_path / "runs", **{**values, "dataset": dataset})).run


def told(run: RunDirectory) -> dict[str, Any]:
    section: dict[str, Any] = run.config().to_plain()["dataset"]
    return section


@pytest.mark.parametrize("way", ["resume", "text", "load", "before the first checkpoint"])
def test_what_the_run_says_of_its_file_holds(table: Path, tmp_path: Path, way: str) -> None:
    run = started(tmp_path, {"source": "file", "path": str(table), **SECTION})
    before = told(run)
    moved = table.rename(tmp_path / "moved.csv")
    if way == "load":
        BC.load(run.path, dataset=moved).learn(6)
    elif way == "before the first checkpoint":
        run.note(status="interrupted", step=None)
        for step in run.steps():
            run.checkpoint_path(step).rename(tmp_path / f"{step}")
        manager.resume(run.path, dataset=moved, total_timesteps=6)
    else:
        manager.resume(run.path, dataset=str(moved) if way == "text" else moved, total_timesteps=6)
    assert told(run) == {**before, "path": str(moved)}
    assert run.describe()["step"] == 6
    assert manager.resume(run.path, total_timesteps=8).progress.steps == 8  # it is known there by now


def test_a_whole_section_replaces_it(table: Path, tmp_path: Path) -> None:
    run = started(tmp_path, {"source": "file", "path": str(table), **SECTION})
    plain = {**SECTION, "source": "file", "path": str(table), "rewards_are": None}
    with pytest.raises(CheckpointError, match="SHA-256 differs"):
        manager.resume(run.path, dataset=plain, total_timesteps=6)


def test_other_data_are_refused_as_ever(table: Path, tmp_path: Path) -> None:
    run = started(tmp_path, {"source": "file", "path": str(table), **SECTION})
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("0.5", "0.4"))
    with pytest.raises(CheckpointError, match="SHA-256 differs"):
        manager.resume(run.path, dataset=other, total_timesteps=6)


class TestMixtures:
    @pytest.fixture
    def files(self, dataset: TransitionDataset, tmp_path: Path) -> list[Path]:
        paths = [tmp_path / name for name in ("a.npz", "b.npz")]
        for path, part in zip(paths, (dataset, generate_random_dataset("Pendulum-v1", 50, 1)), strict=True):
            part.save(path)
        return paths

    @pytest.fixture
    def run(self, files: list[Path], tmp_path: Path) -> RunDirectory:
        parts = [{"dataset": str(path), "weight": weight} for path, weight in zip(files, (1.0, 3.0), strict=True)]
        return started(tmp_path, {"source": "mixture", "parts": parts})

    def paths(self, run: RunDirectory) -> list[str]:
        return [Path(part["dataset"]["path"]).name for part in told(run)["parts"]]

    def test_the_file_that_is_gone_is_meant(self, run: RunDirectory, files: list[Path], tmp_path: Path) -> None:
        moved = files[1].rename(tmp_path / "moved.npz")
        assert manager.resume(run.path, dataset=moved, total_timesteps=6).progress.steps == 6
        assert self.paths(run) == ["a.npz", "moved.npz"]
        assert [part["weight"] for part in told(run)["parts"]] == [1.0, 3.0]

    def test_or_the_one_of_that_name(self, run: RunDirectory, files: list[Path], tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        for path in files:
            path.rename(tmp_path / "there" / path.name)
        with pytest.raises(Exception, match=r"b\.npz: no such file"):
            manager.resume(run.path, dataset=tmp_path / "there/a.npz", total_timesteps=6)

    def test_where_it_cannot_be_told_it_is_refused(self, run: RunDirectory, files: list[Path], tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"mixes 2 files, .*a\.npz, .*b\.npz, and which of them is moved\.npz now"
        ):
            manager.resume(run.path, dataset="moved.npz", total_timesteps=6)
        assert manager.resume(run.path, total_timesteps=6).progress.steps == 6


def test_data_that_were_generated_may_be_in_a_file_now(tmp_path: Path) -> None:
    run = started(tmp_path, {"source": "random", "size": 50}, env_id="Pendulum-v1", eval_interval=None)
    generate_random_dataset("Pendulum-v1", 50, 0).save(tmp_path / "kept.npz")
    assert manager.resume(run.path, dataset=tmp_path / "kept.npz", total_timesteps=6).progress.steps == 6


def test_a_mixture_without_files_has_none_that_could_move(tmp_path: Path) -> None:
    parts = [{"dataset": {"source": "random", "size": 50, "seed": seed}} for seed in (0, 1)]
    run = started(tmp_path, {"source": "mixture", "parts": parts}, env_id="Pendulum-v1", eval_interval=None)
    with pytest.raises(ConfigError, match="dataset: the run mixes data of which none is a file; leave it out"):
        manager.resume(run.path, dataset="moved.npz", total_timesteps=6)


@pytest.mark.parametrize("which", ["last", "latest"])
def test_a_model_of_the_last_checkpoint_trains_its_run_on(data_file: Path, tmp_path: Path, which: str) -> None:
    run = started(tmp_path, str(data_file))
    assert BC.load(run.path, which=which).learn(8).run_dir == run.path
    assert manager.load_policy(run.checkpoint_path(8), which).checkpoint.progress["steps"] == 8
