"""Advantage-weighted regression: two supervised regressions, values on returns and actions on their advantages.

Peng, Kumar, Zhang & Levine, "Advantage-Weighted Regression: Simple and Scalable Off-Policy Reinforcement Learning",
2019. There is no Q-critic; V has no target:

    L_V = ½ mean (R - V(s))²,   V = ν·v(s) with network v, in units of ν²
    L_π = -mean( min(exp(A/β), w_max)·log π(a|s) ),   A = R - V(s), a constant, standardised if asked for

Narrow (the default): R is the discounted return-to-go of the processed rewards, with nothing after a truncation, and
every update steps V and then the actor with the new V; A is standardised over the batch. With `td_lambda` set (the
paper's way) training goes in rounds: R = r + γ[(1-λ)V(s') + λR'] over whole episodes, bootstrapped after truncations;
`critic_updates` steps of V towards it; R and A anew with the new V, A standardised over the whole dataset; then
`actor_updates` steps of the actor. The mean is squashed by tanh here, so the paper's penalty for leaving the action box
has nothing to do; minibatches are drawn with replacement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

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
)
from rl_training.algorithms.base.losses import exponential_weights, require_shape
from rl_training.algorithms.base.optimiser import Momentum
from rl_training.models import GaussianPolicy, MLPIQLModel


class AWRParams(AlgorithmParams):
    """Defaults are the narrow version with Adam; `preset: paper` is the authors'."""

    beta: float = Field(1.0, gt=0.0, description="temperature β of the advantage weights")
    max_weight: float = Field(20.0, gt=0.0, description="upper clip w_max of the exponentiated advantage")
    normalise_advantages: bool = Field(True, description="standardise advantages (over the batch, or the dataset)")
    gamma: float = Field(0.99, ge=0.0, lt=1.0, description="discount γ")
    td_lambda: float | None = Field(None, ge=0.0, le=1.0, description="λ of TD(λ) rounds; none regresses on returns")
    critic_updates: PositiveInt = Field(200, description="value updates in each TD(λ) round")
    actor_updates: PositiveInt = Field(1000, description="actor updates in each TD(λ) round")
    value_scale: float = Field(1.0, gt=0.0, description="ν: V is this times the network's output (paper: 1/(1-γ))")
    fixed_std: float | None = Field(None, gt=0.0, description="constant σ of the policy; none learns it")
    optimiser: Literal["adam", "momentum"] = Field("adam", description="momentum is SGD with 0.9, the authors'")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    value_lr: LearningRate = Field(3e-4, description="learning rate of the state value")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    value_hidden: HiddenSizes = Field((256, 256), description="widths of the value's hidden layers")


def scaled_values(model: MLPIQLModel, obs: Tensor, params: AWRParams) -> Tensor:
    """V(s) = ν·v(s), `[M, B]`."""
    return params.value_scale * model.value.values(obs)


def value_loss(model: MLPIQLModel, batch: Batch, params: AWRParams) -> tuple[Tensor, Metrics]:
    """L_V / ν², `[M]`."""
    returns = _returns(batch)
    values = scaled_values(model, batch.obs, params)
    require_shape("returns_to_go", returns, values.shape)
    loss = 0.5 * ((returns - values) / params.value_scale).square().mean(-1)
    return loss, {"value/loss": loss, "value/mean": values.mean(-1), "value/return": returns.mean(-1)}


def advantages_of(model: MLPIQLModel, batch: Batch, params: AWRParams) -> Tensor:
    """A, `[M, B]`, without gradient: as computed over the whole dataset, or here."""
    if batch.advantages is not None:
        return batch.advantages
    advantages = (_returns(batch) - scaled_values(model, batch.obs, params)).detach()
    if params.normalise_advantages:
        centred = advantages - advantages.mean(-1, keepdim=True)
        advantages = centred / (advantages.std(-1, keepdim=True, correction=0) + 1e-5)
    return advantages


def awr_loss(
    model: MLPIQLModel, batch: Batch, noise: Mapping[str, Tensor], params: AWRParams
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`. It uses no noise."""
    assert isinstance(model.actor, GaussianPolicy)
    weights = exponential_weights(advantages_of(model, batch, params), 1.0 / params.beta, params.max_weight)
    log_probs = model.actor.log_prob(batch.obs, batch.actions)
    require_shape("weights", weights, log_probs.shape)
    loss = -(weights * log_probs).mean(-1)
    return loss, {"actor/loss": loss, "actor/weight": weights.mean(-1), "actor/log_prob": log_probs.mean(-1)}


def _returns(batch: Batch) -> Tensor:
    if batch.returns_to_go is None:
        raise ValueError("AWR needs returns_to_go in its batches; train_awr computes them")
    return batch.returns_to_go


class AWR(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = AWRParams
    params: AWRParams
    model: MLPIQLModel

    @property
    def period(self) -> int:
        return 1 if self.params.td_lambda is None else self.params.critic_updates + self.params.actor_updates

    def phase(self, update: int) -> int:
        """In rounds, 0 for the value's updates and 1 for the actor's; else 2, both."""
        if self.params.td_lambda is None:
            return 2
        return int(update % self.period >= self.params.critic_updates)

    def build(self) -> MLPIQLModel:
        return MLPIQLModel(
            self.obs_dim, self.act_dim, n_critics=0, fixed_std=self.params.fixed_std, **self.network_options
        )

    def adam(self, name: str, parameter: nn.Parameter, lr: float) -> Adam:
        plain = super().adam(name, parameter, lr)
        if self.params.optimiser == "adam":
            return plain
        return Momentum(parameter, lr, self.clock, schedule=plain.schedule, horizon=self.total_updates)

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        metrics: Metrics = {}
        if phase != 1:
            loss, metrics = value_loss(self.model, batch, self.params)
            self.optimisers["value"].step(loss)
        if phase != 0:
            loss, actor_metrics = awr_loss(self.model, batch, noise, self.params)
            self.optimisers["actor"].step(loss)
            metrics |= actor_metrics
        return metrics


AWRAlgorithm = AWR
