"""The commands that train."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from rl_training.cli import standard_streams
from rl_training.cli.telling import program, tell
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats.places import expand
from rl_training.data.formats.siblings import alike_beside
from rl_training.data.generation import generate_random_dataset
from rl_training.data.provenance import KEY, Provenance, set_aside
from rl_training.errors import ConfigError, DataError, RLTrainingError
from rl_training.experiment import manager
from rl_training.experiment.config import apply_override, read_config, to_yaml
from rl_training.experiment.costs import Shown, shown_of
from rl_training.experiment.curves import draw_learning_curve
from rl_training.experiment.metric_doubts import longer
from rl_training.paths import in_shell, is_there
from rl_training.plain_console import plain_console
from rl_training.run_places import find_run
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.console import ConsoleProgress
from rl_training.runtime.loop import Loop
from rl_training.runtime.parts import TrainResult
from rl_training.runtime.run_description import read_plain_config
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.signals import EXIT_CODES, CutOffError
from rl_training.runtime.trackers import sections, with_trackers
from rl_training.runtime.tracking import read_notes
from rl_training.runtime.trainer import trainer_for
from rl_training.wording import WARNING, notice_line, readable


class Talk(Enum):
    """How much a command says while it works."""

    QUIET = auto()
    NORMAL = auto()
    VERBOSE = auto()

    @classmethod
    def of(cls, *, quiet: bool, verbose: bool) -> Talk:
        if quiet and verbose:
            raise ConfigError("--quiet and --verbose: choose one of them")
        return cls.QUIET if quiet else cls.VERBOSE if verbose else cls.NORMAL


def train(
    name: str,
    overrides: Sequence[str],
    values: Mapping[str, Any],
    resume: str | None = None,
    track: Sequence[str] = (),
    *,
    dry_run: bool,
    talk: Talk,
) -> None:
    """`rl-training train`; `values` come from options of their own and are taken literally."""
    if resume not in (None, "auto"):
        raise ConfigError(f"--resume: must be auto, got {resume!r}; for a given run: `rl-training resume RUN`")
    config = with_trackers(read_config(name, overrides, values), sections(track))
    if not dry_run:
        standard_streams.only_a_display()
    console = plain_console()
    if dry_run:
        _print_plan(config, console, manager.newest_run(config, _warn) if resume else None)
        return
    start = partial(manager.start_or_resume, warn=_warn) if resume else manager.start
    try:
        with exit_codes():
            result = start(config, callbacks=_display(console, talk), notices=_beside(config))
    except manager.FinishedError as error:
        console.print(f"nothing to do: {error.place} is finished at step {error.done}", soft_wrap=True)
        console.print("without --resume another run is started", soft_wrap=True)
        return
    _report(result, console)


def resume(
    run: Path,
    total_timesteps: int | None,
    data_file: Path | None,
    which: str = "last",
    track: Sequence[str] = (),
    *,
    talk: Talk,
) -> None:
    """`rl-training resume`."""
    standard_streams.only_a_display()
    console = plain_console()
    callbacks = _display(console, talk)
    try:
        with exit_codes():
            result = manager.resume(
                run,
                which=which,
                total_timesteps=total_timesteps,
                dataset=data_file,
                callbacks=callbacks,
                tracking=sections(track),
            )
    except manager.FinishedError as error:
        command = f"rl-training resume {in_shell(run)} --total-timesteps {2 * error.done}"
        raise ConfigError(f"{error}, such as `{command}`") from None
    except DataError as error:
        moved = data_file is None and _lost_data(run)
        way = f"; where it has moved: `rl-training resume {in_shell(run)} --dataset FILE`" if moved else ""
        raise DataError(f"{error}{way}") from error
    _report(result, console)


def _lost_data(run: Path) -> bool:
    """Whether nothing lies where a run's data lay any more."""
    section = read_plain_config(find_run(run)).get("dataset")
    path = section.get("path") if isinstance(section, Mapping) else None
    return isinstance(path, str) and not is_there(expand(path))


def finetune(
    run: Path,
    steps: int,
    env_id: str | None,
    name: str | None,
    overrides: Sequence[str],
    track: Sequence[str] = (),
    *,
    talk: Talk,
) -> None:
    """`rl-training finetune`."""
    standard_streams.only_a_display()
    console = plain_console()
    changes: dict[str, Any] = {} if name is None else {"name": name}
    for override in overrides:
        apply_override(changes, override)
    callbacks = _display(console, talk)
    with exit_codes():
        result = manager.finetune(
            run, steps, env_id=env_id, changes=changes, callbacks=callbacks, tracking=sections(track)
        )
    _report(result, console)


def demo(*, talk: Talk) -> None:
    """`rl-training demo`: the packaged CQL configuration, scored over twenty episodes it has not been scored on."""
    standard_streams.only_a_display()
    console = plain_console()
    config = read_config("cql/pendulum", [f"name=demo-{time.strftime('%Y%m%d-%H%M%S')}"])
    with exit_codes():
        result = manager.start(config, callbacks=_display(console, talk))
    if result.status == "finished":
        evaluation = manager.LoadedPolicy(result.checkpoint, result.actor).evaluate(20, seed=20_000)
        behaviour = result.run.describe()["dataset"]["return_mean"]
        score = f"{readable(evaluation.mean)} ± {readable(evaluation.std)}"
        console.print(f"\nover 20 new episodes the policy returns {score};")
        random = generate_random_dataset("Pendulum-v1", 4_000, seed=0).summary()["return_mean"]
        console.print(
            f"the data it learned from returns {readable(behaviour)} on average, random actions {readable(random)}"
        )
    _report(result, console, _page(result.run) if result.status == "finished" else "")


