"""What every test file shares."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from real_data import REAL
from rl_training.data.generation import generate_pendulum_dataset
from rl_training.data.offline_dataset import TransitionDataset


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One of our own for `--dist loadscope`."""
    if config.getvalue("dist") != "loadscope":
        return None
    from worker_scheduling import LoadScopeScheduler

    return LoadScopeScheduler(config, log)


@pytest.fixture(scope="session", autouse=True)
def one_thread_per_worker() -> None:
    """The workers of pytest-xdist share the cores, so none may use them all."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def hangups_are_noticed() -> None:
    """Under nohup they would be left aside by all processes that tests start."""
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Messages list the runs of the present folder, and a developer's may hold some."""
    monkeypatch.chdir(tmp_path_factory.mktemp("present-folder"))


@pytest.fixture(autouse=True)
def an_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a busy one is no part of what other tests compare."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)


@pytest.fixture
def saved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk, a checkpoint is waited for, so that what is told of it comes at its own step."""
    monkeypatch.setattr("rl_training.runtime.checkpoint_writer.INSTANT_SECONDS", 60.0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of real datasets beside the repository; a test that needs it is skipped where it is missing."""
    if not REAL.is_dir():
        pytest.skip(f"no real datasets in {REAL}")
    return REAL


@pytest.fixture(scope="session")
def dataset() -> TransitionDataset:
    """Ten episodes of the scripted Pendulum data."""
    return generate_pendulum_dataset(size=2_000, seed=0)


@pytest.fixture(scope="session")
def data_file(dataset: TransitionDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file."""
    path = tmp_path_factory.mktemp("data") / "pendulum.npz"
    dataset.save(path)
    return path
