"""-9999 and the like, which loggers write where nothing was measured; and what is observed too late."""

from __future__ import annotations

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.missing_marks import words_as_missing


def test_nines_far_from_all_others() -> None:
    heights = np.linspace(0.0, 260.0, 200)
    heights[[3, 70]] = -9999.0
    marked = words_as_missing({"ALT_ft": heights})
    assert marked.words == ("-9999",)
    assert np.flatnonzero(np.isnan(marked.columns["ALT_ft"])).tolist() == [3, 70]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(200.0) * 100,  # 9999 would be among its neighbours
        np.where(np.arange(200) % 2, -9999.0, np.arange(200)),  # half of the cells: a value like others
        np.where(np.arange(200) == 7, 9999.0, np.arange(200) % 3),  # a code of a few
        np.where(np.arange(200) == 7, -998.0, np.arange(200)),
    ],
)
def test_numbers_that_are_numbers(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    assert words_as_missing({"x": values}).words == ()


@pytest.mark.parametrize(("name", "why"), [("u", "is an action, and observed"), ("r", "is the reward, and observed")])
def test_what_is_known_too_late_is_warned_of(name: str, why: str) -> None:
    rows = np.arange(20)
    table = {"x": rows / 20, "u": rows % 3 / 3, "r": rows % 5 * 1.0, "episode": rows // 10}
    columns = {"obs": ["x", name], "actions": "u", "rewards": "r", "episode_ids": "episode"}
    notes = TransitionDataset.from_table(table, columns).notes
    told = [note for note in notes if note.startswith(f"warning: column {name!r} {why}")]
    assert [note.endswith("leave it out of obs") for note in told] == [True]
    sound = TransitionDataset.from_table(table, {**columns, "obs": "x"}).notes
    assert not any("and observed" in note for note in sound)
