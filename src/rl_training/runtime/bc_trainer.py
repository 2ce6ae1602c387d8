"""Training BC: the shared offline path, on the best episodes alone where asked to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.parts import Parts
from rl_training.runtime.progress import Progress
from rl_training.runtime.sources import Source
from rl_training.runtime.trainer import Trainer, trainer_function


def best_episodes(dataset: TransitionDataset, fraction: float) -> TransitionDataset:
    """The episodes with the highest undiscounted returns, that share of them (at least one), in their own order."""
    if fraction == 1.0:
        return dataset
    if not dataset.whole_episodes:
        raise DataError("best_fraction: needs whole episodes in order; the rows were sampled or reordered")
    count = max(1, math.floor(fraction * dataset.n_episodes + 1e-9))  # 0.29·100 is 28.999… in binary
    kept = np.argsort(-dataset.episode_returns(), kind="stable")[:count]
    return dataset.select(np.flatnonzero(np.isin(dataset.episode_ids, kept)))


class BCTrainer(Trainer):
    """Chooses what is cloned; epochs and observation statistics are those of the chosen episodes, too."""

    def check(self, parts: Parts) -> None:
        if parts.dataset is None or self.online is not None:
            raise ConfigError("online: BC clones a fixed dataset; online it would only clone itself")
        if self.config.data_memory == "mapped" and self.config.algo_kwargs["best_fraction"] < 1.0:
            raise ConfigError(
                "data_memory: mapped trains on a column directory as it is; a best_fraction of it is held in memory:"
                " use auto or ram"
            )

    def progress(self, dataset: TransitionDataset | None) -> Progress:
        return super().progress(self.cloned(dataset))

    def fit(self, dataset: TransitionDataset | None, spaces: Spaces) -> Transforms:
        return super().fit(self.cloned(dataset), spaces)

    def source(self, parts: Parts) -> Source:
        return super().source(replace(parts, dataset=self.cloned(parts.dataset)))

    def cloned(self, dataset: TransitionDataset | None) -> TransitionDataset | None:
        return None if dataset is None else best_episodes(dataset, float(self.config.algo_kwargs["best_fraction"]))


train_bc = trainer_function("bc")
