"""AWAC: a policy regressed on the data's actions, weighted by the critics' advantages.

Nair, Gupta, Dalal & Levine, "AWAC: Accelerating Online Reinforcement Learning with Offline Datasets", 2020. π and Q are
online, Q̄ is the Polyak target:

    y   = r + γ(1-d)·min_i Q̄_i(s', a'),   a' ~ π(s')                      no entropy
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    A   = min_i Q_i(s, a) - min_i Q_i(s, a_π),   a_π ~ π(s)                a constant
    L_π = -Σ_b softmax_b(A/λ)·log π(a|s)            (softmax over the batch, the authors' code)
    L_π = -mean( min(exp(A/λ), w_max)·log π(a|s) )  (exp)

Order: critics, actor with the new critics, targets (CORL's; the authors take all losses first). The policy is an
unsquashed Gaussian with a state-independent σ; the actions drawn from it, a' and a_π, are clipped to ±1 before the
critics see them, where the authors pass them on as drawn. On the sparse hand tasks the authors bound the critics'
output by 0, as no reward is positive, and bootstrap through terminations (d = 0): `critic_max`,
`bootstrap_terminations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

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
from rl_training.algorithms.base.losses import critic_loss, exponential_weights, require_shape, td_target
from rl_training.models import Critics, GaussianPolicy, polyak, reduce_critics


class AWACParams(BootstrapParams):
    """Defaults are the authors' for MuJoCo."""

    beta: float = Field(2.0, gt=0.0, description="temperature λ of the advantage weights")
    weight_type: Literal["softmax", "exp"] = Field("softmax", description="softmax over the batch, or clipped exp")
    max_weight: float = Field(100.0, gt=0.0, description="upper clip w_max of the exp weights")
    max_advantage: float | None = Field(None, description="upper clip of A itself (hand tasks: 0.5)")
    baseline: Literal["sample", "mean"] = Field(
        "sample", description="a_π: a sample, or the policy's mean (hand tasks)"
    )
    critic_max: float | None = Field(None, description="upper clamp of the critics' output (hand tasks: 0)")
    bootstrap_terminations: bool = Field(False, description="treat no step as terminal, d = 0 (hand tasks)")
    weight_decay: float = Field(1e-4, ge=0.0, description="L2 penalty on the actor, coupled into Adam's gradient")
    batch_size: PositiveInt = Field(1024, description="transitions per member and update")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    actor_hidden: HiddenSizes = Field((256, 256, 256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")


class AWACModel(nn.Module):
    """Gaussian policy whose log σ lies in [-6, 0] through a sigmoid, and critics with targets."""

    def __init__(self, obs_dim: int, act_dim: int, seeds: tuple[int, ...], params: AWACParams) -> None:
        super().__init__()
        self.actor = GaussianPolicy(
            obs_dim, act_dim, params.actor_hidden, seeds, log_std_bounds=(-6.0, 0.0), squash_log_std=True
        )
        self.critics = Critics(
            obs_dim,
            act_dim,
            params.critic_hidden,
            seeds,
            n_critics=params.n_critics,
            layer_norm=params.layer_norm,
            maximum=params.critic_max,
        )
        self.target_critics = self.critics.target()


def awac_critic_loss(
    model: AWACModel, batch: Batch, noise: Mapping[str, Tensor], params: AWACParams
) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`."""
    with torch.no_grad():
        if params.bootstrap_terminations:
            batch = batch._replace(terminations=torch.zeros_like(batch.terminations))
        action = model.actor.sample_action(batch.next_obs, noise["next_action"])
        next_values = reduce_critics(model.target_critics.values(batch.next_obs, action), "min")
        target = td_target(batch, next_values, params.gamma)
    return critic_loss(model.critics, batch, target)


def awac_loss(
    model: AWACModel, batch: Batch, noise: Mapping[str, Tensor], params: AWACParams
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`."""
    with torch.no_grad():
        compared = model.actor.mode(batch.obs)
        if params.baseline == "sample":
            compared = model.actor.sample_action(batch.obs, noise["baseline_action"])
        both = torch.stack((batch.actions, compared), dim=1)
        values = reduce_critics(model.critics.values(batch.obs, both), "min")  # [M, 2, B]
        advantages = values[:, 0] - values[:, 1]
        if params.max_advantage is not None:
            advantages = advantages.clamp(max=params.max_advantage)
        if params.weight_type == "softmax":
            weights = torch.softmax(advantages / params.beta, dim=-1) * advantages.shape[-1]
        else:
            weights = exponential_weights(advantages, 1.0 / params.beta, params.max_weight)
    log_probs = model.actor.log_prob(batch.obs, batch.actions)
    require_shape("weights", weights, log_probs.shape)
    loss = -(weights * log_probs).mean(-1)  # softmax weights times B, averaged: the plain weighted sum
    return loss, {
        "actor/loss": loss,
        "actor/advantage": advantages.mean(-1),
        "actor/max_weight": weights.amax(-1),
        "actor/log_prob": log_probs.mean(-1),
    }


class AWAC(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = AWACParams
    params: AWACParams
    model: AWACModel

    def build(self) -> AWACModel:
        return AWACModel(self.obs_dim, self.act_dim, self.seeds, self.params)

    def build_optimisers(self) -> dict[str, Adam]:
        optimisers = super().build_optimisers()
        optimisers["actor"].weight_decay = self.params.weight_decay
        return optimisers

    def noise(self, batch_size: int) -> dict[str, Noise]:
        draws = {"next_action": Noise("normal", (batch_size, self.act_dim))}
        if self.params.baseline == "sample":
            draws["baseline_action"] = Noise("normal", (batch_size, self.act_dim))
        return draws

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = awac_critic_loss(self.model, batch, noise, self.params)
        self.optimisers["critic"].step(loss)
        loss, actor_metrics = awac_loss(self.model, batch, noise, self.params)
        self.optimisers["actor"].step(loss)
        polyak(self.model.target_critics, self.model.critics, self.params.tau)
        return metrics | actor_metrics


AWACAlgorithm = AWAC
