"""Soft actor-critic: maximum-entropy Q-learning with a learned temperature.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018. π and Q are online, Q̄ is the Polyak target:

    y   = r + γ(1-d)·[ min_i Q̄_i(s', a') - α·log π(a'|s') ],   a' ~ π(s')
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = mean( α·log π(ã|s) - min_i Q_i(s, ã) ),   ã ~ π(s) reparameterised
    L_α = -mean( log α·(log π(ã|s) + H̄) ),   H̄ = -|A|

Order on every update: critics, actor with the new critics, temperature, targets. `alpha_loss: alpha` puts α in the
place of log α in L_α, as the paper and softlearning do: the same fixed point, a gradient α times as large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from rl_training.algorithms.base import (
    Adam,
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
from rl_training.algorithms.base.losses import critic_loss, soft_actor_loss, td_target, temperature_loss
from rl_training.models import MLPSACModel, polyak, random_subset, reduce_critics


class SACParams(BootstrapParams, InitParams, OnlineParams):
    """Defaults are the authors', but for log α in L_α, where their code has α."""

    alpha: float = Field(1.0, gt=0.0, description="entropy temperature α: its start, or its value if not learned")
    learn_alpha: bool = Field(True, description="adapt α to the target entropy")
    target_entropy: float | None = Field(None, description="H̄; none is -target_entropy_scale·|A|")
    target_entropy_scale: float = Field(1.0, ge=0.0, description="H̄ in units of -|A| (RLPD: 0.5)")
    alpha_loss: Literal["log_alpha", "alpha"] = Field(
        "log_alpha", description="what L_α multiplies: log α, or α itself"
    )
    backup_entropy: bool = Field(True, description="subtract α·log π in the backup")
    target_subset: PositiveInt | None = Field(None, description="random target critics in the backup; none takes all")
    target_reduce: Literal["min", "mean"] = Field("min", description="how the backup combines the target critics")
    actor_reduce: Literal["min", "mean"] = Field("min", description="how the actor's loss combines the critics")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    alpha_lr: LearningRate = Field(3e-4, description="learning rate of α")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")

    @model_validator(mode="after")
    def _subset_exists(self) -> SACParams:
        if self.target_subset is not None and self.target_subset > self.n_critics:
            raise ValueError(f"target_subset ({self.target_subset}) must be at most n_critics ({self.n_critics})")
        return self


def sac_loss(
    model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor], params: SACParams
) -> tuple[Tensor, Metrics]:
    """The critics' loss L_Q, `[M]`."""
    with torch.no_grad():
        actions, log_probs = model.actor.sample(batch.next_obs, noise["next_action"])
        subset = random_subset(noise["target_subset"], params.target_subset) if params.target_subset else None
        values = model.target_critics.values(batch.next_obs, actions)
        next_values = reduce_critics(values, params.target_reduce, subset)
        if params.backup_entropy:
            next_values = next_values - model.log_alpha.exp() * log_probs
        target = td_target(batch, next_values, params.gamma)
    return critic_loss(model.critics, batch, target)


def sac_actor_loss(
    model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor], params: SACParams
) -> tuple[Tensor, Tensor, Metrics]:
    """L_π `[M]`, and log π(ã|s) `[M, B]` for the temperature."""
    actions, log_probs = model.actor.sample(batch.obs, noise["actor"])
    values = reduce_critics(model.critics.values(batch.obs, actions), params.actor_reduce)
    loss = soft_actor_loss(log_probs, values, model.log_alpha.exp().detach())
    return loss, log_probs, {"actor/loss": loss, "actor/entropy": -log_probs.mean(-1), "actor/q": values.mean(-1)}


class SAC(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = SACParams
    params: SACParams
    model: MLPSACModel

    def build(self) -> MLPSACModel:
        return MLPSACModel(self.obs_dim, self.act_dim, **self.network_options, initial_alpha=self.params.alpha)

    def build_optimisers(self) -> dict[str, Adam]:
        p, model = self.params, self.model
        optimisers = super().build_optimisers()
        if p.learn_alpha:
            optimisers["alpha"] = self.adam("alpha", model.log_alpha, p.alpha_lr)
        return optimisers

    def noise(self, batch_size: int) -> dict[str, Noise]:
        draws = {
            "actor": Noise("normal", (batch_size, self.act_dim)),
            "next_action": Noise("normal", (batch_size, self.act_dim)),
        }
        if self.params.target_subset:
            draws["target_subset"] = Noise("uniform", (self.params.n_critics,))
        return draws

    def phase(self, update: int) -> int:
        """1 where the actor and α step, too: the last update of every round, for SAC itself every one."""
        return int((update + 1) % self.period == 0)

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = sac_loss(self.model, batch, noise, self.params)
        self.optimisers["critic"].step(loss)
        if phase == 1:
            metrics |= self.policy_step(batch, noise)
        polyak(self.model.target_critics, self.model.critics, self.params.tau)
        return metrics

    def policy_step(self, batch: Batch, noise: Mapping[str, Tensor]) -> Metrics:
        """Actor, then temperature."""
        loss, log_probs, metrics = sac_actor_loss(self.model, batch, noise, self.params)
        self.optimisers["actor"].step(loss)
        if self.params.learn_alpha:
            p = self.params
            entropy = -p.target_entropy_scale * self.act_dim if p.target_entropy is None else p.target_entropy
            metrics["alpha/value"] = self.model.log_alpha.exp().squeeze(-1)
            temperature = self.model.log_alpha if p.alpha_loss == "log_alpha" else self.model.log_alpha.exp()
            self.optimisers["alpha"].step(temperature_loss(temperature, log_probs, entropy))
        return metrics


SACAlgorithm = SAC
