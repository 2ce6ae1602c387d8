"""Starting a run, finding it again, and going on with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_training.data.dataset_loaders import with_absolute_paths
from rl_training.data.moved_files import moved_to
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, RLTrainingError
from rl_training.paths import in_shell
from rl_training.run_places import DESCRIPTION, find_run, run_folder_of, run_folders
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint, is_checkpoint
from rl_training.runtime.config import TrackerConfig, TrainConfig
from rl_training.runtime.going_on import complete_return
from rl_training.runtime.parts import TrainResult
from rl_training.runtime.run_description import began
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_identity import differing, own_config
from rl_training.runtime.standing import LAST
from rl_training.runtime.trackers import with_trackers
from rl_training.runtime.trainer import train
from rl_training.validation import shown
from rl_training.wording import WARNING

Warn = Callable[[str], None]


class FinishedError(ConfigError):
    """A run or checkpoint has no updates left in its budget."""

    def __init__(self, place: str | Path, done: int) -> None:
        super().__init__(f"{place}: is finished at step {done}; to go on, give a larger total_timesteps than that")
        self.place = place
        self.done = done


def start(
    config: TrainConfig,
    *,
    dataset: TransitionDataset | None = None,
    callbacks: Sequence[Callback] = (),
    notices: Sequence[str] = (),
) -> TrainResult:
    """A new run. notices: what the user should know of it beside what is found on the way."""
    return train(config, dataset=dataset, callbacks=callbacks, notices=notices)


def resume(
    path: str | Path,
    *,
    which: str | int = "last",
    total_timesteps: int | None = None,
    dataset: TransitionDataset | Mapping[str, Any] | str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    tracking: Sequence[TrackerConfig] = (),
) -> TrainResult:
    """Continue a run from a checkpoint (none yet: from its start), to the end of its budget or of a larger one.

    which: `last`, `best` or a step; what came after it is set aside. dataset: the run's own data again, as arrays, as
    the path where their file lies now, or as another `dataset:` section; the trainer compares fingerprints and refuses
    any other.
    tracking: trackers besides the run's own.
    """
    place = find_run(path)
    if is_checkpoint(place):
        raise CheckpointError(f"{path}: is a checkpoint, and only runs are resumed; {_way_to_go_on(place)}")
    run = RunDirectory.open(place)
    facts = run.describe()
    if total_timesteps is None and facts["status"] == "finished" and which in LAST:
        raise FinishedError(path, int(run.load("last").progress["steps"]))
    with run.lock():
        complete_return(run)
        at_end = which in LAST
        checkpoint = _last(run) if at_end else run.load(which, to_go_on=True)
        return _continue(run, checkpoint, total_timesteps, dataset, callbacks, tracking=tracking, at_end=at_end)


def _last(run: RunDirectory) -> Checkpoint | None:
    """The last checkpoint; none where the run has not saved one yet, but not where it has and they are gone."""
    return run.load("last", to_go_on=True) if run.steps() or run.describe().get("step") is not None else None


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)  # by the line that asked for the run


def start_or_resume(
    config: TrainConfig, *, callbacks: Sequence[Callback] = (), notices: Sequence[str] = (), warn: Warn = _warn
) -> TrainResult:
    """Continue the newest run of this configuration; where there is none, start one.

    Nobody is there to choose: where the last checkpoint is damaged, the newest sound one is gone on from.
    notices: as of `start`. warn: told of runs that cannot be read.
    """
    run = newest_run(config, warn)
    if run is None:
        return start(config, callbacks=callbacks, notices=notices)
    facts = run.describe()
    if facts["status"] == "finished":
        if type(step := facts.get("step")) is not int:
            raise CheckpointError(
                f"{run.path / DESCRIPTION}: step: must be a number in a finished run, got {shown(step)}"
            )
        raise FinishedError(run.path, step)
    with run.lock():
        complete_return(run)
        try:
            checkpoint, told = _last(run), []
        except CheckpointError as error:
            sound = run.newest_sound(to_go_on=True)
            if sound is None:
                raise
            checkpoint, told = run.load(sound, to_go_on=True), [f"{WARNING}{error}; going on from there"]
        return _continue(run, checkpoint, None, None, callbacks, told, config.tracking)


def newest_run(config: TrainConfig, warn: Warn = _warn) -> RunDirectory | None:
    """The run of this configuration that was started last; the one of its name, where it has a name.

    Runs that cannot be read are passed over, and `warn` is told of them: one of them may be the one to go on with.
    """
    parent = Path(config.runs_dir).expanduser()
    if config.name is not None:
        if not (parent / config.name).exists():
            return None
        run = RunDirectory.open(parent / config.name)
        own = _in_force(run)
        if odd := differing(own, _identified(config, own)):
            raise ConfigError(f"name: run {run.path} has another configuration ({_some(odd)}); choose another name")
        return run
    found, faults = [], {}
    for folder in run_folders(parent):
        run = RunDirectory(folder)
        try:
            moment = began(folder, run.describe().get("created"))
            found.append((moment, (folder / DESCRIPTION).stat().st_mtime_ns, run))
        except (CheckpointError, OSError) as error:
            faults[folder.name] = str(error)
    newest = None
    for *_, run in sorted(found, key=lambda entry: entry[:2], reverse=True):
        try:
            written = _in_force(run)
        except RLTrainingError as error:
            faults[run.path.name] = (
                f"{run.path / 'config.yaml'}: {error}" if isinstance(error, ConfigError) else str(error)
            )
            continue
        if written == _identified(config, written):
            newest = run
            break
    if faults:
        others = f", as were {_some(sorted(faults)[1:])}" if len(faults) > 1 else ""
        warn(
            f"{faults[min(faults)]}; its run was passed over in looking for the one to go on with{others}: put it right"
            f" if it is that one, else move it out of {parent}"
        )
    return newest


def _in_force(run: RunDirectory) -> TrainConfig:
    """What a run goes on with: as run.json keeps it; runs of earlier versions have config.yaml alone."""
    return own_config(run.describe(), run.path) or run.config()


def _identified(config: TrainConfig, other: TrainConfig) -> TrainConfig:
    """A configuration as `other` would have it written: where a run lies, its name and who watches are not compared."""
    data = None if config.dataset is None else with_absolute_paths(config.dataset)
    own = {"name": other.name, "runs_dir": other.runs_dir, "tracking": other.tracking}
    return config.model_copy(update={"dataset": data, **own})


def _continue(
    run: RunDirectory,
    checkpoint: Checkpoint | None,
    total_timesteps: int | None,
    dataset: TransitionDataset | Mapping[str, Any] | str | Path | None,
    callbacks: Sequence[Callback],
    notices: Sequence[str] = (),
    tracking: Sequence[TrackerConfig] = (),
    *,
    at_end: bool = True,
) -> TrainResult:
    """Train on from a checkpoint of this run, or from its start. at_end: from where it stands, with what it was given
    since that checkpoint (a larger budget, another place of its data)."""
    facts = run.describe()
    if facts["status"] == "diverged":
        way = f" (init_from: {run.path} begins at its last good checkpoint)" if run.steps() else ""
        told = own_config(facts, run.path)
        collects = facts["dataset"] is None or (told is not None and told.online is not None)
        mended = ", or as it was, once an environment is mended that was to blame" if collects else ""
        raise ConfigError(
            f"{run.path}: diverged, and would again: a resumed run repeats itself; start another with other"
            f" settings{mended}{way}"
        )
    if dataset is not None and facts["dataset"] is None:
        raise ConfigError(f"{run.path}: collects its own experience; it was started without a dataset")
    kept = own_config(facts, run.path)
    if checkpoint is None:
        config = _in_force(run)
    else:
        config = kept if at_end and kept is not None else checkpoint.config
    notices = [*notices, *_edited(run, kept or config, is_kept=kept is not None)]
    if facts["status"] != "finished" and config.n_epochs is None and total_timesteps == config.total_timesteps:
        total_timesteps = None  # the budget that it has, asked for again
    is_whole = total_timesteps is None and facts["status"] != "finished"  # but not evaluated, or not marked as finished
    if checkpoint is not None and not is_whole:
        config = _with_budget(run.path, config, checkpoint, total_timesteps)
    elif total_timesteps is not None:
        config = _budgeted(config, total_timesteps)
    config = with_trackers(config, tracking)
    if isinstance(dataset, Mapping | str | Path):
        config, dataset = _with_section(config, dataset), None
    if config.dataset is None and dataset is None and facts["dataset"] is not None:
        raise ConfigError(f"{run.path}: was trained from arrays in memory; give the same arrays again as `dataset`")
    return train(config, dataset=dataset, callbacks=callbacks, run=run, checkpoint=checkpoint, notices=notices)


def _with_section(config: TrainConfig, data: Mapping[str, Any] | str | Path) -> TrainConfig:
    """data: a `dataset:` section, or the path of the configuration's own file, where it has moved."""
    section = moved_to(config.dataset, Path(data)).model_dump(mode="json") if isinstance(data, str | Path) else data
    return TrainConfig.parse({**config.to_plain(), "dataset": dict(section)})


