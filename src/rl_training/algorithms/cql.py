"""Conservative Q-learning: SAC whose critics are pushed down on actions the data does not contain.

Kumar, Zhou, Tucker & Levine, "Conservative Q-Learning for Offline Reinforcement Learning", NeurIPS 2020: CQL(H) with
importance sampling (appendix F). π and Q are online, Q̄ is the Polyak target:

    y    = r + γ(1-d)·min_i Q̄_i(s', a'),  a' ~ π(s')                               no entropy unless asked for
    g_i  = mean( clip(T·logsumexp_j(C_ij / T) - Q_i(s, a), gap_min, gap_max) )     the conservative gap of critic i
    C_i  = Q_i(s, u) - log 0.5^|A|,  Q_i(s, a⁺) - log π(a⁺|s'),  Q_i(s, ã) - log π(ã|s)
           with n of each: u ~ U(-1, 1), a⁺ ~ π(s') but valued at s, ã ~ π(s); actions and densities are constants
    L_Q  = Σ_i [ mean (Q_i(s, a) - y)² + w·g_i ]                                   w = cql_alpha, n = num_cql_samples
    L_π  = mean( α·log π(ã|s) - min_i Q_i(s, ã) ),   L_α = -mean( log α·(log π(ã|s) + H̄) )

With `target_gap` set, w is scaled by a Lagrange multiplier α' that grows while the gap is above it:
L_Q has α'·w·(g_i - gap) and L_α' = -½ Σ_i α'·w·(g_i - gap). `max_target_backup` puts max_j over n actions a'_j ~ π(s')
before min_i Q̄_i(s', a'_j), with `backup_entropy` before the soft values min_i Q̄_i(s', a'_j) - α·log π(a'_j|s'). All
losses are taken at the same parameters, then the steps are α' → α → actor → critics → targets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field, model_validator
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
from rl_training.algorithms.base.losses import soft_actor_loss, td_loss, td_target, temperature_loss
from rl_training.models import Initialiser, MLPSACModel, polyak, reduce_critics


class CQLParams(BootstrapParams):
    """Defaults as in the authors' MuJoCo runs, without their 40,000 updates of warm-up.

    Critics start as CORL's. The actor starts as torch has it; CORL's last actor layer is Xavier with gain 1e-2.
    """

    cql_alpha: float = Field(5.0, ge=0.0, description="weight w of the conservative penalty; 0 is SAC")
    num_cql_samples: PositiveInt = Field(10, description="actions n of each of the three kinds in the penalty")
    temperature: float = Field(1.0, gt=0.0, description="temperature T of the logsumexp")
    importance_sampling: bool = Field(True, description="CQL(H) with densities subtracted; false is CQL(ρ)")
    target_gap: float | None = Field(None, ge=0.0, description="Lagrange threshold on the gap; none keeps w fixed")
    gap_min: float | None = Field(None, description="lower clip of each transition's gap (CORL's AntMaze: -200)")
    gap_max: float | None = Field(None, description="upper clip of each transition's gap")
    max_target_backup: bool = Field(
        False, description="bootstrap from the best of n policy actions, by soft value with backup_entropy (AntMaze)"
    )
    backup_entropy: bool = Field(False, description="subtract α·log π in the backup, as SAC does")
    bc_warmup_updates: int = Field(0, ge=0, description="first updates in which the actor clones the data's actions")
    alpha: float = Field(1.0, gt=0.0, description="entropy temperature α: its start, or its value if not learned")
    learn_alpha: bool = Field(True, description="adapt α to the target entropy")
    target_entropy: float | None = Field(None, description="H̄; none is -|A|")
    actor_lr: LearningRate = Field(1e-4, description="learning rate of the actor")
    critic_lr: LearningRate = Field(3e-4, description="learning rate of the critics")
    alpha_lr: LearningRate = Field(1e-4, description="learning rate of α")
    lagrange_lr: LearningRate = Field(3e-4, description="learning rate of α'")
    actor_hidden: HiddenSizes = Field((256, 256, 256), description="widths of the actor's hidden layers")
    critic_hidden: HiddenSizes = Field((256, 256, 256), description="widths of the critics' hidden layers")

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> CQLParams:
        if self.gap_min is not None and self.gap_max is not None and self.gap_min >= self.gap_max:
            raise ValueError(f"gap_min ({self.gap_min:g}) must be below gap_max ({self.gap_max:g})")
        return self


class CQLModel(MLPSACModel):
    """SAC's networks and, where `target_gap` is set, log α', `[M, 1]`, which starts at 1."""

    log_lagrange: nn.Parameter


def bootstrap_target(model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor], params: CQLParams) -> Tensor:
    """y, `[M, B]`."""
    actions, log_probs = model.actor.sample(batch.next_obs, noise["next_action"])
    values = reduce_critics(model.target_critics.values(batch.next_obs, actions), "min")
    if params.backup_entropy:
        values = values - model.log_alpha.exp().unsqueeze(-1) * log_probs
    return td_target(batch, values.amax(1), params.gamma)


def penalty_actions(model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The 3n actions of the penalty `[M, 3n, B, act]` and their log-densities `[M, 3n, B]`."""
    uniform = 2.0 * noise["penalty_uniform"] - 1.0
    uniform_log_prob = torch.full_like(uniform[..., 0], -math.log(2.0) * uniform.shape[-1])
    current, current_log_prob = model.actor.sample(batch.obs, noise["penalty_current"])
    following, following_log_prob = model.actor.sample(batch.next_obs, noise["penalty_next"])
    actions = torch.cat((uniform, following, current), dim=1)
    return actions, torch.cat((uniform_log_prob, following_log_prob, current_log_prob), dim=1)


