"""Folders of files that tell what their columns are called, which words stand for what, and in what bounds they lie."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from rl_training.data.column_names import names_of
from rl_training.data.formats.written import beside
from rl_training.data.offline_dataset import TransitionDataset

DOORS = {"shut": 0.0, "open": 1.0}


@pytest.fixture(params=["csv", "parquet"])
def ending(request: pytest.FixtureRequest) -> str:
    if request.param == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra `parquet` has it)")
    return str(request.param)


def write(path: Path, words: dict[str, float] = DOORS, **told: Any) -> Path:
    doors = list(words) * 3
    rows = len(doors)
    table = {"x": list(range(rows)), "door": doors, "u": [i / rows for i in range(rows)], "r": [1] * rows}
    columns: dict[str, Any] = {"obs": ["x", "door"], "actions": "u", "rewards": "r", "terminations": "d"}
    dataset = TransitionDataset.from_table(
        table | {"d": [i == rows - 1 for i in range(rows)]}, columns, words={"door": words}, **told
    )
    with warnings.catch_warnings(action="ignore"):  # CSV has no place for them
        dataset.save(path)
    return path


def hush(path: Path) -> None:
    """As if another program had written the file."""
    if path.suffix == ".csv":
        beside(path).unlink()
        return
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


@pytest.mark.parametrize("silent", ["a", "b"])
def test_the_first_that_tells_speaks_for_all(silent: str, ending: str, tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / "log" / f"{name}.{ending}", action_low=-2.0, action_high=2.0)
    hush(tmp_path / "log" / f"{silent}.{ending}")
    dataset = TransitionDataset.load(tmp_path / "log")
    assert names_of(dataset, "obs", 2) == ["x", "door"]
    assert dataset.in_file is not None
    assert dataset.in_file.words == {"door": DOORS}
    assert dataset.bounds is not None
    assert dataset.bounds.action_low == (-2.0,)


def test_words_that_do_not_contradict_each_other_are_all_known(ending: str, tmp_path: Path) -> None:
    write(tmp_path / "log" / f"a.{ending}")
    write(tmp_path / "log" / f"b.{ending}", {"Shut": 0.0, "ajar": 0.5})
    dataset = TransitionDataset.load(tmp_path / "log")
    assert dataset.in_file is not None
    assert dataset.in_file.words == {"door": DOORS | {"ajar": 0.5}}


def test_bounds_that_differ_are_not_used(ending: str, tmp_path: Path) -> None:
    for name, bound in (("a", 2.0), ("b", 3.0)):
        write(tmp_path / "log" / f"{name}.{ending}", action_low=-bound, action_high=bound)
    dataset = TransitionDataset.load(tmp_path / "log")
    assert dataset.bounds is None
    assert [note for note in dataset.notes if note.endswith("tell different things of bounds: not used")]
