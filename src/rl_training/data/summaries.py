"""What a person wants to know of a dataset, gathered from it at once or block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

ROW_FACTS = ("transitions", "usable", "terminations", "truncations")  # true of any rows
EPISODE_FACTS = ("episodes", "return_mean", "return_min", "return_max", "length_mean")  # of whole episodes only


class Facts:
    """Counts of rows, and returns where the rows are whole episodes."""

    def __init__(self) -> None:
        self.whole_episodes = True
        self._counts = dict.fromkeys(ROW_FACTS, 0)
        self._returns: list[npt.NDArray[np.float64]] = []

    @classmethod
    def of(cls, dataset: TransitionDataset) -> Facts:
        facts = cls()
        facts.add(dataset)
        return facts

    def add(self, block: TransitionDataset) -> None:
        """The next rows: whole episodes, unless they are known not to be."""
        counts = (len(block), block.n_usable, int(block.terminations.sum()), int(block.truncations.sum()))
        for name, count in zip(ROW_FACTS, counts, strict=True):
            self._counts[name] += count
        self.whole_episodes &= block.whole_episodes
        if self.whole_episodes:
            self._returns.append(block.episode_returns())

    @property
    def rows(self) -> int:
        return self._counts["transitions"]

    def to_json(self) -> dict[str, Any]:
        """`ROW_FACTS`, and `EPISODE_FACTS` where they mean something."""
        if not self.whole_episodes:
            return dict(self._counts)
        returns = np.concatenate(self._returns)
        return {
            **self._counts,
            "episodes": len(returns),
            "return_mean": float(returns.mean()),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "length_mean": self.rows / len(returns),
        }
