"""ReBRAC: TD3 with behaviour regularisation in both the critics and the actor, each with its own weight.

Tarasov, Kurenkov, Nikulin & Kolesnikov, "Revisiting the Minimalist Approach to Offline Reinforcement Learning",
NeurIPS 2023. π and Q are online, π̄ and Q̄ are Polyak targets, â' is the data's action at s':

    a'  = clip(π̄(s') + ε, ±1),   ε = clip(N(0, σ²), ±c)
    y   = r + γ(1-d)·[ min_i Q̄_i(s', a') - β₂·Σ_dims (a' - â')² ]
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = mean( β₁·Σ_dims (π(s) - a)² - λ·q ),   q = min_i Q_i(s, π(s)),   λ = w / mean|q|, a constant

β₁ = actor_bc_weight, β₂ = critic_bc_weight, w = actor_q_weight. Penalties are sums over action dimensions. The actor
steps on the first of every `policy_delay` updates; then the targets move, the actor's towards the parameters it had
before its step, as in the authors' code. A batch without next actions leaves the critics unpenalised; the trainer fills
them in from the next row wherever episodes are whole. Going on online (`rl-training finetune`) sets β₂ = 0 and lets β₁
fall linearly to half over the run, as the authors do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from rl_training.algorithms.base import Batch, HiddenSizes, LearningRate, Metrics, PositiveInt
from rl_training.algorithms.base.losses import critic_loss, require_shape, td_target
from rl_training.algorithms.td3 import TD3, DelayedActorParams, smoothed_target_action
from rl_training.models import Initialiser, LayerNormPlacement, MLPTD3Model, Reduction, polyak, reduce_critics


class ReBRACParams(DelayedActorParams):
    """Defaults are the authors' for MuJoCo; the two weights are those of their released hopper-medium configuration."""

    actor_bc_weight: float = Field(0.01, ge=0.0, description="weight β₁ of the actor's squared distance to the data")
    actor_bc_final: float = Field(
        1.0, ge=0.0, le=1.0, description="share of β₁ left, falling linearly, at the run's end"
    )
    critic_bc_weight: float = Field(0.01, ge=0.0, description="weight β₂ of the target action's distance to the data")
    actor_q_weight: float = Field(1.0, ge=0.0, description="weight w of the value term in the actor's loss")
    normalise_q: bool = Field(True, description="divide w by mean|q|; false uses w as it is")
    actor_reduce: Literal["min", "first"] = Field("min", description="how the actor's loss combines the critics")
    layer_norm: LayerNormPlacement = Field("post", description="LayerNorm in the critics")
    lagged_target_actor: bool = Field(True, description="the target actor follows the actor before its step")
    batch_size: PositiveInt = Field(1024, description="transitions per member and update")
    actor_lr: LearningRate = Field(1e-3, description="learning rate of the actor")
    critic_lr: LearningRate = Field(1e-3, description="learning rate of the critics")
    actor_hidden: HiddenSizes = Field((256, 256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256, 256), description="widths of the critics' hidden layers")


def rebrac_critic_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: ReBRACParams
) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`."""
    with torch.no_grad():
        action = smoothed_target_action(model, batch, noise["target_action"], params)
        next_values = reduce_critics(model.target_critics.values(batch.next_obs, action), "min")
        distance = torch.zeros_like(next_values)
        if batch.next_actions is not None:
            require_shape("next_actions", batch.next_actions, action.shape)
            distance = (action - batch.next_actions).square().sum(-1)
        target = td_target(batch, next_values - params.critic_bc_weight * distance, params.gamma)
    loss, metrics = critic_loss(model.critics, batch, target)
    return loss, metrics | {"critic/bc_distance": distance.mean(-1)}


def rebrac_loss(
    model: MLPTD3Model,
    batch: Batch,
    noise: Mapping[str, Tensor],
    params: ReBRACParams,
    bc_factor: Tensor | float = 1.0,
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`, with β₁ times `bc_factor`. It uses no noise."""
    actions = model.actor.mode(batch.obs)
    require_shape("actions", batch.actions, actions.shape)
    reduction: Reduction = params.actor_reduce
    values = reduce_critics(model.critics.values(batch.obs, actions), reduction)
    scale = params.actor_q_weight / (values.detach().abs().mean(-1) + 1e-7 if params.normalise_q else 1.0)
    distance = (actions - batch.actions).square().sum(-1).mean(-1)
    loss = bc_factor * params.actor_bc_weight * distance - scale * values.mean(-1)
    return loss, {"actor/loss": loss, "actor/bc_distance": distance, "actor/q": values.mean(-1)}


class ReBRAC(TD3):
    """Learner; see the module's docstring for the equations."""

    Params = ReBRACParams
    params: ReBRACParams
    finetuning: ClassVar[Mapping[str, Any]] = {"critic_bc_weight": 0.0, "actor_bc_final": 0.5}

    def build(self) -> MLPTD3Model:
        return MLPTD3Model(
            self.obs_dim,
            self.act_dim,
            **self.network_options,
            actor_init=Initialiser("edac", last=1e-3),
            critic_init=Initialiser("edac", last=3e-3),
        )

    def phase(self, update: int) -> int:
        """1 where the actor and the targets move, too: the first of every `policy_delay` updates."""
        return int(update % self.period == 0)

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        p, model = self.params, self.model
        loss, metrics = self.critic_loss(batch, noise)
        self.optimisers["critic"].step(loss)
        if phase == 1:
            loss, actor_metrics = self.actor_loss(batch, noise)
            if p.lagged_target_actor:
                polyak(model.target_actor, model.actor, p.tau)
            self.optimisers["actor"].step(loss)
            if not p.lagged_target_actor:
                polyak(model.target_actor, model.actor, p.tau)
            polyak(model.target_critics, model.critics, p.tau)
            metrics |= actor_metrics
        return metrics

    def critic_loss(self, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Metrics]:
        return rebrac_critic_loss(self.model, batch, noise, self.params)

    def actor_loss(self, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Metrics]:
        spent = (self.clock.double() / self.total_updates).clamp(max=1.0)
        factor = 1.0 - (1.0 - self.params.actor_bc_final) * spent
        return rebrac_loss(self.model, batch, noise, self.params, factor)


ReBRACAlgorithm = ReBRAC
