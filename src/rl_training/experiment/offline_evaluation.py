"""How good a policy is without a simulator: fitted Q evaluation, and when its answer is not to be trusted.

Values are discounted, in units of the raw reward, at the states in which the data's episodes begin. The behaviour is
evaluated by the same fits, so that their common errors cancel in the improvement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from rl_training.data.dataset_loaders import DatasetConfig, load_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, fit_transforms
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import statistics
from rl_training.experiment.report.diagnostics import some_episodes
from rl_training.experiment.report.held_out import read_alike, share_seen
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.runtime.action_support import share_outside
from rl_training.runtime.fitted_evaluation import FittedValues, OfflineEvaluationConfig, fit_values
from rl_training.runtime.run_directory import OFFLINE_EVALUATIONS, RunDirectory, run_of
from rl_training.validation import explain
from rl_training.wording import amount, readable

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy

MOST_ROWS = 500_000  # whole episodes are left out beyond
DEFAULT_GAMMA = 0.99  # where the algorithm has none (bc)

# When an estimate is not to be trusted ------------------------------------------------------------------------------
FEWEST_EPISODES = 10
FEW_EPISODES = 30  # below which the interval itself is a guess
MOST_OUTSIDE = 0.2  # share of states with an action that similar states of the data have not seen
WORST_HELD_OUT = 2.0  # TD error on other episodes, as a multiple of that on those fitted
LARGEST_DRIFT = 0.25  # change of a value in the last fifth of the fit; this and those below in spreads of the returns
LARGEST_ERROR = 0.05  # TD error below which the multiple above means nothing
LARGEST_BIAS = 0.25  # of the behaviour's fitted value, whose return is known
LARGEST_INTERVAL = 1.0  # half of it
BEYOND = 0.1  # by how much of the range that rewards allow a Q may leave it
MOST_BEHIND_CUTS = 0.5  # of an episode's discounted weight; more is said, as nothing in the data can contradict the fit


@dataclass(frozen=True)
class DataUsed:
    """What a policy was evaluated on."""

    title: str
    fingerprint: str
    episodes: int
    transitions: int
    trained_on: bool


@dataclass(frozen=True)
class PolicyValue:
    """One seed's policy. The figures are as fitted; `why_not` says in sentences why they are not to be trusted."""

    seed: int
    value: Estimate
    improvement: Estimate  # over the behaviour
    probability: float  # of an improvement
    outside: float  # share of states with an action that the data know nothing of
    td_error: float
    td_error_held_out: float
    why_not: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        return not self.why_not

    def to_json(self) -> dict[str, Any]:
        """`value` and `improvement` are null where they are not to be trusted."""
        return {
            "seed": self.seed,
            "value": self.value.to_json() if self.trusted else None,
            "improvement": self.improvement.to_json() | {"probability": self.probability} if self.trusted else None,
            "not_trusted_because": list(self.why_not),
            "diagnostics": {
                "fitted_value": _finite(self.value.value),
                "actions_outside_the_data": self.outside,
                "td_error": _finite(self.td_error),
                "td_error_held_out": _finite(self.td_error_held_out),
            },
        }


