"""What `rl-training data collect` does."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from rl_training import yaml_dialect
from rl_training.cli import standard_streams
from rl_training.cli.telling import program
from rl_training.data.behaviours import Behaviour
from rl_training.data.collection import Budget, Done
from rl_training.data.formats.writers import Target
from rl_training.data.generation import PENDULUM
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.recording import (
    PACKAGED,
    Recording,
    check_output,
    explore,
    packaged_behaviour,
    partial_path,
    record,
)
from rl_training.environments import read_spaces
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.manager import find_run, load_policy
from rl_training.plain_console import plain_console
from rl_training.run_places import train_first
from rl_training.runtime.console import PLAIN_SECONDS, pace, progress_bar
from rl_training.runtime.signals import EXIT_CODES, CutOffError, graceful_signals
from rl_training.wording import amount, readable

_REFRESH_SECONDS = 0.1


@dataclass(frozen=True)
class Request:
    """What was asked for; `run_options` are those of a trained run, None where not given."""

    env_id: str
    policy: str
    output: Target
    steps: int | None
    episodes: int | None
    seed: int
    n_envs: int
    noise: float
    epsilon: float
    run_options: Mapping[str, Any]


def collect(request: Request, *, force: bool, resume: bool, quiet: bool) -> None:
    """`rl-training data collect`: check everything, run, say what came out."""
    budget = Budget(request.steps, request.episodes)
    check_output(request.output, force=force, resume=resume)
    behaviour, name = _find_policy(request)
    recording = Recording(
        request.env_id,
        name,
        request.steps,
        request.episodes,
        request.seed,
        request.noise,
        request.epsilon,
        bool(request.run_options["--stochastic"]),
    )
    standard_streams.only_a_display()
    console = plain_console()
    display = _Display(console, request, budget, quiet=quiet, resume=resume)
    try:
        with graceful_signals(display), display:
            dataset, notes = record(
                recording,
                behaviour,
                request.output,
                n_envs=request.n_envs,
                command=_continue_command(),
                resume=resume,
                force=force,
                watch=display.watch,
            )
    except (_StopError, CutOffError):
        partial = partial_path(request.output)
        console.print(f"\ninterrupted: {display.stop_reason}; what is finished is kept in {partial}", soft_wrap=True)
        console.print(f"continue: {_continue_command()}", soft_wrap=True)
        raise SystemExit(EXIT_CODES.get(display.stop_reason.partition(" ")[0], 1)) from None
    _report(dataset, notes, request, console)


def _find_policy(request: Request) -> tuple[Behaviour, str]:
    """What acts, and its name in words that no other policy shares."""
    spaces = read_spaces(request.env_id)
    given = [option for option, value in request.run_options.items() if value is not None]
    if request.policy in PACKAGED:
        if given:
            raise ConfigError(f"{given[0]}: is for a trained policy, and {request.policy!r} is none; leave it out")
        behaviour, name = packaged_behaviour(request.policy, request.env_id, spaces), request.policy
    else:
        behaviour, name = _load_policy(request)
    return explore(behaviour, spaces, request.noise, request.epsilon), name


def _load_policy(request: Request) -> tuple[Behaviour, str]:
    options = request.run_options
    try:
        loaded = load_policy(request.policy, options["--which"] or "last")
    except CheckpointError as error:
        place = find_run(request.policy)
        if place.exists():
            raise
        fault = str(error).replace(train_first(place), "")  # who collects has perhaps no data to train on
        raise CheckpointError(f"{fault}; a policy is random, scripted or a trained run") from None
    sampling_seed = request.seed if options["--stochastic"] else None
    behaviour = loaded.behaviour(request.env_id, seed=options["--member"], sampling_seed=sampling_seed)
    return behaviour, loaded.describe(options["--member"])


def _continue_command() -> str:
    """The present command with --resume."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    return f"{program()} {shlex.join(arguments)} --resume"


def _report(dataset: TransitionDataset, notes: tuple[str, ...], request: Request, console: Console) -> None:
    """What was recorded, and the command that trains on it."""
    facts = dataset.summary()
    console.print(f"\nrecorded {amount(facts['transitions'], 'transition')} of {request.env_id}")
    spread = f" (from {readable(facts['return_min'])} to {readable(facts['return_max'])})"
    steps = f", of {readable(facts['length_mean'])} steps on average"
    several = facts["episodes"] > 1
    rows = [
        ("episodes", f"{facts['episodes']:,}{steps if several else ''}"),
        ("mean return" if several else "return", f"{readable(facts['return_mean'])}{spread if several else ''}"),
        ("folder" if request.output.is_folder else "file", str(request.output.path)),
        *(("note", note) for note in notes),
    ]
    for label, text in rows:
        console.print(f"  {label:<15}{text}", soft_wrap=True)
    console.print(f"train on it: {_training_command(request)}", soft_wrap=True)


def _training_command(request: Request) -> str:
    path = request.output.name
    try:
        plain = yaml_dialect.read(path) == path
    except ValueError:
        plain = False
    settings = [f"dataset={path if plain else json.dumps(path)}"]
    if request.env_id != PENDULUM:
        settings.insert(0, f"env_id={request.env_id}")
    words = ["train", "--config", "cql/pendulum", *(word for setting in settings for word in ("--set", setting))]
    return f"{program()} {shlex.join(words)}"


class _StopError(Exception):
    """Raised between two steps, when a signal has come."""


class _Display:
    """A live line on a terminal, plain lines anywhere else; it also is where a signal is noticed."""

    def __init__(self, console: Console, request: Request, budget: Budget, *, quiet: bool, resume: bool) -> None:
        self.console, self.request, self.quiet, self.resume = console, request, quiet, resume
        self.unit = "steps" if budget.steps is not None else "episodes"
        self.total = int(budget.steps or budget.episodes or 0)
        self.stop_reason = ""
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._first: int | None = None
        self._count = 0
        self._began = self._shown = 0.0

    def stop(self, reason: str, status: str) -> None:
        """What a signal calls."""
        self.stop_reason = self.stop_reason or reason

    def __enter__(self) -> None:
        """Nothing is shown before the first step: what is refused until then is all there is to say."""

    def __exit__(self, *_: object) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._count)
            self._bar.stop()

    def watch(self, done: Done) -> None:
        """After every step."""
        if self.stop_reason:
            raise _StopError
        now = time.monotonic()
        self._count = count = min(done.rows if self.unit == "steps" else done.episodes, self.total)
        if self._first is None:
            self._first, self._began, self._shown = count, now, now
            self._begin()
        if self.quiet or now - self._shown < (PLAIN_SECONDS if self._bar is None else _REFRESH_SECONDS):
            return
        self._shown = now
        speed = pace(count - self._first, self.total - count, now - self._began)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=count, pace=speed)
        else:
            self.console.print(f"{count:>9,}/{self.total:,} {self.unit} · {speed}", soft_wrap=True)

    def _begin(self) -> None:
        if self.quiet:
            return
        request, verb = self.request, "continuing" if self.resume else "collecting"
        self.console.print(
            f"{verb} {self.total:,} {self.unit} of {request.env_id} with {request.policy}, seed {request.seed},"
            f" into {request.output.path}",
            soft_wrap=True,
        )
        if self.console.is_terminal:
            self._bar = progress_bar(self.console)
            self._task = self._bar.add_task("collecting", total=self.total, pace="", unit=self.unit)
            self._bar.start()
