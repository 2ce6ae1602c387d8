"""What the networks of a checkpoint say about transitions: values against returns, TD error, distance to the data.

Values, returns and errors are discounted, in units of the raw reward where rewards were only scaled, and else on the
scale the networks see; actions are in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training.algorithms.base import Learner
from rl_training.algorithms.base.losses import td_target
from rl_training.data.batch import Batch
from rl_training.data.doctor.wording import number
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import discounted_returns_to_go
from rl_training.data.transforms import Transforms
from rl_training.models import reduce_critics
from rl_training.wording import readable

FloatArray = npt.NDArray[np.float64]

FAR = 3.0  # of values from returns, on average, in standard deviations of the returns
BY_HEART = 2.0  # times the TD error on what was trained on, that on other episodes
ON_ONE_SIDE = 0.9  # of the values where the returns are lowest
_LOWEST = 0.05  # of the returns
_MOST_ROWS = 20_000
_CHUNK = 4_096


@dataclass(frozen=True)
class ValueCheck:
    """Of rows of the data, for M seeds: what the critics say, and what followed.

    kind: "Q" of state and action, or "V" of the state where the algorithm has no critics.
    """

    kind: str
    values: FloatArray  # [M, N]
    td_errors: FloatArray  # [M, N]
    returns: FloatArray | None  # [M, N]; none where rows are not whole episodes
    bootstrapped: bool  # cut-off episodes go on with the learned value
    scale: float | None = None  # of the networks' rewards to raw ones, which all of this is in; none: it is theirs

    def td_error(self) -> FloatArray:
        """Root mean square for each seed."""
        return np.asarray(np.sqrt((self.td_errors**2).mean(1)))

    def lowest_above(self) -> float | None:
        """Of the values where the returns are in their lowest twentieth, the share above these; none where that cannot
        be told from the rest."""
        if self.returns is None:
            return None
        lowest = self.returns <= np.quantile(self.returns, _LOWEST)
        told = lowest.mean() <= 2.0 * _LOWEST
        return float((self.values > self.returns)[lowest].mean()) if told else None

    def correlation(self) -> FloatArray | None:
        """Pearson's, between values and returns, for each seed; NaN where one of them is constant."""
        if self.returns is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = (part - part.mean(1, keepdims=True) for part in (self.values, self.returns))
            return np.asarray((x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1)))

    def level(self) -> float | None:
        """Mean of the returns."""
        return None if self.returns is None else float(self.returns.mean())

    def bias(self) -> FloatArray | None:
        """Mean of value minus return for each seed."""
        return None if self.returns is None else np.asarray((self.values - self.returns).mean(1))

    def doubts(self) -> list[str]:
        """A sentence where most seeds' values are, on average, far from the returns that followed."""
        bias = self.bias()
        if self.returns is None or bias is None:
            return []
        spread = self.returns.std(1)
        far = np.isfinite(bias) & (spread > 0) & (np.abs(bias) > FAR * spread)
        if 2 * int(far.sum()) <= len(bias):
            return []
        mean, times = float(bias[far].mean()), float((np.abs(bias) / np.maximum(spread, 1e-12))[far].mean())
        side, what = (
            ("above", "it overrates what it does") if mean > 0 else ("below", "it underrates it or is not done")
        )
        return [
            f"{self.kind} lies {readable(abs(mean))} {side} the returns that followed in the data, {times:.1f} times"
            f" their standard deviation: the critic has not learned their level, {what}"
        ]


@dataclass(frozen=True)
class ActionCheck:
    """How far the policy's mode is from the data's action in the same state, root mean square over dimensions."""

    distances: FloatArray  # [M, N]
    shuffled: float  # the same between the data's own actions of random pairs of rows


def learned_by_heart(seen: ValueCheck, held: ValueCheck) -> list[str]:
    """A sentence where the TD error on episodes that were not trained on is far above the other."""
    ours, theirs = float(seen.td_error().mean()), float(held.td_error().mean())
    if not theirs > BY_HEART * ours:
        return []
    own, other = number(ours), number(theirs)
    times = f"{theirs / ours:.1f} times the {own}" if ours > 0.0 else f"and {own}"
    return [
        f"the TD error on held-out episodes is {other}, {times} on those trained on: the critic has learned these by"
        " heart, at least in part (overfitting); more episodes, or fewer updates, help"
    ]


