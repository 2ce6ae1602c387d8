"""TD3: deterministic policy gradient with clipped double Q-learning, target smoothing and a delayed actor.

Fujimoto, van Hoof & Meger, "Addressing Function Approximation Error in Actor-Critic Methods", ICML 2018. π and Q are
online, π̄ and Q̄ are Polyak targets:

    y   = r + γ(1-d)·min_i Q̄_i(s', clip(π̄(s') + ε, ±1)),   ε = clip(N(0, σ²), ±c)
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = -mean Q_1(s, π(s))

The critics step on every update; the actor and then all targets on every `policy_delay`-th. Exploration adds N(0, σ_e²)
to the policy's action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from rl_training.algorithms.base import (
    Batch,
    BootstrapParams,
    HiddenSizes,
    InitParams,
    Learner,
    LearningRate,
    Metrics,
    Noise,
    OnlineParams,
    PositiveInt,
)
from rl_training.algorithms.base.losses import critic_loss, td_target
from rl_training.models import MLPTD3Model, polyak, reduce_critics


class DelayedActorParams(BootstrapParams):
    """What the TD3 family shares; defaults are the authors'."""

    policy_noise: float = Field(0.2, ge=0.0, description="standard deviation σ of the target-action noise")
    noise_clip: float = Field(0.5, ge=0.0, description="bound c on the target-action noise")
    policy_delay: PositiveInt = Field(2, description="critic updates per actor update")
    exploration_noise: float = Field(0.1, ge=0.0, description="standard deviation σ_e of the noise on actions taken")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")


class TD3Params(DelayedActorParams, InitParams, OnlineParams):
    """Defaults are the authors'."""

    learning_starts: int = Field(25_000, ge=0, description="steps of uniformly random actions before the first update")


def smoothed_target_action(model: MLPTD3Model, batch: Batch, noise: Tensor, params: DelayedActorParams) -> Tensor:
    """clip(π̄(s') + clip(σ·noise, ±c), ±1), `[M, B, act]`."""
    smoothing = (params.policy_noise * noise).clamp(-params.noise_clip, params.noise_clip)
    return (model.target_actor.mode(batch.next_obs) + smoothing).clamp(-1.0, 1.0)


def td3_critic_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: DelayedActorParams
) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`."""
    with torch.no_grad():
        action = smoothed_target_action(model, batch, noise["target_action"], params)
        next_values = reduce_critics(model.target_critics.values(batch.next_obs, action), "min")
        target = td_target(batch, next_values, params.gamma)
    return critic_loss(model.critics, batch, target)


def td3_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: DelayedActorParams
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`. It uses no noise."""
    loss = -reduce_critics(model.critics.values(batch.obs, model.actor.mode(batch.obs)), "first").mean(-1)
    return loss, {"actor/loss": loss, "actor/q": -loss}


class TD3(Learner):
    """Learner; see the module's docstring for the equations."""

    Params: ClassVar[type[DelayedActorParams]] = TD3Params
    params: DelayedActorParams
    model: MLPTD3Model

    @property
    def period(self) -> int:
        return self.params.policy_delay

    def phase(self, update: int) -> int:
        """1 where the actor and the targets move, too: the last of every `policy_delay` updates."""
        return int((update + 1) % self.period == 0)

    def build(self) -> MLPTD3Model:
        return MLPTD3Model(self.obs_dim, self.act_dim, **self.network_options)

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {"target_action": Noise("normal", (batch_size, self.act_dim))}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = self.critic_loss(batch, noise)
        self.optimisers["critic"].step(loss)
        if phase == 1:
            loss, actor_metrics = self.actor_loss(batch, noise)
            self.optimisers["actor"].step(loss)
            polyak(self.model.target_critics, self.model.critics, self.params.tau)
            polyak(self.model.target_actor, self.model.actor, self.params.tau)
            metrics |= actor_metrics
        return metrics

    def critic_loss(self, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Metrics]:
        return td3_critic_loss(self.model, batch, noise, self.params)

    def actor_loss(self, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Metrics]:
        return td3_loss(self.model, batch, noise, self.params)

    @torch.no_grad()
    def explore(self, obs: Tensor, noise: Mapping[str, Tensor]) -> Tensor:
        return (self.policy.mode(obs) + self.params.exploration_noise * noise["action"]).clamp(-1.0, 1.0)


TD3Algorithm = TD3
