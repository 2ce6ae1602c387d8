"""Costs whose sign is turned twice, and ids that a policy is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import examine
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.screening import screen
from rl_training.data.formats import RawData, read_table
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.settling import settle

COLUMNS: dict[str, Any] = {"obs": ["x"], "actions": ["u"], "rewards": "Cost [EUR]", "episode_ids": "Batch no."}
NEGATED = "rewards.negated-costs"


def log(cost: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    batches = np.repeat(np.arange(12), 20)
    table = {"x": draw.normal(size=240), "u": draw.uniform(-1, 1, 240), "Batch no.": 1000 + batches}
    return table | {"Cost [EUR]": cost(draw.uniform(0.1, 0.9, 240)), "done": np.arange(240) % 20 == 19}


def told(raw: RawData, **said: Any) -> tuple[Finding | None, Finding | None]:
    """By the check, and before training."""
    screened = screen(TransitionDataset.from_raw(raw, **said), bounds_known=True)
    examined = examine(settle(raw, **said)).findings
    checked, before = ({one.code: one for one in found}.get(NEGATED) for found in (examined, screened))
    return checked, before


def test_costs_that_were_negated_already() -> None:
    table = log(lambda cost: -cost)
    said: dict[str, Any] = {"rewards_are": "costs", "at_termination": 5.0}
    checked, before = told(read_table(table, COLUMNS | {"terminations": "done"}), **said)
    assert checked == before
    assert checked is not None
    assert (checked.level, checked.count) == ("warning", 228)  # the ends have costs of 5 besides
    assert checked.what == "Every cost in 'Cost [EUR]' is zero or below, and counts as a gain."
    assert checked.advice.startswith("If they were negated already, say rewards_are: rewards:")


@pytest.mark.parametrize("cost", [lambda cost: cost, lambda cost: np.where(cost > 0.88, cost, -cost), np.zeros_like])
def test_others_are_no_sign_of_it(cost: Any) -> None:
    assert told(read_table(log(cost), COLUMNS), rewards_are="costs") == (None, None)


def test_nor_are_rewards_or_a_sum_with_signs() -> None:
    table = log(lambda cost: -cost)
    assert told(read_table(table, COLUMNS), rewards_are="rewards") == (None, None)
    weighed = COLUMNS | {"rewards": ["-x2", "Cost [EUR]"]}
    table["x2"] = np.ones(240)
    assert told(read_table(table, weighed), rewards_are="costs") == (None, None)


def test_an_id_that_is_observed() -> None:
    raw = read_table(log(lambda cost: cost), COLUMNS | {"obs": ["x", "Batch no."]})
    (note,) = (note for note in raw.notes if "Batch no." in note)
    assert note.startswith("warning: column 'Batch no.' tells episodes apart (episode_ids), and is observed: a policy")
    assert not any("Batch no." in note for note in read_table(log(lambda cost: cost), COLUMNS).notes)
