"""`rl-training evaluate --offline`: what policies are worth by logged episodes alone, and how far to trust it."""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from rl_training.cli.given_options import require_draws
from rl_training.cli.next_estimates import AskedOffline, Estimated, estimated, next_steps
from rl_training.cli.other_data import read_as_the_runs
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import table, terminal_width
from rl_training.cli.using import tell_stopped
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.alike_reasons import frame, with_spans
from rl_training.experiment.costs import Shown, shown_of
from rl_training.experiment.horizon import discounted_by
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.experiment.offline_doubts import MOST_ROUNDS, behind_the_cuts, mean_of, with_last_rows
from rl_training.experiment.offline_evaluation import OfflineEvaluation, evaluate_offline
from rl_training.experiment.seed_choice import SeedChoice
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import gain_between
from rl_training.runtime.console import pace
from rl_training.runtime.display import clock
from rl_training.runtime.engine import choose_device
from rl_training.runtime.machine_load import use_threads
from rl_training.runtime.run_directory import run_of
from rl_training.wording import amount, likely, notice_line, readable

_SELDOM = 30.0  # seconds
_FEW_SET_ASIDE = 100  # episodes


def evaluate(runs: Sequence[Path], asked: AskedOffline, *, as_json: bool) -> None:
    """Estimate every run, show and store it, then compare those that were estimated on the same episodes."""
    policies = [(run, load_policy(run, asked.which)) for run in runs]
    for run, policy in policies:
        _require_data(run, policy, asked)
    if asked.stochastic:
        require_draws(policies)
    busy = use_threads(None, choose_device("auto"), resumed=True)
    done: list[Estimated] = []
    for run, policy in policies:
        began = time.monotonic()
        found = _estimate(policy, asked, [] if done else busy)
        tell_stopped(policy)
        shown = shown_of(policy.checkpoint.config, run_of(policy.place))  # as the run's report has it
        one = estimated(run, asked, policy, found, seconds=time.monotonic() - began, shown=shown)
        done.append(one)
        _store(one, policy)
        if not as_json:
            tell("\n".join([*_lines(one), *_taken(one, policy.seed_choice), *next_steps(one, asked)]))
    pairs = list(_compared(done))
    if as_json:
        told = [one.to_json() for one in done]
        better = [
            {"run": str(a.run), "over": str(b.run), **gain.to_json(), "probability": p} for a, b, gain, p in pairs
        ]
        tell(json.dumps(told[0] if len(told) == 1 else {"runs": told, "improvement": better}))
    elif pairs:
        costs = all(one.shown.costs for one in done)
        what = "saving of one run against" if costs else "improvement of one run over"
        tell(f"{what} another, on the same episodes (means over the trusted seeds)")
        rows = [(f"  {a.run.name}", f"over {b.run.name}", *_gain(gain, p)) for a, b, gain, p in pairs]
        tell("\n".join(table(("", "", "", "", ""), rows)[1:]))
    elif len(done) > 1:
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
    told = any(policy.why_not for policy in found.policies) or found.left_out  # in numbers, of rewards
    sign = " (notes speak of rewards, its negative)" if told else ""
    sums = f"{shown.named}, lower is better{sign}" if shown.costs else "raw reward"
    return [
        f"{one.run} ({one.which} checkpoint, update {found.step:,}) without a simulator: fitted Q evaluation",
        f"  on {data.title}: {size}; {settings.repeats} resamples of them, {amount(found.updates, 'update')} each",
        f"  {discounted_by(found.gamma)}, {sums}, from the start of an episode; behaviour: the recorded actions",
        *table(heads, rows, right=(value, better, "probability")),
        *_recorded(found, shown),
        *(f"  {line}" for line in _doubted(found)),
        *(f"  {notice_line(caution)}" for caution in found.cautions),
    ]


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


def _doubted(found: OfflineEvaluation) -> Iterator[str]:
    """Every reason once, and whom it is about, and what is to be done about several of them once."""
    of: dict[tuple[tuple[str, ...], str], dict[int, str]] = {}
    for policy in found.policies:
        for reason in policy.why_not:
            what, _, then = reason.partition("; ")
            of.setdefault((frame(what), then), {})[policy.seed] = what
    advice = Counter(then for _, then in of)
    for (_, then), whose in of.items():
        verb, what = "is" if len(whose) == 1 else "are", with_spans(list(whose.values()))
        own = f"; {then}" if then and advice[then] == 1 else ""
        yield f"{_seeds(whose)} {verb} not to be trusted, because {what}{own}"
    for then in (then for then, times in advice.items() if then and times > 1):
        seeds = dict.fromkeys(seed for (_, own), whose in of.items() if own == then for seed in whose)
        yield f"{_seeds(seeds)}: {then}"


def _seeds(whose: Iterable[int]) -> str:
    names = list(map(str, whose))
    return f"seed{'' if len(names) == 1 else 's'} {', '.join(names)}"


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
