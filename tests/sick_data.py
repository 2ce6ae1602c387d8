"""A small healthy dataset in the layout of a file, for tests that then make it sick in one way."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_training.data.doctor import Finding, Report, examine
from rl_training.data.formats import RawData


def healthy(episodes: int = 24, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Episodes of 30 to 79 rows of a point that a noisy controller pushes to the middle: 3 observations, 2 actions.

    Half of the episodes terminate, half are truncated. `changes` replace, add or (None) remove fields.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(30, 80, episodes)
    columns: dict[str, list[Any]] = {name: [] for name in ("obs", "actions", "rewards", "next_obs")}
    for length in lengths:
        state = rng.normal(0.0, 1.0, 3)
        for _ in range(length):
            action = np.tanh(-0.8 * state[:2] + rng.normal(0.0, 0.3, 2))
            following = 0.97 * state + 0.1 * np.append(action, action.sum()) + rng.normal(0.0, 0.02, 3)
            columns["obs"].append(state)
            columns["actions"].append(action)
            columns["rewards"].append(-(state @ state) - 0.5 * action @ action)
            columns["next_obs"].append(following)
            state = following
    arrays: dict[str, Any] = {name: np.asarray(values, dtype=np.float32) for name, values in columns.items()}
    ends = np.cumsum(lengths) - 1
    for name, last in (("terminations", ends[::2]), ("truncations", ends[1::2])):
        arrays[name] = np.isin(np.arange(lengths.sum()), last)
    arrays |= changes
    return {name: values for name, values in arrays.items() if values is not None}


def without_successors(**changes: Any) -> dict[str, Any]:
    """The same without `next_obs`."""
    return healthy(next_obs=None, **changes)


def ends_of(arrays: dict[str, Any]) -> Any:
    """Last rows of the episodes."""
    return np.flatnonzero(arrays["terminations"] | arrays["truncations"])


def report_on(arrays: dict[str, Any], **options: Any) -> Report:
    """The doctor's report."""
    return examine(RawData(arrays, "test"), **options)


def codes(arrays: dict[str, Any], **options: Any) -> dict[str, Finding]:
    """The findings by code, the first of each."""
    found: dict[str, Finding] = {}
    for finding in report_on(arrays, **options).findings:
        found.setdefault(finding.code, finding)
    return found
