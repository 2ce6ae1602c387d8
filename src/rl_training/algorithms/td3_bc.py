"""TD3+BC: TD3 with a behaviour-cloning term in the actor's loss.

Fujimoto & Gu, "A Minimalist Approach to Offline Reinforcement Learning", NeurIPS 2021. π and Q are online, π̄ and Q̄
are Polyak targets:

    y   = r + γ(1-d)·min_i Q̄_i(s', clip(π̄(s') + ε, ±1)),   ε = clip(N(0, σ²), ±c)
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = -λ·mean Q_1(s, π(s)) + mean_{batch, dims} (π(s) - a)²,   λ = α / mean|Q_1(s, π(s))|, a constant

The critics step on every update; the actor and then all targets on every `policy_delay`-th.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from rl_training.algorithms.base import (
    Adam,
    Batch,
    BootstrapParams,
    HiddenSizes,
    Learner,
    LearningRate,
    Metrics,
    Noise,
    PositiveInt,
)
from rl_training.algorithms.base.losses import require_shape, td_loss, td_target
from rl_training.models import MLPTD3Model, polyak, reduce_critics


class TD3BCParams(BootstrapParams):
    """Defaults are the authors'."""

    alpha: float = Field(2.5, ge=0.0, description="weight α of the value term against cloning")
    bc_weight: float = Field(1.0, ge=0.0, description="weight of the cloning term; 0 leaves TD3's actor loss")
    normalise_q: bool = Field(True, description="divide α by mean|Q|; false uses α as it is")
    policy_noise: float = Field(0.2, ge=0.0, description="standard deviation σ of the target-action noise")
    noise_clip: float = Field(0.5, ge=0.0, description="bound c on the target-action noise")
    policy_delay: PositiveInt = Field(2, description="critic updates per actor update")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")


def smoothed_target_action(
    model: MLPTD3Model, next_obs: Tensor, noise: Tensor, policy_noise: float, noise_clip: float
) -> Tensor:
    """clip(π̄(s') + clip(σ·noise, ±c), ±1), `[M, B, act]`."""
    smoothing = (policy_noise * noise).clamp(-noise_clip, noise_clip)
    return (model.target_actor.mode(next_obs) + smoothing).clamp(-1.0, 1.0)


def critic_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: TD3BCParams
) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`: exactly TD3's."""
    with torch.no_grad():
        action = smoothed_target_action(
            model, batch.next_obs, noise["target_action"], params.policy_noise, params.noise_clip
        )
        target = td_target(
            batch, reduce_critics(model.target_critics.values(batch.next_obs, action), "min"), params.gamma
        )
    values = model.critics.values(batch.obs, batch.actions)
    loss = td_loss(values, target)
    return loss, {"critic/loss": loss, "critic/q_data": values.mean((-1, -2)), "critic/q_target": target.mean(-1)}


def td3_bc_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: TD3BCParams
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`. It uses no noise."""
    actions = model.actor.mode(batch.obs)
    require_shape("actions", batch.actions, actions.shape)
    values = reduce_critics(model.critics.values(batch.obs, actions), "first")
    scale = params.alpha / (values.detach().abs().mean(-1) + 1e-7) if params.normalise_q else params.alpha
    cloning = (actions - batch.actions).square().mean((-1, -2))
    loss = -scale * values.mean(-1) + params.bc_weight * cloning
    return loss, {"actor/loss": loss, "actor/bc_loss": cloning, "actor/q": values.mean(-1)}


class TD3BC(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = TD3BCParams
    params: TD3BCParams
    model: MLPTD3Model

    @property
    def period(self) -> int:
        return self.params.policy_delay

    def build(self) -> MLPTD3Model:
        p = self.params
        return MLPTD3Model(
            self.obs_dim,
            self.act_dim,
            seeds=self.seeds,
            actor_hidden=p.actor_hidden,
            critic_hidden=p.critic_hidden,
            n_critics=p.n_critics,
        )

    def build_optimisers(self) -> dict[str, Adam]:
        return {
            "actor": self.adam("actor", self.model.actor.flat, self.params.actor_lr),
            "critic": self.adam("critic", self.model.critics.flat, self.params.critic_lr),
        }

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {"target_action": Noise("normal", (batch_size, self.act_dim))}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        p, model = self.params, self.model
        loss, metrics = critic_loss(model, batch, noise, p)
        self.optimisers["critic"].step(loss)
        if phase == self.period - 1:
            loss, actor_metrics = td3_bc_loss(model, batch, noise, p)
            self.optimisers["actor"].step(loss)
            polyak(model.target_critics, model.critics, p.tau)
            polyak(model.target_actor, model.actor, p.tau)
            metrics |= actor_metrics
        return metrics


TD3BCAlgorithm = TD3BC
