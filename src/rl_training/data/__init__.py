"""Transitions: datasets, where they come from, how they are checked and transformed. No torch is imported here."""

from __future__ import annotations

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

__all__ = [
    "FIELD_ALIASES",
    "Behaviour",
    "DatasetConfig",
    "FileDatasetConfig",
    "MinariDatasetConfig",
    "Mixture",
    "Policy",
    "RandomDatasetConfig",
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
