"""From a configuration to a trained policy: builds every part of a run and hands them to the one loop.

An algorithm whose training needs something of its own (prior data, returns, an environment) has a subclass in
`<algo>_trainer.py`; the others are trained as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rl_training import algorithms
from rl_training.algorithms.base import Learner
from rl_training.data.batch import PackedTransitions
from rl_training.data.dataset_loaders import FileDatasetConfig, check_spaces, infer_spaces, load_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms, fit_transforms
from rl_training.environments import Spaces, read_spaces
from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.acting import Actor
from rl_training.runtime.callbacks import Callback, EarlyStopping
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.engine import Engine, EngineMode, choose_mode
from rl_training.runtime.evaluation import EnvironmentEvaluator, Evaluator
from rl_training.runtime.loop import Loop, Progress
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.sources import OfflineSource, Source


@dataclass(frozen=True)
class TrainResult:
    """A run that has come to its end: the policy in memory and the directory that holds everything else."""

    run: RunDirectory
    actor: Actor
    checkpoint: Checkpoint
    status: str
    reason: str | None

    @property
    def progress(self) -> Progress:
        return Progress(**self.checkpoint.progress)


@dataclass(frozen=True)
class Parts:
    """What a run is made of, before it starts."""

    dataset: TransitionDataset
    spaces: Spaces
    progress: Progress
    learner: Learner
    transforms: Transforms
    mode: EngineMode


class Trainer:
    """One run. Everything that can be wrong is found out before the run directory is made."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        dataset: TransitionDataset | None = None,
        callbacks: Sequence[Callback] = (),
        run: RunDirectory | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """`dataset` overrides the configured one; `run` and `checkpoint` continue an existing run."""
        self.config = _with_absolute_paths(config)
        self.given_dataset = dataset
        self.run_directory = run
        self.checkpoint = checkpoint
        stopping = config.early_stopping
        self.callbacks = [*([EarlyStopping(stopping)] if stopping else []), *callbacks]

    def train(self) -> TrainResult:
        """Prepare, run the loop, report."""
        loop = self.prepare()
        with _graceful_signals(loop):
            try:
                loop.run()
            except BaseException as error:
                loop.run_directory.note(status="failed", reason=f"{type(error).__name__}: {error}")
                raise
            finally:
                if loop.evaluator is not None:
                    loop.evaluator.close()
        return TrainResult(loop.run_directory, loop.actor, loop.snapshot(), loop.stop_status, loop.stop_reason)

    def assemble(self) -> Parts:
        """Data, spaces, budget, learner and transforms: everything that can be wrong, nothing that is written."""
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        device = choose_device(self.config.device)
        spaces = read_spaces(self.config.env_id) if self.config.env_id else None
        dataset = self.load_data(spaces)
        spaces = spaces or infer_spaces(dataset)
        progress = self.progress(len(dataset))
        learner = self.build_learner(spaces, progress.total_updates, device)
        mode = choose_mode(self.config.engine, progress.total_updates)
        return Parts(dataset, spaces, progress, learner, self.fit(dataset, spaces), mode)

    def prepare(self) -> Loop:
        """Every part of the run, ready to start, and its directory."""
        parts = self.assemble()
        engine = Engine(parts.learner, self.source(parts), parts.mode)
        run = self.run_directory or RunDirectory.create(self.config, parts.dataset.summary())
        if self.checkpoint is not None:
            device = parts.learner.device
            engine.sums = {name: value.to(device) for name, value in self.checkpoint.metric_sums.items()}
            engine.counts = dict(parts.progress.metric_counts)
            run.rewind(parts.progress.steps)
            run.note(status="running", reason=None)
        return Loop(
            self.config,
            engine,
            Actor(parts.learner, parts.transforms),
            run,
            parts.progress,
            parts.spaces,
            evaluator=self.evaluator(),
            callbacks=self.callbacks,
        )

    def plan(self) -> list[str]:
        """What `train` would do, in words, after the same checks. Writes nothing."""
        config, parts = self.config, self.assemble()
        facts, progress = parts.dataset.summary(), parts.progress
        epochs = progress.total_updates / progress.updates_per_epoch
        parameters = sum(p.numel() for p in parts.learner.model.parameters() if p.requires_grad)
        every = f"every {config.eval_interval:,} updates and " if config.eval_interval else ""
        scored = f"{config.evaluation.episodes} episodes per seed in {config.env_id}, {every}at the end"
        return [
            f"data: {facts['transitions']:,} transitions in {facts['episodes']:,} episodes, mean return "
            f"{facts['return_mean']:.1f}; observations {parts.spaces.obs_dim}, actions {parts.spaces.act_dim}",
            f"train: {config.algo}, {progress.total_updates:,} updates ({epochs:.1f} epochs), seeds "
            f"{', '.join(map(str, config.seeds))}, {parameters:,} parameters, engine {parts.mode} "
            f"on {parts.learner.device}",
            f"evaluate: {scored if config.env_id else 'no environment, none'}",
            f"write: {config.runs_dir}/{config.name or '<algo>-<env>-<time>'}",
        ]

    # Parts a special trainer may replace ------------------------------------------------------------------------

    def load_data(self, spaces: Spaces | None) -> TransitionDataset:
        """The dataset, checked against the environment's spaces and, on resuming, against the original's hash."""
        if self.given_dataset is not None:
            dataset = self.given_dataset
            if spaces is not None:
                check_spaces(dataset, spaces, "dataset", self.config.env_id)
        elif self.config.dataset is None:
            raise ConfigError("dataset: is required; a path to an .npz file, `source: scripted` or `source: random`")
        else:
            dataset = load_dataset(self.config.dataset, self.config.env_id, spaces)
        if self.run_directory is not None:
            original = self.run_directory.describe()["dataset"]["fingerprint"]
            if dataset.fingerprint() != original:
                raise CheckpointError(
                    f"dataset: not the one {self.run_directory.path} was started with (SHA-256 differs)"
                )
        return dataset

    def progress(self, transitions: int) -> Progress:
        """The budget in updates, and how much of it is spent."""
        per_epoch = math.ceil(transitions / int(self.config.algo_kwargs["batch_size"]))
        budgets = (self.config.total_timesteps, self.config.n_epochs and self.config.n_epochs * per_epoch)
        total = min(budget for budget in budgets if budget is not None)
        if self.checkpoint is None:
            return Progress(total, total, per_epoch)
        return Progress(**{**self.checkpoint.progress, "total_steps": total, "total_updates": total})

    def build_learner(self, spaces: Spaces, total_updates: int, device: str) -> Learner:
        if self.checkpoint is not None:
            return self.checkpoint.build_learner(device, total_updates)
        learner_type = algorithms.load(self.config.algo)
        return learner_type(
            spaces.obs_dim,
            spaces.act_dim,
            learner_type.parse(self.config.algo_kwargs),
            seeds=self.config.seeds,
            total_updates=total_updates,
            device=device,
        )

    def fit(self, dataset: TransitionDataset, spaces: Spaces) -> Transforms:
        if self.checkpoint is not None:
            return self.checkpoint.transforms
        return fit_transforms(dataset, spaces, self.config.transforms)

    def source(self, parts: Parts) -> Source:
        return OfflineSource(PackedTransitions.from_dataset(parts.dataset, parts.transforms, parts.learner.device))

    def evaluator(self) -> Evaluator | None:
        return EnvironmentEvaluator(self.config.env_id, self.config.evaluation) if self.config.env_id else None


