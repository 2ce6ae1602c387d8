"""What lies under the mask of a `numpy.ma` array is no value, whatever it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

REST = {"actions": [0, 0.1, 0.2, 0.3], "rewards": [1, 2, 3, 4], "terminations": [0, 0, 0, 1]}
MASK = [False, True, False, False]
ROWS = [np.ma.masked_array([float(row), -9999.0], [False, row == 1]) for row in range(4)]


def in_cells(rows: list[Any]) -> Any:
    cells = np.empty(len(rows), dtype=object)
    cells[:] = rows
    return cells


@pytest.mark.parametrize(
    "obs",
    [
        np.ma.masked_array(["1", "-9999", "3", "4"], MASK),
        np.ma.masked_array(np.array([b"1", b"-9999", b"3", b"4"]), MASK),
        np.ma.masked_array(np.array([1, -9999, 3, 4], dtype=object), MASK),
        np.ma.masked_array([1, -9999, 3, 4], MASK),
        [1.0, np.ma.masked, 3.0, 4.0],
        ROWS,
        in_cells(ROWS),
    ],
    ids=["texts", "bytes", "objects", "numbers", "a list", "a list of rows", "rows in cells"],
)
def test_values(obs: Any) -> None:
    with pytest.raises(DataError, match="obs: NaN at row 1, "):
        TransitionDataset.from_table({"obs": obs, **REST})


def test_ids() -> None:
    ids = np.ma.masked_array(["a", "b", "b", "b"], MASK)
    with pytest.raises(DataError, match="column 'episode_ids': row 1 has no episode"):
        TransitionDataset.from_table({"obs": [1, 2, 3, 4], "episode_ids": ids, **REST})


def test_steps() -> None:
    dates = np.ma.masked_array(np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], "M8[s]"), MASK)
    with pytest.raises(DataError, match="column 'step': row 1 has no time"):
        TransitionDataset.from_table({"obs": [1, 2, 3, 4], "step": dates, **REST})
