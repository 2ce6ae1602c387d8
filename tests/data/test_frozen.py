"""Sensors that stand still for whole episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sick_data import codes, ends_of, without_successors

CODE = "obs.frozen"


def frozen(episodes: set[int], column: int = 1) -> dict[str, Any]:
    """The healthy log, one column of which keeps its first value in some episodes."""
    arrays = without_successors()
    ends = ends_of(arrays)
    starts = np.r_[0, ends[:-1] + 1]
    for episode in episodes:
        arrays["obs"][starts[episode] : ends[episode] + 1, column] = arrays["obs"][starts[episode], column]
    return arrays


def test_a_sensor_that_stood_still_is_told() -> None:
    finding = codes(frozen({3, 7}))[CODE]
    assert (finding.level, finding.count, finding.place.episode, finding.place.column) == ("note", 2, 3, 1)
    assert (
        finding.what
        == "Column 1 has one value in all rows of 2 of 24 episodes, and changes from row to row in the others."
    )


def test_nothing_is_said_of_columns_that_are_like_that() -> None:
    """A goal that each episode has, and a switch that is hardly ever thrown."""
    assert CODE not in codes(without_successors())
    assert CODE not in codes(frozen(set(range(24))))
    assert CODE not in codes(frozen(set(range(0, 24, 3))))
    arrays = without_successors()
    switch = (np.arange(len(arrays["obs"])) // 25 % 2).astype(np.float32)
    arrays["obs"] = np.column_stack([arrays["obs"], switch])
    assert CODE not in codes(arrays)