def cql_loss(
    model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor], params: CQLParams, lagrange: Tensor | float = 1.0
) -> tuple[Tensor, Metrics]:
    """The critics' loss L_Q, `[M]`: temporal-difference error plus the weighted conservative gap.

    lagrange: the multiplier α', `[M]`, where `target_gap` is set.
    """
    with torch.no_grad():
        target = bootstrap_target(model, batch, noise, params)
        sampled, log_probs = penalty_actions(model, batch, noise)
    values = model.critics.values(batch.obs, torch.cat((batch.actions.unsqueeze(1), sampled), dim=1))
    data_values = values[:, :, 0]
    # CQL(ρ) subtracts no densities and has the data's action among the sampled ones.
    compared = values[:, :, 1:] - log_probs.unsqueeze(1) if params.importance_sampling else values
    soft_maximum = params.temperature * torch.logsumexp(compared / params.temperature, dim=2)
    gap = (soft_maximum - data_values).clamp(
        -math.inf if params.gap_min is None else params.gap_min, math.inf if params.gap_max is None else params.gap_max
    )
    gap = gap.mean(-1)  # [M, E]
    td = td_loss(data_values, target)
    threshold = params.target_gap or 0.0
    penalty = lagrange * params.cql_alpha * (gap - threshold).sum(-1)
    return td + penalty, {
        "critic/loss": td + penalty,
        "critic/td_loss": td,
        "critic/conservative_gap": gap.mean(-1),
        "critic/q_data": data_values.mean((-1, -2)),
        "critic/q_target": target.mean(-1),
    }


def actor_loss(
    model: MLPSACModel, batch: Batch, noise: Mapping[str, Tensor], params: CQLParams, clock: Tensor
) -> tuple[Tensor, Tensor, Metrics]:
    """L_π `[M]`, and log π(ã|s) `[M, B]` for the temperature. During warm-up -Q gives way to -log π(a|s)."""
    actions, log_probs = model.actor.sample(batch.obs, noise["actor"])
    values = reduce_critics(model.critics.values(batch.obs, actions), "min")
    objective = values
    if params.bc_warmup_updates:
        cloning = model.actor.log_prob(batch.obs, batch.actions)
        objective = torch.where(clock < params.bc_warmup_updates, cloning, values)
    loss = soft_actor_loss(log_probs, objective, model.log_alpha.exp().detach())
    return loss, log_probs, {"actor/loss": loss, "actor/entropy": -log_probs.mean(-1), "actor/q": values.mean(-1)}


def lagrange_loss(multiplier: Tensor, gap: Tensor, params: CQLParams) -> Tensor:
    """L_α' `[M]`, from α' and the mean gap of the critics, `[M]` each."""
    excess = gap.detach() - (params.target_gap or 0.0)
    return -0.5 * multiplier * params.cql_alpha * excess * params.n_critics


class CQL(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = CQLParams
    params: CQLParams
    model: CQLModel
    finetuning: ClassVar[Mapping[str, Any]] = {"bc_warmup_updates": 0}  # the policy is past cloning

    def build(self) -> CQLModel:
        p = self.params
        model = CQLModel(
            self.obs_dim,
            self.act_dim,
            **self.network_options,
            critic_init=Initialiser("orthogonal", last=1e-2),
            learn_log_std_affine=True,
            initial_alpha=p.alpha,
        )
        if p.target_gap is not None:
            model.log_lagrange = nn.Parameter(torch.ones(self.members, 1))
        return model

    def build_optimisers(self) -> dict[str, Adam]:
        p, model = self.params, self.model
        optimisers = super().build_optimisers()
        if p.learn_alpha:
            optimisers["alpha"] = self.adam("alpha", model.log_alpha, p.alpha_lr)
        if p.target_gap is not None:
            optimisers["lagrange"] = self.adam("lagrange", model.log_lagrange, p.lagrange_lr)
        return optimisers

    def noise(self, batch_size: int) -> dict[str, Noise]:
        one, several = 1, self.params.num_cql_samples
        backup = several if self.params.max_target_backup else one
        return {
            "actor": Noise("normal", (batch_size, self.act_dim)),
            "next_action": Noise("normal", (backup, batch_size, self.act_dim)),
            "penalty_uniform": Noise("uniform", (several, batch_size, self.act_dim)),
            "penalty_current": Noise("normal", (several, batch_size, self.act_dim)),
            "penalty_next": Noise("normal", (several, batch_size, self.act_dim)),
        }

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        p, model = self.params, self.model
        policy_loss, log_probs, metrics = actor_loss(model, batch, noise, p, self.clock)
        multiplier = None if p.target_gap is None else model.log_lagrange.exp().clamp(max=1e6).squeeze(-1)
        critic_loss, critic_metrics = cql_loss(
            model, batch, noise, p, 1.0 if multiplier is None else multiplier.detach()
        )
        metrics |= critic_metrics
        if multiplier is not None:
            self.optimisers["lagrange"].step(lagrange_loss(multiplier, metrics["critic/conservative_gap"], p))
            metrics["lagrange/value"] = multiplier
        if p.learn_alpha:
            entropy = -float(self.act_dim) if p.target_entropy is None else p.target_entropy
            metrics["alpha/value"] = model.log_alpha.exp().squeeze(-1)
            self.optimisers["alpha"].step(temperature_loss(model.log_alpha, log_probs, entropy))
        self.optimisers["actor"].step(policy_loss)
        self.optimisers["critic"].step(critic_loss)
        polyak(model.target_critics, model.critics, p.tau)
        return metrics


CQLAlgorithm = CQL
