"""When an estimate without a simulator is not to be trusted, why, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from rl_training.data.few_episodes import FEWEST_EPISODES
from rl_training.experiment import statistics
from rl_training.experiment.statistics import Estimate
from rl_training.runtime.fitted_evaluation import DEFAULT_UPDATES, FittedValues
from rl_training.runtime.model_rollouts import ModelledValues
from rl_training.runtime.modelled_ends import ModelledEnds
from rl_training.wording import amount, readable

FEW_EPISODES = 100  # below which a note says what no check sees
MOST_OUTSIDE = 0.2  # share of states with an action that similar states of the data have not seen
LARGEST_DRIFT = 0.25  # change of a value at the end of the fit; this and those below in spreads of the returns
LARGEST_MISS = 0.5  # of the value on left-out episodes
LARGEST_BIAS = 0.25  # of the behaviour's fitted value over the recorded steps, whose return is known
LARGEST_INTERVAL = 1.0  # half of it
LARGEST_GAP = 0.75  # between the value and what a model of the dynamics says
LEAST_FORETOLD = 0.97  # of the variance of left-out windows' returns: an error of a sixth of their deviation
LEAST_ENDS_FORETOLD = 0.9  # of left-out episodes, within a step
MOST_STRANGE_ENDS = 0.1  # of a policy's episodes in such a model; 0.01 of those recorded
BEYOND = 0.1  # by how much a Q may leave the range that rewards allow, in that range with zero in it
MOST_BEHIND_CUTS = 0.5  # of an episode's discounted weight: beyond, nothing in the data can contradict the fit
LEAST_BEHIND = 0.01  # worth a sentence
MOST_LONE_CUTS = 0.1  # of the cuts, without a word on them
MOST_ROUNDS = 4  # of the default updates, while a fit has not settled
_PARTS = 10  # of one round
_FEWEST_PARTS = 5  # that can have settled: the first tenth of a fit regresses returns
_APART = 1.1  # how far repeats move apart, in what they were apart, to be on their way out


class Doubt(str):
    """A reason not to trust a value, in a sentence that ends in what to do. updates: as many may be enough. nearer: a
    smaller discount may help. closer: a policy that stays closer to the data may be trusted."""

    updates: int | None
    nearer: bool
    closer: bool

    def __new__(cls, text: str, *, updates: int | None = None, nearer: bool = False, closer: bool = False) -> Self:
        made = super().__new__(cls, text)
        made.updates, made.nearer, made.closer = updates, nearer, closer
        return made


def with_last_rows(count: float) -> str:
    """What an undiscounted return counts and no value does, to follow it; empty where that is nothing."""
    rows = "the last row of a cut episode" if count == 1 else f"the last rows of {int(count):,} cut episodes"
    return f", with {rows}, which no value counts, as nothing was recorded behind" if count else ""


def doubts(fitted: FittedValues, column: int, outside: float, modelled: ModelledValues | None = None) -> list[Doubt]:
    """Why the value of one policy is not to be trusted; none where nothing speaks against it. modelled: a second
    opinion, if there is one."""
    spread = spread_of(fitted)
    if found := _of_the_data(fitted):
        return found  # what the fits come to is no matter then, and what would mend them mends nothing
    if runaway := _runaway(fitted, column):
        return [runaway]
    if stopped := _stopped(fitted, column):
        return [stopped]
    if outside > MOST_OUTSIDE:
        strange = (
            f"in {outside:.0%} of the states the policy does what no similar state of the data has seen"
            f" (at most {MOST_OUTSIDE:.0%}); train one that stays closer to the data (bc, or a stronger constraint)"
        )
        found.append(Doubt(strange, closer=True))
    found += _missed(fitted, column, spread)
    if _short(fitted):
        return [*found, TOO_SHORT]
    half = _half(statistics.student_estimate(0.0, fitted.repeats[:, column]))
    if half > LARGEST_INTERVAL * spread:
        apart = (
            f"fits on resampled episodes gave very different values (± {readable(half)}, more than the episodes' own"
            f" ± {readable(spread)})"
        )
        found.append(_unsettled(apart, fitted, column, " --repeats 10, or record more"))
    if (drift := _drift(fitted, column)) > LARGEST_DRIFT * spread:
        moved = f"the value still moved by {readable(drift)} at the end of the fit"
        found.append(_unsettled(moved, fitted, column))
    found += _behaviour_lost(fitted, spread) + _contradicted(fitted, column, modelled)
    return found + _strange_ends(column, None if modelled is None else modelled.ends)


def _of_the_data(fitted: FittedValues) -> list[Doubt]:
    """What speaks against every policy, whatever the fits come to."""
    found, episodes, behind = [], len(fitted.observed), float(fitted.behind.mean())
    if episodes < FEWEST_EPISODES:
        few = f"there are only {episodes} episodes, and an interval needs at least {FEWEST_EPISODES}; record more"
        found.append(Doubt(few))
    if behind > MOST_BEHIND_CUTS:
        said = (
            f"{behind:.0%} of an episode's discounted weight lies behind its cut, where the fit alone speaks (at most"
            f" {MOST_BEHIND_CUTS:.0%}); record longer episodes, or ask for a nearer horizon with a smaller --gamma"
        )
        found.append(Doubt(said, nearer=True))
    return found


def _missed(fitted: FittedValues, column: int, spread: float) -> list[Doubt]:
    left_out = fitted.left_out[:, column]
    missed = float(mean_left_out(fitted)[column])
    if not abs(missed) > max(LARGEST_MISS * spread, _half_of_finite(left_out)):
        return []
    said = (
        f"on episodes left out of a resample the value misses what followed by {readable(missed)} (episodes differ"
        f" by ± {readable(spread)}): it has learned the others by heart; record more episodes"
    )
    return [Doubt(said)]


def _contradicted(fitted: FittedValues, column: int, modelled: ModelledValues | None) -> list[Doubt]:
    """Whether a model that foretells left-out episodes says something else than the fit."""
    if modelled is None or not modelled.foretold >= LEAST_FORETOLD:  # not a number, where nothing was left out
        return []
    opinion, value = statistics.student_mean(modelled.values[:, column]), float(fitted.values[column])
    if not abs(opinion.value - value) > max(LARGEST_GAP * spread_of(fitted), _half(opinion)):
        return []
    said = (
        f"played in a model of the dynamics, the policy is worth {readable(opinion.value)}, and the fit says"
        f" {readable(value)}: the model foretells {modelled.foretold:.0%} of how left-out episodes differ over"
        f" {amount(modelled.window, 'step')}, so these data do not tell which is right; record more episodes, with"
        " other actions, too, or of this policy if it is safe to try"
    )
    return [Doubt(said)]


def _strange_ends(column: int, ends: ModelledEnds | None) -> list[Doubt]:
    """Whether a model that foretells when left-out episodes end has the policy's end otherwise than any did."""
    if ends is None or not ends.foretold >= LEAST_ENDS_FORETOLD:
        return []
    told = [
        f"{share:.{int(share < most + 0.01)}%} of its episodes {what} (at most {most:.0%})"
        for share, most, what in (
            (float(ends.elsewhere[column]), MOST_STRANGE_ENDS, "end in states in which none of the data did"),
            (float(ends.endless[column]), MOST_STRANGE_ENDS + ends.cut, "go on for longer than any of the data"),
        )
        if share > most
    ]
    if not told:
        return []
    said = (
        f"played in a model of the dynamics, which foretells the end of {ends.foretold:.0%} of left-out episodes,"
        f" {' and '.join(told)}: the policy goes where no data are, and the fit"
        " guesses there; train one that stays closer to the data (bc, or a stronger constraint), or record"
        " episodes of this policy if it is safe to try"
    )
    return [Doubt(said, closer=True)]


