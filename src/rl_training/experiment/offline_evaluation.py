"""How good a policy is without a simulator: fitted Q evaluation, and when its answer is not to be trusted.

Values are discounted, in units of the raw reward, at the states in which the data's episodes begin. The behaviour is
evaluated by the same fits, so that their common errors cancel in the improvement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from pydantic import ValidationError

from rl_training.data.dataset_loaders import DatasetConfig, load_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, fit_transforms
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import statistics
from rl_training.experiment.offline_doubts import (
    FEW_EPISODES,
    FEWEST_EPISODES,
    MOST_ROUNDS,
    caution_of_a_stop,
    caution_of_cuts,
    caution_of_few,
    doubts,
    mean_left_out,
    ran_away,
    unsettled,
)
from rl_training.experiment.report.diagnostics import some_episodes
from rl_training.experiment.report.held_out import read_alike, share_seen
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.runtime.action_support import share_outside
from rl_training.runtime.fitted_evaluation import FittedValues, OfflineEvaluationConfig, fit_values
from rl_training.runtime.records import OFFLINE_EVALUATIONS
from rl_training.runtime.run_directory import RunDirectory, run_of
from rl_training.validation import explain, require_flag, shown
from rl_training.wording import amount

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy

_OF_POLICIES = ("gamma", "deterministic", "members")  # options that no fit is told
MOST_ROWS = 500_000  # whole episodes are left out beyond
_NEARLY_ALL = 0.99  # of the rows: as good as all
DEFAULT_GAMMA = 0.99  # where the algorithm has none (bc)


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
    tail: float = 0.0  # of the value, what lies behind the cuts
    missed: float = 0.0  # by how much left-out episodes came out better than fitted

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
    repeats: statistics.Scores  # [R, P + 1]: of each resample, for policies and behaviour
    updates: int  # of each fit: the settings', or more where it went on by itself
    behaviour_missed: float = 0.0  # as a policy's `missed`

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

    def _missed(self, less: float) -> float:
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
            "level": LEVEL,
            "data": dict(vars(self.data)),
            "behaviour": {
                name: {part: None if number is None else _finite(number) for part, number in found.to_json().items()}
                for name, found in (("return", self.behaviour_return), ("value", self.behaviour_value))
            }
            | {"undiscounted": self.observed.undiscounted, "steps": self.observed.steps}
            | {"weight_behind_cuts": self.observed.behind, "behind_the_cuts": _finite(self.observed.tail)},
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
    on_part: Callable[[int, int], None] = lambda done, planned: None,
    **options: Unpack[OfflineOptions],
) -> OfflineEvaluation:
    """See `LoadedPolicy.evaluate_offline`; `on_part` is told how many updates are done, and of how many so far."""
    given = {name: value for name, value in options.items() if value is not None}
    settings = _settings({name: value for name, value in given.items() if name not in _OF_POLICIES})
    learner, config = policy.actor.learner, policy.checkpoint.config
    gamma, deterministic = options.get("gamma"), options.get("deterministic")
    discount: Any = float(getattr(learner.params, "gamma", DEFAULT_GAMMA)) if gamma is None else gamma
    is_number = isinstance(discount, int | float | np.floating)
    if not (is_number and 0.0 <= discount < 1.0):
        got = f"{discount:g}" if is_number else shown(discount)
        raise ConfigError(f"gamma: must be at least 0 and below 1, got {got}")
    places = np.flatnonzero((policy.chosen(options.get("members")) & learner.active).cpu().numpy()).tolist()
    data, used, cautions = _data(policy, dataset)
    mode = config.evaluation.deterministic if deterministic is None else require_flag("deterministic", deterministic)
    most = settings.updates * (1 if "updates" in given else MOST_ROUNDS)
    fitted = fit_values(
        policy.actor,
        places,
        data,
        settings,
        gamma=discount,
        deterministic=mode,
        on_part=on_part,
        go_on=lambda found: found.updates < most and unsettled(found),
        ran_away=ran_away,
    )
    standard = fit_transforms(data, policy.checkpoint.spaces, TransformConfig(normalise_observations=True))
    outside = share_outside(policy.actor, places, data, standard, mode)
    behaviour, missed = float(fitted.values[-1]), float(_missed(fitted)[-1])
    seen = [fitted.of(column) for column in range(len(places) + 1)]  # the behaviour does not go alone
    judged = tuple(_judge(seen[c], c, learner.seeds[place], float(outside[c])) for c, place in enumerate(places))
    for one, of in zip(judged, seen, strict=False):
        cautions += caution_of_a_stop(of, one.seed) if one.trusted else []
    return OfflineEvaluation(
        int(policy.checkpoint.progress["steps"]),
        discount,
        settings,
        used,
        _observed(data, fitted),
        statistics.student_estimate(behaviour, fitted.repeats[:, -1], besides=missed, episodes=used.episodes),
        judged,
        (*cautions, *caution_of_cuts(fitted)),
        np.stack([of.repeats[:, column] for column, of in enumerate(seen)], 1),
        fitted.updates,
        missed,
    )


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
    )


def _judge(fitted: FittedValues, column: int, seed: int, outside: float) -> PolicyValue:
    """One policy's figures, and every reason not to trust them."""
    values, repeats = fitted.values, fitted.repeats
    missed, episodes = _missed(fitted), len(fitted.observed)
    value = statistics.student_estimate(
        float(values[column]), repeats[:, column], besides=missed[column], episodes=episodes
    )
    gains, besides = repeats[:, column] - repeats[:, -1], missed[column] - missed[-1]
    gain = float(values[column] - values[-1])
    inside, held_out = (float(np.nanmean(side[:, column])) for side in fitted.td_errors)
    reasons = doubts(fitted, column, outside)
    improvement = statistics.student_estimate(gain, gains, besides=besides, episodes=episodes)
    chance = statistics.chance_above_zero(gain, gains, besides=besides, episodes=episodes)
    tail = float(fitted.tails[column])
    return PolicyValue(
        seed, value, improvement, chance, outside, inside, held_out, tuple(reasons), tail, float(missed[column])
    )


