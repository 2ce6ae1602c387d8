"""Trackers for TensorBoard, Weights & Biases, MLflow and Trackio. A package is imported when its tracker is asked for.

Each keeps its settings in environment variables of its own (`WANDB_MODE`, `MLFLOW_TRACKING_URI`, `TRACKIO_DIR`, …),
which hold here as everywhere.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.errors import CheckpointError, ConfigError, did_you_mean
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.config import TrackerConfig, TrainConfig
from rl_training.runtime.run_description import flat
from rl_training.runtime.tracking import TrackedRun, Tracker, Tracking
from rl_training.validation import shown

PROJECT = "rl-training"  # where neither the configuration nor the tracker's variable names one
_SCORE = "evaluation/return_mean"
_MLFLOW_NAMES = {"databricks", "databricks-uc", "uc"}  # stores of MLflow that are no paths
_IS_ELSEWHERE = {"TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"}  # then what Trackio has is not here to be asked


class _QuietThread:
    """What TensorBoard's own thread fails with, as on a full disk, it raises again where the next value is added: there
    is no need for a traceback as well, as long as one of its trackers is open."""

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), 0
        self._hook: partial[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._open += 1
            if threading.excepthook is not self._hook:
                self._hook = partial(_unless_of_tensorboard, threading.excepthook)
                threading.excepthook = self._hook

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if not self._open and self._hook is not None and threading.excepthook is self._hook:
                (threading.excepthook,) = self._hook.args


def _unless_of_tensorboard(before: Callable[[Any], Any], failed: threading.ExceptHookArgs) -> None:
    if type(failed.thread).__module__.partition(".")[0] != "tensorboard":
        before(failed)


QUIET_THREAD = _QuietThread()


class TensorBoardTracker(Tracker):
    """Event files in `<run>/tensorboard`, written anew from the run's records when it is resumed."""

    name = "tensorboard"

    def __init__(self, project: str | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("tracking: tensorboard is not installed; pip install 'rl-training[tracking]'") from None
        self._writer_type = SummaryWriter
        self._writer: Any = None
        self._open = ExitStack()
        self._folder = Path()
        self._hyperparameters: dict[str, Any] = {}

    def start(self, run: TrackedRun) -> str | None:
        self._folder = run.folder / "tensorboard"
        _refuse_link(self._folder)
        for old in self._folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._open.enter_context(QUIET_THREAD)
        # A server that has read what was there before forgets it at this mark.
        self._writer = self._writer_type(str(self._folder), purge_step=0)
        self._writer.add_text("config", f"```yaml\n{yaml_dialect.write(run.config)}```", 0)
        plain = flat(run.config).items()
        self._hyperparameters = {k: v if isinstance(v, bool | int | float | str) else str(v) for k, v in plain}
        return None

    def last_step(self) -> int | None:
        return -1

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.log_at(step, values, None)

    def log_at(self, step: int, values: Mapping[str, float], seconds: float | None) -> None:
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, step, walltime=seconds)

    def finish(self, status: str) -> None:
        from torch.utils.tensorboard.summary import hparams

        with self._open:
            for summary in hparams({**self._hyperparameters, "status": status}, {_SCORE: 0.0}):
                self._writer.file_writer.add_summary(summary)
            self._writer.add_text("status", status, 0)
            self._writer.close()

    def let_go(self) -> None:
        self._open.close()

    def address(self) -> str | None:
        return str(self._folder)


class WandbTracker(Tracker):
    """A run of Weights & Biases. Offline, a resumed run is written whole again: its newest folder is complete."""

    name = "wandb"

    def __init__(self, project: str | None = None) -> None:
        try:
            import wandb
        except ImportError:
            raise _absent("wandb") from None
        is_online = os.environ.get("WANDB_MODE", "online") == "online"
        if is_online and wandb.api.api_key is None:
            raise ConfigError("tracking: wandb has no API key; `wandb login`, or WANDB_MODE=offline to sync later")
        self._wandb = wandb
        self._project = project or os.environ.get("WANDB_PROJECT") or PROJECT
        self._run: Any = None

    def start(self, run: TrackedRun) -> str | None:
        for name in ("wandb", ".wandb"):  # where it writes, the latter if there is one
            _refuse_link(run.folder / name)
        settings = self._wandb.Settings(silent=True, console="off")  # the terminal is ours
        self._run = self._wandb.init(
            project=self._project,
            name=run.name,
            id=run.run_id,
            resume="allow" if run.run_id else None,
            dir=str(run.folder),
            config=run.config,
            job_type=str(run.config["algo"]),
            reinit="create_new",
            allow_val_change=True,
            settings=settings,
        )
        return str(self._run.id)

    def last_step(self) -> int | None:
        return int(self._run.starting_step) - 1

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step, commit=True)

    def finish(self, status: str) -> None:
        self._run.summary["status"] = status
        self._run.finish(exit_code=0 if status == "finished" else 1)

    def address(self) -> str | None:
        is_here = self._run.offline or self._run.disabled
        return str(Path(self._run.dir).parent if is_here else self._run.url)


