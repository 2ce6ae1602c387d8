"""Observations that are what the action of the same row brought about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import examine
from rl_training.data.doctor.screening import screen
from rl_training.data.formats import RawData, read_table
from rl_training.data.offline_dataset import TransitionDataset
from sick_data import codes, healthy

CODE = "obs.outcome"


def beside(column: Any) -> dict[str, Any]:
    """The healthy log with one more observation."""
    arrays = healthy(next_obs=None)
    return arrays | {"obs": np.column_stack([arrays["obs"], column]).astype(np.float32)}


def test_what_the_action_brought_about_is_told_with_what_tells_it() -> None:
    """Some of it comes from the state, which is not enough to know it."""
    arrays = healthy()
    noise = np.random.default_rng(1).normal(0.0, 0.05, len(arrays["obs"]))
    used = np.maximum(arrays["actions"][:, 1], -0.5) + 0.1 * arrays["obs"][:, 0] + noise
    finding = codes(beside(used))[CODE]
    assert (finding.level, finding.field) == ("warning", "obs")
    assert "Column 3 follows from the action of the same row: 9" in finding.what
    assert "take it out of obs" in finding.advice


def test_an_action_that_is_observed_is_told_once() -> None:
    arrays = healthy(next_obs=None)
    table = {f"x{place}": column for place, column in enumerate(arrays["obs"].T)}
    noise = np.random.default_rng(1).normal(0.0, 0.3, len(arrays["obs"]))
    table |= {"u": np.clip(arrays["actions"][:, 0] + noise, -1.0, 1.0), "reward": arrays["rewards"]}
    table |= {name: arrays[name] for name in ("terminations", "truncations")}
    columns: dict[str, Any] = {"obs": ["x0", "x1", "x2", "u"], "actions": "u", "rewards": "reward"}
    found = [str(finding) for finding in examine(read_table(table, columns)).findings]
    assert len([told for told in found if "'u'" in told]) == 1
    called_otherwise = examine(read_table(table | {"seen": table["u"]}, columns | {"obs": ["x0", "x1", "x2", "seen"]}))
    assert CODE in {finding.code for finding in called_otherwise.findings}


def test_nothing_is_said_of_what_follows_from_the_row_before() -> None:
    """The action that was done before, and a reading of what it did, as a valve's position."""
    arrays = healthy()
    starts = np.flatnonzero(np.r_[True, (arrays["terminations"] | arrays["truncations"])[:-1]])
    last = np.roll(arrays["actions"][:, 0], 1)
    last[starts] = 0.0
    assert CODE not in codes(healthy(next_obs=None))
    assert CODE not in codes(beside(last))
    assert CODE not in codes(beside(arrays["obs"][:, 0] * 2.0))


def test_nothing_is_said_of_noise_nor_of_a_state_that_the_action_is_chosen_by() -> None:
    rng = np.random.default_rng(2)
    assert CODE not in codes(beside(rng.normal(size=len(healthy()["obs"]))))
    arrays = healthy()
    arrays["actions"] = np.tanh(-0.8 * arrays["obs"][:, :2])  # without a disturbance
    assert CODE not in codes(arrays)


@pytest.mark.parametrize("rows", [40, 200])
def test_too_few_rows_tell_nothing(rows: int) -> None:
    arrays = beside(healthy()["actions"][:, 0])
    assert CODE not in codes({name: values[:rows] for name, values in arrays.items()})


def test_nothing_is_said_of_columns_that_tell_each_other() -> None:
    """Readings of a state, words as columns of their own, a sum and its parts, two readings of what no row foresees."""
    state = healthy()["obs"][:, 0]
    assert CODE not in codes(beside(np.column_stack([1.8 * state + 32.0, state**3])))
    rng = np.random.default_rng(5)
    assert CODE not in codes(beside(np.eye(3)[rng.integers(0, 3, len(state))]))
    loads = rng.normal(size=(2, len(state)))
    assert CODE not in codes(beside(np.column_stack([*loads, loads.sum(0), loads[0] + 1e-3 * loads[1]])))


def test_it_is_told_before_training_too() -> None:
    """As the other warnings are that cost a policy its worth."""
    dataset = TransitionDataset.from_raw(RawData(beside(healthy()["actions"][:, 0]), "test"))
    assert [finding.code for finding in screen(dataset, bounds_known=False)] == [CODE]
