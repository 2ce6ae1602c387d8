"""The workflows around a run: start it, resume it, evaluate it, ask it for actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training import streams
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.runtime.acting import Actor, FloatArray
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import MANIFEST, Checkpoint, load_checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.evaluation import EnvironmentEvaluator, Evaluation
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import TrainResult, train, trainer_for

_PREDICTION_STREAM = streams.stream_id("prediction")


def start(
    config: TrainConfig, *, dataset: TransitionDataset | None = None, callbacks: Sequence[Callback] = ()
) -> TrainResult:
    """A new run."""
    return train(config, dataset=dataset, callbacks=callbacks)


def resume(
    path: str | Path,
    *,
    total_timesteps: int | None = None,
    dataset: TransitionDataset | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """Continue a run from its last checkpoint, to the end of its budget or of a larger one."""
    run = RunDirectory.open(Path(path))
    checkpoint = run.load("last")
    config = checkpoint.config
    if total_timesteps is not None:
        config = TrainConfig.parse({**config.to_plain(), "total_timesteps": total_timesteps, "n_epochs": None})
    if config.dataset is None and dataset is None:
        raise ConfigError(f"{path}: was trained from arrays in memory; give the same arrays again as `dataset`")
    done = int(checkpoint.progress["steps"])
    total = total_timesteps or int(checkpoint.progress["total_steps"])
    if done >= total or (run.describe()["status"] == "finished" and total_timesteps is None):
        raise ConfigError(f"{path}: is finished at step {done}; to go on, give a larger total_timesteps than that")
    trainer = trainer_for(config.algo)(config, dataset=dataset, callbacks=callbacks, run=run, checkpoint=checkpoint)
    run.extend(config)
    return trainer.train()


@dataclass(frozen=True)
class LoadedPolicy:
    """A checkpoint brought back to life."""

    checkpoint: Checkpoint
    actor: Actor

    def evaluate(
        self,
        episodes: int | None = None,
        *,
        env_id: str | None = None,
        seed: int | None = None,
        deterministic: bool | None = None,
    ) -> Evaluation:
        """Score every member; what is not given is as in the run's own evaluations."""
        config = self.checkpoint.config
        env_id = env_id or config.env_id
        if env_id is None:
            raise ConfigError("env_id: this policy was trained without an environment; name one to evaluate in")
        changes = {"episodes": episodes, "seed": seed, "deterministic": deterministic}
        given = {name: value for name, value in changes.items() if value is not None}
        settings = type(config.evaluation)(**{**config.evaluation.model_dump(), **given})
        evaluator = EnvironmentEvaluator(env_id, settings)
        try:
            return evaluator.evaluate(self.actor, int(self.checkpoint.progress["steps"]))
        finally:
            evaluator.close()

    def predict(
        self, obs: npt.ArrayLike, *, deterministic: bool = True, seed: int | None = None, draw: int = 0
    ) -> FloatArray:
        """The action for one observation `[obs]`, or actions for several `[B, obs]`, of one member's policy.

        seed: which member (the first, if none is named). draw: numbers repeated samples of a stochastic policy.
        """
        learner = self.actor.learner
        member = self._member(seed)
        rows = _observations(obs, learner.obs_dim)
        batch = np.broadcast_to(np.atleast_2d(rows), (learner.members, *np.atleast_2d(rows).shape))
        noise = None
        if not deterministic:
            noise = streams.normal(learner.keys, _PREDICTION_STREAM, draw, (batch.shape[1], learner.act_dim))
        actions: FloatArray = self.actor(batch, noise)[member]
        return actions[0] if rows.ndim == 1 else actions

    def _member(self, seed: int | None) -> int:
        seeds = self.actor.learner.seeds
        if seed is not None and seed not in seeds:
            raise ConfigError(f"seed: {seed} is not in this run; it has {', '.join(map(str, seeds))}")
        return 0 if seed is None else seeds.index(seed)


def load_policy(path: str | Path, which: str | int = "last") -> LoadedPolicy:
    """The policy of a run directory (its last, best or a given checkpoint) or of a checkpoint directory."""
    path = Path(path)
    if (path / MANIFEST).is_file():
        checkpoint = load_checkpoint(path)
    else:
        checkpoint = RunDirectory.open(path).load(which)
    return LoadedPolicy(checkpoint, Actor(checkpoint.build_learner(), checkpoint.transforms))


def _observations(obs: npt.ArrayLike, width: int) -> npt.NDArray[np.float32]:
    """One or several observations as float32, or one line saying what is wrong with them."""
    try:
        rows = np.asarray(obs, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError("obs: must be numbers, one row per observation") from None
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        raise DataError(f"obs: has shape {rows.shape}; expected ({width},) or (batch, {width})")
    if not np.isfinite(rows).all():
        bad = np.argwhere(~np.isfinite(np.atleast_2d(rows)))[0]
        raise DataError(f"obs: value {bad[1]} of row {bad[0]} is not finite")
    return rows


def describe(path: str | Path) -> dict[str, Any]:
    """`run.json` of a run, for display."""
    return RunDirectory.open(Path(path)).describe()


__all__ = ["CheckpointError", "LoadedPolicy", "describe", "load_policy", "resume", "start"]
