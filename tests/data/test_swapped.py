"""Columns of steps and of episodes that were named for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset

EPISODES, LENGTH = 12, 30


def table() -> dict[str, Any]:
    """Walks from random places, as a log has them: one episode after another."""
    rng = np.random.default_rng(0)
    starts = np.repeat(rng.normal(size=EPISODES), LENGTH)
    walks = np.concatenate([np.cumsum(rng.normal(0.0, 0.05, LENGTH)) for _ in range(EPISODES)])
    rows = EPISODES * LENGTH
    counts = {"STEP": np.tile(np.arange(LENGTH), EPISODES), "FLT": np.repeat(np.arange(EPISODES) + 100, LENGTH)}
    return {"x": starts + walks, "u": rng.uniform(-1, 1, rows), "r": rng.normal(size=rows), **counts}


def notes(given: dict[str, Any], ids: str, step: str, obs: str | list[str] = "x") -> list[str]:
    columns = {"obs": obs, "actions": "u", "rewards": "r", "episode_ids": ids, "step": step}
    return [note for note in TransitionDataset.from_table(given, columns).notes if "look swapped" in note]


def test_told_with_what_to_say() -> None:
    (note,) = notes(table(), "STEP", "FLT")
    assert note.startswith("warning: columns 'STEP' and 'FLT' look swapped")
    assert note.endswith("say columns: {episode_ids: FLT} and columns: {step: STEP}")


def test_named_rightly() -> None:
    assert not notes(table(), "FLT", "STEP")


def test_several_episodes_at_a_time_are_no_mistake() -> None:
    given = table()
    order = np.lexsort((given["FLT"], given["STEP"]))  # every episode's first row, then every second one
    assert not notes({name: values[order] for name, values in given.items()}, "FLT", "STEP")


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("named", [False, True])
def test_what_a_fleet_shares_tells_nothing(noise: float, named: bool) -> None:
    """Batteries, logged step by step, that see the same prices, or measure nearly the same wind."""
    rng = np.random.default_rng(0)
    batteries, steps = 30, 48
    shared = {name: np.repeat(rng.normal(size=steps), batteries) for name in ("price", "wind", "demand")}
    charge = rng.uniform(0, 1, batteries) + np.cumsum(rng.normal(0, 0.02, (steps, batteries)), axis=0)
    rows = batteries * steps
    given = {name: values + noise * rng.normal(size=rows) for name, values in shared.items()}
    ids = np.tile(np.arange(batteries), steps)
    given |= {"charge": charge.reshape(-1), "step": np.repeat(np.arange(steps), batteries)}
    given |= {"battery": np.array([f"B{number:02}" for number in ids]) if named else ids}
    given |= {"u": rng.uniform(-1, 1, rows), "r": rng.normal(size=rows)}
    assert not notes(given, "battery", "step", [*shared, "charge"])
    if named or not noise:
        assert not notes(given, "battery", "step", list(shared))


def test_a_constant_of_the_episode_does_not_hide_it() -> None:
    given = table()
    given["target"] = np.repeat(np.random.default_rng(1).normal(size=EPISODES), LENGTH)
    assert notes(given, "STEP", "FLT", ["x", "target"])


def test_few_rows_tell_nothing() -> None:
    assert not notes({name: values[:10] for name, values in table().items()}, "STEP", "FLT")
