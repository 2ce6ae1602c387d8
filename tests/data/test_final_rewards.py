"""Rewards that stand in the last rows of episodes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

NAN = np.nan


def load(rewards: list[float], **more: Any) -> TransitionDataset:
    """Three episodes of three rows."""
    rows = np.arange(9)
    given = {"obs": rows / 9, "actions": rows % 2, "rewards": np.array(rewards), "episode_ids": rows // 3}
    return TransitionDataset.from_table(given, **{"last_rows_are": "termination", **more})


def test_others_have_none() -> None:
    dataset = load([NAN, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, 7.0])
    assert dataset.rewards.tolist() == [0, 0, 5, 0, 0, 6, 0, 0, 7]
    assert any("only last rows of episodes have a reward; it is 0 in all others" in note for note in dataset.notes)


def test_of_costs() -> None:
    dataset = load([NAN, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, 7.0], rewards_are="costs")
    assert dataset.rewards.tolist() == [0, 0, -5, 0, 0, -6, 0, 0, -7]


@pytest.mark.parametrize(
    "rewards",
    [
        [1.0, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, 7.0],  # one is paid earlier
        [NAN, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, NAN],  # one is not paid at all
        [NAN, NAN, 5.0, NAN, NAN, NAN, NAN, NAN, NAN],  # hardly any is
    ],
)
def test_what_is_a_gap_is_still_refused(rewards: list[float]) -> None:
    with pytest.raises(DataError, match="rewards"):
        load(rewards)


def test_an_end_that_is_not_trained_on_is_told() -> None:
    with pytest.raises(DataError, match="if the task ends there, say so"):
        load([NAN, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, 7.0], last_rows_are="truncation")
