"""What tells a run from others, and whether a checkpoint in its folder is its own.

A folder may be renamed, moved and copied, and config.yaml edited: what counts is in run.json, from the start (budget
and place of the data, from when they were changed). Where an earlier version did not write it, it is not compared.
"""

from __future__ import annotations

import hashlib
import json
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


CONFIG_KEYS = ("config", "config_sha256")  # of run.json


def told_config(config: TrainConfig) -> dict[str, Any]:
    """Entries of run.json: the configuration in force, and the sum by which a change of it is noticed."""
    plain = config.to_plain()
    return dict(zip(CONFIG_KEYS, (plain, _sum(plain)), strict=True))


def _sum(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def circumstances(config: TrainConfig) -> dict[str, Any]:
    """Entries of run.json that stay what they are: which run it is, when and where it was started."""
    return {
        "algo": config.algo,
        "seeds": list(config.seeds),
        **told_config(config),
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
        config = TrainConfig.parse(dict(told))
        if facts.get("config_sha256", _sum(told)) != _sum(told):
            raise ConfigError("was changed since it was written (SHA-256 differs); put it back as it was")
        return config
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
        _require_own_budget(int(checkpoint.progress["total_steps"]), config, facts)


def _require_own_budget(total: int, config: TrainConfig, facts: Mapping[str, Any]) -> None:
    """Refuse a budget that the run never had; epochs are counted in steps by the data, which run.json does not tell."""
    if config.total_timesteps is None or config.n_epochs is not None:
        return
    told = facts.get("budgets")
    changes = [change for change in told if isinstance(change, Mapping)] if isinstance(told, list) else []
    known = {config.total_timesteps, *(change.get(when) for change in changes for when in ("before", "after"))}
    if total not in known:
        raise CheckpointError(f"is of another run (total_timesteps: {total}, not {config.total_timesteps})")


def _require_alike(found: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    for name in {**own, **found}:
        if found.get(name) != own.get(name):
            raise CheckpointError(f"is of another run ({name}: {shown(found.get(name))}, not {shown(own.get(name))})")


def _settings(config: TrainConfig) -> dict[str, Any]:
    """What a run keeps from its start to its end."""
    return flat({name: value for name, value in config.to_plain().items() if name not in _MAY_CHANGE})
