"""Fitted Q evaluation: what a policy is worth, learned from logged transitions alone.

Le, Voloshin & Yue, "Batch Policy Learning under Constraints", ICML 2019, Algorithm 3; with networks, and to choose
among trained policies: Paine et al., "Hyperparameter Selection for Offline Reinforcement Learning", 2020. π is fixed:

    y     = G                                       the first updates: the return that followed in the data
    y     = r + γ(1-d)·Q̄(s', a'),   a' = π(s')     all others: a policy's Q
                                    a' = the action that follows in the data: the behaviour's own Q (SARSA)
    L     = mean( (Q(s, a) - y)² ) + λ/2·‖θ‖²       λ: `weight_decay`
    Q̄     ← (1-τ)Q̄ + τQ                             after every update
    V̂(π)  = Σ_e w_e Q(s0_e, π(s0_e))                s0_e: where episode e begins; Σ_e w_e = 1

The fixed point does not depend on where Q starts; from G, the behaviour's own values, it has less far to travel than
from nothing. d marks terminations only: a truncated episode bootstraps, so V̂ is the discounted return of episodes
that no time limit cuts. (s', a') after a cut is a state and action like it that was recorded in another episode.

A member is one policy on one resample of the episodes. Members of one resample see the same batches from the same
first weights, so that what they share cancels in their difference (Hao et al., "Bootstrapping Fitted Q-Evaluation for
Off-Policy Inference", ICML 2021, have the bootstrap over episodes).
"""

from __future__ import annotations

from collections.abc import Mapping

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
    Schedule,
)
from rl_training.algorithms.base.losses import critic_loss, td_target
from rl_training.models import Critics, reduce_critics
from rl_training.models.layers import LayerNormPlacement, polyak


class FittedQParams(BootstrapParams):
    """A small network and a fast target: values must travel 1/(1-γ) steps within the budget. The rate falls to zero."""

    gamma: float = Field(0.99, ge=0.0, le=1.0, description="discount γ; 1 where every episode terminates")
    tau: float = Field(0.05, gt=0.0, le=1.0, description="Polyak rate τ of the target network")
    n_critics: PositiveInt = Field(1, description="critics of each fit, averaged")
    layer_norm: LayerNormPlacement = Field("pre", description="LayerNorm, which keeps Q from running away")
    critic_lr: LearningRate = Field(3e-3, description="learning rate at the start")
    critic_hidden: HiddenSizes = Field((64, 64), description="widths of the hidden layers")
    weight_decay: float = Field(0.0, ge=0.0, description="L2 penalty λ, coupled into Adam's gradient")
    warm_start: float = Field(0.1, ge=0.0, lt=1.0, description="share of the updates that regress the data's returns")
    lr_schedule: dict[str, Schedule] = Field(
        default_factory=lambda: {"critic": Schedule(kind="linear")}, description="how the learning rate falls"
    )


class FittedQModel(nn.Module):
    """Q and Q̄."""

    def __init__(self, critics: Critics) -> None:
        super().__init__()
        self.critics = critics
        self.target_critics = critics.target()


def fitted_q_target(model: FittedQModel, batch: Batch, gamma: float) -> Tensor:
    """y = r + γ(1-d)·Q̄(s', a'), `[M, B]`, with a' as the batch has it in `next_actions`."""
    if batch.next_actions is None:
        raise ValueError("next_actions: needed to know which policy is evaluated")
    after = model.target_critics.values(batch.next_obs, batch.next_actions)
    return td_target(batch, reduce_critics(after, "mean"), gamma)


def fitted_q_loss(
    model: FittedQModel, batch: Batch, params: FittedQParams, *, warm_start: bool = False
) -> tuple[Tensor, Metrics]:
    """L, `[M]`."""
    if not warm_start:
        return critic_loss(model.critics, batch, fitted_q_target(model, batch, params.gamma))
    if batch.returns_to_go is None:
        raise ValueError("returns_to_go: needed to start from")
    return critic_loss(model.critics, batch, batch.returns_to_go)


class FittedQ(Learner):
    """Learner; see the module's docstring for the equations. It learns values and has no policy of its own."""

    Params = FittedQParams
    params: FittedQParams
    model: FittedQModel

    def build(self) -> FittedQModel:
        params = self.params
        return FittedQModel(
            Critics(
                self.obs_dim,
                self.act_dim,
                params.critic_hidden,
                self.seeds,
                n_critics=params.n_critics,
                layer_norm=params.layer_norm,
            )
        )

    def build_optimisers(self) -> dict[str, Adam]:
        optimisers = super().build_optimisers()
        optimisers["critic"].weight_decay = self.params.weight_decay
        return optimisers

    def phase(self, update: int) -> int:
        """1 for the updates that regress returns, 0 for those that bootstrap."""
        return int(update < self.params.warm_start * self.total_updates)

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = fitted_q_loss(self.model, batch, self.params, warm_start=phase == 1)
        self.optimisers["critic"].step(loss)
        polyak(self.model.target_critics, self.model.critics, self.params.tau)
        return metrics

    @torch.no_grad()
    def values(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Q(s, a), `[M, B]`."""
        return reduce_critics(self.model.critics.values(obs, actions), "mean")

    @torch.no_grad()
    def td_errors(self, batch: Batch) -> Tensor:
        """y - Q(s, a), `[M, B]`."""
        return fitted_q_target(self.model, batch, self.params.gamma) - self.values(batch.obs, batch.actions)
