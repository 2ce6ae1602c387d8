"""A busy machine is spoken of, and the threads that were really used are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from rl_training.experiment.manager import resume
from rl_training.runtime.machine_load import busy_notice, use_threads, with_threads
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from small_runs import StopAt, small_config


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (7.2, 6.0, 5.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.usefixtures("busy")
def test_threads_that_wait_for_each_other() -> None:
    (said,) = busy_notice(2)
    assert said == ("the machine is busy (load 7.2 on 2 cores), which slows 2 threads down; use --set threads=1")
    assert busy_notice(1) == []
    assert busy_notice(2, None)[0].endswith("which slows 2 threads down")


def test_a_machine_that_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was trained here a minute ago is no reason, and a system may not tell."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.5, 0.0, 0.0), raising=False)
    assert busy_notice(2) == []
    monkeypatch.delattr(os, "getloadavg")
    assert busy_notice(2) == []


@pytest.mark.usefixtures("busy")
def test_the_remedy_is_one_that_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run keeps its settings; where these name no threads, the environment may."""
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert "--set threads=1" in use_threads(None, "cpu", resumed=False)[0]
    assert "OMP_NUM_THREADS=1" in use_threads(None, "cpu", resumed=True)[0]
    assert use_threads(2, "cpu", resumed=True)[0].endswith("slows 2 threads down")
    assert use_threads(2, "cuda:0", resumed=False) == []
    assert chosen == [2, 2]


def test_a_run_that_goes_on_with_other_threads_says_so(data_file: Path, tmp_path: Path) -> None:
    """What it computes is no more that of an unbroken run, as with another engine."""
    before = torch.get_num_threads()

    def told(threads: int, **budget: int) -> list[str]:
        torch.set_num_threads(threads)
        run = resume(tmp_path / "run", **budget).run
        return [notice for notice in run.describe().get("notices", []) if "threads: " in notice]

    try:
        torch.set_num_threads(1)
        train(small_config(data_file, tmp_path), callbacks=[StopAt(7)])
        assert told(1, total_timesteps=30) == []
        assert told(2, total_timesteps=40) == [
            "warning: threads: 1 so far, 2 from here on; the results are not bit for bit those of an unbroken run;"
            " OMP_NUM_THREADS=1 in the environment has it go on with 1"
        ]
        assert told(2, total_timesteps=50) == []
    finally:
        torch.set_num_threads(before)


def test_threads_of_a_resumed_run() -> None:
    machine = {"cpu_count": 2, "threads": 2}
    assert with_threads(machine, 2) == machine
    once = with_threads(machine, 1)
    assert once == machine | {"threads_resumed": [1]}
    assert with_threads(once, 1) == once
    assert with_threads(once, 2) == machine | {"threads_resumed": [1, 2]}
    assert with_threads(None, 2) == {}


def test_a_run_keeps_them(data_file: Path, tmp_path: Path) -> None:
    path = train(small_config(data_file, tmp_path)).run.path
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        resume(path, total_timesteps=30)
    finally:
        torch.set_num_threads(before)
    machine = RunDirectory.open(path).describe()["machine"]
    assert (machine["threads"], machine["threads_resumed"]) == (before, [before + 1])


@pytest.mark.usefixtures("busy")
def test_the_run_keeps_them_apart(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of the machine tells nothing of what is trained."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr("rl_training.runtime.memory._TIGHT", 0.0)
    facts = train(small_config(data_file, tmp_path), notices=["the machine is busy (load 1)"]).run.describe()
    other, *of_machine = facts["notices"][:3]
    assert other == "the machine is busy (load 1)"
    assert facts["machine_notices"] == of_machine
    assert [text.partition(" (load")[0].partition(": about")[0] for text in of_machine] == [
        "the machine is busy",
        "memory",
    ]
