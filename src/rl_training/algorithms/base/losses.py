"""Pieces that several papers share, each written once. Every loss returns one value per member, `[M]`.

Shapes: critic values `[M, E, B]`, everything per transition `[M, B]`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.algorithms.base.learner import Metrics
from rl_training.data.batch import Batch
from rl_training.models import Critics


def td_target(batch: Batch, next_values: Tensor, gamma: float) -> Tensor:
    """y = r + γ(1-d)·v(s'), `[M, B]`, without gradient. d marks terminations only; a time limit bootstraps."""
    require_shape("next_values", next_values, batch.rewards.shape)
    return (batch.rewards + gamma * (1.0 - batch.terminations) * next_values).detach()


def td_loss(values: Tensor, target: Tensor) -> Tensor:
    """Σ_i mean_b (Q_i - y)²."""
    require_shape("target", target, (values.shape[0], values.shape[2]))
    return (values - target.unsqueeze(1)).square().mean(-1).sum(-1)


def critic_loss(critics: Critics, batch: Batch, target: Tensor) -> tuple[Tensor, Metrics]:
    """Σ_i mean_b (Q_i(s, a) - y)², `[M]`, with what there is to say about it."""
    values = critics.values(batch.obs, batch.actions)
    loss = td_loss(values, target)
    return loss, {"critic/loss": loss, "critic/q_data": values.mean((-1, -2)), "critic/q_target": target.mean(-1)}


def soft_actor_loss(log_probs: Tensor, values: Tensor, alpha: Tensor) -> Tensor:
    """mean_b( α·log π(ã|s) - Q(s, ã) ), with α `[M, 1]` already detached."""
    require_shape("log_probs", log_probs, values.shape)
    require_shape("alpha", alpha, (len(values), 1))
    return (alpha * log_probs - values).mean(-1)


def temperature_loss(log_alpha: Tensor, log_probs: Tensor, target_entropy: float) -> Tensor:
    """-mean_b( log α · sg(log π + H̄) ): raises α while the policy's entropy is below H̄. α for log α is as good."""
    require_shape("log_alpha", log_alpha, (len(log_probs), 1))
    return -(log_alpha * (log_probs + target_entropy).detach()).mean(-1)


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """mean_b( |κ - 1[u<0]|·u² )."""
    weight = (expectile - (difference < 0.0).to(difference.dtype)).abs()
    return (weight * difference.square()).mean(-1)


def exponential_weights(advantages: Tensor, scale: float, maximum: float) -> Tensor:
    """min(exp(scale·A), maximum) without gradient; the exponent is capped first so that exp cannot overflow."""
    return (scale * advantages).detach().clamp(max=80.0).exp().clamp(max=maximum)


def require_shape(name: str, tensor: Tensor, shape: tuple[int, ...] | torch.Size) -> None:
    """Broadcasting turns a shape mistake into a different algorithm; every loss checks instead."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {tuple(shape)}")