def _unsettled(said: str, fitted: FittedValues, column: int, besides: str = "") -> Doubt:
    """Of a fit that has not settled. More updates may help, unless these lead further away."""
    if _outwards(fitted, column):
        return Doubt(f"{said}; it is diverging; more updates will not help; {_REMEDY}", nearer=True)
    updates = 2 * fitted.updates
    return Doubt(f"{said}; go further with --updates {updates}{besides}", updates=updates)


# In the order of what helps most.
_REMEDY = (
    "record more episodes, or look less far ahead with a smaller --gamma (0.99 counts about 100 steps, 0.9 about 10)"
)
TOO_SHORT = Doubt(
    f"a fit of fewer than {DEFAULT_UPDATES:,} updates stays near the data's own returns, from which it starts, and"
    " looks settled there; leave out --updates"
)


def _short(fitted: FittedValues) -> bool:
    """Whether a round was planned so short that its rate falls before values have travelled: nothing moves, then."""
    return fitted.updates * _PARTS < DEFAULT_UPDATES * len(fitted.course)


def _outwards(fitted: FittedValues, column: int) -> bool:
    """Whether repeats move apart, or the value faster than it did before: what a fit does before it diverges."""
    course = fitted.course[:, :, column]
    back = _back(len(course))
    now, then, before = course[-1], course[-1 - back], course[max(0, len(course) - 1 - 2 * back)]
    drift = abs(now.mean() - then.mean())
    faster = drift > LARGEST_DRIFT * spread_of(fitted) and drift > abs(then.mean() - before.mean())
    return bool(now.std() > _APART * then.std() or faster)


