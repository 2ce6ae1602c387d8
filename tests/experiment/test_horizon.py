"""How far an estimate looks ahead, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.experiment.horizon import (
    beginning,
    beginning_of,
    caution_of_horizon,
    discounted_by,
    steps_ahead,
    why_not_whole,
)


@pytest.mark.parametrize(
    ("gamma", "steps", "told"),
    [
        (0.95, 96.0, "the first 20 or so of 96 steps"),
        (0.99, 1_000.0, "the first 100 or so of 1,000 steps"),
        (0.99, 200.0, None),
        (0.0, 2.0, None),
        (0.0, 3.0, "the first 1 or so of 3 steps"),
    ],
)
def test_the_part_that_is_judged(gamma: float, steps: float, told: str | None) -> None:
    assert beginning(gamma, steps) == told
    assert beginning_of({"gamma": gamma, "behaviour": {"steps": steps}}) == told
    assert len(caution_of_horizon(gamma, steps)) == (told is not None)


def test_how_far_a_discount_looks() -> None:
    assert (steps_ahead(0.0), steps_ahead(0.5), steps_ahead(1.0)) == (1.0, 2.0, np.inf)
    assert beginning(1.0, 96.0) is None


def episodes(*lengths: int, cut: int = 0) -> TransitionDataset:
    """Of such lengths, of which the last `cut` ones do not terminate."""
    ends = np.cumsum(lengths) - 1
    last = np.isin(np.arange(sum(lengths)), ends)
    terminated = last & np.isin(np.arange(len(last)), ends[: len(ends) - cut])
    zeros = np.zeros(len(last))
    return TransitionDataset.from_dict(
        {
            "obs": zeros,
            "actions": zeros,
            "rewards": zeros,
            "next_obs": zeros,
            "terminations": terminated,
            "truncations": last & ~terminated,
        }
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (episodes(24, 24, 23, 25), None),
        (episodes(24, 24, cut=1), "1 of 2 is cut (a task that ends there: last_rows_are: termination)"),
        (episodes(5, 5, 5, 25), "the longest has 25 steps and the mean one 10 (at most 2 times as many)"),
        (episodes(1_001, 900), "they have up to 1,001 steps (at most 1,000)"),
    ],
)
def test_which_episodes_may_be_added_up(data: TransitionDataset, why: str | None) -> None:
    assert why_not_whole(data) == why


def test_nothing_is_discounted() -> None:
    assert (discounted_by(1.0), discounted_by(0.99)) == ("undiscounted", "discounted by 0.99")
    assert beginning(1.0, 24.0) is None
    (said,) = caution_of_horizon(1.0, 24.0)
    assert "end as those of the data do, after about 24 steps" in said


@pytest.mark.parametrize(
    "record", [{}, {"gamma": 0.9, "behaviour": 3}, {"gamma": "0.9", "behaviour": {"steps": 96}}, {"gamma": 1.0}]
)
def test_records_that_do_not_tell(record: dict[str, Any]) -> None:
    assert beginning_of(record) is None


@pytest.mark.parametrize("written", [False, True])
def test_reasons_that_cut_are_named_where_they_tell_ends(written: bool, tmp_path: Path) -> None:
    """There last_rows_are would say nothing."""
    ids = np.repeat(np.arange(4), 5)
    why = np.where(np.arange(20) % 5 == 4, "harvest", "running").astype(object)
    why[9] = "probe failure"
    wave = np.sin(np.arange(20))
    table = {"obs": wave, "action": wave / 2, "reward": wave, "run": ids, "why": why}
    meanings: Any = {"harvest": "termination", "probe failure": "truncation", "running": "ongoing"}
    columns = {"episode_ids": "run", "end_reasons": "why"}
    data = TransitionDataset.from_table(table, columns, end_reasons=meanings)
    if written:
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
        (tmp_path / "log.csv").write_text("\n".join(lines))
        data = TransitionDataset.load(tmp_path / "log.csv", columns=columns, end_reasons=meanings)
        data.save(tmp_path / "part.npz")
        data = TransitionDataset.load(tmp_path / "part.npz")
    way = "end_reasons: {probe failure: termination}"
    assert why_not_whole(data) == f"1 of 4 is cut (a task that ends there: {way})"
