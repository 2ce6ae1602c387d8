"""`1_0` is a label, not ten, though Python reads it as a number: alike wherever cells are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import csv
from rl_training.data.formats.cells import numbers, numbers_of_words
from rl_training.data.formats.whole_columns import rows_before_restarts
from rl_training.data.missing_marks import number_of
from rl_training.errors import DataError

TEXT = "run,obs,actions,rewards,terminations\n1_0,1,.5,1,0\n1_0,2,.5,1,1\n2_0,3,.5,1,0\n2_0,4,.5,1,1\n"
REFUSED = "column 'obs': '1_0' at row 0 is not a number"


@pytest.fixture(params=["pyarrow", "Python"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "Python":
        monkeypatch.setattr(csv, "_read_fast", lambda *_: None)
    else:
        pytest.importorskip("pyarrow")
    (tmp_path / "log.csv").write_text(TEXT)
    return tmp_path / "log.csv"


def test_ids_of_episodes(log: Path) -> None:
    data = TransitionDataset.load(log, columns={"episode_ids": "run"})
    assert data.in_file is not None
    assert [data.in_file.episode_name(row) for row in range(4)] == ["1_0", "1_0", "2_0", "2_0"]


def test_measurements(log: Path) -> None:
    log.write_text(TEXT.replace(",1,.5,1,0", ",1_0,.5,1,0"))
    with pytest.raises(DataError, match=REFUSED):
        TransitionDataset.load(log)


@pytest.mark.parametrize("kind", [object, str, bytes])
def test_cells(kind: Any) -> None:
    with pytest.raises(DataError, match=REFUSED):
        numbers("obs", np.array(["1_0", "2"]).astype(kind))
    assert numbers("obs", np.array(["10", "2"]).astype(kind)).tolist() == [10, 2]


def test_beside_words() -> None:
    with pytest.raises(DataError, match="'1_0' at row 1 is none of its words, a"):
        numbers_of_words("obs", np.array(["a", "1_0"], dtype=object), {"a": 1.0})


def test_steps_and_first_looks(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(TEXT)
    assert rows_before_restarts(tmp_path / "log.csv", "csv", "run") == set()
    assert np.isnan(number_of("1_0"))
