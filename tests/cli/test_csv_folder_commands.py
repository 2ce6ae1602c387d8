"""A folder of CSV files, one an episode, through every command that reads data."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rl_training.data import TransitionDataset
from rl_training.data.dataset_files import dataset_files
from rl_training.data.provenance import digest_of

EPISODES = 12
MAPPING = ("--columns", "obs=Temp,Flow", "--columns", "actions=Valve", "--columns", "episode_ids=file_name")

SMALL = ("--set", "total_timesteps=4", "--set", "algo_kwargs.batch_size=16", "--name", "first")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As a plant in Germany writes it: semicolons, decimal commas, a mark before the first letter."""
    (tmp_path / "plant").mkdir()
    for episode in range(EPISODES):
        draw = random.Random(episode)
        lines = ["Temp;Flow;Valve;reward"]
        for _ in range(20 + episode):
            lines.append(";".join(f"{draw.uniform(-1, 1):.4f}".replace(".", ",") for _ in range(4)))
        (tmp_path / "plant" / f"batch{episode}.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    return tmp_path / "plant"


@pytest.fixture
def config(command: Any, folder: Path, tmp_path: Path) -> Path:
    code, out, _ = command("init", "plant", "-o", "c.yaml")
    assert code == 0
    assert "plant, CSV, 306 rows in 12 episodes, observations of 2, actions of 1" in out
    assert "episode_ids   file_name (nothing else marks ends: each file is an episode" in out
    return tmp_path / "c.yaml"


def test_from_init_to_a_report(command: Any, config: Path, folder: Path, tmp_path: Path) -> None:
    assert command("config", "validate", "c.yaml").code == 0
    out = command("data", "check", "-c", "c.yaml").out
    assert "CSV, separated by semicolons" in out
    assert "episodes      12: all truncated" in out
    assert command("train", "-c", "c.yaml", *SMALL).code == 0
    facts = json.loads((tmp_path / "runs" / "first" / "run.json").read_text())["dataset"]
    columns = {"obs": ["Temp", "Flow"], "actions": "Valve", "episode_ids": "file_name"}
    assert facts["fingerprint"] == TransitionDataset.load(folder, columns=columns).fingerprint()
    assert command("report", "runs/first", "-o", "page.html").code == 0
    assert facts["fingerprint"] in (tmp_path / "page.html").read_text()
    text = (folder / "batch7.csv").read_text("utf-8-sig")
    (folder / "batch7.csv").write_text(text.replace("\n0,", "\n-0,", 1))
    code, _, said = command("resume", "runs/first", "--total-timesteps", "8")
    assert code == 2
    assert len(said.strip().splitlines()) == 1
    assert "not the one" in said
    assert "was started with (SHA-256 differs)" in said


def test_convert_and_split(command: Any, folder: Path, tmp_path: Path) -> None:
    assert command("data", "convert", "plant", "all.npz", *MAPPING).code == 0
    written = TransitionDataset.load(tmp_path / "all.npz")
    assert written.provenance is not None
    made = written.provenance.before
    assert made is not None
    assert (made.source, made.sha256) == ("plant", digest_of(folder, dataset_files(folder)))
    code, out, _ = command("data", "split", "plant", *MAPPING, "-o", "train.csv", "aside.csv", "--json")
    assert code == 0
    parts = json.loads(out)
    told = json.dumps(parts)
    assert '"episodes": 9' in told
    assert '"episodes": 3' in told
    both = [TransitionDataset.load(tmp_path / name) for name in ("train.csv", "aside.csv")]
    assert sum(map(len, both)) == len(written) == sum(20 + episode for episode in range(EPISODES))


def test_a_fault_names_file_line_and_column(mistake: Any, command: Any, folder: Path) -> None:
    lines = (folder / "batch7.csv").read_text("utf-8-sig").splitlines()
    lines[11] = "ERR;" + lines[11].partition(";")[2]
    (folder / "batch7.csv").write_text("\n".join(lines))
    assert mistake("data", "check", "plant", *MAPPING).startswith(
        "error: plant: batch7.csv: column 'Temp': 'ERR' at row 10 is not a number (line 12)"
    )
    out = " ".join(command("init", "plant", "-o", "c.yaml").out.split())
    assert "obs Temp, Flow (named like measurements)" in out
    assert "missing_words ERR" in out


def test_a_file_that_does_not_belong_stops_init(mistake: Any, folder: Path) -> None:
    (folder / "summary.csv").write_text("batch;yield\n1;0,9\n")
    assert mistake("init", "plant") == (
        "error: plant: summary.csv: has other columns than batch0.csv:"
        " it lacks Temp, Flow, Valve, reward and has batch, yield besides"
    )


def test_held_out_files_are_read_as_the_run_read_its_own(
    command: Any, config: Path, folder: Path, tmp_path: Path
) -> None:
    assert command("train", "-c", "c.yaml", *SMALL).code == 0
    (tmp_path / "later").mkdir()
    for number in range(3):
        text = (folder / f"batch{number}.csv").read_text("utf-8-sig").replace("0,", "1,")
        (tmp_path / "later" / f"batch{number + 20}.csv").write_text(text)
    code, _, said = command("report", "runs/first", "-o", "page.html", "--held-out", "later")
    assert code == 0, said
    assert "later" in (tmp_path / "page.html").read_text()


def test_held_out_files_in_another_form(mistake: Any, command: Any, config: Path, tmp_path: Path) -> None:
    assert command("train", "-c", "c.yaml", *SMALL).code == 0
    (tmp_path / "odd.csv").write_text("a,b,c,d\n1,2,3,0\n2,3,4,1\n")
    lacks = "columns.obs: no column 'Temp'; the data have a, b, c, d"
    way = "rl-training data convert odd.csv NEW.npz --columns obs=… --columns actions=…"
    way += " (or -c CONFIG, with a configuration that says so)"
    said = mistake("report", "runs/first", "--held-out", "odd.csv")
    form = "--held-out is read as the run's own data are, so bring it into form"
    assert said == f"error: --held-out odd.csv: {lacks}; {form}: {way}"
    said = mistake("evaluate", "runs/first", "--offline", "--data", "odd.csv")
    assert said == f"error: odd.csv: {lacks}; {form.replace('held-out', 'data')}: {way}"
    said = mistake("report", "runs/first", "--held-out", "plant/batch1.csv")
    assert "; file_name tells the files of a folder apart, and here is but one" in said
