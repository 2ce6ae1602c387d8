"""Where critics begin.

Behind target networks, what all values have in common arrives after some 3/(τ(1 - γ)) updates: 60,000 for τ = 0.005
and γ = 0.99, however simple the task. Values that begin at what the data's rows return on average have that way behind
them, and learn from the first update on what tells states and actions apart.
"""

from __future__ import annotations

import numpy as np

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import discounted_returns_to_go, usual_value
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError
from rl_training.runtime.config import TrainConfig


def has_critics(config: TrainConfig) -> bool:
    return "n_critics" in config.algo_kwargs


def first_value(config: TrainConfig, dataset: TransitionDataset | None, transforms: Transforms) -> float | None:
    """The mean return-to-go of all rows, of the rewards as the networks see them; none where critics begin around zero.
    An episode that was cut goes on as is usual."""
    if config.initial_values == "zero" or not has_critics(config):
        return None
    if dataset is None:
        raise ConfigError("initial_values: data needs a dataset, and there is none; leave it out")
    rewards, gamma, ends = transforms.rewards(dataset.rewards), float(config.algo_kwargs["gamma"]), dataset.episode_ends
    usual = usual_value(rewards, dataset.terminations, gamma)
    after = np.where(dataset.terminations[ends], 0.0, usual)
    return float(discounted_returns_to_go(rewards, ends, gamma, after).mean())
