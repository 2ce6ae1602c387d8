"""What `data split` and `convert` wrote is judged by as it stands: nothing that was said is applied a second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.dataset_loaders import load_dataset
from rl_training.errors import DataError
from rl_training.experiment.report.held_out import read_alike
from rl_training.experiment.report.writing import write_report

COLUMNS = {"obs": ["x", "y"], "actions": "u", "rewards": "cost", "episode_ids": "run"}
SECTION = {"source": "file", "path": "log.csv", "columns": COLUMNS, "rewards_are": "costs", "rewards_at": "next"}
CONFIG: dict[str, Any] = {"algo": "bc", "total_timesteps": 5, "dataset": SECTION}
PARTS = [("t.npz", "h.npz"), ("t.hdf5", "h.hdf5"), ("t.parquet", "h.parquet"), ("t.csv", "h.csv"), ("t/", "h/")]
APPLIED = "it was written with rewards_are: costs, rewards_at: next, as it tells, which is not applied again"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Sixteen runs of six rows; the cost of a step is its number, and stands in the row after it."""
    rng = np.random.default_rng(0)
    lines = ["run,x,y,u,cost"]
    for run in range(16):
        for step in range(6):
            x, y, u = rng.normal(size=3).tolist()
            lines.append(f"{run},{x:.6f},{y:.6f},{u:.6f},{step}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG | {"name": "own", "runs_dir": "runs"}))
    return tmp_path


def rewards(name: str) -> tuple[list[float], tuple[str, ...]]:
    section, notes = read_alike(CONFIG, name)
    return load_dataset(section, None, None, refuse=False).rewards[:5].tolist(), notes


@pytest.mark.parametrize("names", PARTS, ids=lambda pair: pair[1])
def test_options_of_the_run_are_not_applied_twice(command: Any, log: Path, names: tuple[str, str]) -> None:
    if names[1].endswith(".parquet"):
        pytest.importorskip("pyarrow")
    assert command("data", "split", "-c", "config.yaml", "-o", *names).code == 0
    assert rewards(names[1]) == ([-1, -2, -3, -4, -5], (APPLIED,))
    assert rewards("log.csv") == ([-1, -2, -3, -4, -5], ())  # what is raw is read as the run reads its own


def test_of_minari(command: Any, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(log / "minari"))
    assert command("data", "split", "-c", "config.yaml", "-o", "t.npz", "minari:own/h-v0").code == 0
    own = CONFIG | {"dataset": {"source": "minari", "id": "own/raw-v0", "rewards_are": "costs", "rewards_at": "next"}}
    section, notes = read_alike(own, "minari:own/h-v0")
    assert load_dataset(section, None, None, refuse=False).rewards[:5].tolist() == [-1, -2, -3, -4, -5]
    assert notes == (APPLIED,)


def test_what_was_not_said_is_still_applied(command: Any, log: Path) -> None:
    """The file holds costs, as nobody said otherwise when it was written."""
    columns = [word for field, names in COLUMNS.items() for word in ("--columns", f"{field}={_listed(names)}")]
    assert command("data", "convert", "log.csv", "plain.npz", *columns).code == 0
    assert rewards("plain.npz") == ([-1, -2, -3, -4, -5], ())


def _listed(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


def test_a_csv_file_that_was_moved_is_known_by_its_columns(command: Any, log: Path) -> None:
    command("data", "split", "-c", "config.yaml", "-o", "t.csv", "h.csv")
    (log / "h.csv").rename(log / "moved.csv")
    found, (note,) = rewards("moved.csv")
    assert found == [-1, -2, -3, -4, -5]
    assert note.startswith("it was written with rewards_are: costs, rewards_at: next, by its columns")
    bare = CONFIG | {"dataset": {"source": "file", "path": "own.csv", "rewards_are": "costs"}}  # by the same names
    assert read_alike(bare, "moved.csv").notes[0].endswith("by `data split` or `convert`, it is applied twice")


def test_what_is_said_with_the_data_wins(command: Any, log: Path) -> None:
    command("data", "split", "-c", "config.yaml", "-o", "t.npz", "h.npz")
    given: Any = {"source": "file", "path": "h.npz", "rewards_are": "costs"}
    with pytest.raises(DataError, match="leave it out: a second time would make the worst policy the best"):
        load_dataset(read_alike(CONFIG, given).section, None, None, refuse=False)


def test_evaluate_and_report(command: Any, log: Path) -> None:
    """From a log of costs to a judgement: what is recorded is what the steps earned, and where that is from is told."""
    command("data", "split", "-c", "config.yaml", "-o", "t.csv", "h.csv", "--held-out", 0.5, "--seed", 3)
    assert command("train", "-c", "config.yaml", "--quiet").code == 0
    words = ("evaluate", "own", "--offline", "--data", "h.csv", "--updates", 20, "--repeats", 2)
    told = json.loads(command(*words, "--json").out)
    assert told["behaviour"]["undiscounted"] == pytest.approx(-15.0)
    assert f"h.csv: {APPLIED}" in told["cautions"]
    made = "log.csv (SHA-256 "
    info = json.loads(command("data", "info", "h.csv", "--json").out)
    assert info["made_from"].startswith(made)
    assert info["made_from"].endswith(
        "rewards_are: costs, rewards_at: next; set aside: 0.5 of the episodes, drawn with seed 3"
    )
    assert "made from" in command("data", "info", "t.csv").out
    (log / "parts.yaml").write_text(json.dumps(CONFIG | {"dataset": "t.csv", "name": "parts", "runs_dir": "runs"}))
    assert command("train", "-c", "parts.yaml", "--quiet").code == 0
    write_report([log / "runs" / "parts"], log / "page.html")
    page = (log / "page.html").read_text()
    assert made in page
    assert "all but 0.5 of the episodes, drawn with seed 3" in page
