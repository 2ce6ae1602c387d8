"""Critic-regularised regression: clones the data's actions where the critics find them better than the policy's own.

Wang et al., "Critic Regularized Regression", NeurIPS 2020. π and Q are online, π̄ and Q̄ are targets:

    y   = r + γ(1-d)·min_i Q̄_i(s', a'),   a' ~ π̄(s')                      the target policy, not the online one
    L_Q = Σ_i mean (Q_i(s, a) - y)²
    A   = Q(s, a) - mean_j Q(s, a_j)   or   Q(s, a) - max_j Q(s, a_j),     a_j ~ π(s), m of them, a constant
    w   = 1[A > 0]  (binary)   or   min(exp(A/β), w_max)  (exp)
    L_π = -mean( w·log π(a|s) )

with Q = min_i Q_i (one critic is the paper's). Both losses are taken at the same parameters. Targets are copied every
`target_period` updates, or follow by Polyak averaging. Sampled actions can be chosen as the paper's critic-weighted
policy does: `cwp_samples` drawn from π, one of them kept with probability softmax(Q/β). Acting uses π, where acme uses
π̄; critics are scalar, where the paper's are distributional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from rl_training.algorithms.base import (
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
from rl_training.models import MLPSACModel, TanhGaussianPolicy, polyak, reduce_critics


class CRRParams(BootstrapParams):
    """Defaults are acme's, with two critics and soft targets."""

    advantage_type: Literal["mean", "max"] = Field("mean", description="what a_j's values are reduced to")
    weight_type: Literal["binary", "exp"] = Field("exp", description="how an advantage becomes a weight")
    beta: float = Field(1.0, gt=0.0, description="temperature β of the exp weights and of critic-weighted actions")
    n_action_samples: PositiveInt = Field(4, description="policy actions m per state in the advantage")
    max_weight: float = Field(20.0, gt=0.0, description="upper clip w_max of the exp weights")
    target_period: PositiveInt | None = Field(
        None, description="updates between hard copies; none uses tau (paper: 100)"
    )
    cwp_samples: int = Field(0, ge=0, description="actions a critic-weighted sample chooses from; 0 samples the policy")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256), description="widths of the critics' hidden layers")


class CRRModel(MLPSACModel):
    """SAC's networks without its temperature, with a target for the actor, too."""

    target_actor: TanhGaussianPolicy


def crr_critic_loss(
    model: CRRModel, batch: Batch, noise: Mapping[str, Tensor], params: CRRParams
) -> tuple[Tensor, Metrics]:
    """L_Q, `[M]`."""
    with torch.no_grad():
        action, _ = model.target_actor.sample(batch.next_obs, noise["next_action"])
        next_values = reduce_critics(model.target_critics.values(batch.next_obs, action), "min")
        target = td_target(batch, next_values, params.gamma)
    return critic_loss(model.critics, batch, target)


@torch.no_grad()
def crr_weights(model: CRRModel, batch: Batch, noise: Mapping[str, Tensor], params: CRRParams) -> tuple[Tensor, Tensor]:
    """Advantages A and weights w, `[M, B]` each."""
    sampled, _ = model.actor.sample(batch.obs, noise["advantage"])
    actions = torch.cat((batch.actions.unsqueeze(1), sampled), dim=1)
    values = reduce_critics(model.critics.values(batch.obs, actions), "min")  # [M, 1 + m, B]
    policy_values = values[:, 1:]
    baseline = policy_values.mean(1) if params.advantage_type == "mean" else policy_values.amax(1)
    advantages = values[:, 0] - baseline
    if params.weight_type == "binary":
        return advantages, (advantages > 0.0).to(advantages.dtype)
    return advantages, exponential_weights(advantages, 1.0 / params.beta, params.max_weight)


def crr_loss(model: CRRModel, batch: Batch, noise: Mapping[str, Tensor], params: CRRParams) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`."""
    advantages, weights = crr_weights(model, batch, noise, params)
    log_probs = model.actor.log_prob(batch.obs, batch.actions)
    require_shape("weights", weights, log_probs.shape)
    loss = -(weights * log_probs).mean(-1)
    return loss, {
        "actor/loss": loss,
        "actor/advantage": advantages.mean(-1),
        "actor/weight": weights.mean(-1),
        "actor/log_prob": log_probs.mean(-1),
    }


class CRR(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = CRRParams
    params: CRRParams
    model: CRRModel

    def build(self) -> CRRModel:
        model = CRRModel(self.obs_dim, self.act_dim, **self.network_options, initial_alpha=None)
        model.target_actor = model.actor.target()
        return model

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {
            "next_action": Noise("normal", (batch_size, self.act_dim)),
            "advantage": Noise("normal", (self.params.n_action_samples, batch_size, self.act_dim)),
        }

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        p, model = self.params, self.model
        critic_loss, metrics = crr_critic_loss(model, batch, noise, p)
        actor_loss, actor_metrics = crr_loss(model, batch, noise, p)
        self.optimisers["critic"].step(critic_loss)
        self.optimisers["actor"].step(actor_loss)
        rate: float | Tensor = p.tau
        if p.target_period is not None:
            rate = ((self.clock + 1) % p.target_period == 0).to(model.actor.flat.dtype)
        polyak(model.target_critics, model.critics, rate)
        polyak(model.target_actor, model.actor, rate)
        return metrics | actor_metrics

    def acting_noise(self, batch_size: int) -> dict[str, Noise]:
        if not self.params.cwp_samples:
            return super().acting_noise(batch_size)
        return {
            "action": Noise("normal", (self.params.cwp_samples, batch_size, self.act_dim)),
            "choice": Noise("uniform", (self.params.cwp_samples, batch_size)),
        }

    @torch.no_grad()
    def sample_action(self, obs: Tensor, noise: Mapping[str, Tensor]) -> Tensor:
        """A critic-weighted action: the Gumbel-max trick draws one of the samples with probability softmax(Q/β)."""
        if not self.params.cwp_samples:
            return super().sample_action(obs, noise)
        actions, _ = self.model.actor.sample(obs, noise["action"])  # [M, n, B, act]
        values = reduce_critics(self.model.critics.values(obs, actions), "min")
        gumbel = -torch.log(-torch.log(noise["choice"].clamp(1e-6, 1.0 - 1e-6)))
        chosen = (values / self.params.beta + gumbel).argmax(1, keepdim=True)
        return actions.gather(1, chosen.unsqueeze(-1).expand(-1, -1, -1, self.act_dim)).squeeze(1)


CRRAlgorithm = CRR
