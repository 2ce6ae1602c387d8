"""Text that says why episodes ended, in arrays of HDF5 and .npz files; folders with a file for every episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats.mapping_checks import check_columns
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS

ROWS = 60
COLUMNS = {"obs": "log/x", "actions": "log/u", "rewards": "log/r", "end_reasons": "log/why"}
MEANINGS: Any = {"goal": "termination", "time up": "truncation"}


def arrays() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    why = ["goal" if row % 20 == 19 else "time up" if row % 10 == 9 else "" for row in range(ROWS)]
    numbers = {
        "log/x": draw.normal(size=(ROWS, 2)),
        "log/u": draw.uniform(-1, 1, ROWS),
        "log/r": draw.normal(size=ROWS),
    }
    return {**{name: values.astype(np.float32) for name, values in numbers.items()}, "log/why": why}


def saved(path: Path, kind: str) -> Path:
    found = arrays()
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in found.items()})
        return path
    with h5py.File(path, "w") as file:
        for name, values in found.items():
            if name != "log/why":
                file[name] = values
            elif kind == "fixed":
                file[name] = np.array(values, dtype="S12")
            else:
                file.create_dataset(name, data=values, dtype=h5py.string_dtype(), chunks=(16,), compression="gzip")
    return path


@pytest.mark.parametrize(("name", "kind"), [("log.h5", "fixed"), ("log.h5", "free"), ("log.npz", "")])
def test_reasons_are_read(name: str, kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / name, kind)
    dataset = TransitionDataset.load(path, columns=COLUMNS, end_reasons=MEANINGS)
    assert np.flatnonzero(dataset.terminations).tolist() == [19, 39, 59]
    assert np.flatnonzero(dataset.truncations).tolist() == [9, 29, 49]
    check_columns(path, COLUMNS, AS_IT_STANDS)
    assert peek(path, 30).columns["log/why"][:20].tolist() == arrays()["log/why"][:20]
    with pytest.raises(DataError, match="'time up' at row 9 is not among end_reasons"):
        TransitionDataset.load(path, columns=COLUMNS, end_reasons={"goal": "termination"})


@pytest.mark.parametrize("name", ["log.h5", "log.npz"])
def test_reasons_need_a_mapping(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"end_reasons: is for the text of a column that columns names"):
        TransitionDataset.load(saved(tmp_path / name, "free"), end_reasons=MEANINGS)


def test_long_texts_are_no_reasons(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.h5", "free")
    with h5py.File(path, "a") as file:
        del file["log/why"]
        file["log/why"] = ["x" * 1_000] * ROWS
    assert "log/why" not in peek(path, 30).columns
    with pytest.raises(DataError, match="log/why: holds a text of 1,000 characters"):
        TransitionDataset.load(path, columns=COLUMNS, end_reasons=MEANINGS)


class TestFilePerEpisode:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "logs").mkdir()
        found = arrays()
        for episode in range(6):
            own = slice(10 * episode, 10 * episode + 10)
            cells = {"state": list(found["log/x"][own]), "cmd": found["log/u"][own], "score": np.arange(10) % 2}
            pq.write_table(pa.table(cells), tmp_path / "logs" / f"e{episode}.parquet")
        return tmp_path / "logs"

    def test_is_read_by_the_names_of_files(self, folder: Path) -> None:
        columns = {"obs": "state", "actions": "cmd", "rewards": "score", "episode_ids": "file_name"}
        dataset = TransitionDataset.load(folder, columns=columns)
        assert np.flatnonzero(dataset.truncations).tolist() == list(range(9, 60, 10))
        check_columns(folder, columns, AS_IT_STANDS)

    def test_one_file_has_no_such_column(self, folder: Path) -> None:
        columns = {"obs": "state", "actions": "cmd", "rewards": "score", "episode_ids": "file_name"}
        with pytest.raises(DataError, match=r"columns\.episode_ids: no column 'file_name'"):
            TransitionDataset.load(folder / "e0.parquet", columns=columns)
