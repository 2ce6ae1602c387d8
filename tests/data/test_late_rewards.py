"""`rewards_at: next`: a step's reward stands in the row after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.dataset_loaders import FileDatasetConfig, load_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError

EARNED = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])  # by the step of each row: episodes of 3, 3 and 1 rows
LOGGED = np.array([0.0, 1.0, 2.0, 0.0, 4.0, 5.0, 0.0])


def table(**more: Any) -> dict[str, Any]:
    number = np.arange(7.0)
    return {"obs": 10 * number, "action": number / 7, "reward": LOGGED, "run": [0, 0, 0, 1, 1, 1, 2],
            "crashed": [0, 0, 0, 0, 0, 1, 0], **more}  # fmt: skip


COLUMNS = {"episode_ids": "run", "terminations": "crashed"}


def test_each_reward_goes_to_the_row_before() -> None:
    data = TransitionDataset.from_table(table(), COLUMNS, rewards_at="next")
    assert data.rewards.tolist() == [1.0, 2.0, 4.0, 5.0] == EARNED[[0, 1, 3, 4]].tolist()
    assert data.obs[:, 0].tolist() == [0.0, 10.0, 30.0, 40.0]
    assert data.next_obs[:, 0].tolist() == [10.0, 20.0, 40.0, 50.0]
    assert data.terminations.tolist() == [False] * 4
    assert data.truncations.tolist() == [False, True, False, True]
    assert data.n_usable == 4  # the successor of the row before the one that goes is known
    told = "rewards are those of the row after (rewards_at: next); the last rows of 3 episodes have none and are left"
    assert f"{told} out, 1 of them terminations" in data.notes


def test_rows_are_still_told_by_the_file() -> None:
    data = TransitionDataset.from_table(table(), COLUMNS, rewards_at="next")
    assert data.in_file is not None
    assert data.in_file.row_in_file(3) == (4, None)


def test_episodes_keep_their_names() -> None:
    named = table(run=["a", "a", "a", "b", "b", "b", "c"])
    data = TransitionDataset.from_table(named, COLUMNS, rewards_at="next")
    assert data.in_file is not None
    assert [data.in_file.episode_name(row) for row in range(4)] == ["a", "a", "b", "b"]
    assert data.truncations.tolist() == [False, True, False, True]


def test_returns_of_other_rewards_are_left_out_and_told() -> None:
    data = TransitionDataset.from_table(table(returns_to_go=np.ones(7)), COLUMNS, rewards_at="next")
    assert data.returns_to_go is None
    assert any(note.endswith("; the file's returns_to_go are of other rewards, and left out") for note in data.notes)
    assert not any("returns_to_go" in note for note in TransitionDataset.from_table(table(), COLUMNS).notes)


def test_a_missing_value_is_left_out_besides() -> None:
    given = table(obs=np.array([0.0, np.nan, 20.0, 30.0, 40.0, 50.0, 60.0]))
    data = TransitionDataset.from_table(given, COLUMNS, rewards_at="next", missing="drop", rewards_are="costs")
    assert data.rewards.tolist() == [-4.0, -5.0]


def test_what_it_cannot_be_combined_with() -> None:
    with pytest.raises(DataError, match=r"rewards_at: needs every row in its order"):
        TransitionDataset.from_table(table(), COLUMNS, rewards_at="next", time_limits="d4rl")
    with pytest.raises(DataError, match=r"rewards_at: next: every episode has one row"):
        TransitionDataset.from_table(table(run=np.arange(7)), COLUMNS, rewards_at="next")


def test_in_a_configuration(tmp_path: Path) -> None:
    given = table()
    lines = [",".join(given), *(",".join(map(str, row)) for row in zip(*given.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    section = FileDatasetConfig(path=tmp_path / "log.csv", columns=COLUMNS, rewards_at="next")
    assert load_dataset(section, None, None, refuse=False).rewards.tolist() == [1.0, 2.0, 4.0, 5.0]
