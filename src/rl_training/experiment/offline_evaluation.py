"""How good a policy is without a simulator: fitted Q evaluation, and when its answer is not to be trusted.

Values are discounted (or not, of episodes that all end), in units of the raw reward, at the states in which the data's
episodes begin. The behaviour is evaluated by the same fits, so that their common errors cancel in the improvement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from pydantic import ValidationError

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, fit_transforms
from rl_training.errors import ConfigError
from rl_training.experiment import statistics
from rl_training.experiment.horizon import DEFAULT_GAMMA, caution_of_horizon, why_not_whole
from rl_training.experiment.offline_data import DataUsed, episodes_to_evaluate_on
from rl_training.experiment.offline_doubts import (
    MOST_ROUNDS,
    Doubt,
    caution_of_a_stop,
    caution_of_cuts,
    doubts,
    mean_left_out,
    ran_away,
    unsettled,
)
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stray_fits import caution_of_strays, stray_fits, without_strays
from rl_training.runtime.action_support import share_outside
from rl_training.runtime.fitted_evaluation import FittedValues, OfflineEvaluationConfig, fit_values
from rl_training.runtime.model_rollouts import ModelledValues, roll_out
from rl_training.runtime.records import OFFLINE_EVALUATIONS
from rl_training.runtime.run_directory import RunDirectory, run_of
from rl_training.validation import explain, require_flag, shown

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy

_OF_POLICIES = ("gamma", "deterministic", "members")  # options that no fit is told


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
    why_not: tuple[Doubt, ...] = ()
    tail: float = 0.0  # of the value, what lies behind the cuts
    missed: float = 0.0  # by how much left-out episodes came out better than fitted
    modelled: Estimate | None = None  # what models of the dynamics say, and how far they agree
    ends_elsewhere: float = math.nan  # share of its episodes in them that end where none of the data did

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
                "behind_the_cuts": _finite(self.tail),
                "missed_on_left_out_episodes": _finite(self.missed),
                "modelled_value": None if self.modelled is None else _plain(self.modelled),
                "modelled_ends_elsewhere": _finite(self.ends_elsewhere),
            },
        }


@dataclass(frozen=True)
class Observed:
    """What the episodes themselves say, as far as they were recorded."""

    value: Estimate  # discounted return
    undiscounted: float
    steps: float  # of an episode, mean
    behind: float  # share of the discounted weight that lies behind the cuts
    tail: float  # what the behaviour's fit adds there
    unfollowed: int = 0  # last rows without a successor: in the undiscounted return, and in no value


@dataclass(frozen=True)
class OfflineEvaluation:
    """Every seed's policy beside the behaviour that the data were recorded with."""

    step: int
    gamma: float
    settings: OfflineEvaluationConfig
    data: DataUsed
    observed: Observed
    behaviour_value: Estimate  # by the same fits as the policies'
    policies: tuple[PolicyValue, ...]
    cautions: tuple[str, ...]
    repeats: statistics.Scores  # [R, P + 1]: of each resample that is kept, for policies and behaviour
    updates: int  # of each fit: the settings', or more where it went on by itself
    behaviour_missed: float = 0.0  # as a policy's `missed`
    allowed: tuple[float, float] = (-math.inf, math.inf)  # what discounted rewards of the data can add up to
    sums_up: bool = False  # whether episodes may be added up undiscounted
    foretold: float = math.nan  # of the variance of what left-out episodes returned, by models of the dynamics
    ends_foretold: float = math.nan  # of left-out episodes, those that the models end where they ended
    deterministic: bool = True  # the policies' mode was judged; else draws
    left_out: tuple[int, ...] = ()  # resamples of those drawn, whose fits diverge; not among the repeats

    @property
    def trusted(self) -> list[PolicyValue]:
        return [one for one in self.policies if one.trusted]

    def mean_value(self) -> Estimate | None:
        """Over the trusted seeds; the interval is that of the data, not of other seeds."""
        found = self._over_seeds(0.0)
        return None if found is None else found.within(*self.allowed)

    def mean_improvement(self) -> tuple[Estimate, float] | None:
        """Over the trusted seeds, and how probably it is one."""
        found = self._over_seeds(1.0)
        if found is None:
            return None
        gains = self.of_trusted() - self.repeats[:, -1]
        return found, statistics.chance_above_zero(
            found.value, gains, besides=self._missed(1.0), episodes=self.data.episodes
        )

    @property
    def behaviour_return(self) -> Estimate:
        """Discounted, of the episodes as far as they were recorded."""
        return self.observed.value

    def of_trusted(self) -> statistics.Scores:
        """The mean of the trusted seeds' values in each resample, `[R]`."""
        chosen = [place for place, one in enumerate(self.policies) if one.trusted]
        return np.asarray(self.repeats[:, chosen].mean(1))

    def _over_seeds(self, less: float) -> Estimate | None:
        if not self.trusted:
            return None
        value = float(np.mean([one.value.value for one in self.trusted])) - less * self.behaviour_value.value
        repeats = self.of_trusted() - less * self.repeats[:, -1]
        return statistics.student_estimate(value, repeats, besides=self._missed(less), episodes=self.data.episodes)

    def missed_by_the_mean(self) -> float:
        """By how much left-out episodes were missed, in what the trusted seeds are better by."""
        return self._missed(1.0)

    def _missed(self, less: float) -> float:
        """By how much left-out episodes were missed, on average over the trusted seeds."""
        return float(np.mean([one.missed for one in self.trusted])) - less * self.behaviour_missed

    def to_json(self) -> dict[str, Any]:
        """One record, as it is stored in the run and printed."""
        mean, gain = self.mean_value(), self.mean_improvement()
        return {
            "step": self.step,
            "seeds": [one.seed for one in self.policies],
            "gamma": self.gamma,
            "updates": self.updates,
            "repeats": self.settings.repeats,
            "resamples_left_out": list(self.left_out),
            "deterministic": self.deterministic,
            "asked": {"seed": self.settings.seed, "updates": self.settings.updates},
            "level": LEVEL,
            "data": dict(vars(self.data)),
            "behaviour": {
                name: _plain(found)
                for name, found in (("return", self.behaviour_return), ("value", self.behaviour_value))
            }
            | {"undiscounted": self.observed.undiscounted, "steps": self.observed.steps}
            | {"last_rows_in_no_value": self.observed.unfollowed}
            | {"weight_behind_cuts": self.observed.behind, "behind_the_cuts": _finite(self.observed.tail)}
            | {"missed_on_left_out_episodes": _finite(self.behaviour_missed)},
            "policies": [one.to_json() for one in self.policies],
            "value": None if mean is None else mean.to_json(),
            "improvement": None if gain is None else gain[0].to_json() | {"probability": gain[1]},
            "cautions": list(self.cautions),
            "foretold_by_the_model": _finite(self.foretold),
            "ends_foretold_by_the_model": _finite(self.ends_foretold),
            "of_every_repeat": [[_finite(value) for value in row] for row in self._of_every_draw().tolist()],
        }

    def _of_every_draw(self) -> statistics.Scores:
        """The repeats in their places among those drawn, NaN where one was left out, `[R, P + 1]`."""
        every = np.full((len(self.repeats) + len(self.left_out), self.repeats.shape[1]), math.nan)
        every[np.setdiff1d(np.arange(len(every)), self.left_out)] = self.repeats
        return every

    def store(self, policy: LoadedPolicy) -> RunDirectory | None:
        """Add the record to the run that the policy is of; none where it is of no run. `CheckpointError` if it cannot
        be written."""
        run = run_of(policy.place)
        if run is not None:
            run.append_late(OFFLINE_EVALUATIONS, self.to_json())
            policy.choose_seed_anew()
        return run


