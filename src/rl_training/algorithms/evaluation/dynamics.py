"""A model of the dynamics: what a state and an action lead to, learned from logged transitions alone.

Where fitted Q evaluation passes values on from row to row, a model passes states on, and what it makes up where the
data are thin is other things. Learned models as judges of policies: Fu et al., "Benchmarks for Deep Off-Policy
Evaluation", ICLR 2021; ensembles of them: Chua et al., "Deep Reinforcement Learning in a Handful of Trials using
Probabilistic Dynamics Models", NeurIPS 2018. One network has three heads:

    s'   = s + μ + σ·f(s, a)                          μ, σ: mean and deviation of s' - s over the data, by column
    r    = g(s, a)
    d    = sigmoid(h(s, a))                           0 where no episode of the data terminates
    L    = mean( (f - (s' - s - μ)/σ)² ) + mean( (g - r)² ) - mean( d̂·log d + (1 - d̂)·log(1 - d) )

d̂ marks terminations only. A member is the model of one resample of the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from rl_training.algorithms.base import (
    Adam,
    AlgorithmParams,
    Batch,
    HiddenSizes,
    Learner,
    LearningRate,
    Metrics,
    Noise,
    PositiveInt,
    Schedule,
)
from rl_training.models.layers import MLPSpec, StackedMLP

_LEAST_STEP = 1e-6  # σ of a column that always moves alike


class DynamicsParams(AlgorithmParams):
    """Wider than a fit of Q, as errors add up over hundreds of steps, on smaller batches. The rate falls to zero."""

    batch_size: PositiveInt = Field(128, description="transitions per member and update")
    model_lr: LearningRate = Field(3e-3, description="learning rate at the start")
    model_hidden: HiddenSizes = Field((128, 128), description="widths of the hidden layers")
    terminates: bool = Field(True, description="whether any episode of the data terminates")
    lr_schedule: dict[str, Schedule] = Field(
        default_factory=lambda: {"model": Schedule(kind="linear")}, description="how the learning rate falls"
    )


class Outcome(NamedTuple):
    """What follows a state and an action."""

    next_obs: Tensor  # [M, B, obs]
    rewards: Tensor  # [M, B]
    alive: Tensor  # [M, B]: the probability that the episode goes on


class DynamicsModel(nn.Module):
    """f, g and h in one network, and what f's outputs are measured in."""

    step_mean: Tensor  # [obs]
    step_std: Tensor  # [obs]

    def __init__(self, obs_dim: int, act_dim: int, hidden: Sequence[int], seeds: Sequence[int]) -> None:
        super().__init__()
        self.network = StackedMLP(MLPSpec((obs_dim + act_dim, *hidden, obs_dim + 2)), seeds, "dynamics")
        self.register_buffer("step_mean", torch.zeros(obs_dim))
        self.register_buffer("step_std", torch.ones(obs_dim))

    def heads(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f `[M, B, obs]`, g `[M, B]` and, before the sigmoid, h `[M, B]`."""
        found = self.network(torch.cat((obs, actions), dim=-1)).squeeze(1)
        return found[..., :-2], found[..., -2], found[..., -1]


def dynamics_loss(model: DynamicsModel, batch: Batch, *, terminates: bool) -> tuple[Tensor, Metrics]:
    """L, `[M]`."""
    steps, rewards, ends = model.heads(batch.obs, batch.actions)
    moved = (batch.next_obs - batch.obs - model.step_mean) / model.step_std
    loss = (steps - moved).square().mean((1, 2)) + (rewards - batch.rewards).square().mean(1)
    if terminates:
        loss = loss + functional.binary_cross_entropy_with_logits(ends, batch.terminations, reduction="none").mean(1)
    return loss, {"model/loss": loss}


class Dynamics(Learner):
    """Learner; see the module's docstring for the equations. It learns what follows, and has no policy."""

    Params = DynamicsParams
    params: DynamicsParams
    model: DynamicsModel

    def build(self) -> DynamicsModel:
        return DynamicsModel(self.obs_dim, self.act_dim, self.params.model_hidden, self.seeds)

    def build_optimisers(self) -> dict[str, Adam]:
        return {"model": self.adam("model", self.model.network.flat, self.params.model_lr)}

    def measure_in(self, steps: Tensor) -> None:
        """Have outputs be of the size of one; steps: s' - s of the data, `[N, obs]`."""
        self.model.step_mean.copy_(steps.mean(0))
        self.model.step_std.copy_(steps.std(0, unbiased=False).clamp(min=_LEAST_STEP))

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = dynamics_loss(self.model, batch, terminates=self.params.terminates)
        self.optimisers["model"].step(loss)
        return metrics

    @torch.no_grad()
    def outcome(self, obs: Tensor, actions: Tensor) -> Outcome:
        """What each member says of its own rows."""
        steps, rewards, ends = self.model.heads(obs, actions)
        alive = 1.0 - torch.sigmoid(ends) if self.params.terminates else torch.ones_like(rewards)
        return Outcome(obs + self.model.step_mean + self.model.step_std * steps, rewards, alive)