def some_episodes(dataset: TransitionDataset, most: int = _MOST_ROWS) -> TransitionDataset:
    """Whole episodes spread over the data, of at most so many rows (but one at least); rows where there are none."""
    if len(dataset) <= most:
        return dataset
    if not dataset.whole_episodes:
        return dataset.select(np.linspace(0, len(dataset) - 1, most).astype(np.int64))
    lengths = dataset.episode_lengths()
    order = np.random.default_rng(0).permutation(len(lengths))
    count = max(1, int(np.searchsorted(np.cumsum(lengths[order]), most, side="right")))
    chosen = np.isin(dataset.episode_ids, order[:count])
    rows = np.flatnonzero(chosen)[: max(most, 1)] if count == 1 else np.flatnonzero(chosen)
    return dataset.select(rows)


@torch.no_grad()
def check_values(learner: Learner, transforms: Transforms, dataset: TransitionDataset) -> ValueCheck | None:
    """Values and TD errors of every usable row of the data; None for an algorithm that learns no values."""
    model: Any = learner.model
    kind = "Q" if hasattr(model, "critics") else "V" if hasattr(model, "value") else None
    if kind is None:
        return None
    dataset = dataset.usable() if dataset.whole_episodes else dataset
    gamma = float(getattr(learner.params, "gamma", 0.99))
    parts = [_evaluate(learner, _batch(learner, transforms, dataset, rows), gamma) for rows in _chunks(len(dataset))]
    values, errors, after = (torch.cat(column, dim=-1).double().cpu().numpy() for column in zip(*parts, strict=True))
    returns = None
    if dataset.whole_episodes:
        ends = dataset.episode_ends
        alive = ~dataset.terminations[ends]
        rewards = transforms.rewards(dataset.rewards)
        returns = np.stack([discounted_returns_to_go(rewards, ends, gamma, alive * own[ends]) for own in after])
    cut = bool((~dataset.terminations[dataset.episode_ends]).any()) if dataset.whole_episodes else False
    sound = learner.active.cpu().numpy()
    scale = transforms.pure_reward_scale
    to_raw = 1.0 / (scale or 1.0)
    followed = None if returns is None else returns[sound] * to_raw
    return ValueCheck(kind, values[sound] * to_raw, errors[sound] * to_raw, followed, cut, scale)


def _evaluate(learner: Learner, batch: Batch, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """Value, TD error and value of the successor, `[M, B]` each. Without noise: the policy's mode, no entropy."""
    model: Any = learner.model
    after = _state_values(learner, batch.next_obs)
    if hasattr(model, "critics"):
        values = reduce_critics(model.critics.values(batch.obs, batch.actions), "min")
    else:
        values = _state_values(learner, batch.obs)
    return values, td_target(batch, after, gamma) - values, after


def _state_values(learner: Learner, obs: Tensor) -> Tensor:
    """V(s) where it is learned, else min_i Q̄_i(s, π(s)), `[M, B]`."""
    model: Any = learner.model
    if hasattr(model, "value"):
        learned: Tensor = model.value.values(obs)
        return learned
    critics = model.target_critics
    return reduce_critics(critics.values(obs, learner.policy.mode(obs)), "min")


@torch.no_grad()
def check_actions(learner: Learner, transforms: Transforms, dataset: TransitionDataset) -> ActionCheck:
    """The policy's mode beside the data's action at every row."""
    unit = transforms.to_unit_actions(dataset.actions).astype(np.float64)
    parts = []
    for rows in _chunks(len(dataset)):
        obs = spread_over_members(learner, transforms.observations(dataset.obs[rows]))
        gap = transforms.as_done(learner.policy.mode(obs).cpu().numpy()).astype(np.float64) - unit[rows]
        parts.append(np.sqrt((gap * gap).mean(-1)))
    other = unit[np.random.default_rng(0).permutation(len(unit))]
    shuffled = float(np.sqrt(((unit - other) ** 2).mean(-1)).mean())
    return ActionCheck(np.concatenate(parts, axis=1)[learner.active.cpu().numpy()], shuffled)


def _batch(learner: Learner, transforms: Transforms, dataset: TransitionDataset, rows: slice) -> Batch:
    return Batch(
        spread_over_members(learner, transforms.observations(dataset.obs[rows])),
        spread_over_members(learner, transforms.to_unit_actions(dataset.actions[rows])),
        spread_over_members(learner, transforms.rewards(dataset.rewards[rows])),
        spread_over_members(learner, transforms.observations(dataset.next_obs[rows])),
        spread_over_members(learner, dataset.terminations[rows].astype(np.float32)),
    )


def spread_over_members(learner: Learner, values: npt.NDArray[np.float32]) -> Tensor:
    """The same rows for every member, `[M, B, …]`."""
    tensor = torch.tensor(values, device=learner.device)
    return tensor.expand(learner.members, *tensor.shape)


def _chunks(rows: int) -> list[slice]:
    return [slice(first, first + _CHUNK) for first in range(0, rows, _CHUNK)]
