"""The managed classes: train, evaluate, predict, save and load in the manner of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from rl_training import algorithms
from rl_training.api.signatures import describe, full_signature
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats import MINARI_PREFIX
from rl_training.data.formats.places import require_file
from rl_training.data.moved_files import moved_to
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, did_you_mean
from rl_training.experiment import manager
from rl_training.experiment.config import read_config
from rl_training.experiment.given_observations import Observed
from rl_training.experiment.offline_evaluation import OfflineEvaluation
from rl_training.experiment.registry import class_names
from rl_training.paths import OF_DATA, user_path
from rl_training.runtime.acting import FloatArray
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import save_checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.console import ConsoleProgress
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.online import require_data
from rl_training.runtime.parts import TrainResult
from rl_training.runtime.presets import with_preset
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.standing import LAST
from rl_training.runtime.trackers import make_tracker
from rl_training.runtime.tracking import Tracker, Tracking
from rl_training.runtime.trainer import trainer_for
from rl_training.validation import kind_of, require_flag, shown

Dataset = TransitionDataset | Mapping[str, Any] | str | Path


class ManagedAlgorithm:
    """One algorithm with everything around it.

    >>> model = CQL(env_id="Pendulum-v1", dataset="log.npz", total_timesteps=20_000, cql_alpha=5.0)
    >>> model.learn()
    >>> action, _ = model.predict(obs)
    """

    algo: ClassVar[str]

    def __init__(
        self,
        env_id: str | None = None,
        dataset: Dataset | None = None,
        total_timesteps: int | None = None,
        *,
        config: TrainConfig | str | Path | None = None,
        **settings: Any,
    ) -> None:
        """Start from `config` (a `TrainConfig`, a YAML path or a packaged name), or from nothing.

        dataset: a `TransitionDataset`, a mapping of arrays, a path, or a `dataset:` section as in the YAML.
        settings: any field of `TrainConfig` or any parameter of the algorithm, by name. A `preset` given here is laid
        over `config` and beneath everything else given here.
        """
        _require_environment(env_id, type(self).__name__)
        values = self._start(config, {name: settings[name] for name in ("preset",) if name in settings})
        self.dataset, section = _read_dataset(dataset)
        fields = {"env_id": env_id, "dataset": section, "total_timesteps": total_timesteps}
        values.update({name: value for name, value in fields.items() if value is not None})
        self._values = self._merge(values, settings)
        self._config(1 if self._lacks_budget else None)  # every other mistake is found here and now
        self._resume_dataset: TransitionDataset | Mapping[str, Any] | None = self.dataset
        self._policy: manager.LoadedPolicy | None = None
        self._run: RunDirectory | None = None
        self._draws = 0

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy, or a pickle: everything but the run, which only one model may train on. The copy's `learn` makes
        a run of its own, as that of a saved checkpoint does."""
        return {**self.__dict__, "_run": None}

    def _start(self, config: TrainConfig | str | Path | None, preset: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the other keywords are laid over."""
        if config is None:
            return {"algo": self.algo}
        given = config if isinstance(config, TrainConfig) else read_config(str(config), values=preset)
        if given.algo != self.algo:
            raise ConfigError(f"algo: {type(self).__name__} got a configuration for {given.algo!r}")
        return with_preset(given.to_plain(), self.algo, preset.get("preset"))

    def _merge(self, values: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Each setting to where it belongs: the run's configuration or the algorithm's parameters."""
        parameters = algorithms.load(self.algo).Params.model_fields
        knobs = dict(values.get("algo_kwargs", {}))
        for name, value in settings.items():
            if name == "algo_kwargs":
                if not isinstance(value, Mapping):
                    raise ConfigError(f"algo_kwargs: must be a mapping of parameters, got {shown(value)}")
                knobs.update(value)
            elif name in TrainConfig.model_fields and name != "algo":
                values[name] = value
            elif name in parameters:
                knobs[name] = value
            else:
                known = {*TrainConfig.model_fields, *parameters} - {"algo", "algo_kwargs"}
                raise ConfigError(f"{name}: {type(self).__name__} has no such option{did_you_mean(name, known)}")
        return {**values, "algo_kwargs": knobs}

    def _config(self, total_timesteps: int | None = None) -> TrainConfig:
        budget = {} if total_timesteps is None else {"total_timesteps": total_timesteps}
        return TrainConfig.parse({**self._values, **budget})

    @property
    def _lacks_budget(self) -> bool:
        return all(self._values.get(name) is None for name in ("total_timesteps", "n_epochs"))

    def _require_data(self) -> None:
        """Refuse to go on where there is nothing to train on."""
        config = self._config(1)
        trainer = trainer_for(self.algo)(config, dataset=self.dataset)
        require_data(trainer.online, has_data=self.dataset is not None or config.dataset is not None)
        if isinstance(config.dataset, FileDatasetConfig):
            require_file(config.dataset.path)

    # Training ---------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress_bar: bool = False,
        trackers: Sequence[Tracker | str] = (),
    ) -> Self:
        """Train to the end of the budget. Called again with a larger budget, it goes on where it stopped.

        trackers: names (`tensorboard`, `wandb`, `mlflow`, `trackio`) or objects of your own, told besides those of
        the setting `tracking`.
        """
        given = callback if isinstance(callback, list | tuple) else [] if callback is None else [callback]
        callbacks = list(given)
        if not all(isinstance(one, Callback) for one in callbacks):
            raise ConfigError("callback: must be a rl_training.Callback (an object of a subclass), or a list of them")
        if trackers:
            callbacks.append(Tracking(_read_trackers(trackers)))
        if progress_bar:
            callbacks.append(ConsoleProgress())
        if total_timesteps is None and self._lacks_budget:
            self._require_data()  # what comes first is told first
        config = self._config(total_timesteps)
        budget = None if total_timesteps is None else config.total_timesteps
        try:
            self._adopt(self._train(config, budget, callbacks))
        except manager.FinishedError as error:
            error.args = (f"{error}, such as learn({max(2 * error.done, 1)})",)
            raise
        return self

    def _train(self, config: TrainConfig, budget: int | None, callbacks: list[Callback]) -> TrainResult:
        if self._policy is None:
            return manager.start(config, dataset=self.dataset, callbacks=callbacks)
        if self._run is not None:
            data = self._resume_dataset
            return manager.resume(self._run.path, total_timesteps=budget, dataset=data, callbacks=callbacks)
        checkpoint = self._policy.checkpoint
        return manager.branch(config, checkpoint, total_timesteps=budget, dataset=self.dataset, callbacks=callbacks)

    def _adopt(self, result: TrainResult) -> None:
        self._resume_dataset = self.dataset  # the run itself now knows a section, and by its full path
        self._run = result.run
        self._policy = manager.LoadedPolicy(result.checkpoint, result.actor, result.run.path)

    # Using ------------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> manager.LoadedPolicy:
        """The trained policy."""
        if self._policy is None:
            raise ConfigError(f"{type(self).__name__} has no policy yet; call learn() or load() first")
        return self._policy

    @property
    def run_dir(self) -> Path | None:
        """The directory of the last run, if there was one."""
        return self._run.path if self._run is not None else None

    def predict(
        self,
        obs: Observed,
        state: None = None,
        episode_start: None = None,
        deterministic: bool = True,
        *,
        seed: int | None = None,
    ) -> tuple[FloatArray, None]:
        """`(action, None)` for one observation or a batch, in the environment's units; no policy here has a state.

        seed: whose policy, where several were trained together (not given, the one that evaluations speak for).
        """
        deterministic = require_flag("deterministic", deterministic)
        self._draws += 0 if deterministic else 1
        return self.policy.predict(obs, deterministic=deterministic, seed=seed, draw=self._draws), state

    def evaluate(
        self,
        episodes: int = 10,
        *,
        env_id: str | None = None,
        seed: int | None = None,
        deterministic: bool | None = None,
    ) -> Evaluation:
        """Returns of whole episodes on the raw reward, for every member."""
        return self.policy.evaluate(episodes, env_id=env_id, seed=seed, deterministic=deterministic)

    def evaluate_offline(self, dataset: Dataset | None = None, **options: Any) -> OfflineEvaluation:
        """What every member's policy is worth, estimated from logged episodes without an environment.

        dataset: the one trained on, if none is given. options: `updates`, `repeats`, `gamma`, … as for
        `LoadedPolicy.evaluate_offline`.
        """
        given = self.dataset if dataset is None else dataset
        if isinstance(given, Mapping):
            given = TransitionDataset.from_dict(given)
        return self.policy.evaluate_offline(given, **options)

    def save(self, path: str | Path) -> Path:
        """Write a complete checkpoint to the new directory `path`."""
        try:
            place = user_path(path)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"path: {error}, got {shown(path)}") from None
        save_checkpoint(place, self.policy.checkpoint, in_run=False)
        return place

    def export(
        self,
        path: str | Path | None = None,
        *,
        format: Literal["onnx", "torch"] | None = None,  # noqa: A002 - what users call it
        seed: int | None = None,
        deterministic: bool = True,
        batch: int | None = None,
        force: bool = False,
    ) -> Path:
        """Write the policy as one file that needs neither this package nor its transforms, and a JSON card beside it.

        format: `onnx`, or `torch` for a `.pt2`; not given, the path's ending says. deterministic: the mode; otherwise
        the file takes standard normal `noise` as well. batch: a fixed number of rows; not given, any.
        """
        from rl_training.experiment.shipping.exporting import export_policy

        exported = export_policy(
            self.policy, path, format=format, seed=seed, deterministic=deterministic, batch=batch, force=force
        )
        return exported.path

    @classmethod
    def load(cls, path: str | Path, *, dataset: Dataset | None = None, which: str | int = "last") -> Self:
        """From a run directory or a saved checkpoint.

        dataset: needed to train on where the data were in memory, or where their file has moved: its path, and
        what the run says of its columns and values holds.
        """
        policy = manager.load_policy(path, which)
        if (held := policy.checkpoint.config.algo) != cls.algo:
            its_class = next(name for name, algo in class_names().items() if algo == held)
            way = f"{its_class}.load(…) loads it, as does rl_training.load_policy(…)"
            raise CheckpointError(f"{path}: holds {held!r}, {cls.__name__} loads {cls.algo!r}; {way}")
        if isinstance(dataset, str | Path):
            dataset = moved_to(policy.checkpoint.config.dataset, Path(dataset)).model_dump(mode="json")
        model = cls(config=policy.checkpoint.config, dataset=dataset)
        model._policy = policy
        if dataset is not None and model.dataset is None:
            model._resume_dataset = model._values["dataset"]
        place = manager.find_run(path)
        if (place / "run.json").is_file() and which in LAST:
            model._run = RunDirectory.open(place)
        return model


