"""What a run's files give reason to doubt, in sentences: a policy that clones, a critic that is not finished, a switch
held half-way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_training.data.doctor.switch_checks import SNAP
from rl_training.data.doctor.wording import alike, number, share
from rl_training.runtime.acting_between import acts_between

if TYPE_CHECKING:
    from rl_training.experiment.report.contents import Curve, RunContents
    from rl_training.experiment.statistics import Scores

# A mean weight this close to 1 over half of the run: exp(advantage) hardly tells a good action from a bad one.
NEAR_ONE = 0.05
# Of its largest value, over a whole run: a critic that still moves so fast is far from where it goes. One that nears
# its level like 1 - exp(-t) moves by less once three time constants are over.
STILL_MOVING = 0.25
_LEAST_TRAVELLED = 0.2  # of the largest value: a smaller way is not worth a word
# Of its variance, explained by a straight line: noise around a settled level explains next to none.
STRAIGHT = 0.9
_LAST, _HALF = 0.2, 0.5  # of the run, that is looked at
_FEWEST = 4  # records that say anything of a level
_FARTHEST = 1_000_000  # updates that are advised before they were tried
_FEWEST_OF_A_LINE = 5  # records: of so many without a trend, one window in 70 looks straight

# By algorithm: the metric of its weights, and what makes them differ more.
_WEIGHTS = {
    "iql": ("actor/weight", "raise algo_kwargs.beta"),
    "awr": ("actor/weight", "lower algo_kwargs.beta"),
    "crr": ("actor/weight", "lower algo_kwargs.beta"),
    "awac": ("actor/max_weight", "lower algo_kwargs.beta"),
}


def metric_doubts(run: RunContents) -> tuple[str, ...]:
    """Of a run that learns from data; online, values move because the policy does."""
    if run.unit != "updates":
        return ()
    return (*(doubt for doubt in (_nearly_clones(run), _unfinished(run)) if doubt is not None), *_between(run))


def _between(run: RunContents) -> list[str]:
    """Actions that the data never take, though they take some on either side."""
    told = []
    for one in acts_between(run.facts):
        low, high = alike(one["low"], one["high"])
        told.append(
            f"in {share(one['share'])} of the recorded states the policy sets {one['column']} between {low} and {high},"
            f" where the data hardly ever are, so that nobody knows what happens; in a new run, {SNAP}"
        )
    return told


def _unfinished(run: RunContents) -> str | None:
    curve = run.metrics.get("critic/q_data")
    moving = None if _measured_well(run) else _moving_critic(run)
    if moving is None or curve is None:
        return None
    far = f", to {longer(int(curve.steps[-1]), run.config):,} updates or more"
    near = "" if _begins_near(run.config) else ", or anew with initial_values: data"
    return f"{moving}: the critic is not finished; train longer{far + near if run.summary.status == 'finished' else ''}"


def longer(updates: int, config: Mapping[str, Any]) -> int:
    """Up to which update to train next: so far that values can have arrived where they go, or twice as far.

    Behind target networks each update takes them nearer by τ(1 - γ) of the way that is left: 95% after 3/(τ(1 - γ)).
    Values that began near where they go have most of that way behind them.
    """
    kwargs = config.get("algo_kwargs")
    tau, gamma = (kwargs.get(name) for name in ("tau", "gamma")) if isinstance(kwargs, Mapping) else (None, None)
    if _begins_near(config) or not (
        isinstance(tau, float) and isinstance(gamma, float) and 0 < tau <= 1 and 0 <= gamma < 1
    ):
        return 2 * updates
    arrived = math.ceil(min(3.0 / (tau * (1.0 - gamma)), _FARTHEST) / 1_000 - 1e-6) * 1_000
    return arrived if updates < arrived else 2 * updates


def metric_notes(run: RunContents) -> tuple[str, ...]:
    """What is no reason to doubt a policy that was measured to be better than its data, and worth a word all the same:
    a critic that still moves."""
    if run.unit != "updates" or not _measured_well(run):
        return ()
    moving = _moving_critic(run)
    told = "the critic is not finished, and longer training may still help; returns are measured without it"
    return () if moving is None else (f"{moving}: {told}",)


def _begins_near(config: Mapping[str, Any]) -> bool:
    """Whether values began near where they go."""
    return config.get("initial_values") == "data"


def _measured_well(run: RunContents) -> bool:
    """Whether an environment showed the policy to be better than the behaviour that the data were recorded with."""
    scores, behaviour = run.scores, run.data_return
    return scores is not None and behaviour is not None and float(scores.last.mean()) > behaviour


def _nearly_clones(run: RunContents) -> str | None:
    kwargs = run.config.get("algo_kwargs")
    binary = isinstance(kwargs, Mapping) and kwargs.get("weight_type") == "binary"
    name, way = _WEIGHTS.get(run.summary.algo or "", ("", ""))
    curve = run.metrics.get(name)
    if curve is None or binary or not curve.sound:
        return None
    _, values = _end(curve, _HALF)
    if len(values) < _FEWEST or not (np.abs(values - 1) <= NEAR_ONE).all():
        return None
    way = f"{_scaling(run.config)}{way}"
    return f"{name} stays within {NEAR_ONE:.0%} of 1: the policy may be little more than a clone of the data; {way}"


def _scaling(config: Mapping[str, Any]) -> str:
    transforms = config.get("transforms")
    scaled = isinstance(transforms, Mapping) and transforms.get("reward_range_scaling")
    return "" if scaled else "scale the rewards (transforms.reward_range_scaling) or "


def _moving_critic(run: RunContents) -> str | None:
    """The curve of a critic that has not arrived."""
    curve, near = run.metrics.get("critic/q_data"), _begins_near(run.config)
    if curve is None or not curve.sound:
        return None
    at, values = _line(curve)
    if len(values) < _FEWEST_OF_A_LINE or at[-1] <= at[0]:
        return None
    sound = curve.values[:, curve.sound]
    level = np.nanmax(np.abs(sound), axis=0)
    if near:  # then their level says nothing of the way that they have gone
        level = np.maximum(np.nanmax(np.abs(sound - sound[0]), axis=0), _LEAST_TRAVELLED * level)
    moving = [_moves(at, values[:, seed], float(level[seed])) for seed in range(values.shape[1])]
    if 2 * sum(moving) <= len(moving):
        return None
    first, last = number(float(values[0].mean())), number(float(values[-1].mean()))
    return (
        f"critic/q_data still moves in a straight line at the end (from {first} to {last} in the last"
        f" {at[-1] - at[0]:,.0f} updates)"
    )


def _line(curve: Curve) -> tuple[Scores, Scores]:
    """Steps and values of the last fifth; where that has few records, of as many as a line takes in the last half."""
    at, values = _end(curve, _LAST)
    if len(values) < _FEWEST_OF_A_LINE:
        at, values = (part[-_FEWEST_OF_A_LINE:] for part in _end(curve, _HALF))
    return at, values


def _moves(steps: Scores, values: Scores, level: float) -> bool:
    """Whether one seed's values go on in a straight line that is steep against their level, and so at its end."""
    x, y = steps - steps.mean(), values - values.mean()
    across, along = float((y * y).sum()), float((x * y).sum())
    if not across > 0:
        return False
    slope, explained = along / float((x * x).sum()), along**2 / (float((x * x).sum()) * across)
    middle = len(steps) // 2
    lately = float((values[-1] - values[middle]) / (steps[-1] - steps[middle]))
    least = STILL_MOVING * level / float(steps[-1])
    return explained >= STRAIGHT and abs(slope) > least and lately * np.sign(slope) > least


def _end(curve: Curve, share: float) -> tuple[Scores, Scores]:
    """Steps and values of the last part of the run, of the seeds that came to its end, where all of them have one."""
    steps = np.asarray(curve.steps, dtype=np.float64)
    late = steps > (1 - share) * steps[-1]
    values = curve.values[late][:, curve.sound]
    there = np.isfinite(values).all(axis=1)
    return steps[late][there], values[there]
