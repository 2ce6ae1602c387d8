"""Transitions: datasets, where they come from, how they are checked and transformed. No torch is imported here, but for
whoever asks for a `ReplayBuffer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rl_training.data.behaviours import Behaviour, Policy
from rl_training.data.checks import check_action_bounds, check_transitions
from rl_training.data.dataset_loaders import (
    DatasetConfig,
    FileDatasetConfig,
    MinariDatasetConfig,
    RandomDatasetConfig,
    ScriptedDatasetConfig,
    infer_spaces,
    load_dataset,
)
from rl_training.data.fields import FIELD_ALIASES
from rl_training.data.generation import generate_pendulum_dataset, generate_random_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import Mixture, mix_datasets
from rl_training.data.recording import collect
from rl_training.data.returns import discounted_returns_to_go, shift_within_episodes
from rl_training.data.transforms import TransformConfig, Transforms, fit_transforms

if TYPE_CHECKING:
    from rl_training.data.replay_buffer import ReplayBuffer

__all__ = [
    "FIELD_ALIASES",
    "Behaviour",
    "DatasetConfig",
    "FileDatasetConfig",
    "MinariDatasetConfig",
    "Mixture",
    "Policy",
    "RandomDatasetConfig",
    "ReplayBuffer",
    "ScriptedDatasetConfig",
    "TransformConfig",
    "Transforms",
    "TransitionDataset",
    "check_action_bounds",
    "check_transitions",
    "collect",
    "discounted_returns_to_go",
    "fit_transforms",
    "generate_pendulum_dataset",
    "generate_random_dataset",
    "infer_spaces",
    "load_dataset",
    "mix_datasets",
    "shift_within_episodes",
]


def __getattr__(name: str) -> Any:
    if name == "ReplayBuffer":
        from rl_training.data.replay_buffer import ReplayBuffer

        return ReplayBuffer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
