"""Which algorithm to begin with on given data, for how long, and why; see docs/choosing.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.wording import readable

_ALIKE = 0.1  # of the mean return: a spread below it is one policy of one quality
_SPARSE = 0.95  # share of one value among the rewards
_SHORT, _LONG = 10_000, 100_000  # updates to begin with: some two minutes of one core, and ten times that
_MANY_ROWS = 100_000


@dataclass(frozen=True)
class Recommendation:
    """algo: where to begin. spread: how far their returns lie apart;
    none where nothing is known of them."""

    algo: str
    why: str
    updates: int = _SHORT
    spread: float | None = 0.0


def recommend(dataset: TransitionDataset | None) -> Recommendation:
    """From the rewards and returns of the data; of data that cannot be read yet, the steady first choice."""
    if dataset is None:
        return Recommendation("iql", "steady on most data; nothing is known of these yet", spread=None)
    updates = _LONG if len(dataset) >= _MANY_ROWS else _SHORT
    least, most = float(dataset.rewards.min()), float(dataset.rewards.max())
    costs = dataset.in_file is not None and dataset.in_file.costs
    if least == most:
        every = f"every cost is {readable(0.0 - least)}" if costs else f"every reward is {readable(least)}"
        why = f"{every}: nothing tells better actions from worse, so they are imitated"
        return Recommendation("bc", why, updates)
    if not dataset.whole_episodes or dataset.n_episodes < 2:
        return Recommendation("iql", "steady on most data; there are no episodes to compare", updates)
    returns = dataset.episode_returns()
    low, mean, high = (float(value) for value in (returns.min(), returns.mean(), returns.max()))
    told = f"episodes return {readable(low)} to {readable(high)}"
    if costs:
        told = f"episodes cost {readable(0.0 - high)} to {readable(0.0 - low)}"
    if high - low <= _ALIKE * abs(mean):
        return Recommendation(
            "td3_bc", f"{told}, all about the same: a small step beyond one policy", updates, high - low
        )
    _, counts = np.unique(dataset.rewards, return_counts=True)
    sparse = counts.max() >= _SPARSE * len(dataset)
    kind = "mixed data with sparse rewards" if sparse else "mixed data"
    return Recommendation("iql", f"{told}: {kind}, of which it joins the good pieces", updates, spread=high - low)