def behind_the_cuts(share: float, values: Iterable[tuple[str, float, float]]) -> list[str]:
    """How much of which values was not recorded, as a newcomer reads it: names, values, and what is fitted of them."""
    if share < LEAST_BEHIND:
        return []
    told = ", ".join(f"{readable(tail)} of {name}'s {readable(value)}" for name, value, tail in values)
    return [
        "where episodes were cut (by a time limit, at a hole in the log), the values count what would have come after,"
        f" which nobody recorded and the fit guesses: {share:.0%} of the discounted weight"
        + (f", {told}" if told else "")
    ]


def mean_of(trusted: int, seeds: int) -> str:
    """What to call a mean, which leaves out seeds that are not trusted."""
    return f"mean of {trusted} seeds" if trusted == seeds else f"mean of {trusted} of {seeds} seeds"


def caution_of_cuts(fitted: FittedValues) -> list[str]:
    """A word on cuts that the fit bridges to states that are not like them, where what lies behind them counts."""
    if fitted.lone_cuts <= MOST_LONE_CUTS or float(fitted.behind.mean()) < LEAST_BEHIND:
        return []
    return [
        f"{fitted.lone_cuts:.0%} of the cuts are in states that the first half of no other episode comes near: what"
        " lies behind them is guessed from states that are not alike; record longer episodes, or try a smaller --gamma"
    ]


def caution_of_few(episodes: int) -> str:
    """A word on intervals that hold the chance of the draw, but not what few episodes have the fit get wrong."""
    return (
        f"{episodes} episodes are few: if all of them were run alike, a policy that is much worse can come out as good"
        " as the behaviour; a similar estimate is no proof of similar quality"
    )


def caution_of_a_stop(fitted: FittedValues, seed: int) -> list[str]:
    """A word on a fit that ran away later than it is judged."""
    if fitted.left is None:
        return []
    return [
        f"seed {seed} is judged after {fitted.updates:,} updates: after {fitted.left.updates:,}, its values became"
        " impossible"
    ]


def ran_away(fitted: FittedValues) -> set[int]:
    """The policies whose value, or that of the behaviour beside them, is none that rewards could add up to."""
    low, high = fitted.allowed
    return {column for column in range(fitted.repeats.shape[1] - 1) if low < high and _runaway(fitted, column)}


def unsettled(fitted: FittedValues) -> bool:
    """Whether more updates may help: a value moves, a policy's repeats disagree or the behaviour is not found again.

    The first round may part the repeats, which start from the same returns; a later one that does leads nowhere.
    Repeats of the behaviour disagree as the episodes do. Where the data alone forbid to trust a value, it is not worth
    the time.
    """
    if _of_the_data(fitted):
        return False
    spread, behaviour = spread_of(fitted), fitted.repeats.shape[1] - 1
    going = [column for column in range(behaviour) if column not in fitted.gone]
    if not np.isfinite(fitted.repeats[:, [*going, behaviour]]).all():
        return False
    moving = {column for column in going if _moving(fitted, column)}
    if _drift(fitted, behaviour) > LARGEST_DRIFT * spread or _behaviour_lost(fitted, spread):
        moving.add(behaviour)
    first = len(fitted.course) <= _PARTS
    return any(first or not _outwards(fitted, column) for column in moving)


def _moving(fitted: FittedValues, column: int) -> bool:
    """Whether one value still moves, or its repeats disagree."""
    spread = spread_of(fitted)
    half = _half(statistics.student_estimate(0.0, fitted.repeats[:, column]))
    return _drift(fitted, column) > LARGEST_DRIFT * spread or half > LARGEST_INTERVAL * spread