def _plain(found: Estimate) -> dict[str, float | None]:
    return {part: None if number is None else _finite(number) for part, number in found.to_json().items()}


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


class OfflineOptions(TypedDict, total=False):
    """What may be asked of an evaluation; none is the same as left out."""

    updates: int | None  # of each fit; where none are given, a fit that has not settled goes on
    repeats: int | None  # resamples of the episodes, each fitted anew
    gamma: float | None  # the discount, if not the run's
    seed: int | None  # of the fits
    deterministic: bool | None  # the policies' mode, or draws; if not the run's
    members: Sequence[int] | None  # seeds; all, if none are named
    device: str | None


def evaluate_offline(
    policy: LoadedPolicy,
    dataset: TransitionDataset | str | None = None,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_part: Callable[[int, int], None] = lambda done, planned: None,
    **options: Unpack[OfflineOptions],
) -> OfflineEvaluation:
    """See `LoadedPolicy.evaluate_offline`; on_start: nothing is refused any more. on_part: updates done, planned."""
    given = {name: value for name, value in options.items() if value is not None}
    settings = _settings({name: value for name, value in given.items() if name not in _OF_POLICIES})
    learner, mode = policy.actor.learner, _mode(policy, options.get("deterministic"))
    discount = _discount(getattr(learner.params, "gamma", DEFAULT_GAMMA), options.get("gamma"))
    places = np.flatnonzero((policy.chosen(options.get("members")) & learner.active).cpu().numpy()).tolist()
    data, used, cautions = episodes_to_evaluate_on(policy, dataset)
    endless = _require_whole(discount, why_not_whole(data))
    most = settings.updates * (1 if "updates" in given else MOST_ROUNDS)
    on_start()
    fitted = fit_values(
        policy.actor,
        places,
        data,
        settings,
        gamma=discount,
        deterministic=mode,
        on_part=on_part,
        go_on=lambda found: found.updates < most and unsettled(without_strays(found)),
        ran_away=lambda found: ran_away(without_strays(found)),
    )
    seeds, strays = [learner.seeds[place] for place in places], stray_fits(fitted)
    cautions += caution_of_strays(fitted, strays, seeds)
    fitted = fitted.without(strays)
    modelled = roll_out(policy.actor, places, data, settings, gamma=discount, deterministic=mode)
    standard = fit_transforms(data, policy.checkpoint.spaces, TransformConfig(normalise_observations=True))
    outside = share_outside(policy.actor, places, data, standard, mode)
    missed = float(_missed(fitted)[-1])
    seen = [fitted.of(column) for column in range(len(places) + 1)]  # the behaviour does not go alone
    judged = tuple(_judge(seen[c], c, seed, float(outside[c]), modelled) for c, seed in enumerate(seeds))
    trusted = [(one, of) for one, of in zip(judged, seen, strict=False) if one.trusted]
    cautions += [said for one, of in trusted for said in caution_of_a_stop(of, one.seed)]
    observed = _observed(data, fitted)
    return OfflineEvaluation(
        int(policy.checkpoint.progress["steps"]),
        discount,
        settings,
        used,
        observed,
        _value(fitted, -1, float(fitted.values[-1]), missed),
        judged,
        (*cautions, *caution_of_cuts(fitted), *caution_of_horizon(discount, observed.steps)),
        np.stack([of.repeats[:, column] for column, of in enumerate(seen)], 1),
        max(of.updates for of in seen),
        missed,
        fitted.allowed,
        endless is None,
        modelled.foretold,
        math.nan if modelled.ends is None else modelled.ends.foretold,
        mode,
        tuple(strays),
    )