def _missed(fitted: FittedValues) -> statistics.Scores:
    """By how much left-out episodes came out better than fitted, discounted, `[P + 1]`; 0 where none was left out."""
    return np.asarray(np.nan_to_num(mean_left_out(fitted)))


# The data -----------------------------------------------------------------------------------------------------------


def _data(policy: LoadedPolicy, given: TransitionDataset | str | None) -> tuple[TransitionDataset, DataUsed, list[str]]:
    """The episodes to evaluate on, what they are, and what the user should know of them."""
    run = run_of(policy.place)
    trained = None if run is None else (run.describe().get("dataset") or {}).get("fingerprint")
    spaces, cautions = policy.checkpoint.spaces, []
    data, title, said = _open(policy, given)
    cautions += [f"{title}: {note}" for note in said]
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
    seen = 1.0 if own or data.fingerprint() == trained else _share_seen(policy, data)
    if seen > _NEARLY_ALL:
        cautions.append("the policy was trained on these episodes, which flatters it; other ones say more")
    elif round(seen * data.n_episodes):
        cautions.append(
            f"the policy was trained on about {seen * data.n_episodes:,.0f} of these"
            f" {amount(data.n_episodes, 'episode')}, which flatters it; other ones say more"
        )
    some = some_episodes(data, MOST_ROWS)
    if len(some) < len(data):
        cautions.append(f"of {amount(len(data), 'row')}, whole episodes of {len(some):,} are used")
    if data.mixture is not None:
        cautions.append("the shares of the mixture are not used: every row counts alike")
    episodes = _fitted_episodes(some)
    if FEWEST_EPISODES <= episodes < FEW_EPISODES:
        cautions.append(caution_of_few(episodes))
    return some, DataUsed(title, data.fingerprint(), episodes, some.n_usable, seen > 0.5), cautions


def _fitted_episodes(data: TransitionDataset) -> int:
    """Episodes with a row whose successor is known; none where borders are lost."""
    if not data.whole_episodes:
        return 0
    return data.n_episodes if data.has_next_obs is None else len(np.unique(data.episode_ids[data.has_next_obs]))


def _share_seen(policy: LoadedPolicy, data: TransitionDataset) -> float:
    """The share of the rows that are among those trained on, as far as these can still be read."""
    section = policy.checkpoint.config.dataset
    if section is None:
        return 0.0
    try:
        return share_seen(data, _load(policy, section))
    except (DataError, ConfigError, OSError):
        return 0.0


def _open(
    policy: LoadedPolicy, given: TransitionDataset | str | None
) -> tuple[TransitionDataset, str, tuple[str, ...]]:
    """The data, what to call them, and what to say on how they were read."""
    config = policy.checkpoint.config
    if isinstance(given, TransitionDataset):
        return given, given.origin or "arrays in memory", ()
    if given is not None and not isinstance(given, str | Mapping):
        raise DataError(f"dataset: must be a TransitionDataset or a path, got {shown(given)}")
    section, notes = (config.dataset, ()) if given is None else read_alike(config.to_plain(), given)
    if section is None:
        raise ConfigError("data: this policy was trained from arrays in memory; name the data to evaluate it on")
    data = _load(policy, section)
    return data, given or str(getattr(section, "path", None) or getattr(section, "id", section.source)), notes


def _load(policy: LoadedPolicy, section: DatasetConfig) -> TransitionDataset:
    return load_dataset(section, policy.checkpoint.config.env_id, None, refuse=False)
