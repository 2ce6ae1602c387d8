"""Names of columns in files of arrays, which have no columns: kept beside them and read back."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data.column_names import names_of
from rl_training.data.formats import writers
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError


def dataset(names: list[str], folder: Path) -> TransitionDataset:
    lines = [",".join([*names, "u", "r", "done"])]
    lines += [",".join(["0.5", str(i / 4), *["1"] * len(names), str(int(i == 5))]) for i in range(6)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    columns: dict[str, Any] = {"obs": names, "actions": "u", "rewards": "r"}
    return TransitionDataset.load(folder / "log.csv", columns=columns)


@pytest.mark.parametrize("name", ["made.npz", "made.h5"])
def test_come_back(name: str, tmp_path: Path) -> None:
    dataset(["speed", "Drehzahl [1/s]"], tmp_path).save(tmp_path / name)
    again = TransitionDataset.load(tmp_path / name)
    assert names_of(again, "obs", 2) == ["speed", "Drehzahl [1/s]"]
    assert names_of(again, "actions", 1) == ["u"]
    again.save(tmp_path / f"again{Path(name).suffix}")
    assert names_of(TransitionDataset.load(tmp_path / f"again{Path(name).suffix}"), "obs", 2)[0] == "speed"


@pytest.mark.parametrize("name", ["made.csv", "made.parquet"])
def test_where_they_are_told_numbered_columns_are_not(name: str, tmp_path: Path) -> None:
    """`obs from obs_0 … obs_1` says nothing to who knows them as speed and angle."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    dataset(["speed", "angle"], tmp_path).save(tmp_path / name)
    assert not [note for note in TransitionDataset.load(tmp_path / name).notes if " from " in note]


@pytest.mark.parametrize("name", ["made.npz", "made.h5"])
def test_a_fault_is_told_by_its_column(name: str, tmp_path: Path) -> None:
    dataset(["speed", "angle"], tmp_path).save(tmp_path / name)
    if name.endswith("h5"):
        with h5py.File(tmp_path / name, "r+") as file:
            file["observations"][3, 1] = np.nan
    else:
        with np.load(tmp_path / name) as held:
            arrays = dict(held)
        arrays["obs"][3, 1] = np.nan
        np.savez(tmp_path / name, **arrays)
    with pytest.raises(DataError, match=r"row 3.*column 'angle'|column 'angle'.*row 3"):
        TransitionDataset.load(tmp_path / name)


@pytest.mark.parametrize(
    "told",
    ["no JSON", json.dumps(["speed"]), json.dumps({"obs": ["speed"]}), json.dumps({"obs": ["a", "a"]}), "[" * 9999],
)
def test_what_does_not_fit_is_passed_over(told: str, tmp_path: Path) -> None:
    dataset(["speed", "angle"], tmp_path).save(tmp_path / "made.npz")
    with np.load(tmp_path / "made.npz") as held:
        arrays = dict(held) | {"metadata/names": np.array(told)}
    np.savez(tmp_path / "made.npz", **arrays)
    assert names_of(TransitionDataset.load(tmp_path / "made.npz"), "obs", 2) == []


@pytest.mark.parametrize(("name", "columns"), [("made.npz", 700), ("made.h5", 90)])
def test_without_end_they_are_left_out_with_a_note(name: str, columns: int, tmp_path: Path) -> None:
    wide = dataset([f"{'x' * 400}{i}" for i in range(columns)], tmp_path)
    with pytest.warns(UserWarning, match="names of columns are too many, or too long, to be kept in it"):
        wide.save(tmp_path / name)
    assert names_of(TransitionDataset.load(tmp_path / name), "obs", columns) == []


def test_only_an_attribute_has_no_place_for_many(tmp_path: Path) -> None:
    names = [f"sensor {i:04} of the northern hall °C" for i in range(1_200)]
    dataset(names, tmp_path).save(tmp_path / "made.npz")
    assert names_of(TransitionDataset.load(tmp_path / "made.npz"), "obs", 1_200) == names


def test_no_format_is_proposed_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "find_spec", lambda name: None if name == "pyarrow" else find_spec(name))
    with pytest.raises(DataError) as caught:
        writers.target_of("made.xyz")
    assert "must end in .npz, .hdf5, .h5, .csv or in /" in str(caught.value)


def test_a_file_that_was_changed_since_says_so(tmp_path: Path) -> None:
    """Its names and bounds are those of another file."""
    rows = [f"{i / 7},{10 * (i % 4)},1,{int(i % 10 == 9)}" for i in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["speed,u_pct,reward,done", *rows]) + "\n")
    whole = TransitionDataset.load(tmp_path / "log.csv", columns={"obs": "speed", "actions": "u_pct"})
    written = tmp_path / "part.csv"
    with warnings.catch_warnings(action="ignore"):
        whole.save(written)
    assert not [note for note in TransitionDataset.load(written).notes if "changed" in note]
    written.write_text(written.read_text().replace("0.142857", "0.15", 1))
    (told,) = [note for note in TransitionDataset.load(written).notes if "changed" in note]
    assert told.startswith(
        "warning: part.csv has been changed since it was written: what part.csv-metadata.json says of names, bounds"
        " and origin is not used"
    )
