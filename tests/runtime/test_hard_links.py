"""Copies of a run that share its files by hard links, as `cp -al` makes them: going on with one leaves the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rl_training.errors import CheckpointError
from rl_training.experiment.manager import load_policy, resume
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from small_runs import files_under, small_config

QUICK = {"updates": 10, "repeats": 2}


@pytest.fixture
def copy(data_file: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A run, and a copy of it by hard links."""
    run = train(small_config(data_file, tmp_path, log_interval=5)).run.path
    copy = tmp_path / "copy"
    for file in run.rglob("*"):
        if file.is_file():
            (copy / file.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
            os.link(file, copy / file.relative_to(run))
    return run, copy


@pytest.mark.parametrize("gone_on_with", [0, 1])
def test_training_on_leaves_the_other_as_it_was(copy: tuple[Path, Path], gone_on_with: int) -> None:
    mine, other = copy[gone_on_with], copy[1 - gone_on_with]
    before = files_under(other)
    resume(mine, total_timesteps=40)
    after = files_under(other)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= {".lock"}
    assert [record["step"] for record in RunDirectory.open(mine).records("metrics")] == [5, 10, 15, 20, 25, 30, 35, 40]


def test_an_estimate_is_told_of_one_alone(copy: tuple[Path, Path]) -> None:
    run, other = copy
    load_policy(run).evaluate_offline(**QUICK)
    os.link(run / "offline_evaluations.jsonl", other / "offline_evaluations.jsonl")
    load_policy(run).evaluate_offline(**QUICK)
    lines = [len((path / "offline_evaluations.jsonl").read_text().splitlines()) for path in (run, other)]
    assert lines == [2, 1]


def test_one_lock_between_them_is_told(copy: tuple[Path, Path]) -> None:
    run, other = copy
    with (
        RunDirectory.open(run).lock(),
        pytest.raises(CheckpointError, match=r"or a copy of it that shares its files by hard links is$"),
        RunDirectory.open(other).lock(),
    ):
        pass
