"""The workflows around a run: start it, resume it, go on online, evaluate it, ask it for actions."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from rl_training import algorithms, streams
from rl_training.algorithms.base import PriorDataParams
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import read_spaces
from rl_training.errors import (
    CheckpointError,
    ConfigError,
    EnvironmentFailedError,
    EnvironmentUnsupportedError,
)
from rl_training.experiment.continuing import (
    FinishedError,
    branch,
    newest_run,
    resume,
    start,
    start_or_resume,
)
from rl_training.experiment.given_observations import Observed, observations
from rl_training.models import DeterministicPolicy
from rl_training.paths import resolved
from rl_training.run_places import find_run
from rl_training.runtime.acting import Actor, FloatArray
from rl_training.runtime.behaviour import TrainedBehaviour
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint, is_checkpoint, load_checkpoint
from rl_training.runtime.config import EvaluationConfig, TrackerConfig, TrainConfig
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import EnvironmentEvaluator, Evaluation
from rl_training.runtime.parts import TrainResult
from rl_training.runtime.presets import merge, with_preset
from rl_training.runtime.run_directory import RunDirectory, load_any, run_of
from rl_training.runtime.standing import LAST
from rl_training.runtime.trackers import with_trackers
from rl_training.runtime.trainer import train
from rl_training.validation import explain, require_flag, shown

if TYPE_CHECKING:
    from rl_training.experiment.offline_evaluation import OfflineEvaluation, OfflineOptions
    from rl_training.experiment.seed_choice import SeedChoice


def finetune(
    path: str | Path,
    steps: int,
    *,
    env_id: str | None = None,
    online: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    dataset: TransitionDataset | None = None,
    callbacks: Sequence[Callback] = (),
    tracking: Sequence[TrackerConfig] = (),
) -> TrainResult:
    """Go on online from a trained run: a new run that starts from its networks, transforms and data.

    online: the `online:` section (how experience is collected and mixed with the data); changes: any other values.
    Learning rates stay where they are: schedules belong to the offline run. An algorithm may have parameters of its own
    for this (`Learner.finetuning`); `changes` come before them. A preset among `changes` replaces values of the run,
    none of these. tracking: told besides the trackers of the run.
    """
    place = find_run(path)
    old = load_any(place).config
    if old.dataset is None and dataset is None:
        if (place / "run.json").is_file() and RunDirectory.open(place).describe()["dataset"] is None:
            raise ConfigError(f"{path}: has learned online already; continue it with `rl-training resume`")
        raise ConfigError(f"{path}: was trained from arrays in memory; give the same arrays again as `dataset`")
    plain = with_preset(old.to_plain(), old.algo, (changes or {}).get("preset"))
    constant = {network: {"kind": "constant"} for network in plain["algo_kwargs"]["lr_schedule"]}
    learner = algorithms.load(old.algo)
    knobs = {**plain["algo_kwargs"], "lr_schedule": constant, **learner.finetuning}
    mixes_itself = issubclass(learner.Params, PriorDataParams)
    if mixes_itself:
        knobs.update(online or {})
    values = {
        **plain,
        "env_id": env_id or old.env_id,
        "total_timesteps": steps,
        "n_epochs": None,
        "name": None,
        "early_stopping": None,
        "init_from": str(resolved(place)),
        "online": None if mixes_itself else dict(online or {}),
        "algo_kwargs": knobs,
    }
    config = with_trackers(TrainConfig.parse(merge(values, changes or {})), tracking)
    return train(config, dataset=dataset, callbacks=callbacks)


@dataclass(frozen=True)
class LoadedPolicy:
    """A checkpoint brought back to life. place: the run or checkpoint directory it lies in."""

    checkpoint: Checkpoint
    actor: Actor
    place: Path | None = None

    @cached_property
    def stopped_seeds(self) -> dict[int, Divergence]:
        """Seeds that diverged during training and were set back and stopped, and what happened to them."""
        return self.checkpoint.stopped_seeds

    @cached_property
    def seed_choice(self) -> SeedChoice:
        """Whose policy it is where no seed is named: the one that stored evaluations of these weights speak for, of
        those that have not diverged."""
        from rl_training.experiment.seed_choice import choose_seed

        sound = self.checkpoint.sound_seeds
        if not sound:
            raise CheckpointError("seed: every one of this run diverged; name one to have its policy all the same")
        step = int(self.checkpoint.progress["steps"])
        return choose_seed(run_of(self.place), step, self.checkpoint.config.seeds, sound)

    def choose_seed_anew(self) -> None:
        """More is stored of these weights by now: another seed may be the one to take."""
        self.__dict__.pop("seed_choice", None)

    def evaluate(
        self,
        episodes: int | None = None,
        *,
        env_id: str | None = None,
        seed: int | None = None,
        deterministic: bool | None = None,
        members: Sequence[int] | None = None,
    ) -> Evaluation:
        """Score every member that has not diverged; what is not given is as in the run's own evaluations.

        seed: of the first episode. members: the seeds whose policies to score, where not all.
        """
        config = self.checkpoint.config
        env_id = config.env_id if env_id is None else env_id
        if env_id is None:
            raise ConfigError(
                "env_id: this policy was trained without an environment; name one to evaluate in, or call"
                " evaluate_offline()"
            )
        changes = {"episodes": episodes, "seed": seed, "deterministic": deterministic}
        given = {name: value for name, value in changes.items() if value is not None}
        try:
            settings = EvaluationConfig(**{**config.evaluation.model_dump(), **given})
        except ValidationError as error:
            raise ConfigError(explain(error, EvaluationConfig)) from None
        self._require_spaces(env_id)
        learner = copy(self.actor.learner)  # of the same networks: other threads may use them meanwhile
        learner.active = self.actor.learner.active & self.chosen(members)  # what is not active is not stepped
        with closing(EnvironmentEvaluator(env_id, settings)) as evaluator:
            actor = Actor(learner, self.actor.transforms)
            evaluation = evaluator.evaluate(actor, int(self.checkpoint.progress["steps"]))
        for fault in evaluation.faults:
            kind = CheckpointError if fault.by_policy else EnvironmentFailedError
            raise kind(f"seed {fault.seed} cannot be scored: {fault.what}")
        return evaluation

    def evaluate_offline(
        self,
        dataset: TransitionDataset | str | Path | None = None,
        *,
        store: bool = True,
        **options: Unpack[OfflineOptions],
    ) -> OfflineEvaluation:
        """Estimate what every member's policy is worth from logged episodes alone: fitted Q evaluation.

        dataset: whole episodes, as arrays, a path or minari:ID (read as the run reads its own); the run's own, if none
        is given. updates, repeats: how long each fit is, and how many resamples of the episodes are fitted. gamma: the
        discount, if not the run's. seed, device: of the fits. deterministic, members: as in `evaluate`. store: add
        the result to the run's directory, where there is one.
        """
        from rl_training.experiment.offline_evaluation import evaluate_offline

        found = evaluate_offline(self, str(dataset) if isinstance(dataset, Path) else dataset, **options)
        if store:
            try:
                found.store(self)
            except CheckpointError as error:  # a run that may only be read has been evaluated all the same
                warnings.warn(f"the estimate was not stored: {error}", stacklevel=2)
        return found

    def chosen(self, members: Sequence[int] | None) -> Tensor:
        """Which members to score, `[M]`; those that diverged are never among them."""
        learner = self.actor.learner
        places = [self.member(seed) for seed in members or learner.seeds]
        chosen = torch.zeros_like(learner.active)
        chosen[places] = True
        if not (chosen & learner.active).any():
            raise ConfigError(f"seeds: {', '.join(map(str, members or learner.seeds))} diverged; there is no policy")
        return chosen

    def _require_spaces(self, env_id: str) -> None:
        own, other = self.checkpoint.spaces, read_spaces(env_id)
        if (own.obs_dim, own.act_dim) != (other.obs_dim, other.act_dim):
            raise EnvironmentUnsupportedError(
                f"environment {env_id!r}: has observations of {other.obs_dim} and actions of {other.act_dim} values;"
                f" this policy was trained with {own.obs_dim} and {own.act_dim}"
            )

    def behaviour(self, env_id: str, *, seed: int | None = None, sampling_seed: int | None = None) -> TrainedBehaviour:
        """One member's policy, to collect data with in an environment of its widths.

        seed: which member (that of `seed_choice`, if none is named). sampling_seed: draw actions instead of taking the
        mode.
        """
        member = self.member(seed)
        self._require_spaces(env_id)
        return TrainedBehaviour(self.actor, member, sampling_seed)

    def describe(self, seed: int | None = None) -> str:
        """Which policy this is, in words that no other shares: the weights are in it as a sum."""
        member = self.member(seed)
        learner = self.actor.learner
        sums = hashlib.sha256(
            json.dumps([self.checkpoint.config.algo_kwargs, self.actor.transforms.to_json()], default=str).encode()
        )
        for name, tensor in sorted(learner.state().items()):
            if name.startswith("model."):
                sums.update(name.encode() + tensor.detach().cpu().numpy().tobytes())
        step = int(self.checkpoint.progress["steps"])
        return f"{self.checkpoint.config.algo} seed {learner.seeds[member]} step {step} ({sums.hexdigest()[:16]})"

    @property
    def draws(self) -> bool:
        """Whether its actions can be drawn, and are not the mode anyway."""
        return not isinstance(self.actor.learner.policy, DeterministicPolicy)

    def predict(
        self, obs: Observed, *, deterministic: bool = True, seed: int | None = None, draw: int = 0
    ) -> FloatArray:
        """The action for one observation `[obs]`, or actions for several `[B, obs]`, of one member's policy. A
        DataFrame, or a dict of columns, is taken by the policy's names.

        seed: which member (that of `seed_choice`, if none is named). draw: numbers repeated samples of a stochastic
        policy.
        """
        deterministic = require_flag("deterministic", deterministic)
        member = self.member(seed)
        rows = observations(obs, self.actor.learner.obs_dim, self.checkpoint.spaces.obs_columns)
        actions = self.actor.mode(rows, member) if deterministic else self._sampled(rows, member, draw)
        if not np.isfinite(actions).all():
            broken = "its weights are not finite" if not self._is_sound(member) else "the observations are too large"
            raise CheckpointError(f"the policy answers with what is no number: {broken}")
        return actions

    def _is_sound(self, member: int) -> bool:
        return all(bool(row[member].isfinite().all()) for row in self.actor.learner.rows().values())

    def _sampled(self, obs: FloatArray, member: int, draw: int) -> FloatArray:
        """Actions drawn for `[obs]` or `[B, obs]`, the same ones for the same `draw`."""
        if not _is_whole(draw) or not 0 <= draw < 2**63:
            raise ConfigError(f"draw: must be a whole number from 0 to 2^63 - 1, got {shown(draw)}")
        learner, rows = self.actor.learner, np.atleast_2d(obs)
        noise = streams.NoiseStreams(learner.acting_noise(len(rows)), "prediction/").draw(learner.keys, draw)
        actions: FloatArray = self.actor(np.broadcast_to(rows, (learner.members, *rows.shape)), noise)[member]
        return actions[0] if obs.ndim == 1 else actions

    def member(self, seed: int | None) -> int:
        """Which member a seed is; that of `seed_choice`, if none is named."""
        seeds = self.actor.learner.seeds
        if seed is not None and not (_is_whole(seed) and seed in seeds):
            raise ConfigError(f"seed: {shown(seed)} is not in this run; it has {', '.join(map(str, seeds))}")
        stopped = self.stopped_seeds
        if seed in stopped:
            warnings.warn(str(stopped[seed]), stacklevel=3)
        return seeds.index(self.seed_choice.seed if seed is None else seed)


def load_policy(path: str | Path, which: str | int = "last") -> LoadedPolicy:
    """The policy of a run directory (its last, best or a given checkpoint) or of a checkpoint directory."""
    place = find_run(path)
    if not is_checkpoint(place):
        checkpoint = RunDirectory.open(place).load(_number_or_word(which))
    elif which in LAST:
        checkpoint = load_checkpoint(place)
    else:
        raise ConfigError(f"{path}: is one checkpoint; {shown(which)} can be asked of a run only")
    return LoadedPolicy(checkpoint, Actor(checkpoint.build_learner(), checkpoint.transforms), place)


def evaluate(path: str | Path, episodes: int | None = None, which: str | int = "last", **options: Any) -> Evaluation:
    """Score the policies of a run or checkpoint; options as for `LoadedPolicy.evaluate`."""
    return load_policy(path, which).evaluate(episodes, **options)


def predict(path: str | Path, obs: Observed, which: str | int = "last", **options: Any) -> FloatArray:
    """The actions of a run's or checkpoint's policy; options as for `LoadedPolicy.predict`. Asked more than once,
    `load_policy` reads it once."""
    return load_policy(path, which).predict(obs, **options)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number_or_word(which: str | int) -> str | int:
    """`"20"` is the checkpoint of update 20, as 20 is."""
    try:
        return int(which) if isinstance(which, str) and which.isdecimal() else which
    except ValueError:  # more digits than Python converts
        return which


def describe(path: str | Path) -> dict[str, Any]:
    """`run.json` of a run, for display."""
    return RunDirectory.open(find_run(path)).describe()


__all__ = [
    "FinishedError",
    "LoadedPolicy",
    "branch",
    "describe",
    "find_run",
    "finetune",
    "load_policy",
    "newest_run",
    "resume",
    "start",
    "start_or_resume",
]
