"""Offline reinforcement learning for continuous control: load logged transitions, train a policy, know how good it
is, ship it.

    from rl_training import CQL
    model = CQL(env_id="Pendulum-v1", dataset="log.npz", total_timesteps=20_000).learn()
    action, _ = model.predict(obs)

Names are imported on first use, so `import rl_training` is instant.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
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
        missing = f"module {__name__!r} has no attribute {name!r}"
        if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
            raise AttributeError(missing)
        # `from rl_training import …` would put words of its own in place of those of an AttributeError.
        is_import = sys._getframe(1).f_code.co_name == "_handle_fromlist"
        raise (ImportError if is_import else AttributeError)(f"{missing}{_perhaps(name)}")
    return getattr(import_module(_HOMES.get(name, "rl_training.api")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})


def _perhaps(name: str) -> str:
    """What may be meant by a name that is not here."""
    from rl_training.algorithms import other_family
    from rl_training.errors import closest
    from rl_training.experiment.registry import class_names

    classes = {algo: label for label, algo in class_names().items()}
    if (family := other_family(name, classes)) is not None:
        return family
    like = classes.get(name.lower()) or closest(name, _public_names())
    meant = f"; did you mean {like!r}?" if like else ""
    return f"{meant or ';'} the algorithms are {', '.join(sorted(class_names()))}"


def _public_names() -> set[str]:
    from rl_training.experiment.registry import class_names

    return {*_HOMES, *class_names()}
