"""Rewards that stand in the last rows of episodes alone."""

from __future__ import annotations

from pathlib import Path
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


@pytest.mark.parametrize("rewards", ["r", ["r", "s"]])
def test_rows_that_are_missing_end_no_episode(rewards: Any) -> None:
    """Two episodes of six rows that are paid at their ends, without the third row of each."""
    rows = np.array([row for row in range(12) if row % 6 != 2])
    given = {"x": rows / 9, "u": rows % 2, "s": np.ones(len(rows)), "run": rows // 6, "t": rows % 6}
    columns = {"obs": "x", "actions": "u", "rewards": rewards, "episode_ids": "run", "step": "t"}
    given["r"] = np.where(rows % 6 == 5, 7.0, NAN)
    dataset = TransitionDataset.from_table(given, columns, last_rows_are="termination")
    own = 0.0 if rewards == "r" else 1.0
    assert dataset.rewards.tolist() == [own + 7.0 * (row % 6 == 5) for row in rows]
    assert dataset.episode_lengths().tolist() == [2, 3, 2, 3]


def test_an_end_that_is_not_trained_on_is_told() -> None:
    with pytest.raises(DataError, match=r"if the task ends there, say so, last_rows_are: termination$"):
        load([NAN, NAN, 5.0, NAN, NAN, 6.0, NAN, NAN, 7.0], last_rows_are="truncation")


def test_where_a_text_tells_of_the_end_it_is_the_one_to_change() -> None:
    given = {"obs": [0.0, 1.0], "actions": [0.0, 1.0], "rewards": [NAN, 5.0], "why": ["", "served"]}
    columns, meant = {"end_reasons": "why"}, {"served": "truncation"}
    with pytest.raises(DataError, match=r"say so, termination for its text in end_reasons$"):
        TransitionDataset.from_table(given, columns, end_reasons=meant)


def test_a_reward_that_is_observed_is_told() -> None:
    given = {"x": [0.0, 1.0], "taste": [NAN, 5.0], "u": [0.0, 1.0], "shot": [1, 1]}
    columns = {"obs": ["x", "taste"], "actions": "u", "rewards": "taste", "episode_ids": "shot"}
    dataset = TransitionDataset.from_table(given, columns, last_rows_are="termination", missing="drop")
    assert any("column 'taste' is the reward, and observed: it is known only after" in note for note in dataset.notes)
    with pytest.raises(DataError, match=r"no column 'x,u'; several are a list: \[x, u\]"):
        TransitionDataset.from_table(given, {**columns, "obs": "x,u"})


def test_no_reward_at_all_is_missing(tmp_path: Path) -> None:
    """Also where nothing ends, so that there are no last rows either."""
    rows = np.arange(9)
    ends = np.zeros(9, dtype=np.bool_)
    arrays = {
        "obs": rows[:, None] / 9,
        "actions": rows[:, None] % 2 / 2,
        "rewards": np.full(9, NAN),
        "next_obs": rows[:, None] / 8,
    }
    np.savez(tmp_path / "log.npz", **arrays, terminations=ends, truncations=ends)
    with pytest.raises(DataError, match="rewards: NaN at row 0"):
        TransitionDataset.load(tmp_path / "log.npz")
