"""Wrong calls of somebody who begins: each is told what was likely meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_run_is_no_configuration(mistake: Any, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    for name in ("config.yaml", "run.json"):
        (run / name).write_text("{}")
    ways = "`rl-training resume {0}` continues it, -c runs/first/config.yaml trains another like it"
    for name in ("first", "runs/first"):
        said = mistake("train", "-c", name)
        assert said == f"error: config: {name} is a run, not a configuration; {ways.format(name)}"


@pytest.mark.parametrize(
    ("name", "near"), [("ppo", "iql or sac"), ("DQN", "iql or cql"), ("decision-transformer", "iql")]
)
def test_algorithms_of_other_families(name: str, near: str, mistake: Any) -> None:
    said = mistake("train", "-c", "cql/pendulum", "--set", f"algo={name}")
    assert "those here are for continuous control, most of them offline: awac, awr, bc" in said
    assert f"; nearest in purpose: {near}" in said


def test_a_file_is_no_folder_of_datasets(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    said = mistake("datasets", "log.csv")
    assert "log.csv: is a file, and this lists folders; `rl-training data check log.csv`" in said
    assert "`rl-training init log.csv` writes a configuration" in said


def test_programs_of_their_own(mistake: Any) -> None:
    assert "; it is a program of its own: `tensorboard --logdir runs`" in mistake("tensorboard", "--logdir", "runs")


def test_an_option_of_the_dataset_among_its_columns(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,u,r\n" + "1,2,3\n" * 9)
    columns = "{obs: x, actions: u, rewards: r, rewards_are: costs}"
    text = f"algo: bc\ntotal_timesteps: 1\ndataset: {{source: file, path: log.csv, columns: {columns}}}\n"
    (tmp_path / "c.yaml").write_text(text)
    assert "rewards_are is an option of dataset: it stands beside columns" in mistake("config", "validate", "c.yaml")