def _stopped(fitted: FittedValues, column: int) -> Doubt | None:
    """Of a fit that ran away before it had settled."""
    if fitted.left is None:
        return None
    early = len(fitted.course) < _FEWEST_PARTS
    if not (early or _moving(fitted, column) or _behaviour_lost(fitted, spread_of(fitted))):
        return None
    return _runaway(fitted.left, column)


def mean_left_out(fitted: FittedValues) -> statistics.Scores:
    """By how much left-out episodes came out better than fitted, mean over the repeats that left any out, `[P + 1]`."""
    there = np.isfinite(fitted.left_out)
    count = there.sum(0)
    return np.asarray(np.where(there, fitted.left_out, 0.0).sum(0) / np.maximum(count, 1))


def _behaviour_lost(fitted: FittedValues, spread: float) -> list[Doubt]:
    """Whether the behaviour's fitted value of the recorded steps is not what its episodes returned in them."""
    recorded = float(fitted.values[-1] - fitted.tails[-1])  # the fit behind the cuts takes no part
    known = float(fitted.observed.mean())
    if abs(recorded - known) <= max(
        LARGEST_BIAS * spread, _half(statistics.student_estimate(0.0, fitted.repeats[:, -1]))
    ):
        return []
    said = (
        f"over the recorded steps the behaviour itself is fitted as {readable(recorded)}, and its episodes returned"
        f" {readable(known)}"
    )
    if _drift(fitted, -1) > LARGEST_DRIFT * spread or fitted.updates < _LONG:
        return [_unsettled(f"{said}: the fit is not there yet", fitted, -1)]
    unseen = "the observations do not tell what decides the return (a mode, a goal, a time left?); add it to them"
    return [Doubt(f"{said}, although the fit has settled: {unseen}")]


_LONG = 20_000  # updates after which a fit that has settled is taken at its word


def _drift(fitted: FittedValues, column: int) -> float:
    """Change of the value in the last fifth of the only round, or in the whole of the last."""
    course = fitted.course[:, :, column].mean(1)
    return float(abs(course[-1] - course[-1 - _back(len(course))]))


def drifts(fitted: FittedValues, column: int) -> statistics.Scores:
    """The same of each repeat, `[R]`."""
    course = fitted.course[:, :, column]
    return np.asarray(np.abs(course[-1] - course[-1 - _back(len(course))]))


def _back(parts: int) -> int:
    """How many parts ago the value is compared with."""
    return _PARTS if parts > _PARTS else parts // 5


def _runaway(fitted: FittedValues, column: int) -> Doubt | None:
    """Divergence: no number, or a Q that no rewards of this data can add up to (if they are not always the same)."""
    low, high = fitted.allowed
    if low == high:
        same = f"rewards of these data add up to {readable(low)} whatever is done, so every policy looks the same"
        return Doubt(f"{same}; use rewards that differ")
    ends = fitted.extremes[:, :, column]
    reached = [*ends.ravel().tolist(), *fitted.repeats[:, column].tolist(), *fitted.repeats[:, -1].tolist()]
    if not np.isfinite(reached).all():
        return Doubt("the fit diverged: its values are not finite; look for odd values with `rl-training data check`")
    if possible(fitted, reached):
        return None
    worst = max(reached, key=lambda value: max(low - value, value - high))
    bound = f"less than {readable(low)}" if worst < low else f"more than {readable(high)}"
    said = (
        f"the estimate became impossible ({readable(worst)}, where episodes of these data cannot come to {bound}), and"
        f" the fit was stopped after {fitted.updates:,} updates; {_REMEDY}"
    )
    return Doubt(said, nearer=True)


def possible(fitted: FittedValues, reached: Iterable[float]) -> bool:
    """Whether rewards of the data can add up to all of these, with some slack."""
    low, high = fitted.allowed
    slack = BEYOND * (max(high, 0.0) - min(low, 0.0))  # rewards that hardly differ allow next to no range
    return all(low - slack <= value <= high + slack for value in reached)


def spread_of(fitted: FittedValues) -> float:
    """What counts as much: the standard deviation of the episodes' returns (or a part of them, if all are alike)."""
    return max(float(fitted.observed.std()), 0.05 * float(np.abs(fitted.observed).mean()), 1e-9)


def _half_of_finite(repeats: statistics.Scores) -> float:
    there = repeats[np.isfinite(repeats)]
    return _half(statistics.student_estimate(0.0, there)) if len(there) > 1 else 0.0


def _half(found: Estimate) -> float:
    return 0.0 if found.low is None or found.high is None else 0.5 * (found.high - found.low)
