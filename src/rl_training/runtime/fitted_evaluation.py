"""Fitted Q evaluation of trained policies: every policy and the behaviour, on every resample of the episodes, at once.

The equations are in `algorithms/evaluation/fitted_q.py`. Here: the resamples, the policies' actions, the fit, and what
is measured of it. P policies stand before the behaviour, so each of the R repeats has P + 1 columns. Everything that
leaves here is in units of the raw reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from rl_training.algorithms.evaluation.fitted_q import FittedQ, FittedQParams
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import discounted_returns_to_go, usual_value
from rl_training.data.transforms import TransformConfig, Transforms, divisor_of, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError
from rl_training.runtime.acting import Actor
from rl_training.runtime.action_support import policy_actions, rows_like_those_after_cuts, share_of_lone_cuts
from rl_training.runtime.engine import Engine, arithmetic_kept, choose_device, choose_mode, set_arithmetic
from rl_training.runtime.fitted_checks import EpisodeBootstrap, Logged, Values, check, start_values
from rl_training.runtime.torch_state import own_torch_state
from rl_training.validation import Section

__all__ = [
    "DEFAULT_UPDATES",
    "EpisodeBootstrap",
    "FittedValues",
    "OfflineEvaluationConfig",
    "counted_steps",
    "draw_resamples",
    "first_rows",
    "fit_values",
    "usable_episodes",
]

_SEEDS_APART = 2**20
# The penalty on the weights is a prior that counts as much as so many rows: it slows fits on few episodes on their way
# out, and more of it would draw values to zero.
_PRIOR_ROWS, _MOST_DECAY = 1.0, 0.01
_PARTS = 10  # of the fit, after each of which the values are read
DEFAULT_UPDATES = 5_000


class OfflineEvaluationConfig(Section):
    """How much work an estimate is."""

    updates: int = Field(DEFAULT_UPDATES, ge=10, description="updates of every fit")
    repeats: int = Field(5, ge=2, le=64, description="resamples of the episodes, each fitted anew")
    seed: int = Field(0, ge=0, lt=2**30, description="of the resamples, the first weights and the batches")
    device: str = Field("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")


@dataclass(frozen=True)
class FittedValues:
    """What the fits say; axis P + 1 is the policies, then the behaviour."""

    gamma: float
    starts: Values  # [R, P + 1, E]: Q where every episode begins, at the action of the policy
    weights: Values  # [R, E]: how often each episode is in each resample, as shares
    course: Values  # [parts, R, P + 1]: the value after each part of the fit
    td_errors: Values  # [2, R, P + 1]: root mean square on episodes in the resample, and on those that are not
    left_out: Values  # [R, P + 1]: by how much an episode not in the resample came out better than fitted, discounted
    extremes: Values  # [2, R, P + 1]: between which the Q of nearly all rows lie
    allowed: tuple[float, float]  # what discounted rewards of this data can add up to
    observed: Values  # [E]: discounted return of each episode as far as it was recorded
    behind: Values  # [E]: γ^T of an episode that was cut after T rows, 0 of one that terminated
    after: Values  # [R, P + 1, E]: the fitted value after the cut
    updates: int = 0  # done
    lone_cuts: float = 0.0  # share of the cuts that nothing in the data is like
    left: FittedValues | None = None  # a later part, in which the fit ran away
    gone: Mapping[int, FittedValues] = field(default_factory=dict)  # what policies that ran away are judged by

    def of(self, column: int) -> FittedValues:
        """What one policy is judged by."""
        return self.gone.get(column, self)

    def without(self, rows: Sequence[int]) -> FittedValues:
        """As if these resamples had not been drawn."""
        if not rows:
            return self
        kept = np.delete(np.arange(len(self.starts)), list(rows))
        return replace(
            self,
            **{name: getattr(self, name)[kept] for name in ("starts", "weights", "left_out", "after")},
            **{name: getattr(self, name)[:, kept] for name in ("course", "td_errors", "extremes")},
            left=None if self.left is None else self.left.without(rows),
            gone={column: found.without(rows) for column, found in self.gone.items()},
        )

    @property
    def tails(self) -> Values:
        """What lies behind the cuts adds to the value at the start, mean over the episodes: `[P + 1]`."""
        return np.asarray((self.behind * self.after).mean((0, 2)))

    @property
    def repeats(self) -> Values:
        """V̂ of every repeat, at the starts of its own episodes: `[R, P + 1]`."""
        return np.asarray((self.starts * self.weights[:, None, :]).sum(-1))

    @property
    def values(self) -> Values:
        """V̂, the mean over the repeats at the starts of all episodes: `[P + 1]`."""
        return np.asarray(self.starts.mean((0, 2)))


@own_torch_state()
def fit_values(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    *,
    gamma: float,
    deterministic: bool,
    on_part: Callable[[int, int], None] = lambda done, planned: None,
    go_on: Callable[[FittedValues], bool] = lambda found: False,
    ran_away: Callable[[FittedValues], set[int]] = lambda found: set(),
) -> FittedValues:
    """Evaluate the policies of these members on whole episodes; `on_part` is told how many updates are done, and of how
    many that are planned so far.

    After `settings.updates` they are gone on with, as many again each time, for as long as `go_on` says so. What is
    found of a policy that `ran_away` (their columns) is the part before it (of a later round, the round before), or the
    first itself; the others go on.
    """
    with arithmetic_kept():
        device = torch.device(choose_device(settings.device))
        logged = _prepare(actor, members, dataset, settings, device, gamma, deterministic)
        fits = _Fits(logged, len(members) + 1, settings, gamma, device)
        found = fits.go_on(on_part, ran_away)
        while not fits.over and go_on(found):
            found = fits.go_on(on_part, ran_away)
        return found


class _Fits:
    """The fits of every column on every resample, and where they stand."""

    def __init__(
        self, logged: Logged, columns: int, settings: OfflineEvaluationConfig, gamma: float, device: torch.device
    ) -> None:
        self._logged, self._columns, self._settings = logged, columns, settings
        self._gamma, self._device = gamma, device
        self._rounds = 0
        self._learner: FittedQ | None = None
        self._course: list[Values] = []
        self._before: FittedValues | None = None
        self._gone: dict[int, FittedValues] = {}

    @property
    def over(self) -> bool:
        """Whether all policies ran away."""
        return len(self._gone) == self._columns - 1

    def go_on(self, on_part: Callable[[int, int], None], ran_away: Callable[[FittedValues], set[int]]) -> FittedValues:
        """`settings.updates` more, with a learning rate that falls anew; the first start from the data's returns."""
        settings, columns, logged = self._settings, self._columns, self._logged
        first, updates = self._learner is None, settings.updates
        # Other seeds draw other batches; columns of a repeat share theirs.
        seeds = [
            settings.seed + repeat + _SEEDS_APART * self._rounds
            for repeat in range(settings.repeats)
            for _ in range(columns)
        ]
        data = logged.data
        params = FittedQParams(gamma=self._gamma, weight_decay=min(_PRIOR_ROWS / len(data), _MOST_DECAY))
        if not first:
            params = params.model_copy(update={"warm_start": 0.0})
        learner = FittedQ(data.obs_dim, data.act_dim, params, seeds=seeds, total_updates=updates, device=self._device)
        if self._learner is not None:
            learner.model.load_state_dict(self._learner.model.state_dict())
        set_arithmetic(learner, "fp32")
        engine = Engine(learner, logged.source, choose_mode("auto", updates, self._device))
        before, done = self._rounds * updates, 0
        for part in range(1, _PARTS + 1):
            count = updates * part // _PARTS - done
            engine.run(done, count)
            done += count
            found = self._found(learner, before + done)
            on_part(before + done, before + updates)
            judged = found if self._before is None else replace(self._before, left=found)
            self._gone |= dict.fromkeys(ran_away(found) - self._gone.keys(), judged)
            if self.over:
                return replace(judged, gone=self._gone)
            if first or part == _PARTS:  # later rounds start with a high rate again
                self._before = found
        self._learner = learner
        self._rounds += 1
        return replace(found, gone=self._gone)

    def _found(self, learner: FittedQ, updates: int) -> FittedValues:
        data, gamma = self._logged.data, self._gamma
        starts, weights = start_values(learner, self._logged, self._columns), _shares(self._logged.resamples)
        self._course.append((starts * weights[:, None, :]).sum(-1))
        checks = check(learner, self._logged, self._columns)
        alive = ~data.terminations[data.episode_ends]
        return FittedValues(
            gamma,
            starts,
            weights,
            np.stack(self._course),
            checks.td_errors,
            checks.left_out,
            checks.extremes,
            _allowed(data, gamma),
            discounted_returns_to_go(data.rewards, data.episode_ends, gamma)[first_rows(data)],
            alive * gamma ** data.episode_lengths(),
            checks.after,
            updates,
            self._logged.lone_cuts,
        )