def _edited(run: RunDirectory, config: TrainConfig, *, is_kept: bool) -> list[str]:
    """A notice where config.yaml is no longer what the run goes on with; it is written anew."""
    try:
        odd = run.edits(config)
    except CheckpointError as error:
        if not is_kept:
            raise
        return [f"{error}; run.json keeps it, too, and the run goes on as it was started"]
    if not odd:
        return []
    return [
        f"config.yaml was edited ({_some(odd)}); a run goes on as it was started, only --total-timesteps changes it"
    ]


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")


def branch(
    config: TrainConfig,
    checkpoint: Checkpoint,
    *,
    total_timesteps: int | None = None,
    dataset: TransitionDataset | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """A new run that goes on from a checkpoint."""
    checkpoint.require_experience()
    config = _with_budget("this checkpoint", config, checkpoint, total_timesteps)
    config = config.model_copy(update={"name": None})  # the name belongs to the run the checkpoint came from
    return train(config, dataset=dataset, callbacks=callbacks, checkpoint=checkpoint)


def _with_budget(
    place: str | Path, config: TrainConfig, checkpoint: Checkpoint, total_timesteps: int | None
) -> TrainConfig:
    """The configuration under which a checkpoint trains on; a budget that is already spent is refused."""
    done, own = int(checkpoint.progress["steps"]), int(checkpoint.progress["total_steps"])
    if config.total_timesteps is not None and config.n_epochs is None:
        own = config.total_timesteps  # another may have been given since the checkpoint was saved
    if done >= (own if total_timesteps is None else total_timesteps):
        if total_timesteps is None or done >= own:
            raise FinishedError(place, done)
        unit = str(checkpoint.progress["unit"]).removesuffix("s")
        alone = f"`rl-training resume {in_shell(place)}` alone" if isinstance(place, Path) else "without, it"
        where = f"lies behind {unit} {done}, where it stands" if total_timesteps < done else f"is {unit} {done} itself"
        raise ConfigError(f"{place}: total_timesteps {total_timesteps} {where}; {alone} goes on to {own}")
    if total_timesteps is None:
        return config
    return _budgeted(config, total_timesteps)


def _budgeted(config: TrainConfig, total_timesteps: int) -> TrainConfig:
    return TrainConfig.parse({**config.to_plain(), "total_timesteps": total_timesteps, "n_epochs": None})


def _way_to_go_on(checkpoint: Path) -> str:
    run = run_folder_of(checkpoint)
    if run is not None:
        return f"continue its run with `rl-training resume {in_shell(run)}`"
    return "to train on from it in a new run, load it in Python and call learn()"
