"""What tells a run from others, and whether a checkpoint in its folder is its own.

A folder may be renamed, moved and copied, and config.yaml edited: what counts is in run.json, from the start (budget
and place of the data, from when they were changed). Where an earlier version did not write it, it is not compared.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from rl_training import __version__
from rl_training.errors import CheckpointError, ConfigError
from rl_training.run_places import DESCRIPTION
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_description import flat
from rl_training.validation import shown

# Of a configuration: where the run and its data lie (these are known by their bytes), who watches, and the budget.
_MAY_CHANGE = ("name", "runs_dir", "dataset", "tracking", "total_timesteps", "n_epochs")


def circumstances(config: TrainConfig) -> dict[str, Any]:
    """Entries of run.json that stay what they are: which run it is, when and where it was started."""
    return {
        "algo": config.algo,
        "seeds": list(config.seeds),
        "config": config.to_plain(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {
            "rl_training": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "machine": {"system": platform.platform(), "cpu_count": os.cpu_count(), "threads": torch.get_num_threads()},
    }


def own_config(facts: Mapping[str, Any], run: Path | None = None) -> TrainConfig | None:
    """The configuration that a run goes on with; none where an earlier version did not keep it in run.json. run: for
    what is wrong with it."""
    told = facts.get("config")
    if told is None:
        return None
    try:
        if not isinstance(told, Mapping):
            raise ConfigError(f"must be the values of a configuration, got {shown(told)}")
        return TrainConfig.parse(dict(told))
    except ConfigError as error:
        place = DESCRIPTION if run is None else run / DESCRIPTION
        raise CheckpointError(f"{place}: config: {error}") from None


def data_of(facts: Mapping[str, Any]) -> str | None:
    """The fingerprint of the data that a run was started with."""
    return (facts.get("dataset") or {}).get("fingerprint")


def differing(one: TrainConfig | Mapping[str, Any], other: TrainConfig) -> list[str]:
    """The keys in which two configurations differ; who watches a run is no part of it."""
    first, second = (
        flat({**(values if isinstance(values, Mapping) else values.to_plain()), "tracking": None})
        for values in (one, other)
    )
    return [key for key in {**second, **first} if key not in first or key not in second or first[key] != second[key]]


def require_own(checkpoint: Checkpoint, step: int, facts: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that is not the one of this step, or is another run's. facts: of run.json."""
    if checkpoint.progress["steps"] != step:
        raise CheckpointError(f"damaged (it was saved at step {checkpoint.progress['steps']})")
    own = {"algo": facts.get("algo"), "seeds": facts.get("seeds"), "data": data_of(facts)}
    found = {"algo": checkpoint.config.algo, "seeds": list(checkpoint.config.seeds), "data": checkpoint.data}
    for name, value in found.items():
        if value is not None and own[name] is not None and value != own[name]:
            raise CheckpointError(f"is of another run ({name}: {shown(value)}, not {shown(own[name])})")
    if (config := own_config(facts)) is not None:
        _require_alike(_settings(checkpoint.config), _settings(config))


def _require_alike(found: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    for name in {**own, **found}:
        if found.get(name) != own.get(name):
            raise CheckpointError(f"is of another run ({name}: {shown(found.get(name))}, not {shown(own.get(name))})")


def _settings(config: TrainConfig) -> dict[str, Any]:
    """What a run keeps from its start to its end."""
    return flat({name: value for name, value in config.to_plain().items() if name not in _MAY_CHANGE})
