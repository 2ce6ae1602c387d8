"""What to type after an estimate that is not trusted, or that decides nothing: one command, and how long it takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rl_training.cli.split_anew import SHARE, SplitAnew, split_anew
from rl_training.cli.telling import program
from rl_training.experiment.costs import RETURNS, Shown
from rl_training.experiment.deciding import deciding
from rl_training.experiment.horizon import (
    DEFAULT_GAMMA,
    LEAST_GAMMA,
    beginning,
    counted_share,
    nearer_gamma,
    steps_ahead,
)
from rl_training.experiment.manager import LoadedPolicy
from rl_training.experiment.metric_doubts import longer
from rl_training.experiment.offline_doubts import MOST_BEHIND_CUTS, MOST_ROUNDS
from rl_training.experiment.offline_evaluation import OfflineEvaluation, PolicyValue
from rl_training.experiment.statistics import Estimate
from rl_training.experiment.staying_closer import tighter
from rl_training.experiment.stored_estimates import data_key
from rl_training.paths import from_here, in_shell, resolved
from rl_training.runtime.display import clock
from rl_training.runtime.records import OFFLINE_EVALUATIONS
from rl_training.runtime.run_directory import run_of

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
    split: SplitAnew | None = None  # the command that sets more episodes aside; none where the log is not at hand
    of_log: int = 0  # episodes, those set aside included, as far as it is known
    closer: str | None = None  # the command that trains a policy which stays closer to the data, if there is one
    own_gamma: float = DEFAULT_GAMMA  # the run's
    own_trusted: bool | None = None  # what was judged with it, on the same episodes; none where nothing was

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run), "which": self.which, **self.found.to_json()}


def estimated(
    run: Path, asked: AskedOffline, policy: LoadedPolicy, found: OfflineEvaluation, **about: Any
) -> Estimated:
    """With what the command that comes next may need to know of the run."""
    directory = run_of(policy.place)
    own = float(getattr(policy.actor.learner.params, "gamma", DEFAULT_GAMMA))
    made = found.to_json()
    records = [] if directory is None else directory.sound_records(OFFLINE_EVALUATIONS)
    same = [one for one in records if one.get("gamma") == own and one.get("step") == made["step"]]
    judged = [one.get("value") is not None for one in same if data_key(one) == data_key(made)]
    facts = {} if directory is None else directory.describe().get("dataset") or {}
    return Estimated(
        run,
        asked.which,
        found,
        longer=_longer(run, policy),
        split=split_anew(policy),
        closer=_closer(policy),
        of_log=int(facts.get("episodes") or 0) + (0 if found.data.trained_on else found.data.episodes),
        own_gamma=own,
        own_trusted=judged[-1] if judged else None,
        **about,
    )


def next_steps(one: Estimated, asked: AskedOffline) -> Iterator[str]:
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
        yield from _nearer(one, asked, words)
    elif one.closer is not None and any(reason.closer for reason in reasons):
        yield f"next: {one.closer}  # stays closer to the data; then judge that run by the same episodes"


def _nearer(one: Estimated, asked: AskedOffline, words: str) -> Iterator[str]:
    """After a fit that leads nowhere: the run's own discount before any nearer one, and more episodes."""
    found, steps = one.found, one.found.observed.steps
    beyond = found.gamma > one.own_gamma
    if beyond and one.own_trusted is None:
        counts = f"the run's own discount, {one.own_gamma:g}, counts about {counted_share(one.own_gamma, steps):.0%}"
        yield f"next: {words}  # {counts} of an episode of {steps:,.0f} steps; {_takes(one, asked)}"
    few = found.data.episodes < _FEW_SET_ASIDE and found.observed.behind <= MOST_BEHIND_CUTS  # else no number helps
    if asked.data is not None and few and one.split is not None:
        yield _split(one.split, f"{found.data.episodes:,} episodes may be too few")
    if beyond and one.own_trusted is not False:
        return
    nearer = nearer_gamma(min(found.gamma, one.own_gamma) if beyond else found.gamma, steps)
    part = beginning(nearer, steps)
    counts = f"counts about the next {steps_ahead(nearer):.0f} steps"
    counts = counts if part is None else f"judges {part} of an episode, not the whole"
    yield f"next: {words} --gamma {nearer:g}  # {counts}; {_takes(one, asked)}"


def _split(split: SplitAnew, why: str) -> str:
    anew = f"train anew on {in_shell(split.train)}, then judge that run by {in_shell(split.aside)}"
    return f"next: {split.command}  # {why}: {anew}"


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
    missed = one.found.missed_by_the_mean()
    found = deciding(gain, repeats, episodes, can_train_on=one.longer is not None, besides=missed)
    if found is None:
        return
    same = _same_gamma(asked) + ("" if asked.updates is None else f" --updates {asked.updates}")
    if found.repeats is not None:
        again = _again(one, replace(asked, repeats=found.repeats))
        takes = _takes(one, asked, found.repeats / repeats)
        yield f"next: {again}{same}  # not decided: more resamples narrow the interval; {takes}"
    elif found.episodes is not None and _can_be_set_aside(one, asked, found.episodes):
        assert one.split is not None
        yield _split(one.split, f"not decided: {found.in_words} episodes might show it, {episodes:,} do not")
    elif found.episodes is not None:
        what = (
            f"MORE: {found.in_words} episodes that were not trained on; {episodes:,} cannot show so small a difference"
        )
        yield f"next: {_again(one, replace(asked, data='MORE'))}{same}  # not decided; {what}"
    else:
        yield f"next: {one.longer}  # not decided: about as good as the behaviour; evaluate again afterwards"


def _can_be_set_aside(one: Estimated, asked: AskedOffline, needed: float) -> bool:
    """Whether the log has so many that they can be set aside of it."""
    return asked.data is not None and one.split is not None and needed <= SHARE * one.of_log


def _closer(policy: LoadedPolicy) -> str | None:
    """The command that trains the same with a stronger hold on the data, under a name of its own."""
    run, setting = run_of(policy.place), tighter(policy)
    if run is None or setting is None:
        return None
    names = (f"{run.path.name}-closer{number or ''}" for number in range(1_000))
    name = next(name for name in names if not run.path.with_name(name).exists())
    config = in_shell(from_here(run.path) / "config.yaml")
    return f"{program()} train -c {config} --set {setting} --name {in_shell(name)}"


def _longer(named: Path, policy: LoadedPolicy) -> str | None:
    """The command that trains a run on, where it can be resumed: from its newest checkpoint, whichever was judged."""
    config, run = policy.checkpoint.config, run_of(policy.place)
    if run is None or config.dataset is None:
        return None
    place = named if resolved(named) == resolved(run.path) else from_here(run.path)
    done = max(int(policy.checkpoint.progress["steps"]), int(run.describe().get("step") or 0))
    return f"{program()} resume {in_shell(place)} --total-timesteps {longer(done, config.to_plain())}"