class MlflowTracker(Tracker):
    """A run of MLflow, at `MLFLOW_TRACKING_URI` or in MLflow's own default."""

    name = "mlflow"
    _STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}  # noqa: RUF012
    _COUNTER = "progress/updates"  # in every record of metrics

    def __init__(self, project: str | None = None) -> None:
        try:
            from mlflow import MlflowClient, get_tracking_uri
            from mlflow.entities import Metric, Param, RunTag
        except ImportError:
            raise _absent("mlflow") from None
        self._client_type, self._metric, self._param, self._tag = MlflowClient, Metric, Param, RunTag
        self._project = project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        self._store = _absolute_store(get_tracking_uri())
        self._client: Any = None
        self._id = ""
        self._last = -1

    def start(self, run: TrackedRun) -> str | None:
        self._client = self._client_type(self._store)
        if run.run_id is not None:
            self._id = run.run_id
            self._client.update_run(self._id, status="RUNNING")
            names = (_SCORE, self._COUNTER)
            steps = [one.step for name in names for one in self._client.get_metric_history(self._id, name)]
            self._last = max(steps, default=-1)
            return self._id
        found = self._client.get_experiment_by_name(self._project)
        experiment = found.experiment_id if found else self._client.create_experiment(self._project)
        self._id = str(self._client.create_run(experiment, run_name=run.name).info.run_id)
        for some in _batches(flat(run.config).items(), 100):  # no more at once
            self._client.log_batch(self._id, params=[self._param(key, str(value)) for key, value in some])
        return self._id

    def last_step(self) -> int | None:
        return self._last

    def log_at(self, step: int, values: Mapping[str, float], seconds: float) -> None:
        for some in _batches(values.items(), 1000):
            metrics = [self._metric(name, value, int(1000 * seconds), step) for name, value in some]
            self._client.log_batch(self._id, metrics=metrics)

    def finish(self, status: str) -> None:
        self._client.log_batch(self._id, tags=[self._tag("status", status)])
        self._client.set_terminated(self._id, self._STATUS.get(status, "FAILED"))

    def address(self) -> str | None:
        return f"{self._client.tracking_uri} run {self._id}"


class TrackioTracker(Tracker):
    """A run of Trackio, on this machine or where its variables say."""

    name = "trackio"

    def __init__(self, project: str | None = None) -> None:
        if folder := os.environ.get("TRACKIO_DIR"):
            os.environ["TRACKIO_DIR"] = str(Path(folder).absolute())  # the same; Trackio keeps what it reads here
        try:
            import trackio
        except ImportError:
            raise _absent("trackio") from None
        self._trackio = trackio
        self._project = project or os.environ.get("TRACKIO_PROJECT") or PROJECT
        self._run: Any = None
        self._last: int | None = -1

    def start(self, run: TrackedRun) -> str | None:
        resume = "never" if run.run_id is None else "allow"
        name = run.run_id or run.name
        self._run = self._trackio.init(
            project=self._project, name=name, config=run.config, resume=resume, embed=False, auto_log_cpu=False
        )
        if run.run_id is not None and _IS_ELSEWHERE.isdisjoint(os.environ):
            storage = self._trackio.SQLiteStorage
            found = storage.get_max_step_for_run(self._project, name)
            self._last = -1 if found is None else int(found)
        elif run.run_id is not None:
            self._last = None
        return str(self._run.name)

    def last_step(self) -> int | None:
        return self._last

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({name: value for name, value in values.items() if math.isfinite(value)}, step=step)

    def finish(self, status: str) -> None:
        self._run.finish()

    def address(self) -> str | None:
        return f"trackio show --project {self._project}"


TRACKERS = {kind.name: kind for kind in (TensorBoardTracker, WandbTracker, MlflowTracker, TrackioTracker)}


def make_tracker(name: str, project: str | None = None) -> Tracker:
    """The tracker of that name; one line where there is none, or where its package is not installed."""
    (entry,) = sections([name])
    return TRACKERS[entry.tracker](project)


def tracking_of(config: TrainConfig) -> list[Callback]:
    """The callback that serves the configured trackers, if there are any."""
    trackers = [make_tracker(entry.tracker, entry.project) for entry in config.tracking]
    return [Tracking(trackers)] if trackers else []


def sections(names: Iterable[str]) -> tuple[TrackerConfig, ...]:
    """Trackers by name, as `tracking` in a configuration has them."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"tracking: no tracker {shown(name)}{did_you_mean(name, TRACKERS)}")
    return tuple(TrackerConfig.model_validate({"tracker": name}) for name in dict.fromkeys(names))


def with_trackers(config: TrainConfig, more: Iterable[TrackerConfig]) -> TrainConfig:
    """The same with these trackers, too."""
    known = {entry.tracker for entry in config.tracking}
    new = (entry for entry in more if entry.tracker not in known)
    return config.model_copy(update={"tracking": (*config.tracking, *new)})


def _refuse_link(folder: Path) -> None:
    """A tracker's folder in that of a run, which a stranger may have made: a link there may lead anywhere."""
    if folder.is_symlink():
        place = Path(folder.parent.name, folder.name)  # short, as more of a complaint is not shown
        raise CheckpointError(f"{place} is a link, and none is followed; remove it")


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """So many at a time: servers take no more."""
    everything = list(items)
    return (everything[first : first + size] for first in range(0, len(everything), size))


def _absolute_store(uri: str) -> str:
    """The same place for MLflow, whatever the working folder will be: a server's address, or a path made absolute."""
    if uri.startswith("file://"):  # a host and an absolute path
        return uri
    for scheme in ("sqlite:///", "file:", ""):
        if uri.startswith(scheme):
            path = uri.removeprefix(scheme)
            is_elsewhere = ":" in path or (not scheme and path in _MLFLOW_NAMES)
            return uri if is_elsewhere else f"{scheme}{Path(path).absolute()}"
    return uri


def _absent(package: str) -> ConfigError:
    return ConfigError(f"tracking: {package} is not installed; pip install {package}")