@contextmanager
def exit_codes() -> Iterator[None]:
    """What is cut off ends with the code of the signal, and with a word on what is left."""
    try:
        yield
    except CutOffError as error:
        print(f"{error}: what a run had saved is sound, and `rl-training resume` goes on from it", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


def _beside(config: TrainConfig) -> list[str]:
    """A notice where the data are one file of many alike."""
    if not isinstance(config.dataset, FileDatasetConfig):
        return []
    beside = alike_beside(expand(config.dataset.path))
    return [] if beside is None else [f"{config.dataset.path}: {beside}"]


def _warn(text: str) -> None:
    tell(f"warning: {' '.join(text.split())}", err=True)


def _display(console: Console, talk: Talk) -> list[Callback]:
    return [_Warnings()] if talk is Talk.QUIET else [ConsoleProgress(console, verbose=talk is Talk.VERBOSE)]


class _Warnings(Callback):
    """What has to be said without a display, too: on standard error."""

    looks_at_learner = False

    def on_start(self, loop: Loop) -> None:
        for notice in loop.notices:
            if notice.startswith(WARNING):
                tell(notice_line(notice), err=True)


def _print_plan(config: TrainConfig, console: Console, continued: RunDirectory | None) -> None:
    """The complete configuration and what it amounts to, after every check a real run would make."""
    if continued is not None:
        console.print(f"# continue: {continued.path}\n# dry run: nothing was written", soft_wrap=True)
        return
    plan = trainer_for(config.algo)(config, notices=_beside(config)).plan()
    console.print(to_yaml(config), end="", soft_wrap=True)
    for line in plan:
        console.print(f"# {line}", soft_wrap=True)
    console.print("# dry run: nothing was written")


def _report(result: TrainResult, console: Console, page: str = "") -> None:
    """What came out of the run, and the one command that goes on from there. page: where its report lies."""
    progress, run = result.progress, result.run
    data = run.describe()["dataset"] or {}  # none where the run collected its own
    reason = f": {result.reason}" if result.reason else ""
    console.print(f"\n{result.status} after {progress.steps:,} {progress.unit}{reason}")
    shown = shown_of(result.checkpoint.config, run)
    rows = [
        (f"last {shown.noun}", _score(progress.last, progress.unit, shown)),
        (f"best {shown.noun}", _score(progress.best, progress.unit, shown)),
        (f"recorded {shown.noun} per episode", _value(data["return_mean"], shown) if "return_mean" in data else ""),
        ("run", str(run.path)),
        ("learning curve", _curve(run)),
        ("report", page),
        ("checkpoint", str(run.checkpoint_path(progress.steps))),
    ]
    rows += [(name, _watched(notes)) for name, notes in read_notes(run).items()]
    rows += [("divergence", str(finding)) for finding in progress.divergences]
    rows += _of_metrics(run)
    width = max(len(label) for label, text in rows if text) + 2
    for label, text in rows:
        if text:
            console.print(f"  {label:<{width}}{text}", soft_wrap=True)
    if result.checkpoint.config.env_id is None and progress.steps:
        told = "estimates from the data alone how good the policy is"
        aside = set_aside(Provenance.read(data.get(KEY)), getattr(result.checkpoint.config.dataset, "path", None))
        command = " ".join([program(), "evaluate", in_shell(run.path), "--offline", *aside])
        console.print(f"no simulator: {command}  # {told}", soft_wrap=True)
    command = f"{program()} resume {in_shell(run.path)}"
    if result.status == "interrupted":
        console.print(f"continue: {command}", soft_wrap=True)
        raise SystemExit(EXIT_CODES.get((result.reason or "").partition(" ")[0], 1))
    further = longer(progress.total_steps, result.checkpoint.config.to_plain())
    total = further if progress.unit == "updates" else 2 * progress.total_steps
    console.print(f"continue: {command} --total-timesteps {total}", soft_wrap=True)


def _of_metrics(run: RunDirectory) -> list[tuple[str, str]]:
    """What the metrics give reason to doubt, and what else they say."""
    from rl_training.experiment.report.contents import read_runs

    (read,) = read_runs([run.path])
    return [("warning", doubt) for doubt in read.training_doubts] + [("note", note) for note in read.training_notes]


def _score(record: dict[str, Any] | None, unit: str, shown: Shown) -> str:
    return f"{_value(record['return_mean'], shown)} ({unit.removesuffix('s')} {record['step']:,})" if record else ""


def _value(value: float, shown: Shown) -> str:
    return f"{readable(shown.number(value))}{shown.behind}"


def _watched(notes: Mapping[str, Any]) -> str:
    """Where a tracker shows the run, or what kept it from that."""
    if "failed" in notes:
        return f"ended early: {notes['failed']}"
    where = str(notes.get("address") or "")
    with suppress(OSError):  # the working folder is gone
        return where.removeprefix(f"{Path.cwd()}{os.sep}")
    return where


def _page(run: RunDirectory) -> str:
    from rl_training.experiment.report import write_report

    place = run.path / "report.html"
    try:
        write_report([run.path], place)
    except RLTrainingError as error:
        return f"not written ({error})"
    return f"{place} (open it in a browser)"


def _curve(run: RunDirectory) -> str:
    try:
        return str(draw_learning_curve(run) or "")
    except (RLTrainingError, OSError) as error:
        return f"not drawn ({error})"
