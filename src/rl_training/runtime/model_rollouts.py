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

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.acting import Actor
from rl_training.runtime.action_support import one_action, spread_rows
from rl_training.runtime.engine import arithmetic_kept
from rl_training.runtime.fitted_checks import Values
from rl_training.runtime.fitted_evaluation import (
    OfflineEvaluationConfig,
    counted_steps,
    first_rows,
    usable_episodes,
)
from rl_training.runtime.modelled_ends import EndWatch, ModelledEnds
from rl_training.runtime.modelled_world import World
from rl_training.runtime.torch_state import own_torch_state

Rows = npt.NDArray[np.int64]

_NEGLIGIBLE = 0.01  # of the discounted weight: beyond, the mean reward stands for what follows
_MOST_STEPS = 1_000
_MOST_STARTS = 100
_MOST_WINDOWS = 500  # of left-out episodes, for each model
_WINDOW = 0.25  # of the 1/(1-γ) steps that count: longer ones tell of chaos, not of the model


@dataclass(frozen=True)
class ModelledValues:
    """What the models say."""

    values: Values  # [R, P]: of each policy, at the starts of the episodes (some of them where these are many)
    foretold: float  # of the variance of what left-out windows returned, 1 at best; NaN where there are none
    window: int  # steps
    ends: ModelledEnds | None = None  # none where too few episodes of the data terminate


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
        world = World(usable_episodes(dataset), actor.transforms, settings)
        window = _window(world.data, gamma)
        values, ends = _play(world, actor, members, gamma, deterministic)
        return ModelledValues(values, _foretold(world, window, gamma), window, ends)


# The policies ---------------------------------------------------------------------------------------------------------


def _play(
    world: World, actor: Actor, members: Sequence[int], gamma: float, deterministic: bool
) -> tuple[Values, ModelledEnds | None]:
    """The discounted return of each policy in each model, mean over the starts, `[R, P]`, and where episodes ended."""
    first = first_rows(world.data)
    starts = torch.tensor(first[spread_rows(len(first), _MOST_STARTS)], device=world.device)
    shape = (world.repeats, len(members), len(starts))
    obs = world.obs[starts].expand(*shape, -1)
    value, weight = (torch.full(shape, fill, dtype=torch.float64, device=world.device) for fill in (0.0, 1.0))
    usual, going_on = torch.zeros_like(value), torch.zeros_like(value)
    steps = _steps(world.data, gamma)
    late, watch = range(steps // 2, steps), EndWatch(world, shape)
    for step in range(steps):
        seen = world.raw(obs.transpose(0, 1).flatten(1, 2))  # of each policy, in every model
        chosen = torch.tensor(one_action(actor, members, seen, None if deterministic else step), device=world.device)
        actions = chosen.unflatten(1, (shape[0], shape[2])).transpose(0, 1)
        found = world.outcome(obs.flatten(1, 2), actions.flatten(1, 2))
        before, obs = obs, found.next_obs.view(obs.shape)
        rewards, alive = found.rewards.view(shape), found.alive.view(shape)
        watch.see(before, alive)
        value, weight = value + weight * rewards, weight * alive * gamma
        if step in late:
            usual, going_on = usual + rewards / len(late), going_on + alive / len(late)
    if gamma < 1.0:
        value = value + weight * usual / (1.0 - gamma * going_on)
    return np.asarray(value.mean(-1).cpu().numpy()), watch.judged()


def _steps(data: TransitionDataset, gamma: float) -> int:
    """After which what follows hardly counts, or nothing follows."""
    if gamma == 1.0:
        return int(counted_steps(data, gamma))
    return 1 if gamma <= _NEGLIGIBLE else min(math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)), _MOST_STEPS)


# The episodes ---------------------------------------------------------------------------------------------------------


def _window(data: TransitionDataset, gamma: float) -> int:
    """Steps over which models are held to the data: before errors grow of themselves, and as far as was recorded."""
    return max(1, min(math.ceil(_WINDOW * counted_steps(data, gamma)), int(np.median(data.episode_lengths()))))


def _foretold(world: World, window: int, gamma: float) -> float:
    """The share of the variance of what windows of left-out episodes returned that the models foretell from the state
    in which they begin and the actions that were recorded."""
    begins = _windows(world, window)
    own = world.data.episode_ids[begins]
    left_out = [begins[~np.isin(own, episodes)] for episodes in world.resamples.numpy()]
    asked = [rows[spread_rows(len(rows), _MOST_WINDOWS)] for rows in left_out]
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


def _windows(world: World, window: int) -> Rows:
    """Rows from which so many steps were recorded one after another, or fewer up to a termination."""
    data, rows = world.data, np.arange(len(world.data))
    ends = data.episode_ends[data.episode_ids]
    until = np.minimum(rows + window - 1, ends)
    whole = (rows + window - 1 <= ends) | data.terminations[ends]
    return np.flatnonzero(whole & world.unbroken(rows, until))
