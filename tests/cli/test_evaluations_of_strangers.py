"""Evaluations in a run that may be a stranger's: of no episodes, or where there is no environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl_training.runtime.trainer import train
from small_runs import small_config

EVALUATION = {
    "step": 4,
    "seeds": [0, 1],
    "return_mean": [1.0, 2.0],
    "return_std": [0.0, 0.0],
    "return_min": [1.0, 2.0],
    "return_max": [1.0, 2.0],
    "length_mean": [5, 5],
    "terminations": [1, 0],
}


@pytest.fixture
def run(data_file: Path, tmp_path: Path) -> Path:
    """Without an environment."""
    return train(small_config(data_file, tmp_path, total_timesteps=4, seed=[0, 1])).run.path


@pytest.mark.parametrize("episodes", [0, 10])
def test_a_page_is_made_of_them(episodes: int, run: Path, command: Any) -> None:
    (run / "evaluations.jsonl").write_text(json.dumps(EVALUATION | {"episodes": episodes}) + "\n")
    assert command("report", run, "-o", "page.html", "--no-data").code == 0


def test_the_hubs_page_names_no_environment_where_there_is_none(run: Path, command: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    (run / "evaluations.jsonl").write_text(json.dumps(EVALUATION | {"episodes": 10}) + "\n")
    assert command("push", run, "--repo", "me/x", "--dry-run", "-o", "hub").code == 0
    assert "10 episodes of an environment that is not told" in (tmp_path / "hub" / "README.md").read_text()
