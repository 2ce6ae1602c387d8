"""Odd data that were once read in silence, or refused without a way out."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import read
from rl_training.errors import DataError

TABLE: dict[str, Any] = {"obs": [1.0, 2, 3, 4], "actions": [0, 0.1, 0.2, 0.3], "rewards": [1, 2, 3, 4]}
ENDS = {"terminations": [0, 1, 0, 1]}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (np.array(-1.0), np.array(1.0)),
        (np.array([np.nan]), np.array([1.0])),
        (np.array([1.0]), np.array([-1.0])),
        (np.array(["-1"]), np.array(["1"])),
        (np.array([-1.0, -1.0]), np.array([1.0])),
    ],
    ids=["single", "NaN", "turned round", "text", "widths"],
)
def test_bounds_that_cannot_be_any(low: Any, high: Any, tmp_path: Path) -> None:
    arrays = {name: np.array(values) for name, values in (TABLE | ENDS).items()}
    np.savez(tmp_path / "log.npz", **arrays, **{"metadata/action_low": low, "metadata/action_high": high})
    raw = read(tmp_path / "log.npz")
    assert raw.bounds is None
    assert raw.notes[-1] == (
        "the bounds of actions that the data tell are not used: action_low and action_high must be lists of numbers,"
        " one for each column, low below high"
    )


def test_durations_of_a_frame() -> None:
    steps = np.array([2_000, 3_000, 0, 1_000], "m8[ms]")
    dataset = TransitionDataset.from_table({**TABLE, "episode_ids": [1, 1, 1, 1], "step": steps, **ENDS})
    assert dataset.obs[:, 0].tolist() == [3, 4, 1, 2]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**TABLE, "episode_ids": [1, 1, 1, 1], "step": pandas.to_timedelta(steps), **ENDS})
    assert TransitionDataset.from_table(frame).obs[:, 0].tolist() == [3, 4, 1, 2]


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (np.array([1j, 1j, 2j, 2j]), "column 'episode_ids': complex128 values; the episode of a row is one number"),
        (
            np.array([1, "1", 2, 2], dtype=object),
            "column 'episode_ids': 1 is a number in some rows and text in others; write it as the one or the other",
        ),
    ],
)
def test_ids_of_two_kinds(ids: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        TransitionDataset.from_table({**TABLE, "episode_ids": ids, **ENDS})


def test_a_file_beside_its_packed_copy(tmp_path: Path) -> None:
    text = "obs,actions,rewards,terminations\n1,.5,1,0\n2,.5,1,1\n"
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text)
    assert not any(note.startswith("warning: ") for note in read(tmp_path).notes)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert (
        "warning: both a.csv and a.csv.gz are read; if one is a copy of the other, its rows count twice: remove it"
    ) in read(tmp_path).notes


def test_partitions_in_folders(tmp_path: Path) -> None:
    (tmp_path / "run=1").mkdir()
    (tmp_path / "run=1" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"not read: write them as files in one folder, with run as a column$"):
        read(tmp_path)