@dataclass(frozen=True)
class OfflineEvaluation:
    """Every seed's policy beside the behaviour that the data were recorded with."""

    step: int
    gamma: float
    settings: OfflineEvaluationConfig
    data: DataUsed
    behaviour_return: Estimate  # of the episodes themselves
    behaviour_value: Estimate  # by the same fits as the policies'
    policies: tuple[PolicyValue, ...]
    cautions: tuple[str, ...]
    repeats: statistics.Scores  # [R, P + 1]: of each resample, for policies and behaviour

    @property
    def trusted(self) -> list[PolicyValue]:
        return [one for one in self.policies if one.trusted]

    def mean_value(self) -> Estimate | None:
        """Over the trusted seeds; the interval is that of the data, not of other seeds."""
        return self._over_seeds(0.0)

    def mean_improvement(self) -> tuple[Estimate, float] | None:
        """Over the trusted seeds, and how probably it is one."""
        found = self._over_seeds(1.0)
        if found is None:
            return None
        return found, statistics.chance_above_zero(found.value, self.of_trusted() - self.repeats[:, -1])

    def of_trusted(self) -> statistics.Scores:
        """The mean of the trusted seeds' values in each resample, `[R]`."""
        chosen = [place for place, one in enumerate(self.policies) if one.trusted]
        return np.asarray(self.repeats[:, chosen].mean(1))

    def _over_seeds(self, less: float) -> Estimate | None:
        if not self.trusted:
            return None
        value = float(np.mean([one.value.value for one in self.trusted])) - less * self.behaviour_value.value
        return statistics.student_estimate(value, self.of_trusted() - less * self.repeats[:, -1])

    def to_json(self) -> dict[str, Any]:
        """One record, as it is stored in the run and printed."""
        mean, gain = self.mean_value(), self.mean_improvement()
        return {
            "step": self.step,
            "seeds": [one.seed for one in self.policies],
            "gamma": self.gamma,
            "updates": self.settings.updates,
            "repeats": self.settings.repeats,
            "level": LEVEL,
            "data": dict(vars(self.data)),
            "behaviour": {
                name: {part: None if number is None else _finite(number) for part, number in found.to_json().items()}
                for name, found in (("return", self.behaviour_return), ("value", self.behaviour_value))
            },
            "policies": [one.to_json() for one in self.policies],
            "value": None if mean is None else mean.to_json(),
            "improvement": None if gain is None else gain[0].to_json() | {"probability": gain[1]},
            "cautions": list(self.cautions),
            "of_every_repeat": [[_finite(value) for value in row] for row in self.repeats.tolist()],
        }

    def store(self, policy: LoadedPolicy) -> RunDirectory | None:
        """Add the record to the run that the policy is of; none where it is of no run. `CheckpointError` if it cannot
        be written."""
        run = run_of(policy.place)
        if run is not None:
            run.append_late(OFFLINE_EVALUATIONS, self.to_json())
        return run


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def evaluate_offline(
    policy: LoadedPolicy,
    dataset: TransitionDataset | str | None = None,
    *,
    updates: int | None = None,
    repeats: int | None = None,
    gamma: float | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    members: Sequence[int] | None = None,
    device: str | None = None,
    on_part: Callable[[int], None] = lambda updates: None,
) -> OfflineEvaluation:
    """See `LoadedPolicy.evaluate_offline`; `on_part` is told how many updates are done."""
    given = {"updates": updates, "repeats": repeats, "seed": seed, "device": device}
    try:
        settings = OfflineEvaluationConfig(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(explain(error, OfflineEvaluationConfig)) from None
    learner, config = policy.actor.learner, policy.checkpoint.config
    discount = float(getattr(learner.params, "gamma", DEFAULT_GAMMA)) if gamma is None else gamma
    if not 0.0 <= discount < 1.0:
        raise ConfigError(f"gamma: must be at least 0 and below 1, got {discount:g}")
    places = np.flatnonzero((policy.chosen(members) & learner.active).cpu().numpy()).tolist()
    data, used, cautions = _data(policy, dataset)
    mode = config.evaluation.deterministic if deterministic is None else deterministic
    fitted = fit_values(policy.actor, places, data, settings, gamma=discount, deterministic=mode, on_part=on_part)
    standard = fit_transforms(data, policy.checkpoint.spaces, TransformConfig(normalise_observations=True))
    outside = share_outside(policy.actor, data, standard)[places]
    behind = _behind_cuts(data, discount)
    if behind > MOST_BEHIND_CUTS:
        cautions.append(
            f"{behind:.0%} of an episode's discounted weight lies behind its cut, where the fit alone speaks: that the"
            " behaviour is found again says little"
        )
    behaviour = statistics.student_estimate(float(fitted.values[-1]), fitted.repeats[:, -1])
    return OfflineEvaluation(
        int(policy.checkpoint.progress["steps"]),
        discount,
        settings,
        used,
        statistics.bootstrap([fitted.returns], statistics.mean),
        behaviour,
        tuple(_judge(fitted, column, learner.seeds[p], float(outside[column])) for column, p in enumerate(places)),
        tuple(cautions),
        fitted.repeats,
    )


def _judge(fitted: FittedValues, column: int, seed: int, outside: float) -> PolicyValue:
    """One policy's figures, and every reason not to trust them."""
    values, repeats = fitted.values, fitted.repeats
    value = statistics.student_estimate(float(values[column]), repeats[:, column])
    gains = repeats[:, column] - repeats[:, -1]
    gain = float(values[column] - values[-1])
    inside, held_out = (float(np.nanmean(side[:, column])) for side in fitted.td_errors)
    reasons = doubts(fitted, column, outside)
    improvement = statistics.student_estimate(gain, gains)
    chance = statistics.chance_above_zero(gain, gains)
    return PolicyValue(seed, value, improvement, chance, outside, inside, held_out, tuple(reasons))


def doubts(fitted: FittedValues, column: int, outside: float) -> list[str]:
    """Why the value of one policy is not to be trusted, in sentences; none where nothing speaks against it."""
    episodes, spread = len(fitted.returns), _spread(fitted)
    found = []
    if episodes < FEWEST_EPISODES:
        found.append(f"there are only {episodes} episodes; an interval needs {FEWEST_EPISODES} at the least")
    if runaway := _runaway(fitted, column):
        return [*found, runaway]
    if outside > MOST_OUTSIDE:
        found.append(
            f"in {outside:.0%} of the states the policy does what no similar state of the data has seen"
            f" (at most {MOST_OUTSIDE:.0%})"
        )
    inside, held_out = (float(np.nanmean(side[:, column])) for side in fitted.td_errors)
    if held_out > max(WORST_HELD_OUT * inside, LARGEST_ERROR * spread):
        found.append(
            f"the TD error on episodes left out of a resample is {held_out / max(inside, 1e-12):.1f} times that on"
            f" those in it (at most {WORST_HELD_OUT:g})"
        )
    half = _half(statistics.student_estimate(0.0, fitted.repeats[:, column]))
    if half > LARGEST_INTERVAL * spread:
        found.append(
            f"the repeats disagree: ± {readable(half)}, more than the data's own episodes differ (± {readable(spread)})"
        )
    course = fitted.course[:, :, column].mean(1)
    drift = float(abs(course[-1] - course[-1 - len(course) // 5]))
    if drift > LARGEST_DRIFT * spread:
        found.append(f"the value still moved by {readable(drift)} in the last fifth of the fit; give it more updates")
    behaviour = float(fitted.values[-1])
    bias = abs(behaviour - float(fitted.returns.mean()))
    known = statistics.student_estimate(0.0, fitted.repeats[:, -1])
    if bias > max(LARGEST_BIAS * spread, _half(known)):
        found.append(
            f"the behaviour itself is fitted as {readable(behaviour)}, and its episodes return"
            f" {readable(float(fitted.returns.mean()))}: the method does not work on these data"
        )
    return found


def _runaway(fitted: FittedValues, column: int) -> str | None:
    """Divergence: no number, or a Q that no rewards of this data can add up to (if they are not always the same)."""
    low, high = fitted.allowed
    if low == high:
        return f"whatever is done, rewards of these data add up to {readable(low)}: no policy can be told from another"
    ends = fitted.extremes[:, :, column]
    reached = [*ends.ravel().tolist(), *fitted.repeats[:, column].tolist(), *fitted.repeats[:, -1].tolist()]
    if not np.isfinite(reached).all():
        return "the fit diverged: its values are not finite"
    slack = BEYOND * (high - low)
    worst = max(reached, key=lambda value: max(low - value, value - high))
    if low - slack <= worst <= high + slack:
        return None
    return (
        f"the fit diverged: Q reaches {readable(worst)}, and rewards of these data add up to"
        f" {readable(low)} to {readable(high)}"
    )


def _spread(fitted: FittedValues) -> float:
    """What counts as much: the standard deviation of the episodes' returns (or a part of them, if all are alike)."""
    return max(float(fitted.returns.std()), 0.05 * float(np.abs(fitted.returns).mean()), 1e-9)


def _half(found: Estimate) -> float:
    return 0.0 if found.low is None or found.high is None else 0.5 * (found.high - found.low)


# The data -----------------------------------------------------------------------------------------------------------


def _data(policy: LoadedPolicy, given: TransitionDataset | str | None) -> tuple[TransitionDataset, DataUsed, list[str]]:
    """The episodes to evaluate on, what they are, and what the user should know of them."""
    run = run_of(policy.place)
    trained = None if run is None else (run.describe().get("dataset") or {}).get("fingerprint")
    spaces, cautions = policy.checkpoint.spaces, []
    data, title = _open(policy, given)
    for name, found, expected in (
        ("observations", data.obs_dim, spaces.obs_dim),
        ("actions", data.act_dim, spaces.act_dim),
    ):
        if found != expected:
            raise DataError(f"{title}: {name} have {amount(found, 'column')}, the policy was trained with {expected}")
    low, high = np.asarray(spaces.action_low), np.asarray(spaces.action_high)
    beyond = float(((data.actions < low - 1e-3) | (data.actions > high + 1e-3)).any(-1).mean())
    if beyond:
        cautions.append(f"{beyond:.1%} of the actions lie outside the bounds the policy was trained with; clipped")
    own = given is None
    if own and trained not in (None, data.fingerprint()):
        cautions.append("the data have changed since the policy was trained")
    seen = own or data.fingerprint() == trained or _mostly_seen(policy, data)
    if seen:
        cautions.append("the policy was trained on these episodes, which flatters it; other ones say more")
    some = some_episodes(data, MOST_ROWS)
    if len(some) < len(data):
        cautions.append(f"of {amount(len(data), 'row')}, whole episodes of {len(some):,} are used")
    if data.mixture is not None:
        cautions.append("the shares of the mixture are not used: every row counts alike")
    episodes = _fitted_episodes(some)
    if FEWEST_EPISODES <= episodes < FEW_EPISODES:
        cautions.append(f"{episodes} episodes are few: the interval is a rough one")
    return some, DataUsed(title, data.fingerprint(), episodes, some.n_usable, seen), cautions


def _fitted_episodes(data: TransitionDataset) -> int:
    """Episodes with a row whose successor is known; none where borders are lost."""
    if not data.whole_episodes:
        return 0
    return data.n_episodes if data.has_next_obs is None else len(np.unique(data.episode_ids[data.has_next_obs]))


def _behind_cuts(data: TransitionDataset, gamma: float) -> float:
    """The share of Σ γ^t that lies after the last row of an episode that goes on, γ^T, mean over the episodes."""
    alive = ~data.terminations[data.episode_ends]
    return float(np.mean(alive * gamma ** data.episode_lengths()))


def _mostly_seen(policy: LoadedPolicy, data: TransitionDataset) -> bool:
    """Whether most of the rows are among those trained on, as far as these can still be read."""
    section = policy.checkpoint.config.dataset
    if section is None:
        return False
    try:
        return share_seen(data, _load(policy, section)) > 0.5
    except (DataError, ConfigError, OSError):
        return False


def _open(policy: LoadedPolicy, given: TransitionDataset | str | None) -> tuple[TransitionDataset, str]:
    config = policy.checkpoint.config
    if isinstance(given, TransitionDataset):
        return given, given.origin or "arrays in memory"
    section = config.dataset if given is None else read_alike(config.to_plain(), given)
    if section is None:
        raise ConfigError("data: this policy was trained from arrays in memory; name the data to evaluate it on")
    data = _load(policy, section)
    return data, given or str(getattr(section, "path", None) or getattr(section, "id", section.source))


def _load(policy: LoadedPolicy, section: DatasetConfig) -> TransitionDataset:
    return load_dataset(section, policy.checkpoint.config.env_id, None, refuse=False)