def _require_whole(discount: float, endless: str | None) -> str | None:
    """What speaks against whole episodes, if anything does: to look ahead without end is refused then."""
    if discount == 1.0 and endless is not None:
        takes = "adds up whole episodes, which must all terminate, after much the same number of steps"
        raise ConfigError(f"gamma: 1 {takes}: {endless}; below 1, 0.999 counts some 1,000 steps")
    return endless


def _mode(policy: LoadedPolicy, given: bool | None) -> bool:
    """Whether the policies act by their mode: as was asked for, or as the run evaluates."""
    return policy.checkpoint.config.evaluation.deterministic if given is None else require_flag("deterministic", given)


def _discount(own: float, given: Any) -> float:
    """The one that was asked for, or the run's own."""
    discount = float(own) if given is None else given
    is_number = isinstance(discount, int | float | np.floating)
    if not (is_number and 0.0 <= discount <= 1.0):
        raise ConfigError(f"gamma: must be from 0 to 1, got {f'{discount:g}' if is_number else shown(discount)}")
    return float(discount)


def _settings(given: Mapping[str, Any]) -> OfflineEvaluationConfig:
    try:
        return OfflineEvaluationConfig(**given)
    except ValidationError as error:
        raise ConfigError(explain(error, OfflineEvaluationConfig)) from None


def _observed(data: TransitionDataset, fitted: FittedValues) -> Observed:
    return Observed(
        statistics.student_mean(fitted.observed),
        float(np.mean(data.episode_returns())),
        float(np.mean(data.episode_lengths())),
        float(fitted.behind.mean()),
        float(fitted.tails[-1]),
        len(data) - data.n_usable,
    )


def _judge(fitted: FittedValues, column: int, seed: int, outside: float, modelled: ModelledValues) -> PolicyValue:
    """One policy's figures, and every reason not to trust them."""
    values, repeats = fitted.values, fitted.repeats
    missed, episodes = _missed(fitted), len(fitted.observed)
    value = _value(fitted, column, float(values[column]), float(missed[column]))
    gains, besides = repeats[:, column] - repeats[:, -1], missed[column] - missed[-1]
    gain = float(values[column] - values[-1])
    inside, held_out = (float(np.nanmean(side[:, column])) for side in fitted.td_errors)
    reasons = doubts(fitted, column, outside, modelled)
    improvement = statistics.student_estimate(gain, gains, besides=besides, episodes=episodes)
    chance = statistics.chance_above_zero(gain, gains, besides=besides, episodes=episodes)
    tail = float(fitted.tails[column])
    return PolicyValue(
        seed,
        value,
        improvement,
        chance,
        outside,
        inside,
        held_out,
        tuple(reasons),
        tail,
        float(missed[column]),
        statistics.student_mean(modelled.values[:, column]),
        math.nan if modelled.ends is None else float(modelled.ends.elsewhere[column]),
    )


def _value(fitted: FittedValues, column: int, value: float, missed: float) -> Estimate:
    """One policy's, or the behaviour's; no end of the interval lies where rewards of the data cannot add up to it."""
    repeats, episodes = fitted.repeats[:, column], len(fitted.observed)
    return statistics.student_estimate(value, repeats, besides=missed, episodes=episodes).within(*fitted.allowed)


def _missed(fitted: FittedValues) -> statistics.Scores:
    """By how much left-out episodes came out better than fitted, discounted, `[P + 1]`; 0 where none was left out."""
    return np.asarray(np.nan_to_num(mean_left_out(fitted)))
