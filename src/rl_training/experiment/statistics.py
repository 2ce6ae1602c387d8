"""How good an algorithm is, judged from a handful of seeds: point estimates and intervals of Agarwal et al. (2021).

"Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021; the same choices as the authors'
`rliable`. A *stratum* is one task: an array `[n]` with one score per seed. Seeds are resampled within their own task
only, so that every resample has as many scores of each task as there are (stratified bootstrap). Numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Scores: TypeAlias = npt.NDArray[np.float64]
Strata: TypeAlias = Sequence[npt.ArrayLike]  # one [n] for each task
Statistic: TypeAlias = Callable[[Scores], Scores]  # [..., n] -> [...]

RESAMPLES = 2_000
LEVEL = 0.95
MOST_LEFT_OUT = 0.1  # of bootstrap repeats, those whose fits diverge
_BLOCK = 4_000_000  # entries drawn at once
_AS_NORMAL = 1_000  # degrees of freedom; more change an interval by a thousandth
_PIECES = 500  # of a density that is summed over


@dataclass(frozen=True)
class Estimate:
    """A statistic of the scores at hand and the interval its resamples span; no interval of a single score."""

    value: float
    low: float | None = None
    high: float | None = None

    def scaled(self, change: Callable[[float], float]) -> Estimate:
        """The same on another scale; `change` must rise."""
        low, high = (None if end is None else change(end) for end in (self.low, self.high))
        return Estimate(change(self.value), low, high)

    def within(self, least: float, most: float) -> Estimate:
        """With no end of the interval beyond what can be; as it is where the value itself lies beyond."""
        if self.low is None or self.high is None or not least <= self.value <= most:
            return self
        return Estimate(self.value, max(self.low, least), min(self.high, most))

    def to_json(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


# Point estimates ----------------------------------------------------------------------------------------------------


def mean(scores: npt.ArrayLike) -> Scores:
    """Over the last axis, `[..., n] -> [...]`, as every statistic here."""
    return np.asarray(np.asarray(scores, dtype=np.float64).mean(-1))


def median(scores: npt.ArrayLike) -> Scores:
    return np.asarray(np.median(np.asarray(scores, dtype=np.float64), axis=-1))


def interquartile_mean(scores: npt.ArrayLike) -> Scores:
    """IQM: the mean of what is left when the lowest and the highest ⌊n/4⌋ scores are cut off.

    More robust than the mean and less wasteful than the median. Of three scores or fewer nothing is cut.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(-1))


def optimality_gap(scores: npt.ArrayLike, target: float = 100.0) -> Scores:
    """How far scores stay below a target on average, `mean(max(target - x, 0))`; what lies above it does not help.

    On the normalised scale the target is an expert's 100. The paper's `γ - mean(min(x, γ))` is the same number.
    """
    return np.asarray(np.maximum(target - np.asarray(scores, dtype=np.float64), 0.0).mean(-1))


def performance_profile(scores: npt.ArrayLike, thresholds: npt.ArrayLike) -> Scores:
    """The share of scores above each threshold τ, `[..., n] -> [..., T]`: the tail distribution `P(X > τ)`."""
    values = np.asarray(scores, dtype=np.float64)
    return np.asarray((values[..., None, :] > np.asarray(thresholds, dtype=np.float64)[:, None]).mean(-1))


def probability_of_improvement(ours: Strata, theirs: Strata) -> float:
    """`P(X > Y)` for a random seed of each on a random task, ties counted half: the Mann-Whitney U statistic, divided
    by the number of pairs and averaged over tasks."""
    pairs = zip(_arrays(ours), _arrays(theirs), strict=True)
    return float(np.mean([_superiority(x, y) for x, y in pairs]))


def chance_of_separation(ours: int, theirs: int) -> float:
    """How probably all of `ours` seeds score above all of `theirs` where both are alike: `1 / C(n + m, n)`.

    Resamples of separated scores are separated, too: a bootstrap interval of [1, 1] says nothing of this.
    """
    return 1.0 / math.comb(ours + theirs, ours)


def may_be_chance(found: Estimate, ours: int, theirs: int) -> bool:
    """Whether a probability of improvement may be luck: its interval holds ½, or so few seeds separate that easily."""
    return found.low is None or found.low <= 0.5 or chance_of_separation(ours, theirs) > (1.0 - LEVEL) / 2.0


def _superiority(x: Scores, y: Scores) -> Scores:
    """The share of pairs that x wins, `[..., n], [..., m] -> [...]`."""
    wins = x[..., :, None] > y[..., None, :]
    ties = x[..., :, None] == y[..., None, :]
    return np.asarray(wins.mean((-1, -2)) + 0.5 * ties.mean((-1, -2)))


# Intervals ----------------------------------------------------------------------------------------------------------


