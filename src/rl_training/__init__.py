"""Offline reinforcement learning for continuous control: load logged transitions, train a policy, know how good it
is, ship it.

    from rl_training import CQL
    model = CQL(env_id="Pendulum-v1", dataset="log.npz", total_timesteps=20_000).learn()
    action, _ = model.predict(obs)

Names are imported on first use, so `import rl_training` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ManagedAlgorithm": "rl_training.api",
    "TrainConfig": "rl_training.runtime.config",
    "TransitionDataset": "rl_training.data.offline_dataset",
    "Callback": "rl_training.runtime.callbacks",
    "Tracker": "rl_training.runtime.tracking",
    "RLTrainingError": "rl_training.errors",
    "load_policy": "rl_training.experiment.manager",
}


def __getattr__(name: str) -> Any:
    # Submodules are found by the import system, not here.
    if name not in _HOMES and (not name[:1].isupper() or name not in _public_names()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "rl_training.api")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})


def _public_names() -> set[str]:
    from rl_training.experiment.registry import class_names

    return {*_HOMES, *class_names()}