def _prepare(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    device: torch.device,
    gamma: float,
    deterministic: bool,
) -> Logged:
    data = usable_episodes(dataset)
    returns = discounted_returns_to_go(data.rewards, data.episode_ends, gamma)
    scale = divisor_of(float(returns.std()) or float(np.abs(returns).max()))
    bounds = actor.transforms
    # Standardised whatever the run did: this network is not the policy's, which sees its observations as it always did.
    standard = TransformConfig(normalise_observations=True, reward_scale=1.0 / scale)
    transforms = fit_transforms(data, Spaces(data.obs_dim, bounds.action_low, bounds.action_high), standard)
    lone_cuts = share_of_lone_cuts(data, transforms)
    data = _continued(data, transforms, settings.seed)
    returns = discounted_returns_to_go(data.rewards, data.episode_ends, gamma, _after_cuts(data, gamma))
    first = first_rows(data)

    def tensor(values: npt.NDArray[np.float32]) -> Tensor:
        return torch.tensor(values, device=device)

    resamples = draw_resamples(len(first), settings).to(device)
    following, at_start = (
        policy_actions(actor, members, obs, deterministic) for obs in (data.next_obs, data.obs[first])
    )
    taken = transforms.to_unit_actions(data.actions[first])
    source = EpisodeBootstrap(
        PackedTransitions.from_dataset(
            replace(data, returns_to_go=(returns / scale).astype(np.float32)), transforms, device
        ),
        torch.tensor(data.episode_ends, device=device),
        resamples,
        tensor(following),
        len(members) + 1,
    )
    chosen = np.concatenate((at_start, np.broadcast_to(taken, (1, *at_start.shape[1:]))))
    return Logged(
        data,
        source,
        tensor(transforms.observations(data.obs[first])),
        tensor(chosen).transpose(0, 1).contiguous(),
        resamples,
        scale,
        lone_cuts,
    )


