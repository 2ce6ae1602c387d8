"""Implicit Q-learning: learns values by expectile regression, without ever asking for an action outside the data.

Kostrikov, Nair & Levine, "Offline Reinforcement Learning with Implicit Q-Learning", ICLR 2022. Q̄ is the Polyak
target of the critics; V has none:

    L_V = mean( |κ - 1[u<0]|·u² ),   u = min_i Q̄_i(s, a) - V(s)
    L_π = -mean( min(exp(β·(min_i Q̄_i(s, a) - V(s))), w_max)·log π(a|s) )        β is an inverse temperature
    L_Q = Σ_i mean (Q_i(s, a) - y)²,   y = r + γ(1-d)·V(s')

Order, as the authors': V, then the actor and the critics with the new V, then the targets. The actor's learning rate
falls to zero along a cosine. A deterministic policy replaces -log π(a|s) by Σ_dims (π(s) - a)².
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field, field_validator
from torch import Tensor

from rl_training.algorithms.base import (
    Batch,
    BootstrapParams,
    HiddenSizes,
    Learner,
    LearningRate,
    Metrics,
    Noise,
    Schedule,
)
from rl_training.algorithms.base.losses import (
    critic_loss,
    expectile_loss,
    exponential_weights,
    require_shape,
    td_target,
)
from rl_training.models import (
    DeterministicPolicy,
    Initialiser,
    LayerNormPlacement,
    MLPIQLModel,
    dropout_masks,
    polyak,
    reduce_critics,
)


class IQLParams(BootstrapParams):
    """Defaults are the authors' for MuJoCo, without their reward range scaling, which `preset: d4rl-mujoco` has."""

    expectile: float = Field(0.7, gt=0.0, lt=1.0, description="expectile κ of the value")
    beta: float = Field(3.0, ge=0.0, description="inverse temperature β of the advantage weights")
    max_weight: float = Field(100.0, gt=0.0, description="upper clip w_max of the exponentiated advantage")
    actor_dropout: float = Field(0.0, ge=0.0, lt=1.0, description="dropout in the actor while it learns (Adroit: 0.1)")
    deterministic_policy: bool = Field(False, description="a deterministic policy with squared-error regression")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    value_lr: LearningRate = Field(3e-4, description="learning rate of the state value")
    lr_schedule: dict[str, Schedule] = Field(
        default_factory=lambda: {"actor": Schedule(kind="cosine")},
        description="learning-rate schedule by network; the actor's is a cosine unless it is named here",
    )
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")
    value_hidden: HiddenSizes = Field((256, 256), description="widths of the value's hidden layers")
    value_layer_norm: LayerNormPlacement = Field("none", description="LayerNorm in the state value")

    @field_validator("lr_schedule", mode="after")
    @classmethod
    def _actor_decays(cls, given: dict[str, Schedule]) -> dict[str, Schedule]:
        return {"actor": Schedule(kind="cosine"), **given}


@torch.no_grad()
def target_values(model: MLPIQLModel, batch: Batch) -> Tensor:
    """min_i Q̄_i(s, a), `[M, B]`, which both the value and the actor learn from."""
    return reduce_critics(model.target_critics.values(batch.obs, batch.actions), "min")


def value_loss(model: MLPIQLModel, batch: Batch, targets: Tensor, params: IQLParams) -> tuple[Tensor, Metrics]:
    """L_V, `[M]`."""
    values = model.value.values(batch.obs)
    loss = expectile_loss(targets - values, params.expectile)
    return loss, {"value/loss": loss, "value/mean": values.mean(-1)}


@torch.no_grad()
def learned_values(model: MLPIQLModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """V(s) for the actor and V(s') for the critics, `[M, B]` each, in one pass."""
    values, next_values = model.value.values(torch.cat((batch.obs, batch.next_obs), dim=-2)).chunk(2, dim=-1)
    return values, next_values


def policy_loss(
    model: MLPIQLModel, batch: Batch, advantages: Tensor, noise: Mapping[str, Tensor], params: IQLParams
) -> tuple[Tensor, Metrics]:
    """L_π, `[M]`."""
    weights = exponential_weights(advantages, params.beta, params.max_weight)
    masks = dropout_masks([noise[name] for name in sorted(noise)], params.actor_dropout)
    if isinstance(model.actor, DeterministicPolicy):
        regression = (model.actor.mode(batch.obs, masks) - batch.actions).square().sum(-1)
    else:
        regression = -model.actor.log_prob(batch.obs, batch.actions, masks)
    require_shape("weights", weights, regression.shape)
    loss = (weights * regression).mean(-1)
    return loss, {"actor/loss": loss, "actor/weight": weights.mean(-1), "actor/advantage": advantages.mean(-1)}


def iql_critic_loss(model: MLPIQLModel, batch: Batch, next_values: Tensor, params: IQLParams) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`."""
    target = td_target(batch, next_values, params.gamma)
    return critic_loss(model.critics, batch, target)


def iql_loss(
    model: MLPIQLModel, batch: Batch, noise: Mapping[str, Tensor], params: IQLParams
) -> tuple[Tensor, Metrics]:
    """L_V + L_π + L_Q, `[M]`, at the present parameters. Each network's gradient is that of its own loss alone."""
    targets = target_values(model, batch)
    value, value_metrics = value_loss(model, batch, targets, params)
    values, next_values = learned_values(model, batch)
    policy, policy_metrics = policy_loss(model, batch, targets - values, noise, params)
    critic, critic_metrics = iql_critic_loss(model, batch, next_values, params)
    return value + policy + critic, value_metrics | policy_metrics | critic_metrics


class IQL(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = IQLParams
    params: IQLParams
    model: MLPIQLModel

    def build(self) -> MLPIQLModel:
        p = self.params
        return MLPIQLModel(
            self.obs_dim,
            self.act_dim,
            **self.network_options,
            deterministic_policy=p.deterministic_policy,
            init=Initialiser("orthogonal"),
        )

    def noise(self, batch_size: int) -> dict[str, Noise]:
        if not self.params.actor_dropout:
            return {}
        widths = enumerate(self.params.actor_hidden)
        return {f"dropout_{layer:02}": Noise("uniform", (batch_size, width)) for layer, width in widths}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        p, model = self.params, self.model
        targets = target_values(model, batch)
        loss, metrics = value_loss(model, batch, targets, p)
        self.optimisers["value"].step(loss)
        values, next_values = learned_values(model, batch)
        loss, policy_metrics = policy_loss(model, batch, targets - values, noise, p)
        self.optimisers["actor"].step(loss)
        loss, critic_metrics = iql_critic_loss(model, batch, next_values, p)
        self.optimisers["critic"].step(loss)
        polyak(model.target_critics, model.critics, p.tau)
        return metrics | policy_metrics | critic_metrics


IQLAlgorithm = IQL
