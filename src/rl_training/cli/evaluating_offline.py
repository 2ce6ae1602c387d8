"""`rl-training evaluate --offline`: what policies are worth by logged episodes alone, and how far to trust it."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from rl_training.cli.given_options import require_draws
from rl_training.cli.other_data import read_as_the_runs
from rl_training.cli.telling import program, tell
from rl_training.cli.text_tables import table, terminal_width
from rl_training.cli.using import tell_stopped
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.costs import RETURNS, Shown, shown_of
from rl_training.experiment.deciding import deciding
from rl_training.experiment.horizon import LEAST_GAMMA, beginning, discounted_by, nearer_gamma, steps_ahead
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.experiment.metric_doubts import longer
from rl_training.experiment.offline_doubts import MOST_ROUNDS, behind_the_cuts, mean_of, with_last_rows
from rl_training.experiment.offline_evaluation import OfflineEvaluation, PolicyValue, evaluate_offline
from rl_training.experiment.seed_choice import SeedChoice
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import gain_between
from rl_training.paths import from_here, in_shell, resolved
from rl_training.runtime.console import pace
from rl_training.runtime.display import clock
from rl_training.runtime.engine import choose_device
from rl_training.runtime.machine_load import use_threads
from rl_training.runtime.run_directory import run_of
from rl_training.wording import amount, likely, notice_line, readable

_SELDOM = 30.0  # seconds
_FEW_SET_ASIDE = 100  # episodes


@dataclass(frozen=True)
class AskedOffline:
    """The options, the same for every run."""

    data: str | None
    updates: int | None
    repeats: int | None
    gamma: float | None
    which: str
    members: list[int] | None
    stochastic: bool

    def options(self) -> list[str]:
        """As words of a command line, but for those of how far and how long."""
        words = [] if self.which == "last" else ["--which", self.which]
        words += [] if self.data is None else ["--data", self.data]
        words += [] if self.repeats is None else ["--repeats", str(self.repeats)]
        words += [] if self.members is None else ["--seeds", ",".join(map(str, self.members))]
        return words + ["--stochastic"] * self.stochastic


@dataclass(frozen=True)
class Estimated:
    """One run and what was found."""

    run: Path
    which: str
    found: OfflineEvaluation
    seconds: float = 0.0  # it took
    shown: Shown = RETURNS
    longer: str | None = None  # the command that trains it on; none where nothing can be resumed

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run), "which": self.which, **self.found.to_json()}


def evaluate(runs: Sequence[Path], asked: AskedOffline, *, as_json: bool) -> None:
    """Estimate every run, show and store it, then compare those that were estimated on the same episodes."""
    policies = [(run, load_policy(run, asked.which)) for run in runs]
    for run, policy in policies:
        _require_data(run, policy, asked)
    if asked.stochastic:
        require_draws(policies)
    busy = use_threads(None, choose_device("auto"), resumed=True)
    estimated: list[Estimated] = []
    for run, policy in policies:
        began = time.monotonic()
        found = _estimate(policy, asked, [] if estimated else busy)
        tell_stopped(policy)
        shown = shown_of(policy.checkpoint.config, run_of(policy.place))  # as the run's report has it
        one = Estimated(run, asked.which, found, time.monotonic() - began, shown, _longer(run, policy))
        estimated.append(one)
        _store(one, policy)
        if not as_json:
            tell("\n".join([*_lines(one), *_taken(one, policy.seed_choice), *_next(one, asked)]))
    pairs = list(_compared(estimated))
    if as_json:
        told = [one.to_json() for one in estimated]
        better = [
            {"run": str(a.run), "over": str(b.run), **gain.to_json(), "probability": p} for a, b, gain, p in pairs
        ]
        tell(json.dumps(told[0] if len(told) == 1 else {"runs": told, "improvement": better}))
    elif pairs:
        costs = all(one.shown.costs for one in estimated)
        what = "saving of one run against" if costs else "improvement of one run over"
        tell(f"{what} another, on the same episodes (means over the trusted seeds)")
        rows = [(f"  {a.run.name}", f"over {b.run.name}", *_gain(gain, p)) for a, b, gain, p in pairs]
        tell("\n".join(table(("", "", "", "", ""), rows)[1:]))
    elif len(estimated) > 1:
        tell("not compared: that needs trusted estimates on the same episodes, with the same --gamma and --repeats")


def _taken(one: Estimated, chosen: SeedChoice) -> list[str]:
    """Which seed leaves the run, and why: by another estimate, where none of these can be trusted."""
    if chosen.by == "estimate" and not one.found.trusted:
        return [f"  export and predict take seed {chosen.seed}, by another estimate, which is trusted ({chosen.how})"]
    return [f"  {line}" for line in chosen.taken]


def _require_data(run: Path, policy: LoadedPolicy, asked: AskedOffline) -> None:
    if asked.data is None and policy.checkpoint.config.dataset is None:
        raise ConfigError(f"{run}: has no data of its own on disk; --data FILE names the episodes to evaluate it on")


def _estimate(policy: LoadedPolicy, asked: AskedOffline, notices: Sequence[str]) -> OfflineEvaluation:
    """notices: told when it begins, as a refusal is one line."""
    ignored = warnings.catch_warnings(action="ignore")  # what diverged is told as a note
    alike = read_as_the_runs("--data", asked.data, [policy.checkpoint.config.dataset])
    with alike, ignored, _progress(can_go_on=asked.updates is None) as on_part:
        return evaluate_offline(
            policy,
            asked.data,
            updates=asked.updates,
            repeats=asked.repeats,
            gamma=asked.gamma,
            deterministic=False if asked.stochastic else None,
            members=asked.members,
            on_start=lambda: _tell_each(notices),
            on_part=on_part,
        )


def _tell_each(notices: Sequence[str]) -> None:
    for notice in notices:
        tell(notice_line(notice), err=True)


@contextmanager
def _progress(*, can_go_on: bool) -> Iterator[Callable[[int, int], None]]:
    """A line that counts updates; where nobody watches, one now and then, as a long one may be waited for."""
    told = _Told(can_go_on=can_go_on)
    if not sys.stderr.isatty():
        yield told.seldom
        return
    try:
        yield told.always
    finally:
        typer.echo("\r" + " " * _width() + "\r", err=True, nl=False)


def _width() -> int:
    """Of the line that counts updates: one that is wrapped could not be written over."""
    return (terminal_width() or 100) - 1


class _Told:
    """How far the fits are, of how many updates, for how long still and at the longest, and why more were added."""

    def __init__(self, *, can_go_on: bool) -> None:
        self._can_go_on = can_go_on
        self._began = self._last = time.monotonic()
        self._first = self._planned = 0  # updates: of the first round, and with those that were added

    def always(self, done: int, planned: int) -> None:
        typer.echo("\r" + self._line(done, planned)[: _width()].ljust(_width()), err=True, nl=False)

    def seldom(self, done: int, planned: int) -> None:
        """Every half minute, where more are added, and at first, if it may be for long."""
        added, first, line = 0 < self._planned < planned, not self._planned, self._line(done, planned)
        long = first and self._longest(done) >= _SELDOM
        if added or long or time.monotonic() - self._last >= _SELDOM:
            self._last = time.monotonic()
            tell(line, err=True)

    def _line(self, done: int, planned: int) -> str:
        self._first, self._planned = self._first or planned, planned
        added = planned - self._first
        gone = time.monotonic() - self._began
        line = f"fitted: {done:,} of {amount(planned, 'update')} · {pace(done, planned - done, gone)}"
        if self._can_go_on and planned < MOST_ROUNDS * self._first:
            line += f", {clock(self._longest(done))} if it does not settle"
        return f"{line} · {added:,} added: not settled yet" if added else line

    def _longest(self, done: int) -> float:
        """Seconds that are left if all is done that may be."""
        most = MOST_ROUNDS * self._first if self._can_go_on else self._planned
        return (most - done) * (time.monotonic() - self._began) / max(done, 1)


def _store(one: Estimated, policy: LoadedPolicy) -> None:
    try:
        one.found.store(policy)
    except CheckpointError as error:  # a run that may only be read has been evaluated all the same
        tell(f"note: not stored: {error}", err=True)


def _lines(one: Estimated) -> list[str]:
    found, shown = one.found, one.shown
    data, settings = found.data, found.settings
    size = f"{amount(data.episodes, 'episode')}, {amount(data.transitions, 'transition')}"
    rows = [
        ("  recorded", *_value(found.behaviour_return, shown), "", "", ""),
        ("  behaviour", *_value(found.behaviour_value, shown), "", "", ""),
    ]
    for policy in found.policies:
        numbers = (*_value(policy.value, shown), *_gain(policy.improvement, policy.probability))
        rows.append((f"  seed {policy.seed}", *(numbers if policy.trusted else ("–",) * 5)))
    mean, gain = found.mean_value(), found.mean_improvement()
    if len(found.trusted) > 1 and mean is not None and gain is not None:
        rows.append((f"  {mean_of(len(found.trusted), len(found.policies))}", *_value(mean, shown), *_gain(*gain)))
    value, better = ("cost", "saving") if shown.costs else ("value", "improvement")
    heads = ("", value, f"{LEVEL:.0%} interval", better, f"{LEVEL:.0%} interval ", "probability")
    sums = f"{shown.named}, lower is better (notes speak of rewards, its negative)" if shown.costs else "raw reward"
    return [
        f"{one.run} ({one.which} checkpoint, update {found.step:,}) without a simulator: fitted Q evaluation",
        f"  on {data.title}: {size}; {settings.repeats} resamples of them, {amount(found.updates, 'update')} each",
        f"  {discounted_by(found.gamma)}, {sums}, from the start of an episode; behaviour: the recorded actions",
        *table(heads, rows, right=(value, better, "probability")),
        *_recorded(found, shown),
        *(f"  {names} not to be trusted, because {reason}" for reason, names in _doubted(found)),
        *(f"  note: {caution}" for caution in found.cautions),
    ]


def _next(one: Estimated, asked: AskedOffline) -> Iterator[str]:
    """The command that may find more out, and how long it takes, where nothing is trusted or nothing decided."""
    found = one.found
    reasons = [reason for policy in found.policies for reason in policy.why_not]
    gain = found.mean_improvement()
    if gain is not None:
        yield from _undecided(one, asked, gain[0])
    if gain is not None or not reasons:
        return
    updates = [most for policy in found.policies if (most := _settled_by(policy)) is not None]
    words = _again(one, asked)
    if updates:
        takes = one.seconds * max(updates) / max(found.updates, 1)
        yield f"next: {words}{_same_gamma(asked)} --updates {max(updates)}  # about {clock(takes)}"
    elif all(reason.nearer or reason.updates is not None for reason in reasons) and found.gamma > LEAST_GAMMA:
        if asked.data is not None and found.data.episodes < _FEW_SET_ASIDE:
            few = f"{found.data.episodes:,} episodes may be too few; set more aside, and train on the others"
            yield f"next: {program()} data split --held-out 0.5  # {few}"
        nearer = nearer_gamma(found.gamma, found.observed.steps)
        part = beginning(nearer, found.observed.steps)
        counts = f"counts about the next {steps_ahead(nearer):.0f} steps"
        counts = counts if part is None else f"judges {part} of an episode, not the whole"
        yield f"next: {words} --gamma {nearer:g}  # {counts}; {_takes(one, asked)}"


def _settled_by(policy: PolicyValue) -> int | None:
    """The updates after which a policy may be trusted; none where a reason speaks against it that they do not mend."""
    asked = [reason.updates or 0 for reason in policy.why_not]
    return max(asked) if all(asked) and asked else None


def _takes(one: Estimated, asked: AskedOffline, work: float = 1.0) -> str:
    """How long the same would take again, with so many times the work; more updates may be added."""
    first, done = one.found.settings.updates, max(one.found.updates, 1)
    least = one.seconds * work * first / done
    most = "" if asked.updates is not None else f", {clock(MOST_ROUNDS * least)} if it does not settle"
    return f"about {clock(least)}{most}"


def _again(one: Estimated, asked: AskedOffline) -> str:
    return " ".join([program(), "evaluate", in_shell(one.run), "--offline", shlex.join(asked.options())]).rstrip()


def _same_gamma(asked: AskedOffline) -> str:
    return "" if asked.gamma is None else f" --gamma {asked.gamma!r}"


def _undecided(one: Estimated, asked: AskedOffline, gain: Estimate) -> Iterator[str]:
    """The command that may decide it, where an interval holds 0."""
    repeats, episodes = one.found.settings.repeats, one.found.data.episodes
    found = deciding(gain, repeats, episodes, can_train_on=one.longer is not None)
    if found is None:
        return
    same = _same_gamma(asked) + ("" if asked.updates is None else f" --updates {asked.updates}")
    if found.repeats is not None:
        again = _again(one, replace(asked, repeats=found.repeats))
        takes = _takes(one, asked, found.repeats / repeats)
        yield f"next: {again}{same}  # not decided: more resamples narrow the interval; {takes}"
    elif found.episodes is not None:
        what = (
            f"MORE: {found.episodes} episodes that were not trained on; {episodes:,} cannot show so small a difference"
        )
        yield f"next: {_again(one, replace(asked, data='MORE'))}{same}  # not decided; {what}"
    else:
        yield f"next: {one.longer}  # not decided: about as good as the behaviour; evaluate again afterwards"


def _longer(named: Path, policy: LoadedPolicy) -> str | None:
    """The command that trains a run on, where it can be resumed: from its newest checkpoint, whichever was judged."""
    config, run = policy.checkpoint.config, run_of(policy.place)
    if run is None or config.dataset is None:
        return None
    place = named if resolved(named) == resolved(run.path) else from_here(run.path)
    done = max(int(policy.checkpoint.progress["steps"]), int(run.describe().get("step") or 0))
    return f"{program()} resume {in_shell(place)} --total-timesteps {longer(done, config.to_plain())}"


def _recorded(found: OfflineEvaluation, shown: Shown) -> Iterator[str]:
    """What the episodes returned, and how much of the values no row of them tells."""
    seen, does = found.observed, "cost" if shown.costs else "returned"
    whole = f"{readable(shown.number(seen.undiscounted))} in {seen.steps:,.0f} steps on average"
    if found.gamma < 1.0:
        whole += f", undiscounted{with_last_rows(seen.unfollowed)}"
        whole += "; --gamma 1 estimates that" if found.sums_up else ""
    yield f"  recorded: an episode {does} {whole}"
    values = [("the behaviour", found.behaviour_value.value, seen.tail)]
    values += [(f"seed {policy.seed}", policy.value.value, policy.tail) for policy in found.trusted]
    told = [(name, shown.number(value), shown.number(tail)) for name, value, tail in values]
    yield from (f"  {line}" for line in behind_the_cuts(seen.behind, told))


def _doubted(found: OfflineEvaluation) -> Iterator[tuple[str, str]]:
    """Every reason once, and whom it is about."""
    of: dict[str, list[int]] = {}
    for policy in found.policies:
        for reason in policy.why_not:
            of.setdefault(reason, []).append(policy.seed)
    for said, seeds in of.items():
        one = len(seeds) == 1
        yield said, f"seed{'' if one else 's'} {', '.join(map(str, seeds))} {'is' if one else 'are'}"


def _value(found: Estimate, shown: Shown) -> tuple[str, str]:
    found = shown.estimate(found)
    return readable(found.value), _ends(found)


def _gain(found: Estimate, probability: float) -> tuple[str, str, str]:
    sign = "+" if found.value > 0 else ""
    return f"{sign}{readable(found.value)}", _ends(found), likely(probability)


def _ends(found: Estimate) -> str:
    return "" if found.low is None or found.high is None else f"{readable(found.low)} to {readable(found.high)}"


def _compared(estimated: Sequence[Estimated]) -> Iterator[tuple[Estimated, Estimated, Estimate, float]]:
    """Every two runs whose repeats have the same episodes and batches, the better first."""
    for one, other in itertools.combinations(estimated, 2):
        for better, worse in ((one, other), (other, one)):
            found = gain_between(better.to_json(), worse.to_json())
            if found is not None and found[0].value >= 0.0:
                yield better, worse, *found
                break
