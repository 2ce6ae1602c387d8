"""Ids, durations and enumerations of kinds that a file may hold and that say less than they seem to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

ROWS = np.arange(6)


def fields(**more: Any) -> dict[str, Any]:
    rows = ROWS / 6
    return {
        "obs": rows[:, None],
        "actions": rows[:, None] - 0.5,
        "rewards": rows,
        "terminations": ROWS % 3 == 2,
        **more,
    }


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (np.full(6, "NaT", "M8[s]"), "episode_ids: NaT at row 0; every row needs its episode"),
        (np.array([0, 0, 0, 1, 1, "NaT"], "m8[s]"), "episode_ids: NaT at row 5; every row needs its episode"),
        (np.full(6, np.nan + 1j), "episode_ids: must be numbers or names, got dtype 'complex128'"),
        (np.zeros(6, [("a", "f8")]), "episode_ids: must be numbers or names, got dtype"),
        (np.array(["a", "a", "a", "b", "", "b"]), "episode_ids: nothing at row 4; every row needs its episode"),
        (np.array([b"a", b"a", b"a", b"", b"b", b"b"]), "episode_ids: nothing at row 3; every row needs its episode"),
    ],
)
def test_ids_that_tell_nothing_apart(ids: Any, complaint: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **fields(episode_ids=ids))
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(tmp_path / "log.npz")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("ids", [np.array([0, 0, 0, 1, 1, 1], "M8[s]"), np.array(["a"] * 3 + ["b"] * 3)])
def test_dates_and_names_tell_apart(ids: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **fields(episode_ids=ids))
    assert TransitionDataset.load(tmp_path / "log.npz").n_episodes == 2


class TestDurations:
    """They count in seconds, whatever unit a file has."""

    @staticmethod
    def write(path: Path, unit: str, episode: int) -> None:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        ticks = {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}[unit]
        seconds = [None if row == 1 and unit == "us" else int(row * ticks) for row in range(3)]
        table = {
            "obs": [float(row) for row in range(3)],
            "actions": [0.0, 0.5, 1.0],
            "rewards": pa.array(seconds, pa.duration(unit)),
            "episode_ids": [episode] * 3,
            "step": pa.array([row * ticks for row in range(3)], pa.duration(unit)),
        }
        parquet.write_table(pa.table(table), path)

    def test_files_of_different_units(self, tmp_path: Path) -> None:
        for episode, unit in enumerate(("s", "ms", "ns")):
            self.write(tmp_path / f"p{episode}.parquet", unit, episode)
        dataset = TransitionDataset.load(tmp_path, last_rows_are="termination")
        assert dataset.rewards.tolist() == [0.0, 1.0, 2.0] * 3
        assert dataset.n_episodes == 3
        assert not any("skips" in note for note in dataset.notes)

    def test_one_that_is_missing(self, tmp_path: Path) -> None:
        self.write(tmp_path / "log.parquet", "us", 0)
        with pytest.raises(DataError, match=r"rewards: NaN at row 1"):
            TransitionDataset.load(tmp_path / "log.parquet", last_rows_are="termination")


class TestEnumerations:
    @staticmethod
    def write(path: Path, codes: dict[str, int], values: Any) -> None:
        with h5py.File(path, "w") as file:
            for name, array in fields().items():
                if name != "terminations":
                    file[name] = array
            kind = h5py.enum_dtype(codes, basetype="i1")
            file.create_dataset("terminals", data=np.asarray(values, "i1"), dtype=kind)

    def test_other_words_are_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path / "log.hdf5", {"Terminated": 0, "Running": 1}, [1] * 5 + [0])
        with pytest.raises(DataError, match=r"terminals: its numbers stand for words \(Terminated 0, Running 1\)"):
            TransitionDataset.load(tmp_path / "log.hdf5")

    def test_words_with_the_numbers_of_others_are_refused(self, tmp_path: Path) -> None:
        self.write(tmp_path / "log.hdf5", {"FALSE": 1, "TRUE": 0}, [0] * 6)
        with pytest.raises(DataError, match=r"terminals: its numbers stand for words \(TRUE 0, FALSE 1\), and not for"):
            TransitionDataset.load(tmp_path / "log.hdf5")

    def test_those_with_their_own_are_flags(self, tmp_path: Path) -> None:
        self.write(tmp_path / "log.hdf5", {"no": 0, "yes": 1}, ROWS % 3 == 2)
        assert TransitionDataset.load(tmp_path / "log.hdf5").terminations.sum() == 2
