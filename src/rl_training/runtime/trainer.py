"""From a configuration to a trained policy: builds every part of a run and hands them to the one loop.

An algorithm whose training needs something of its own (returns, next actions, phases) has a subclass in
`<algo>_trainer.py`; the others are trained as they are: on a fixed dataset, in an environment, or on both.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, TypeVar

import torch

from rl_training import algorithms
from rl_training.algorithms.base import Learner, OnlineParams, PriorDataParams
from rl_training.data.batch import PackedTransitions
from rl_training.data.column_names import named_spaces
from rl_training.data.dataset_loaders import (
    DatasetConfig,
    check_spaces,
    data_notices,
    infer_spaces,
    load_dataset,
    screen_arrays,
    with_absolute_paths,
)
from rl_training.data.doctor.switch_checks import gap_notices
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.summaries import known_facts
from rl_training.data.transforms import Transforms, fit_transforms, transforms_without_data
from rl_training.environments import Spaces, read_spaces
from rl_training.errors import ConfigError, did_you_mean
from rl_training.runtime.acting import Actor
from rl_training.runtime.acting_between import note_between
from rl_training.runtime.ancestry import begin_with, find_ancestor, require_its_transforms, told_of
from rl_training.runtime.callbacks import Callback, EarlyStopping
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.checkpoint_writer import CheckpointWriter
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.divergence import DivergenceGuard, largest_reward
from rl_training.runtime.engine import Engine, set_arithmetic, uses_blocks
from rl_training.runtime.evaluation import EnvironmentEvaluator, Evaluator
from rl_training.runtime.going_on import goes_past_its_end, require_its_data, set_back
from rl_training.runtime.initial_values import first_value
from rl_training.runtime.kept_engine import device_to_go_on_with, mode_to_go_on_with
from rl_training.runtime.loop import Loop
from rl_training.runtime.machine_load import MachineNotice, of_machine, use_threads
from rl_training.runtime.mapped_source import offline_source, trains_from_disk, verify_folder
from rl_training.runtime.memory import DataBytes, MemoryNeed, data_bytes, predict
from rl_training.runtime.online import OnlineSource, check_prior, require_data, updates_in
from rl_training.runtime.parts import Parts, TrainResult
from rl_training.runtime.plan import plan_in_words, unusual
from rl_training.runtime.progress import Progress, budget_of
from rl_training.runtime.records import EVALUATION_METRICS
from rl_training.runtime.rehearsal import first_rows, pace_of, rehearsed_metrics
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_ending import marking
from rl_training.runtime.signals import graceful_signals
from rl_training.runtime.sources import Source
from rl_training.runtime.stored_experience import puts_prior_in_buffer
from rl_training.runtime.torch_state import own_torch_state
from rl_training.runtime.trackers import tracking_of

T = TypeVar("T")


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
        notices: Sequence[str] = (),
    ) -> None:
        """`dataset` overrides the configured one; `run` and `checkpoint` continue an existing run."""
        self.config = config.model_copy(update={"dataset": _own_data(config, dataset)})
        self.given_dataset = dataset
        self.run_directory = run
        self.checkpoint = checkpoint
        self.ancestor = find_ancestor(config, run, checkpoint)
        self.first_value: float | None = None  # where critics begin; none: around zero
        self.online = self.online_settings()
        self.notices = list(notices)  # what the user should know before training starts
        stopping = config.early_stopping
        self.callbacks = [*([EarlyStopping(stopping)] if stopping else []), *tracking_of(config), *callbacks]

    def online_settings(self) -> OnlineParams | None:
        """How experience is collected; none where a fixed dataset is all there is."""
        params = algorithms.load(self.config.algo).parse(self.config.algo_kwargs)
        has_data = self.given_dataset is not None or self.config.dataset is not None
        settings: OnlineParams | None = self.config.online
        if isinstance(params, PriorDataParams) or (isinstance(params, OnlineParams) and not has_data):
            if settings is not None:
                whose = self.config.algo + ("" if has_data else " without a dataset")
                raise ConfigError(f"online: {whose} has these options in algo_kwargs; give them there")
            settings = params
        if settings is not None and self.config.env_id is None:
            who = f"is required where {self.config.algo} collects its own experience"
            raise ConfigError(f"env_id: {who}; name it (finetune: --env-id ID)")
        return settings

    @property
    def is_new(self) -> bool:
        """Whether its networks are yet untrained."""
        return self.checkpoint is None and self.ancestor is None

    # The run ----------------------------------------------------------------------------------------------------

    @own_torch_state()
    def train(self) -> TrainResult:
        """Prepare, run the loop, report."""
        parts = self.assemble()
        run = self.open_run(parts)
        with run.lock(is_new=self.run_directory is None), marking(run):
            loop = self.build_loop(parts, run)
            with closing(loop), graceful_signals(loop, lambda: loop.is_saving):
                loop.run()
            note_between(loop.run_directory, loop.actor, parts.dataset)
        return TrainResult(loop.run_directory, loop.actor, loop.last_snapshot(), loop.stop_status, loop.stop_reason)

    @own_torch_state()
    def assemble(self) -> Parts:
        """Data, spaces, budget, learner and transforms: everything that can be wrong, nothing that is written."""
        device, told = device_to_go_on_with(self.config.device, self.checkpoint, self.run_directory)
        run = self.run_directory
        machine = None if run is None or self.checkpoint is None else run.describe().get("machine")
        self.notices += told + use_threads(self.config.threads, device, resumed=run is not None, machine=machine)
        known = read_spaces(self.config.env_id) if self.config.env_id else None
        dataset = self.load_data(known)
        stored = self.checkpoint or self.ancestor
        before = None if stored is None else stored.spaces
        spaces = named_spaces(known or before or infer_spaces(_required(dataset)), dataset, before)
        progress = self.progress(dataset)
        mode, told = mode_to_go_on_with(self.config.engine, progress, torch.device(device))
        self.notices += told
        memory = self.require_memory(dataset, spaces, progress, torch.device(device), mode)
        transforms = self.fit(dataset, spaces)
        if self.is_new:
            self.first_value = first_value(self.config, dataset, transforms)
        learner = self.build_learner(spaces, progress.total_updates, device)
        set_arithmetic(learner, self.config.precision, self.config.kernels)
        parts = Parts(dataset, spaces, progress, learner, transforms, mode, memory)
        if dataset is not None:
            self.notices += data_notices(dataset, self.config.env_id) + self.gap_notices(parts)
        self.notices += unusual(self.config, learner.params, self.online, dataset)
        self.check(parts)
        self.check_data_use(parts)
        if self.config.early_stopping is not None:
            self.check_stopping_metric(self.config.early_stopping.metric, parts)
        return parts

    def gap_notices(self, parts: Parts) -> list[str]:
        snapped = bool(parts.transforms.action_gaps)
        if not (self.is_new or snapped):  # nothing can be done about it any more
            return []
        snapped |= self.config.transforms.snap_actions
        names = [column.name for column in parts.spaces.action_columns]
        return gap_notices(_required(parts.dataset), parts.transforms, names, snapped=snapped)

    def require_memory(
        self, dataset: TransitionDataset | None, spaces: Spaces, progress: Progress, device: torch.device, mode: str
    ) -> list[MemoryNeed]:
        """What the run will need, by place; refuses what clearly is not there, before the learner is built."""
        learner_type = algorithms.load(self.config.algo)
        params, members = learner_type.parse(self.config.algo_kwargs), len(self.config.seeds)
        data, compiled = self.data_bytes(dataset, spaces, progress, device), mode == "compiled"
        blocked = uses_blocks(device, mode, self.config.precision, self.config.kernels)
        engine = {"compiled": compiled, "captured": compiled and self.online is None, "blocked": blocked}
        needs = predict(learner_type, params, spaces, data, members, device, **engine)
        self.notices += [MachineNotice(f"{need}: it may run short") for need in needs if need.is_tight]
        return needs

    def open_run(self, parts: Parts) -> RunDirectory:
        """The directory of the run that is continued, or a new one, with where it begins if that is another's: it goes
        on wherever it is killed, whatever becomes of that one."""
        if self.run_directory is not None:
            return self.run_directory
        facts = None if parts.dataset is None else known_facts(parts.dataset) | parts.spaces.columns_to_json()
        start = None
        if (stored := self.checkpoint or self.ancestor) is not None:
            own: dict[str, Any] = {"config": self.config, "spaces": parts.spaces, "progress": asdict(parts.progress)}
            if self.checkpoint is None:
                own |= {"tensors": parts.learner.state(), "metric_sums": {}, "source": {}}
            start = replace(stored, **own)
        return RunDirectory.create(self.config, facts, start, **told_of(self.ancestor))

    def prepare(self) -> Loop:
        """Every part of the run and its directory, ready for `Loop.run`."""
        parts = self.assemble()
        return self.build_loop(parts, self.open_run(parts))

    def build_loop(self, parts: Parts, run: RunDirectory) -> Loop:
        """The loop over these parts, the run's files set back to where the checkpoint left them."""
        source = self.source(parts)
        try:
            return self._loop_from(source, parts, run)
        except BaseException:
            source.close()  # nobody else knows of its environments yet
            raise

    def _loop_from(self, source: Source, parts: Parts, run: RunDirectory) -> Loop:
        engine = Engine(parts.learner, source, parts.mode, must_compile=self.config.engine == "compiled")
        if self.checkpoint is not None:
            engine.restore_metrics(self.checkpoint.metric_sums, parts.progress.metric_counts)
            if parts.progress.steps or parts.progress.updates:  # else nothing has been collected yet
                source.restore(self.checkpoint.source)
        if self.run_directory is not None:
            self.notices += set_back(run, self.config, parts.progress, self.checkpoint)
        if self.notices:
            run.note(notices=self.notices, machine_notices=of_machine(self.notices))
        writer = CheckpointWriter()
        return Loop(
            self.config,
            engine,
            Actor(parts.learner, parts.transforms),
            run,
            parts.progress,
            parts.spaces,
            evaluator=self.evaluator(),
            callbacks=self.callbacks,
            notices=self.notices,
            guard=self.guard(source, parts, run, writer),
            writer=writer,
        )

    def guard(self, source: Source, parts: Parts, run: RunDirectory, writer: CheckpointWriter) -> DivergenceGuard:
        def start() -> dict[str, torch.Tensor]:
            return self.build_learner(parts.spaces, parts.progress.total_updates, "cpu").state()

        where = (self.config, parts.learner, source, run, parts.progress, writer)
        return DivergenceGuard(*where, start=start, data_reward=largest_reward(parts.dataset, parts.transforms))

    @own_torch_state()
    def plan(self) -> list[str]:
        """What `train` would do, in words, after the same checks and a second of updates. Writes nothing."""
        parts, pace = self.assemble(), None
        # Of environments, a disk or what is captured on a GPU, a second tells little.
        captured = parts.mode == "compiled" and parts.learner.device.type == "cuda"
        if not (captured or self.online or self.from_disk(parts.dataset, parts.learner.device)):
            pace = pace_of(parts.learner, self.source(parts), compiled=parts.mode == "compiled")
        return plan_in_words(self, parts, pace)

    def _rehearsing(self, parts: Parts) -> Parts:
        """With rows in memory alone: nothing is packed before there is a run."""
        if not self.from_disk(parts.dataset, parts.learner.device):
            return parts
        return replace(parts, dataset=first_rows(_required(parts.dataset)), in_memory=True)

    def check_stopping_metric(self, metric: str, parts: Parts) -> None:
        """Refuse a metric that will never be recorded: training ones are learned from a few updates of a twin."""
        if metric in EVALUATION_METRICS and self.evaluator() is None:
            raise ConfigError(f"early_stopping.metric: {metric!r} needs an env_id to be measured in")
        if metric in EVALUATION_METRICS or self.online is not None:
            return
        parts = self._rehearsing(parts)
        rehearsed = rehearsed_metrics(parts.learner, lambda twin: self.source(replace(parts, learner=twin)))
        known = rehearsed.union(EVALUATION_METRICS)
        if metric not in known:
            raise ConfigError(f"early_stopping.metric: no metric {metric!r}{did_you_mean(metric, known)}")

    # Parts a special trainer may replace ------------------------------------------------------------------------

    def check(self, parts: Parts) -> None:
        """Refuse what this algorithm cannot be trained on."""

    def check_data_use(self, parts: Parts) -> None:
        """Refuse what the configuration asks for and the source of batches could not do, and files that are damaged."""
        if self.online is not None:
            check_prior(parts.dataset, self.online, in_buffer=self.prior_in_buffer, memory=self.config.data_memory)
        if parts.dataset is not None:
            verify_folder(parts.dataset, from_disk=self.from_disk(parts.dataset, parts.learner.device))

    @property
    def prior_in_buffer(self) -> bool:
        return puts_prior_in_buffer(self.online)

    def data_bytes(
        self, dataset: TransitionDataset | None, spaces: Spaces, progress: Progress, device: torch.device
    ) -> DataBytes:
        """What the source of batches will hold."""
        batch_size, from_disk = int(self.config.algo_kwargs["batch_size"]), self.from_disk(dataset, device)
        return data_bytes(dataset, self.online, spaces, progress.total_steps, batch_size, from_disk=from_disk)

    def from_disk(self, dataset: TransitionDataset | None, device: torch.device) -> bool:
        return self.online is None and trains_from_disk(_required(dataset), device, self.config.data_memory)

    def load_data(self, spaces: Spaces | None) -> TransitionDataset | None:
        """The dataset, checked against the environment's spaces and, on resuming, against the original's hash."""
        dataset = self.given_dataset
        is_new = self.is_new and self.run_directory is None
        if dataset is not None:
            if spaces is not None:
                check_spaces(dataset, spaces, "dataset", self.config.env_id)
            dataset = screen_arrays(dataset, spaces, refuse=is_new)
        elif self.config.dataset is not None:
            dataset = load_dataset(self.config.dataset, self.config.env_id, spaces, refuse=is_new)
        require_data(self.online, has_data=dataset is not None)
        if self.run_directory is not None and dataset is not None:
            require_its_data(self.run_directory, dataset)
        return dataset

    def progress(self, dataset: TransitionDataset | None) -> Progress:
        """The budget in steps and in updates, and how much of it is spent."""
        steps, per_epoch = budget_of(self.config, 0 if dataset is None else dataset.n_usable)
        updates = steps if self.online is None else updates_in(steps, self.online)
        if self.checkpoint is None:
            return Progress(steps, updates, per_epoch, "updates" if self.online is None else "steps")
        past = goes_past_its_end(self.run_directory, self.checkpoint.progress["steps"])
        return Progress.resumed(self.checkpoint.progress, steps, updates, goes_past_its_end=past)

    @own_torch_state()
    def build_learner(self, spaces: Spaces, total_updates: int, device: str) -> Learner:
        if self.checkpoint is not None:
            return self.checkpoint.build_learner(device, total_updates)
        learner_type = algorithms.load(self.config.algo)
        learner = learner_type(
            spaces.obs_dim,
            spaces.act_dim,
            learner_type.parse(self.config.algo_kwargs),
            seeds=self.config.seeds,
            total_updates=total_updates,
            device=device,
        )
        if self.ancestor is not None:
            begin_with(self.ancestor, learner, self.config)
        elif self.first_value is not None:
            learner.start_values_at(self.first_value)
        return learner

    def fit(self, dataset: TransitionDataset | None, spaces: Spaces) -> Transforms:
        if self.ancestor is not None:
            self.notices += require_its_transforms(self.config, self.ancestor, dataset)
        if (stored := self.checkpoint or self.ancestor) is not None:
            return stored.transforms
        if dataset is not None:
            return fit_transforms(dataset, spaces, self.config.transforms)
        return transforms_without_data(spaces, self.config.transforms)

    def source(self, parts: Parts) -> Source:
        learner = parts.learner
        if self.online is None:
            memory = "ram" if parts.in_memory else self.config.data_memory
            return offline_source(_required(parts.dataset), parts.transforms, learner, memory)
        packed = None
        if parts.dataset is not None:
            packed = PackedTransitions.from_dataset(parts.dataset, parts.transforms, learner.device)
        env_id, in_buffer = str(self.config.env_id), self.prior_in_buffer
        return OnlineSource(learner, parts.transforms, env_id, self.online, packed, prior_in_buffer=in_buffer)

    def evaluator(self) -> Evaluator | None:
        return EnvironmentEvaluator(self.config.env_id, self.config.evaluation) if self.config.env_id else None


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


def _required(value: T | None) -> T:
    """A value that earlier checks have made sure of."""
    if value is None:
        raise ConfigError("dataset: is required")
    return value


def _own_data(config: TrainConfig, given: TransitionDataset | None) -> DatasetConfig | None:
    """Where a run that is resumed finds its data; arrays given by hand must be given again."""
    return None if given is not None or config.dataset is None else with_absolute_paths(config.dataset)
