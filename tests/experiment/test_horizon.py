"""How far an estimate looks ahead, in words."""

from __future__ import annotations

from typing import Any

import pytest

from rl_training.experiment.horizon import beginning, beginning_of, caution_of_horizon


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


@pytest.mark.parametrize(
    "record", [{}, {"gamma": 0.9, "behaviour": 3}, {"gamma": "0.9", "behaviour": {"steps": 96}}, {"gamma": 1.0}]
)
def test_records_that_do_not_tell(record: dict[str, Any]) -> None:
    assert beginning_of(record) is None
