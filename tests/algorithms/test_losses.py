"""The pieces that several algorithms share: small cases by hand, and shapes that must not broadcast."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from numpy_reference import random_batch
from rl_training.algorithms.base.losses import (
    expectile_loss,
    exponential_weights,
    soft_actor_loss,
    td_loss,
    td_target,
    temperature_loss,
)

M, B = 2, 4
BATCH = random_batch(M, B, 3, 1)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.float64)


def test_td_target_by_hand() -> None:
    batch = BATCH._replace(
        rewards=torch.tensor([[1.0, 2.0]]), terminations=torch.tensor([[0.0, 1.0]])
    )  # the second row ended
    values = torch.tensor([[10.0, 10.0]], requires_grad=True)
    target = td_target(batch, values, 0.9)
    assert target.tolist() == [[10.0, 2.0]]
    assert not target.requires_grad


def test_td_loss_sums_over_critics_and_averages_over_the_batch() -> None:
    values = torch.tensor([[[1.0, 3.0], [0.0, 0.0]]], requires_grad=True)
    loss = td_loss(values, torch.tensor([[0.0, 1.0]]))
    assert loss.tolist() == [(1 + 4) / 2 + (0 + 1) / 2]
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    assert gradient.tolist() == [[[1.0, 2.0], [0.0, -1.0]]]


def test_expectile_loss_by_hand() -> None:
    difference = torch.tensor([[-2.0, 3.0]], requires_grad=True)
    loss = expectile_loss(difference, 0.75)
    assert loss.tolist() == [(0.25 * 4 + 0.75 * 9) / 2]
    (gradient,) = torch.autograd.grad(loss.sum(), difference)
    assert gradient.tolist() == [[-0.5, 2.25]]


def test_exponential_weights_are_capped_cannot_overflow_and_are_constants() -> None:
    advantages = torch.tensor([[-1e30, -1.0, 0.0, 1.0, 50.0, 1e30]], requires_grad=True)
    weights = exponential_weights(advantages, 3.0, 100.0)
    np.testing.assert_allclose(weights.detach().numpy(), [[0.0, np.exp(-3), 1.0, np.exp(3), 100.0, 100.0]], rtol=1e-6)
    assert not weights.requires_grad


def test_temperature_loss() -> None:
    """-mean(log α·(log π + H̄)), by hand: its slope in log α is -(mean log π + H̄)."""
    log_probs = torch.tensor([[-1.0, 2.0, 5.0], [0.5, 0.5, 0.5]], dtype=torch.float64, requires_grad=True)
    log_alpha = torch.tensor([[0.7], [-0.2]], dtype=torch.float64, requires_grad=True)
    loss = temperature_loss(log_alpha, log_probs, -3.0)
    np.testing.assert_allclose(loss.detach().numpy(), [-0.7 * (2.0 - 3.0), 0.2 * (0.5 - 3.0)], rtol=1e-12)
    slope, through_policy = torch.autograd.grad(loss.sum(), (log_alpha, log_probs), allow_unused=True)
    np.testing.assert_allclose(slope.numpy(), [[1.0], [2.5]], rtol=1e-12)
    assert through_policy is None


def test_shapes_that_would_broadcast_are_refused() -> None:
    """[M, 1, B] or [M] in place of [M, B] broadcasts into a different algorithm."""
    with pytest.raises(ValueError, match=r"^next_values has shape \(2, 1, 4\), expected \(2, 4\)$"):
        td_target(BATCH, zeros(M, 1, B), 0.99)
    with pytest.raises(ValueError, match=r"^next_values has shape \(2, 1\), expected \(2, 4\)$"):
        td_target(BATCH, zeros(M, 1), 0.99)
    with pytest.raises(ValueError, match=r"^target has shape \(1, 4\), expected \(2, 4\)$"):
        td_loss(zeros(M, 2, B), zeros(1, B))
    with pytest.raises(ValueError, match=r"^log_probs has shape \(2, 1\), expected \(2, 4\)$"):
        soft_actor_loss(zeros(M, 1), zeros(M, B), zeros(M, 1))
