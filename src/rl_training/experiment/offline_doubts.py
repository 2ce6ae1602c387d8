"""When an estimate without a simulator is not to be trusted, why, and what can be done."""

from __future__ import annotations

import numpy as np

from rl_training.experiment import statistics
from rl_training.experiment.statistics import Estimate
from rl_training.runtime.fitted_evaluation import FittedValues
from rl_training.wording import readable

FEWEST_EPISODES = 10
FEW_EPISODES = 30  # below which the interval itself is a guess
MOST_OUTSIDE = 0.2  # share of states with an action that similar states of the data have not seen
LARGEST_DRIFT = 0.25  # change of a value at the end of the fit; this and those below in spreads of the returns
LARGEST_MISS = 0.5  # of the value on left-out episodes
LARGEST_BIAS = 0.25  # of the behaviour's fitted value over the recorded steps, whose return is known
LARGEST_INTERVAL = 1.0  # half of it
BEYOND = 0.1  # by how much of the range that rewards allow a Q may leave it
MOST_BEHIND_CUTS = 0.5  # of an episode's discounted weight: beyond, nothing in the data can contradict the fit
LEAST_BEHIND = 0.01  # worth a sentence
MOST_LONE_CUTS = 0.1  # of the cuts, without a word on them
MOST_ROUNDS = 4  # of the default updates, while a fit has not settled
_PARTS = 10  # of one round


def doubts(fitted: FittedValues, column: int, outside: float) -> list[str]:
    """Why the value of one policy is not to be trusted, in sentences that end in what to do; none where nothing speaks
    against it."""
    episodes, spread = len(fitted.observed), _spread(fitted)
    found = []
    if episodes < FEWEST_EPISODES:
        found.append(
            f"there are only {episodes} episodes, and an interval needs {FEWEST_EPISODES} at the least; record more"
        )
    if runaway := _runaway(fitted, column):
        return [*found, runaway]
    if outside > MOST_OUTSIDE:
        found.append(
            f"in {outside:.0%} of the states the policy does what no similar state of the data has seen"
            f" (at most {MOST_OUTSIDE:.0%}); train one that stays closer to the data (bc, or a stronger constraint)"
        )
    behind = float(fitted.behind.mean())
    if behind > MOST_BEHIND_CUTS:
        found.append(
            f"{behind:.0%} of an episode's discounted weight lies behind its cut, where the fit alone speaks (at most"
            f" {MOST_BEHIND_CUTS:.0%}); record longer episodes, or ask for a nearer horizon with a smaller --gamma"
        )
    left_out = fitted.left_out[:, column]
    missed = float(mean_left_out(fitted)[column])
    if abs(missed) > max(LARGEST_MISS * spread, _half_of_finite(left_out)):
        found.append(
            f"on episodes left out of a resample the value misses what followed by {readable(missed)} (episodes differ"
            f" by ± {readable(spread)}): these are learned by heart; record more episodes, or try fewer --updates"
        )
    half = _half(statistics.student_estimate(0.0, fitted.repeats[:, column]))
    if half > LARGEST_INTERVAL * spread:
        found.append(
            f"the repeats disagree: ± {readable(half)}, more than the data's own episodes differ"
            f" (± {readable(spread)}); go further with --updates {2 * fitted.updates} --repeats 10, or record more"
        )
    if (drift := _drift(fitted, column)) > LARGEST_DRIFT * spread:
        found.append(
            f"the value still moved by {readable(drift)} at the end of the fit; go further with"
            f" --updates {2 * fitted.updates}"
        )
    return found + _behaviour_lost(fitted, spread)


def caution_of_cuts(fitted: FittedValues) -> list[str]:
    """A word on cuts that the fit bridges to states that are not like them, where what lies behind them counts."""
    if fitted.lone_cuts <= MOST_LONE_CUTS or float(fitted.behind.mean()) < LEAST_BEHIND:
        return []
    return [
        f"{fitted.lone_cuts:.0%} of the cuts are in states that the first half of no other episode comes near: what"
        " lies behind them is guessed from states that are not alike; record longer episodes, or try a smaller --gamma"
    ]


def unsettled(fitted: FittedValues) -> bool:
    """Whether more updates may help: a value still moves, repeats disagree or the behaviour is not found again."""
    spread = _spread(fitted)
    if not np.isfinite(fitted.repeats).all():
        return False
    columns = range(fitted.repeats.shape[1])
    halves = [_half(statistics.student_estimate(0.0, fitted.repeats[:, column])) for column in columns]
    return (
        any(_drift(fitted, column) > LARGEST_DRIFT * spread for column in columns)
        or any(half > LARGEST_INTERVAL * spread for half in halves)
        or bool(_behaviour_lost(fitted, spread))
    )


def mean_left_out(fitted: FittedValues) -> statistics.Scores:
    """By how much left-out episodes came out better than fitted, mean over the repeats that left any out, `[P + 1]`."""
    there = np.isfinite(fitted.left_out)
    count = there.sum(0)
    return np.asarray(np.where(there, fitted.left_out, 0.0).sum(0) / np.maximum(count, 1))


def _behaviour_lost(fitted: FittedValues, spread: float) -> list[str]:
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
        return [f"{said}: the fit is not there yet; go further with --updates {2 * fitted.updates}"]
    return [
        f"{said}, although the fit has settled: the observations do not tell what decides the return (a mode, a goal, a"
        " time left?); add it to them"
    ]


_LONG = 20_000  # updates after which a fit that has settled is taken at its word


def _drift(fitted: FittedValues, column: int) -> float:
    """Change of the value in the last fifth of the only round, or in the whole of the last."""
    course = fitted.course[:, :, column].mean(1)
    back = _PARTS if len(course) > _PARTS else len(course) // 5
    return float(abs(course[-1] - course[-1 - back]))


def _runaway(fitted: FittedValues, column: int) -> str | None:
    """Divergence: no number, or a Q that no rewards of this data can add up to (if they are not always the same)."""
    low, high = fitted.allowed
    if low == high:
        return (
            f"whatever is done, rewards of these data add up to {readable(low)}: no policy can be told from another;"
            " it takes rewards that differ"
        )
    ends = fitted.extremes[:, :, column]
    reached = [*ends.ravel().tolist(), *fitted.repeats[:, column].tolist(), *fitted.repeats[:, -1].tolist()]
    if not np.isfinite(reached).all():
        return "the fit diverged, its values are not finite; look for odd values with `rl-training data check`"
    slack = BEYOND * (high - low)
    worst = max(reached, key=lambda value: max(low - value, value - high))
    if low - slack <= worst <= high + slack:
        return None
    return (
        f"the fit diverged: Q reaches {readable(worst)}, and rewards of these data add up to"
        f" {readable(low)} to {readable(high)}; a smaller --gamma is easier to fit"
    )


def _spread(fitted: FittedValues) -> float:
    """What counts as much: the standard deviation of the episodes' returns (or a part of them, if all are alike)."""
    return max(float(fitted.observed.std()), 0.05 * float(np.abs(fitted.observed).mean()), 1e-9)


def _half_of_finite(repeats: statistics.Scores) -> float:
    there = repeats[np.isfinite(repeats)]
    return _half(statistics.student_estimate(0.0, there)) if len(there) > 1 else 0.0


def _half(found: Estimate) -> float:
    return 0.0 if found.low is None or found.high is None else 0.5 * (found.high - found.low)
