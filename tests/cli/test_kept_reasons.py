"""Why episodes ended is still known of what `data split` and `data convert` write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.kept_reasons import pack, reasons_of, unpack
from rl_training.data.provenance import Provenance
from rl_training.experiment.report.readings import count_reasons

REASONS = ("harvest", "crashed", "probe, failed")


def write_log(path: Path, episodes: int = 24) -> None:
    lines = ["batch,x,u,r,why"]
    for episode in range(episodes):
        for step in range(5):
            why = f'"{REASONS[episode % 3]}"' if step == 4 else "running"
            lines.append(f"{episode},{step + episode / 10},{np.sin(step + episode):.3f},{episode % 3},{why}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_log(tmp_path / "log.csv")
    columns = "{obs: x, actions: u, rewards: r, episode_ids: batch, end_reasons: why}"
    meanings = "{running: ongoing, harvest: termination, crashed: termination, 'probe, failed': truncation}"
    section = f"{{source: file, path: log.csv, columns: {columns}, end_reasons: {meanings}}}"
    (tmp_path / "c.yaml").write_text(f"algo: bc\ntotal_timesteps: 2\ndataset: {section}\n")
    return tmp_path / "c.yaml"


def counts(path: str) -> dict[str, tuple[str, int, float]]:
    found = count_reasons(TransitionDataset.load(path))
    return {one.reason: (one.meaning, one.episodes, one.mean_return) for one in found}


@pytest.mark.parametrize("ending", ["csv", "npz", "hdf5"])
def test_of_either_part(command: Any, config: Path, ending: str) -> None:
    command("data", "split", "-c", config, "-o", f"train.{ending}", f"aside.{ending}", "--held-out", 0.25)
    parts = [counts(f"{name}.{ending}") for name in ("train", "aside")]
    assert {reason: sum(part[reason][1] for part in parts) for reason in REASONS} == dict.fromkeys(REASONS, 8)
    for part in parts:
        assert part["crashed"][::2] == ("termination", 5.0)
        assert part["harvest"][::2] == ("termination", 0.0)
        assert part["probe, failed"][0] == "cut"
    command("data", "convert", f"train.{ending}", "again.npz")
    assert counts("again.npz") == parts[0]
    command("data", "split", "again.npz", "-o", "one.npz", "two.npz")
    assert reasons_of(TransitionDataset.load("one.npz")) is None  # not those of other episodes


def test_what_no_file_has_room_for_is_left_out() -> None:
    assert pack(["a"] * 10_001) is None
    assert pack([str(n) for n in range(63)]) is None
    assert pack(["x" * 201]) is None
    assert pack(["", ""]) is None
    assert unpack(pack(["a", "", "b", "a"])) == ("a", "", "b", "a")
    made = Provenance.of("log.csv", {}, None)
    assert Provenance.read(made.to_json()) == made


@pytest.mark.parametrize(
    "told",
    [3, {"texts": ["a"], "of_episodes": "01"}, {"texts": [3], "of_episodes": "0"}, {"texts": "a"}, {"of_episodes": ""}],
)
def test_what_was_never_written_tells_nothing(told: Any) -> None:
    assert unpack(told) is None