def usable_episodes(dataset: TransitionDataset) -> TransitionDataset:
    """Whole episodes with the action that follows each row, and no row without a successor."""
    if not dataset.whole_episodes:
        raise DataError("offline evaluation needs whole episodes; these rows were sampled or reordered")
    if dataset.n_episodes < 2:
        raise DataError("offline evaluation needs several episodes; these data have one (see `rl-training data check`)")
    complete = dataset if dataset.next_actions is not None else dataset.with_next_actions()
    return replace(complete, mixture=None, part_ids=None, returns_to_go=None).usable()


def _continued(data: TransitionDataset, standard: Transforms, seed: int) -> TransitionDataset:
    """Episodes that were cut go on in a state like the one they were cut in, from the first half of another episode.

    What follows the cut itself no row tells: Q there would be what the last rows make it, which bootstrap from it. A
    row of another episode has a future that was recorded, and an action that the behaviour took.
    """
    assert data.next_actions is not None
    ends = data.episode_ends
    cut = ~data.terminations[ends]
    if not cut.any():
        return data
    like = rows_like_those_after_cuts(data, standard, seed)[cut]
    next_obs, next_actions = data.next_obs.copy(), data.next_actions.copy()
    next_obs[ends[cut]], next_actions[ends[cut]] = data.obs[like], data.actions[like]
    return replace(data, next_obs=next_obs, next_actions=next_actions)


def _after_cuts(data: TransitionDataset, gamma: float) -> Values:
    """What the fits start from after each cut, `[E]`."""
    usual = usual_value(data.rewards, data.terminations, gamma)
    return np.where(data.terminations[data.episode_ends], 0.0, usual)


def counted_steps(data: TransitionDataset, gamma: float) -> float:
    """Σ γ^t: over the longest episode where nothing is discounted, as that takes episodes which all terminate."""
    return float(data.episode_lengths().max()) if gamma == 1.0 else 1.0 / (1.0 - gamma)


def draw_resamples(episodes: int, settings: OfflineEvaluationConfig) -> Tensor:
    """The episodes of each repeat, with replacement: `[R, E]`."""
    rng = np.random.default_rng(settings.seed)
    return torch.tensor(rng.integers(episodes, size=(settings.repeats, episodes)))


def first_rows(data: TransitionDataset) -> npt.NDArray[np.int64]:
    """Where each episode begins, `[E]`."""
    return np.asarray(data.episode_ends - data.episode_lengths() + 1)


def _shares(resamples: Tensor) -> Values:
    """How often each episode is in each resample, `[R, E]`, as shares of one."""
    episodes = resamples.shape[1]
    return np.stack([np.bincount(row, minlength=episodes) for row in resamples.cpu().numpy()]) / episodes


def _allowed(data: TransitionDataset, gamma: float) -> tuple[float, float]:
    """The least and the most that discounted rewards of this size can add up to; nothing comes after a termination."""
    low, high = float(data.rewards.min()), float(data.rewards.max())
    steps = counted_steps(data, gamma)
    if data.terminations.any():
        return min(low, low * steps), max(high, high * steps)
    return low * steps, high * steps
