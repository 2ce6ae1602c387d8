"""Behaviour cloning: both losses worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.algorithms.bc import BC, bc_loss
from rl_training.data.batch import Batch
from rl_training.errors import ConfigError


def batch() -> Batch:
    """One member, two transitions, observations 0 so that a network's output is its last bias."""
    zeros = torch.zeros(1, 2, 2, dtype=torch.float64)
    actions = torch.tensor([[[0.5, -0.25], [0.0, 1.0]]], dtype=torch.float64)
    flags = torch.zeros(1, 2, dtype=torch.float64)
    return Batch(zeros, actions, flags, zeros, flags)


def learner_with_bias(bias: list[float], **knobs: object) -> BC:
    learner = BC(2, 2, actor_hidden=(4,), **knobs)
    learner.model.double()
    weights = learner.model.actor.tensors()
    with torch.no_grad():
        weights["weight_1"].zero_()
        weights["bias_1"].copy_(torch.tensor([bias], dtype=torch.float64))
    return learner


def test_deterministic_loss_is_the_mean_squared_error_over_batch_and_dimensions() -> None:
    learner = learner_with_bias([0.3, -0.7])
    loss, _ = bc_loss(learner.model, batch(), {}, learner.params)
    a, b = math.tanh(0.3), math.tanh(-0.7)
    assert loss.item() == pytest.approx(((a - 0.5) ** 2 + (b + 0.25) ** 2 + a**2 + (b - 1.0) ** 2) / 4, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss.sum(), learner.model.actor.flat)
    bias = learner.model.actor.tensors(gradient)["bias_1"][0]
    expected = [2 / 4 * (2 * a - 0.5) * (1 - a * a), 2 / 4 * (2 * b - 0.75) * (1 - b * b)]
    assert bias.tolist() == pytest.approx(expected, rel=1e-12)


def test_gaussian_loss_is_the_mean_negative_log_density() -> None:
    learner = learner_with_bias([0.3, -0.7], deterministic_policy=False)
    with torch.no_grad():
        learner.model.actor.tensors()["log_std"].copy_(torch.tensor([[-1.0, 0.5]], dtype=torch.float64))
    loss, _ = bc_loss(learner.model, batch(), {}, learner.params)
    a, b = math.tanh(0.3), math.tanh(-0.7)
    s, t = math.exp(-1.0), math.exp(0.5)
    squares = ((0.5 - a) / s) ** 2 + ((-0.25 - b) / t) ** 2 + (a / s) ** 2 + ((1.0 - b) / t) ** 2
    assert loss.item() == pytest.approx(squares / 4 + (-1.0 + 0.5) + math.log(2 * math.pi), rel=1e-12)


def test_cloning_fits_the_data() -> None:
    learner = BC(2, 2, actor_lr=1e-2, actor_hidden=(32,))
    data = Batch(*(x.float() for x in batch()[:5]))
    spread = data._replace(obs=torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]), actions=data.actions * 0.9)
    for _ in range(300):
        result = learner.update(spread)
    assert float(result.metrics["actor/loss"]) < 1e-4
    torch.testing.assert_close(learner.act(spread.obs), spread.actions, atol=2e-2, rtol=0)


def test_learning_rate_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^algo_kwargs.actor_lr: must be above 0 and at most 1, got 0$"):
        BC(2, 2, actor_lr=0)
