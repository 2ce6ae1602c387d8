"""Rewards near the end of float32's range: sums beyond it, no warnings of numpy, no numbers of forty digits."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.runtime.trainer import train
from small_runs import small_config


@pytest.fixture(scope="module", params=["one sign", "both signs"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty episodes of thirty rows, whose returns are more than a float32 holds."""
    rng, rows = np.random.default_rng(0), 600
    rewards = rng.uniform(0.1, 1.0, rows) * 3e38
    if request.param == "both signs":
        rewards *= rng.choice([-1.0, 1.0], rows)
    arrays = {"obs": rng.normal(size=(rows, 3)), "actions": rng.uniform(-1, 1, (rows, 1)), "rewards": rewards}
    path = tmp_path_factory.mktemp("data") / "log.npz"
    TransitionDataset.from_dict(arrays | {"terminations": np.arange(rows) % 30 == 29}).save(path)
    return path


def told(command: Any, *words: Any) -> str:
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert not re.search(r"\d{12}", out), out
    return out


def test_what_is_said_of_the_data(command: Any, log: Path) -> None:
    assert re.search(r"returns +mean -?\d\.\d+e\+3\d ± \d\.?\d*e\+3\d,", told(command, "data", "check", log))
    assert re.search(r"mean return -?\d\.\d+e\+3\d;", told(command, "data", "convert", log, "log.csv"))
    told(command, "init", log)


def test_what_is_said_of_a_run(command: Any, log: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        run = train(small_config(log, tmp_path, env_id=None, seed=[0, 1])).run.path
    out = told(command, "evaluate", run, "--offline", "--updates", 20, "--repeats", 2)
    assert re.search(r"recorded +-?\d\.\d+e\+3\d ", out)
    told(command, "report", run, "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Reward of a step" in page
    assert not re.search(r">[^<]*(\d{12}|\binf\b|\bnan\b)[^<]*<", page.partition("<body")[2].partition("<script")[0])