_OF_BASELINES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


def _require_environment(env_id: Any, name: str) -> None:
    """Refuse what people give first elsewhere: a policy's name, data, an open environment."""
    if env_id is None or (isinstance(env_id, str) and env_id not in _OF_BASELINES and not _names_data(env_id)):
        return
    said = f"env_id: must be an environment's name, such as 'Pendulum-v1', or left out, got {kind_of(env_id)}"
    raise ConfigError(f"{said}; data go to dataset=, as in {name}(dataset=data, total_timesteps=10_000)")


def _names_data(text: str) -> bool:
    return text.lower().endswith(OF_DATA) or text.startswith(MINARI_PREFIX)


def _read_trackers(trackers: Sequence[Tracker | str]) -> list[Tracker]:
    found = [] if isinstance(trackers, str) else [make_tracker(o) if isinstance(o, str) else o for o in trackers]
    if not found or not all(isinstance(one, Tracker) for one in found):
        raise ConfigError("trackers: must be a list of names or of rl_training.Tracker objects")
    return found


def _read_dataset(dataset: Dataset | None) -> tuple[TransitionDataset | None, Any]:
    """Arrays in memory, or a `dataset:` section; never both."""
    if dataset is None or isinstance(dataset, TransitionDataset):
        return dataset, None
    if isinstance(dataset, str | Path):
        if not str(dataset).startswith(MINARI_PREFIX):
            require_file(dataset)  # a path that is mistyped is told of here and now, as every other mistake is
        return None, {"source": "file", "path": str(dataset)}
    is_section = isinstance(dataset, Mapping) and "source" in dataset
    return (None, dict(dataset)) if is_section else (TransitionDataset.from_dict(dataset), None)


@cache
def managed_class(name: str) -> type[ManagedAlgorithm] | None:
    """The managed class called `name` (`CQL`, `TD3BC`, …), or none."""
    algo = class_names().get(name)
    if algo is None:
        return None
    made = type(name, (ManagedAlgorithm,), {"algo": algo, "__module__": "rl_training.api"})
    made.__doc__ = describe(algo, name)
    made.__signature__ = full_signature(algo, ManagedAlgorithm.__init__)  # type: ignore[attr-defined]
    return made
