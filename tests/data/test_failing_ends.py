"""Failures that nothing tells from other terminations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor.examination import examine
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.reason_checks import is_worse
from rl_training.data.formats import read_table
from rl_training.data.reason_guesses import is_failure
from rl_training.data.settling import settle
from rl_training.reading_choices import TableChoices

MEANINGS: dict[str, Any] = {"hard landing": "termination", "landed": "termination", "soft": "termination"}


def found(*texts: str, earned: dict[str, float] | None = None, **said: Any) -> Finding | None:
    """What is found in 30 flights of six steps that end with these texts in turn; earned: by the last step besides."""
    draw, rows = np.random.default_rng(0), 180
    last = np.arange(rows) % 6 == 5
    why = [texts[row // 6 % len(texts)] if last[row] else "" for row in range(rows)]
    rewards = -1.0 + 0.1 * draw.normal(size=rows) + [(earned or {}).get(text, 0.0) for text in why]
    table = {
        "x": draw.normal(size=rows),
        "u": draw.uniform(-1, 1, rows),
        "r": -rewards if said.get("rewards_are") == "costs" else rewards,
        "flight": np.arange(rows) // 6,
        "why": np.array(why),
    }
    columns = {"obs": ["x"], "actions": ["u"], "rewards": "r", "episode_ids": "flight", "end_reasons": "why"}
    raw = settle(read_table(table, columns, TableChoices(end_reasons=MEANINGS)), **said)
    return {one.code: one for one in examine(raw).findings}.get("rewards.ends-alike")


def test_are_warned_of_with_what_to_write() -> None:
    told = found("landed", "hard landing")
    assert told is not None
    assert told.level == "warning"
    assert "15 episodes terminate with hard landing, by the name a failure" in told.what
    assert "the reward there is no worse than with landed: for the algorithm, failing is as good" in told.what
    assert "`at_termination: {hard landing: -6}`" in told.advice


def limited(seen: Any, meaning: str = "termination", *, dated: bool = False, **options: Any) -> Finding | None:
    """Of 20 batches of 30 rows, and of 25 that were done earlier. seen: what a policy sees, of the rows' places. dated:
    the steps are dates."""
    lengths = [30] * 20 + [10 + n % 15 for n in range(25)]
    at = np.concatenate([np.arange(length) for length in lengths])
    last = np.concatenate([np.arange(length) == length - 1 for length in lengths])
    draw = np.random.default_rng(0)
    table = {
        "x": seen(at),
        "u": draw.uniform(-1, 1, len(at)),
        "r": draw.normal(size=len(at)),
        "batch": np.repeat(np.arange(len(lengths)), lengths),
        "minute": 4 * at if not dated else np.datetime64("2024-03-01", "m") + np.arange(len(at)),
        "why": np.where(last, np.where(at == 29, "time over", "done"), ""),
    }
    columns = {"obs": ["x"], "actions": ["u"], "rewards": "r"}
    columns |= {"episode_ids": "batch", "step": "minute", "end_reasons": "why"}
    meanings: Any = {"done": "termination", "time over": meaning}
    raw = settle(read_table(table, columns, TableChoices(end_reasons=meanings)))
    return {one.code: one for one in examine(raw, **options).findings}.get("flags.unseen-limit")


def test_a_date_counts_no_rows_that_come_again() -> None:
    """A column that nobody reads may, and is named; what only looks so at first is not."""
    at = np.concatenate([np.arange(length) for length in [30] * 20 + [10 + n % 15 for n in range(25)]])
    unread = {"other": np.where(at < 5, at, 3.0), "Min": at + 1.0}
    told = limited(lambda at: np.sin(7.0 * at), dated=True, unread=lambda: unread)
    assert told is not None
    assert told.advice.startswith("Add 'Min' to obs; if the task does not end there")
    told = limited(lambda at: np.sin(7.0 * at), dated=True)
    assert told is not None
    assert told.advice.startswith("Add a column that counts the rows of an episode to obs (or say observe_time: [day],")


def test_an_end_by_the_clock_that_no_observation_tells() -> None:
    told = limited(lambda at: np.sin(7.0 * at))
    assert told is not None
    assert (told.level, told.count) == ("warning", 20)
    assert told.what.startswith(
        "All 20 episodes that end with 'time over' have 30 rows, the most, and no column of the"
    )
    assert told.advice == "Add 'minute' to obs; if the task does not end there, write `time over: truncation`."
    assert limited(lambda at: 0.5 * at - 3.0) is None
    assert limited(lambda at: 30.0 - at) is None
    assert limited(lambda at: np.sin(7.0 * at), "truncation") is None


def test_of_costs_the_number_is_above_zero() -> None:
    told = found("landed", "hard landing", rewards_are="costs")
    assert told is not None
    assert "the cost there is no worse" in told.what
    assert "`at_termination: {hard landing: 6}`" in told.advice


@pytest.mark.parametrize("said", [{"earned": {"hard landing": -5.0}}, {"at_termination": {"hard landing": -5.0}}])
def test_not_where_the_rewards_tell(said: dict[str, Any]) -> None:
    assert found("landed", "hard landing", **said) is None


@pytest.mark.parametrize(("apart", "told"), [(100.0, False), (0.0, True), (-100.0, True)])
def test_rewards_that_scatter_tell_by_their_means(apart: float, told: bool) -> None:
    """Of many ends, a difference well below the deviation of single ones is none of chance."""
    draw, many = np.random.default_rng(1), 500
    why = np.tile(["landed", "hard landing"], many)
    rewards = draw.normal(0.0, 150.0, 2 * many) - apart * (why == "hard landing")
    table = {"obs": draw.normal(size=2 * many), "action": draw.uniform(-1, 1, 2 * many), "reward": rewards, "why": why}
    raw = settle(read_table(table, {"end_reasons": "why"}, TableChoices(end_reasons=MEANINGS)))
    assert ("rewards.ends-alike" in {one.code for one in examine(raw).findings}) is told


def test_a_single_failure_is_judged_by_how_the_others_scatter() -> None:
    draw = np.random.default_rng(0)
    others = draw.normal(0.0, 10.0, 50).astype(np.float32)
    for reward, worse in ((-5.0, False), (-60.0, True)):
        assert is_worse(np.array([reward], dtype=np.float32), others) is worse


def test_not_where_all_are_failures_or_none_is() -> None:
    assert found("landed", "soft") is None
    assert found("hard landing") is None


def test_one_number_for_all_does_not_tell_them_apart() -> None:
    assert found("landed", "hard landing", at_termination=-5.0) is not None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        *((text, True) for text in ("CRASH", "hard landing", "aborted", "pump_fault", "tripped", "Absturz", "failed")),
        *(
            (text, True)
            for text in ("die", "agent died", "exploded", "explosion", "turbine trip", "trip", "loss", "error 7")
        ),
        *((text, True) for text in ("free fall", "loss of signal")),
        *((text, False) for text in ("goal", "no fault", "trip complete", "landed", "hardware", "")),
        *(
            (text, False)
            for text in ("explored", "trip_end", "error-free", "fehlerfrei", "loss_target_met", "lossless")
        ),
        *((text, False) for text in ("die Ladung ist voll",)),
    ],
)
def test_by_name(text: str, is_one: bool) -> None:
    assert is_failure(text) is is_one
