"""What a person wants to know of a dataset, gathered from it at once or block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.provenance import KEY

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset
    from rl_training.data.space_bounds import SpaceBounds

ROW_FACTS = ("transitions", "usable", "terminations", "truncations")  # true of any rows
EPISODE_FACTS = ("episodes", "return_mean", "return_min", "return_max", "length_mean")  # of whole episodes only


class Facts:
    """Counts of rows, returns where the rows are whole episodes, and what all blocks tell of their environment."""

    def __init__(self) -> None:
        self.whole_episodes = True
        self.env_id: str | None = None
        self.bounds: SpaceBounds | None = None
        self._counts = dict.fromkeys(ROW_FACTS, 0)
        self._returns: list[npt.NDArray[np.float64]] = []

    @classmethod
    def of(cls, dataset: TransitionDataset) -> Facts:
        facts = cls()
        facts.add(dataset)
        return facts

    def add(self, block: TransitionDataset) -> None:
        """The next rows: whole episodes, unless they are known not to be."""
        if not self.rows:
            self.env_id, self.bounds = block.env_id, block.bounds
        self.env_id = self.env_id if self.env_id == block.env_id else None
        self.bounds = self.bounds if self.bounds == block.bounds else None
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


def known_facts(dataset: TransitionDataset) -> dict[str, Any]:
    """What is known of the data: less where rows were sampled and are not whole episodes."""
    facts = dataset.summary() if dataset.whole_episodes else dataset.row_summary()
    before = None if dataset.provenance is None else dataset.provenance.before
    return facts if before is None else {**facts, KEY: before.to_json()}
