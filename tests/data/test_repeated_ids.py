"""Ids that come again after others: given to a second episode, or the id of no episode at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

COLUMNS = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "batch", "step": "when"}


def log(path: Path, batches: list[tuple[str, int]], rows: int = 8) -> Path:
    """Batches of so many hours, each with its id and its day."""
    lines = ["batch,when,x,u,r"]
    for at, (batch, day) in enumerate(batches):
        date = np.datetime64("2025-01-01T00:00") + np.timedelta64(24 * day, "h")
        lines += [f"{batch},{date + np.timedelta64(hour, 'h')},{at}.{hour},0.{hour},1" for hour in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def again(dataset: TransitionDataset) -> list[str]:
    return [note for note in dataset.notes if "again after others" in note]


def test_ids_that_are_given_again_later_are_counted(tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", [("7", 0), ("8", 1), ("9", 2), ("7", 40), ("8", 45)])
    dataset = TransitionDataset.load(path, columns=COLUMNS)
    assert dataset.n_episodes == 5
    assert again(dataset) == [
        "2 ids come again after others, at least 39 days later (7 is the first): parted where an end is marked or the"
        " dates leave a hole; give every episode an id of its own"
    ]


def test_nothing_is_said_of_ids_that_come_once_nor_of_rows_that_were_shuffled(tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", [("7", 0), ("8", 1), ("9", 2)])
    assert again(TransitionDataset.load(path, columns=COLUMNS)) == []
    header, *rows = path.read_text().splitlines()
    mixed = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    path.write_text("\n".join([header, *mixed]) + "\n")
    dataset = TransitionDataset.load(path, columns=COLUMNS)
    assert (dataset.n_episodes, again(dataset)) == (3, [])


def test_a_column_of_people_is_called_no_id(tmp_path: Path) -> None:
    """Two tanks at a time, so that one of them has the same hour twice."""
    batches = [(["Ann", "Bob", "Cem"][at % 3], at // 6) for at in range(18)]
    path = log(tmp_path / "log.csv", batches)
    with pytest.raises(DataError, match=r"occurs twice in the episode named Ann") as error:
        TransitionDataset.load(path, columns=COLUMNS)
    assert str(error.value).endswith(
        "episode_ids has only 3 values, which take turns 18 times: they seem to name no episodes; name a column that"
        " has a value of its own for each"
    )


def test_a_column_that_may_name_episodes_is_proposed(tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", [(["Ann", "Bob", "Cem"][at % 3], at // 6) for at in range(18)])
    header, *rows = path.read_text().splitlines()
    named = [f"{row},B{place // 8:03}" for place, row in enumerate(rows)]
    path.write_text("\n".join([f"{header},lot", *named]) + "\n")
    with pytest.raises(DataError, match=r"has a value of its own for each, such as lot$"):
        TransitionDataset.load(path, columns=COLUMNS)
