"""A second opinion on policies: they are played in a model of the dynamics that is fitted to the same episodes.

The equations are in `algorithms/evaluation/dynamics.py`. One model for each of the R resamples that the fits of Q have,
so that each leaves out episodes, whose recorded actions it is held to: a model that does not foretell what they
returned has nothing to say of a policy. Everything that leaves here is in units of the raw reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training.algorithms.evaluation.dynamics import Dynamics, DynamicsParams, Outcome
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, Transforms, divisor_of, fit_transforms
from rl_training.environments import Spaces
from rl_training.runtime.acting import Actor
from rl_training.runtime.action_support import one_action
from rl_training.runtime.engine import Engine, arithmetic_kept, choose_device, set_arithmetic
from rl_training.runtime.fitted_checks import ResampledEpisodes, Values
from rl_training.runtime.fitted_evaluation import (
    OfflineEvaluationConfig,
    counted_steps,
    draw_resamples,
    first_rows,
    usable_episodes,
)
from rl_training.runtime.torch_state import own_torch_state

Rows = npt.NDArray[np.int64]

_UPDATES, _SHARE_OF_UPDATES = 2_000, 0.4  # at most so many, and so much of a fit's
_NEGLIGIBLE = 0.01  # of the discounted weight: beyond, the mean reward stands for what follows
_MOST_STEPS = 1_000
_MOST_STARTS = 100
_MOST_WINDOWS = 500  # of left-out episodes, for each model
_WINDOW = 0.25  # of the 1/(1-γ) steps that count: longer ones tell of chaos, not of the model
_SAME = 1e-3  # of a deviation
_BEYOND = 0.1  # by how much of its range in the data a column may leave it


@dataclass(frozen=True)
class ModelledValues:
    """What the models say."""

    values: Values  # [R, P]: of each policy, at the starts of the episodes (some of them where these are many)
    foretold: float  # of the variance of what left-out windows returned, 1 at best; NaN where there are none
    window: int  # steps


@own_torch_state()
def roll_out(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    *,
    gamma: float,
    deterministic: bool,
) -> ModelledValues:
    """Play the policies of these members in models of whole episodes, and hold the models to episodes they left out."""
    with arithmetic_kept():
        world = _World(usable_episodes(dataset), actor.transforms, settings)
        window = _window(world.data, gamma)
        return ModelledValues(
            _play(world, actor, members, gamma, deterministic), _foretold(world, window, gamma), window
        )


class _World:
    """The models, from standardised observations to such, with raw rewards; and the data they are of."""

    def __init__(self, data: TransitionDataset, bounds: Transforms, settings: OfflineEvaluationConfig) -> None:
        self.data, self.repeats = data, settings.repeats
        self.device = torch.device(choose_device(settings.device))
        rewards = data.rewards.astype(np.float64)
        scale = 1.0 / divisor_of(float(rewards.std()))
        standard = TransformConfig(
            normalise_observations=True, reward_scale=scale, reward_shift=-scale * float(rewards.mean())
        )
        self.transforms = fit_transforms(data, Spaces(data.obs_dim, bounds.action_low, bounds.action_high), standard)
        self.resamples = draw_resamples(data.n_episodes, settings)
        packed = PackedTransitions.from_dataset(data, self.transforms, self.device)
        every = packed.gather(torch.arange(len(packed), device=self.device).unsqueeze(0))
        self.obs, self.actions = every.obs[0], every.actions[0]
        follows = (every.next_obs[0, :-1] - every.obs[0, 1:]).abs().amax(-1) < _SAME
        self.follows = np.append(follows.cpu().numpy(), False)  # [N]: whether the next row is what came next
        states = torch.cat((every.obs[0], every.next_obs[0]))
        low, high = states.amin(0), states.amax(0)
        self._low, self._high = low - _BEYOND * (high - low), high + _BEYOND * (high - low)
        self._rewards = (float(rewards.min()), float(rewards.max()))
        self._clocks = _Clocks(every.obs[0], every.next_obs[0])
        self._learner = self._fit(packed, every.next_obs[0] - every.obs[0], settings)

    def _fit(self, packed: PackedTransitions, steps: Tensor, settings: OfflineEvaluationConfig) -> Dynamics:
        updates = max(1, min(_UPDATES, int(_SHARE_OF_UPDATES * settings.updates)))
        learner = Dynamics(
            self.data.obs_dim,
            self.data.act_dim,
            DynamicsParams(terminates=bool(self.data.terminations.any())),
            seeds=[settings.seed + repeat for repeat in range(settings.repeats)],
            total_updates=updates,
            device=self.device,
        )
        learner.measure_in(steps)
        set_arithmetic(learner, "fp32")
        ends = torch.tensor(self.data.episode_ends, device=self.device)
        Engine(learner, ResampledEpisodes(packed, ends, self.resamples.to(self.device))).run(0, updates)
        return learner

    def outcome(self, obs: Tensor, actions: Tensor) -> Outcome:
        """What follows, each model its own rows `[R, B]`, kept near what the data have seen."""
        after, rewards, alive = self._learner.outcome(obs, actions)
        raw = (rewards.double() - self.transforms.reward_shift) / self.transforms.reward_scale
        near = torch.minimum(torch.maximum(self._clocks.restarted(after), self._low), self._high)
        return Outcome(near, raw.clamp(*self._rewards), alive.double())

    def raw(self, obs: Tensor) -> npt.NDArray[np.float32]:
        """Observations as they were recorded."""
        seen = obs.double().cpu().numpy()
        mean, divisor = np.asarray(self.transforms.obs_mean), np.asarray(self.transforms.obs_std)
        return np.asarray(seen * divisor + mean, dtype=np.float32)


class _Clocks:
    """Columns that always move alike. Where episodes were cut, they begin anew, as the fits of Q have it: no row tells
    what a later time would mean, and the last one would stand still."""

    def __init__(self, obs: Tensor, next_obs: Tensor) -> None:
        steps = next_obs - obs
        step = steps.mean(0)
        self._forwards, self._backwards = (
            (sign * step > 0.0) & (steps.std(0, unbiased=False) < _SAME * step.abs()) for sign in (1.0, -1.0)
        )
        self._low, self._high, self._half = obs.amin(0), obs.amax(0), 0.5 * step.abs()

    def restarted(self, obs: Tensor) -> Tensor:
        """`[..., obs]` as they are, but for a time that no row has."""
        obs = torch.where(self._forwards & (obs > self._high + self._half), self._low, obs)
        return torch.where(self._backwards & (obs < self._low - self._half), self._high, obs)


# The policies ---------------------------------------------------------------------------------------------------------


def _play(world: _World, actor: Actor, members: Sequence[int], gamma: float, deterministic: bool) -> Values:
    """The discounted return of each policy in each model, mean over the starts, `[R, P]`."""
    first = first_rows(world.data)
    starts = torch.tensor(first[_spread(len(first), _MOST_STARTS)], device=world.device)
    shape = (world.repeats, len(members), len(starts))
    obs = world.obs[starts].expand(*shape, -1)
    value, weight = (torch.full(shape, fill, dtype=torch.float64, device=world.device) for fill in (0.0, 1.0))
    usual, going_on = torch.zeros_like(value), torch.zeros_like(value)
    steps = _steps(world.data, gamma)
    late = range(steps // 2, steps)
    for step in range(steps):
        seen = world.raw(obs.transpose(0, 1).flatten(1, 2))  # of each policy, in every model
        chosen = torch.tensor(one_action(actor, members, seen, None if deterministic else step), device=world.device)
        actions = chosen.unflatten(1, (shape[0], shape[2])).transpose(0, 1)
        found = world.outcome(obs.flatten(1, 2), actions.flatten(1, 2))
        obs = found.next_obs.view(obs.shape)
        rewards, alive = found.rewards.view(shape), found.alive.view(shape)
        value, weight = value + weight * rewards, weight * alive * gamma
        if step in late:
            usual, going_on = usual + rewards / len(late), going_on + alive / len(late)
    if gamma < 1.0:
        value = value + weight * usual / (1.0 - gamma * going_on)
    return np.asarray(value.mean(-1).cpu().numpy())


def _steps(data: TransitionDataset, gamma: float) -> int:
    """After which what follows hardly counts, or nothing follows."""
    if gamma == 1.0:
        return int(counted_steps(data, gamma))
    return 1 if gamma <= _NEGLIGIBLE else min(math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)), _MOST_STEPS)


# The episodes ---------------------------------------------------------------------------------------------------------


def _window(data: TransitionDataset, gamma: float) -> int:
    """Steps over which models are held to the data: before errors grow of themselves, and as far as was recorded."""
    return max(1, min(math.ceil(_WINDOW * counted_steps(data, gamma)), int(np.median(data.episode_lengths()))))


def _foretold(world: _World, window: int, gamma: float) -> float:
    """The share of the variance of what windows of left-out episodes returned that the models foretell from the state
    in which they begin and the actions that were recorded."""
    begins = _windows(world, window)
    own = world.data.episode_ids[begins]
    left_out = [begins[~np.isin(own, episodes)] for episodes in world.resamples.numpy()]
    asked = [rows[_spread(len(rows), _MOST_WINDOWS)] for rows in left_out]
    most = max(map(len, asked))
    if not most:
        return math.nan
    counted = np.stack([np.arange(most) < len(rows) for rows in asked])
    at = np.stack([np.resize(rows, most) if len(rows) else np.zeros(most, dtype=np.int64) for rows in asked])
    last = world.data.episode_ends[world.data.episode_ids[at]]
    obs = world.obs[torch.tensor(at, device=world.device)]
    weight = torch.ones(at.shape, dtype=torch.float64, device=world.device)
    told, returned = torch.zeros_like(weight), np.zeros(at.shape)
    for step in range(window):
        rows = np.minimum(at + step, last)
        returned += np.where(at + step <= last, gamma**step * world.data.rewards[rows], 0.0)
        obs, rewards, alive = world.outcome(obs, world.actions[torch.tensor(rows, device=world.device)])
        told, weight = told + weight * rewards, weight * alive * gamma
    truth, errors = returned[counted], (told.cpu().numpy() - returned)[counted]
    variance = float(truth.var())
    return 1.0 - float(np.square(errors).mean()) / variance if variance > 0.0 else math.nan


def _windows(world: _World, window: int) -> Rows:
    """Rows from which so many steps were recorded one after another, or fewer up to a termination."""
    data, rows = world.data, np.arange(len(world.data))
    ends = data.episode_ends[data.episode_ids]
    until = np.minimum(rows + window - 1, ends)
    breaks = np.concatenate(([0], np.cumsum(~world.follows)))  # before each row
    whole = (rows + window - 1 <= ends) | data.terminations[ends]
    return np.flatnonzero(whole & (breaks[until] == breaks[rows]))


def _spread(count: int, most: int) -> Rows:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