def choose_device(name: str) -> str:
    """`auto` is CUDA where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device: {name!r} asked for, but torch sees no CUDA device; use 'cpu' or 'auto'")
    return name


def trainer_for(algo: str) -> type[Trainer]:
    """The algorithm's own trainer where it has one."""
    name = f"rl_training.runtime.{algo}_trainer"
    if algo in algorithms.find() and importlib.util.find_spec(name) is not None:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and issubclass(value, Trainer) and value.__module__ == name:
                return value
    return Trainer


def train(config: TrainConfig, **options: Any) -> TrainResult:
    """Train what `config` says; options as for `Trainer`."""
    return trainer_for(config.algo)(config, **options).train()


def trainer_function(algo: str) -> Callable[..., TrainResult]:
    """The public `train_<algo>(config, …)`."""

    def train_algorithm(config: TrainConfig | Mapping[str, Any], **options: Any) -> TrainResult:
        complete = config if isinstance(config, TrainConfig) else TrainConfig.parse({"algo": algo, **config})
        if complete.algo != algo:
            raise ConfigError(f"algo: train_{algo} got a configuration for {complete.algo!r}")
        return train(complete, **options)

    train_algorithm.__name__ = train_algorithm.__qualname__ = f"train_{algo}"
    train_algorithm.__doc__ = f"Train {algo} as configured; keywords as for `Trainer` (dataset, callbacks, …)."
    return train_algorithm


def _with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """A run can be resumed from another folder, so its data file is remembered by its full path."""
    if not isinstance(config.dataset, FileDatasetConfig):
        return config
    full = Path(config.dataset.path).expanduser().resolve()
    return config.model_copy(update={"dataset": config.dataset.model_copy(update={"path": full})})


@contextmanager
def _graceful_signals(loop: Loop) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after the present update, with a checkpoint; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request_stop(number: int, frame: Any) -> None:
        if loop.stop_reason is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        loop.stop(f"{signal.Signals(number).name} received", status="interrupted")

    previous = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
