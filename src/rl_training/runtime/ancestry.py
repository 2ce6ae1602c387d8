"""The run or checkpoint that another one starts from (`init_from`)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from rl_training.algorithms.base import Learner
from rl_training.data.column_names import require_order
from rl_training.data.dataset_loaders import check_spaces
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.space_bounds import require_trained_bounds
from rl_training.data.transforms import TransformConfig
from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import RunDirectory, load_any
from rl_training.runtime.stored_tensors import restore
from rl_training.wording import amount
from rl_training.yaml_dialect import inline

_SHOWN = 3  # parameters that differ


def find_ancestor(config: TrainConfig, run: RunDirectory | None, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """What a new run starts from; nothing where one goes on from a checkpoint of its own, of which its start is one."""
    if config.init_from is None or checkpoint is not None:
        return None
    if run is not None:  # its ancestor may be another by now
        raise CheckpointError(f"{run.path}: it has no checkpoint, not even of where it began; start another run")
    return load_any(Path(config.init_from))


def begin_with(ancestor: Checkpoint, learner: Learner, config: TrainConfig) -> None:
    """Give an untrained learner its networks; refused, with the reason, where it has no place for them."""
    try:
        restore(learner.state(), {**ancestor.tensors, "active": learner.active})  # its networks are sound
    except CheckpointError as error:
        why = _difference(ancestor, learner, config) or error
        raise ConfigError(f"init_from: the networks of {config.init_from} do not fit this run: {why}") from error
    learner.clock.zero_()  # schedules and streams belong to the new run


def _difference(ancestor: Checkpoint, learner: Learner, config: TrainConfig) -> str | None:
    """What it has otherwise than a run that was to start from it, and what to do; none where nothing tells."""
    then, spaces = ancestor.config, ancestor.spaces
    if then.algo != config.algo:
        return f"they are of {then.algo}, and it trains {config.algo}; choose algo: {then.algo}, or train anew"
    if len(then.seeds) != len(config.seeds):
        number = amount(len(then.seeds), "seed")
        return (
            f"they are of {number}, and it has {len(config.seeds)}; give as many, as seed: {inline(list(then.seeds))}"
        )
    if (spaces.obs_dim, spaces.act_dim) != (learner.obs_dim, learner.act_dim):
        return (
            f"they see {spaces.obs_dim} values and choose {spaces.act_dim}, and here there are {learner.obs_dim} and"
            f" {learner.act_dim}; choose the data and the environment that it was trained on"
        )
    odd = [name for name, value in config.algo_kwargs.items() if value != then.algo_kwargs.get(name)]
    odd.sort(key=lambda name: not name.endswith("_hidden"))  # widths tell most
    theirs = ", ".join(f"algo_kwargs.{name}={inline(then.algo_kwargs.get(name))}" for name in odd[:_SHOWN])
    return f"they were trained with {theirs}; give the same" if odd else None


def require_its_transforms(config: TrainConfig, ancestor: Checkpoint, dataset: TransitionDataset | None) -> list[str]:
    """Refuse transforms and bounds that are asked for and not those its networks were trained with, which go on, and
    data that leave these bounds or whose columns are its own in another order; what they call otherwise is told."""
    asked, known = (one.transforms.model_dump() for one in (config, ancestor.config))
    known["normalise_observations"] = ancestor.transforms.obs_mean is not None  # it may have them of another itself
    known["snap_actions"] |= bool(ancestor.transforms.action_gaps)
    plain = TransformConfig().model_dump()
    for name, value in asked.items():
        if value not in (plain[name], known[name]):
            raise ConfigError(
                f"transforms.{name}: is {inline(value)}, and the networks of {config.init_from} were trained with"
                f" {inline(known[name])}, which goes on; leave it out, or train anew"
            )
    if dataset is None:
        return []
    require_trained_bounds(dataset.bounds, ancestor.spaces)
    check_spaces(dataset, ancestor.spaces, "dataset", None, "the run that it starts from")
    return require_order(dataset, ancestor.spaces, "dataset")


def told_of(ancestor: Checkpoint | None) -> dict[str, Any]:
    """An entry for run.json: which one it was."""
    if ancestor is None:
        return {}
    return {"ancestor": {"step": int(ancestor.progress["steps"]), "sha256": _digest(ancestor)}}


def _digest(checkpoint: Checkpoint) -> str:
    sums = hashlib.sha256()
    for name, tensor in sorted(checkpoint.tensors.items()):
        sums.update(name.encode())
        sums.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sums.hexdigest()