def bootstrap(
    strata: Strata,
    statistic: Statistic = interquartile_mean,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Estimate:
    """A statistic over the scores of all tasks, and its stratified percentile-bootstrap interval.

    The same scores and seed give the same interval. A single score per task says nothing about spread: no interval.
    """
    values = _arrays(strata)
    at_hand = float(statistic(np.concatenate(values)))
    if max(map(len, values)) < 2:
        return Estimate(at_hand)
    drawn = np.concatenate([statistic(part) for part in _resamples(values, resamples, seed)])
    return Estimate(at_hand, *_ends(drawn, level))


def improvement(
    ours: Strata, theirs: Strata, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Estimate:
    """The probability of improvement and its interval; both sides are resampled."""
    xs, ys = _arrays(ours), _arrays(theirs)
    at_hand = probability_of_improvement(xs, ys)
    if max(map(len, (*xs, *ys))) < 2:
        return Estimate(at_hand)
    rng = np.random.default_rng(seed)
    by_task = []
    for x, y in zip(xs, ys, strict=True):
        ours_drawn, theirs_drawn = (part[rng.integers(len(part), size=(resamples, len(part)))] for part in (x, y))
        at_once = max(1, _BLOCK // (len(x) * len(y)))
        blocks = [slice(first, first + at_once) for first in range(0, resamples, at_once)]
        by_task.append(np.concatenate([_superiority(ours_drawn[part], theirs_drawn[part]) for part in blocks]))
    return Estimate(at_hand, *_ends(np.mean(by_task, axis=0), level))


def bands(
    scores: npt.ArrayLike,
    statistic: Statistic = interquartile_mean,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[Scores, Scores, Scores]:
    """A statistic at every point of a curve and its pointwise interval: `[T, n] -> [T], [T], [T]`.

    A resample takes whole seeds, so neighbouring points are judged by the same draws and bands do not flicker.
    """
    values = np.asarray(scores, dtype=np.float64)
    at_hand = statistic(values)
    if values.shape[-1] < 2:
        return at_hand, at_hand, at_hand
    rows = np.random.default_rng(seed).integers(values.shape[-1], size=(resamples, values.shape[-1]))
    low, high = _quantiles(np.stack([statistic(point[rows]) for point in values], axis=-1), level)
    return at_hand, low, high


def profile_bands(
    strata: Strata,
    thresholds: npt.ArrayLike,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[Scores, Scores, Scores]:
    """A performance profile and its pointwise interval, `[T]` each."""
    values = _arrays(strata)
    at_hand = performance_profile(np.concatenate(values), thresholds)
    if max(map(len, values)) < 2:
        return at_hand, at_hand, at_hand
    drawn = [performance_profile(part, thresholds) for part in _resamples(values, resamples, seed)]
    low, high = _quantiles(np.concatenate(drawn), level)
    return at_hand, low, high


def _arrays(strata: Strata) -> list[Scores]:
    arrays = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    if not arrays or any(array.ndim != 1 or not array.size for array in arrays):
        raise ValueError("strata: must be one or more arrays of one or more scores")
    return arrays


def _resamples(values: Sequence[Scores], resamples: int, seed: int) -> list[Scores]:
    """`resamples` rows in all, each with as many scores of every task as there are; in blocks that fit in memory."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // sum(map(len, values)))
    return [
        np.concatenate(
            [x[rng.integers(len(x), size=(min(at_once, resamples - first), len(x)))] for x in values], axis=-1
        )
        for first in range(0, resamples, at_once)
    ]


def _ends(drawn: npt.NDArray[Any], level: float) -> tuple[float, float]:
    low, high = _quantiles(drawn, level)
    return float(low), float(high)


def _quantiles(drawn: npt.NDArray[Any], level: float) -> tuple[Scores, Scores]:
    """The two ends between which `level` of the resamples lie, over the first axis."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: must be between 0 and 1, is {level}")
    low, high = np.quantile(drawn, ((1.0 - level) / 2.0, (1.0 + level) / 2.0), axis=0)
    return low, high


# Few repeats ----------------------------------------------------------------------------------------------------------


def student_estimate(
    value: float,
    repeats: npt.ArrayLike,
    level: float = LEVEL,
    *,
    besides: float = 0.0,
    episodes: int | None = None,
) -> Estimate:
    """A value and its interval from the spread of bootstrap repeats of it, `[R]`, too few to read quantiles off.

    besides: an error of one standard deviation that the repeats do not show. episodes: what the repeats resample, if
    the interval is to hold for others like them, and not for these alone.

    Their standard deviation is the standard error of the value; that it is itself uncertain is what Student's
    distribution with R - 1 degrees of freedom allows for, and `twice_estimated_cdf` for that of the episodes.
    """
    half = _quantile(0.5 * (1.0 + level), np.size(repeats) - 1, _of(episodes)) * _error(repeats, besides, episodes)
    return Estimate(value, value - half, value + half)


def chance_above_zero(
    value: float, repeats: npt.ArrayLike, *, besides: float = 0.0, episodes: int | None = None
) -> float:
    """How probably what is estimated is above zero, judged as in `student_estimate`."""
    error = _error(repeats, besides, episodes)
    if error == 0.0:
        return 0.5 * (1.0 + float(np.sign(value)))
    return twice_estimated_cdf(value / error, np.size(repeats) - 1, _of(episodes))


def student_mean(values: npt.ArrayLike, level: float = LEVEL) -> Estimate:
    """The mean and its interval, `t·s/√n`; none of a single value."""
    given = np.asarray(values, dtype=np.float64)
    middle, count = float(given.mean()), len(given)
    if count < 2:
        return Estimate(middle)
    degrees = min(count - 1, _AS_NORMAL)
    half = student_quantile(0.5 * (1.0 + level), degrees) * float(given.std(ddof=1)) / math.sqrt(count)
    return Estimate(middle, middle - half, middle + half)


def _error(repeats: npt.ArrayLike, besides: float, episodes: int | None) -> float:
    """Of one standard deviation. Means of n things, resampled, have a variance of (n - 1)/n of what means of new ones
    have (Efron & Tibshirani 1993, section 5.3)."""
    spread = float(np.asarray(repeats, dtype=np.float64).std(ddof=1))
    degrees = _of(episodes)
    return math.hypot(spread if degrees is None else spread * math.sqrt((degrees + 1) / degrees), besides)


def _of(episodes: int | None) -> int | None:
    """Degrees of freedom."""
    return None if episodes is None or episodes < 2 else episodes - 1


def student_cdf(t: float, degrees: int) -> float:
    """P(T ≤ t) of Student's distribution, the finite sums of Abramowitz & Stegun 26.7.3 and 26.7.4."""
    return float(_student_cdf(np.asarray(t, dtype=np.float64), degrees))


def _student_cdf(t: Scores, degrees: int) -> Scores:
    angle = np.arctan(t / math.sqrt(degrees))
    sine, cosine = np.sin(angle), np.cos(angle)
    first = degrees % 2  # the power of the cosine that the sum begins with
    term, total = cosine**first, np.zeros_like(cosine)
    for power in range(first, degrees - 1, 2):
        total = total + term
        term = term * cosine * cosine * (power + 1) / (power + 2)
    within = 2.0 / math.pi * (angle + sine * total) if first else sine * total
    return np.asarray(0.5 * (1.0 + within))


def twice_estimated_cdf(t: float, degrees: int, others: int | None) -> float:
    """P(T ≤ t) of `Z / √(U·V)`: a normal error over a standard error that is estimated twice.

    U, a mean square with `degrees` of freedom, is the spread of few repeats around that of all possible ones; V, with
    `others`, the spread of few episodes around that of all. Student's where `others` is none. √V = w has the density
    `w^(m-1)·exp(-m·w²/2)`, up to a factor, for m = `others`; over it Student's is summed.
    """
    if others is None:
        return student_cdf(t, degrees)
    reach = 10.0 / math.sqrt(2.0 * others)  # ten standard deviations of w
    edges = np.linspace(max(0.0, 1.0 - reach), 1.0 + reach, _PIECES + 1)
    w = 0.5 * (edges[1:] + edges[:-1])
    weight = np.exp((others - 1) * np.log(w) - 0.5 * others * (w * w - 1.0))
    return float((weight * _student_cdf(t * w, degrees)).sum() / weight.sum())


def student_quantile(share: float, degrees: int) -> float:
    """The t with P(T ≤ t) = share."""
    return _quantile(share, degrees, None)


@cache
def _quantile(share: float, degrees: int, others: int | None) -> float:
    """By bisection."""
    low, high = -1e6, 1e6
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if twice_estimated_cdf(middle, degrees, others) < share else (low, middle)
    return 0.5 * (low + high)


# Last against best --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LastAndBest:
    """What the final weights score and what the best evaluation scored, one value for each seed.

    `best` is picked by the score it is reported with, so it flatters: the more evaluations there were, the more.
    """

    last: Scores  # [M]
    best: Scores  # [M] at the step whose mean over seeds is highest
    last_step: int
    best_step: int
    by_seed: Scores  # [M] each seed's own highest, wherever it was

    @property
    def drop(self) -> float:
        """How much the mean lost after the best evaluation; 0 where the last is the best."""
        return float(self.best.mean() - self.last.mean())


def last_against_best(steps: Sequence[int], scores: npt.ArrayLike) -> LastAndBest:
    """From the scores `[T, M]` of evaluations at `steps`; of equals the first is the best, as a run keeps it."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(steps) or not values.size:
        raise ValueError(f"scores: shape {values.shape}, for {len(steps)} evaluations")
    top = int(np.argmax(values.mean(1)))
    return LastAndBest(values[-1], values[top], int(steps[-1]), int(steps[top]), values.max(0))
