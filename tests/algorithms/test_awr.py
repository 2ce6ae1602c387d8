"""AWR: both losses, value and gradient, against the equations; what moves when; its optimiser against torch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from numpy_reference import (
    Array,
    Networks,
    assert_network_gradient,
    assert_same_parameters,
    gaussian_log_prob,
    manual_step,
    member_rows,
    moved,
    networks,
    normal_log_density,
    random_batch,
    scramble,
    snapshot,
    trained_parameters,
)
from rl_training.algorithms.awr import AWR, AWRParams, advantages_of, awr_loss, scaled_values, value_loss
from rl_training.algorithms.base import Batch, Schedule
from rl_training.algorithms.base.optimiser import Momentum
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "value_hidden": (7, 5)}
ROUNDS = {"td_lambda": 0.9, "critic_updates": 3, "actor_updates": 2}


def learner(seeds: tuple[int, ...] = SEEDS, **knobs: Any) -> AWR:
    """A float64 learner with random, mutually different networks."""
    awr = AWR(OBS, ACT, seeds=seeds, **SIZES, **knobs)
    scramble(awr.model)
    awr.optimisers = awr.build_optimisers()
    return awr


def batch_with_returns(*, advantages: bool = False) -> Batch:
    rng = np.random.default_rng(8)
    returns, given = rng.normal(scale=3.0, size=(2, M, B))
    batch = random_batch(M, B, OBS, ACT)._replace(returns_to_go=torch.from_numpy(returns))
    return batch._replace(advantages=torch.from_numpy(given)) if advantages else batch


def hand_learner(bias: float, **knobs: Any) -> AWR:
    """One member whose v is `bias` wherever the observation is zero."""
    awr = AWR(1, 1, actor_hidden=(4,), value_hidden=(4,), **knobs)
    awr.model.double()
    with torch.no_grad():
        for network in (awr.model.value, awr.model.actor):
            network.tensors()["weight_1"].zero_()
            network.tensors()["bias_1"].fill_(bias)
    awr.optimisers = awr.build_optimisers()
    return awr


def hand_batch(returns: list[float], actions: list[float], advantages: list[float] | None = None) -> Batch:
    size = len(returns)
    zeros, flags = (torch.zeros(1, size, *rest, dtype=torch.float64) for rest in ((1,), ()))
    batch = Batch(zeros, torch.tensor(actions, dtype=torch.float64).view(1, size, 1), flags, zeros, flags)
    given = None if advantages is None else torch.tensor([advantages], dtype=torch.float64)
    return batch._replace(returns_to_go=torch.tensor([returns], dtype=torch.float64), advantages=given)


# The equations --------------------------------------------------------------------------------------------------------


def reference_value_loss(nets: Networks, batch: Batch, p: AWRParams) -> Array:
    """½·mean( (R/ν - v)² )."""
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        v = nets["value"](m, row["obs"])[:, 0]
        losses.append(0.5 * np.mean((row["returns_to_go"] / p.value_scale - v) ** 2))
    return np.array(losses)


def reference_weights(constants: Networks, m: int, row: dict[str, Array], p: AWRParams) -> Array:
    if "advantages" in row:
        a = row["advantages"]
    else:
        a = row["returns_to_go"] - p.value_scale * constants["value"](m, row["obs"])[:, 0]
        if p.normalise_advantages:
            a = (a - a.mean()) / (np.sqrt(((a - a.mean()) ** 2).mean()) + 1e-5)
    return np.minimum(np.exp(a / p.beta), p.max_weight)


def reference_actor_loss(nets: Networks, constants: Networks, batch: Batch, p: AWRParams) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        if p.fixed_std is None:
            log_prob = gaussian_log_prob(nets["actor"], m, row["obs"], row["actions"])
        else:
            mean = np.tanh(nets["actor"](m, row["obs"]))
            log_prob = normal_log_density(row["actions"], mean, np.array(p.fixed_std)).sum(-1)
        losses.append(-(reference_weights(constants, m, row, p) * log_prob).mean())
    return np.array(losses)


@pytest.mark.parametrize("knobs", [{}, {"value_scale": 100.0}, {"value_scale": 0.25}], ids=str)
def test_value_loss(knobs: dict[str, Any]) -> None:
    awr, batch = learner(**knobs), batch_with_returns()
    loss, metrics = value_loss(awr.model, batch, awr.params)
    constants = networks(awr.model)

    def reference(nets: Networks) -> Array:
        return reference_value_loss(nets, batch, awr.params)

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-10)
    assert_network_gradient(loss, awr.model, "value", reference)
    values = [awr.params.value_scale * constants["value"](m, batch.obs[m].numpy())[:, 0].mean() for m in range(M)]
    np.testing.assert_allclose(metrics["value/mean"].detach().numpy(), values, rtol=1e-10)


@pytest.mark.parametrize("given", [False, True], ids=["from the batch", "given"])
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"normalise_advantages": False},
        {"beta": 0.3, "max_weight": 2.0},
        {"normalise_advantages": False, "value_scale": 5.0, "beta": 4.0},
        {"fixed_std": 0.4},
    ],
    ids=str,
)
def test_actor_loss(knobs: dict[str, Any], given: bool) -> None:
    awr, batch = learner(**knobs), batch_with_returns(advantages=given)
    loss, _ = awr_loss(awr.model, batch, {}, awr.params)
    constants = networks(awr.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, awr.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-9)
    assert_network_gradient(loss, awr.model, "actor", reference)


def test_the_clip_is_met_and_not_everywhere() -> None:
    """The case above with a maximum of 2 means little if all weights are clipped or none is."""
    awr, batch = learner(beta=0.3, max_weight=2.0), batch_with_returns()
    weights = np.stack([reference_weights(networks(awr.model), m, member_rows(batch, m), awr.params) for m in range(M)])
    assert 0 < (weights == 2.0).sum() < weights.size


def test_what_each_loss_trains() -> None:
    awr, batch = learner(), batch_with_returns()
    assert trained_parameters(value_loss(awr.model, batch, awr.params)[0], awr.model) == {"value"}
    assert trained_parameters(awr_loss(awr.model, batch, {}, awr.params)[0], awr.model) == {"actor"}
    assert not hasattr(awr.model, "critics")


# By hand --------------------------------------------------------------------------------------------------------------


def test_value_loss_by_hand() -> None:
    """v = 0.5, ν = 2, so V = 1; returns 3 and 0: ½·((2/2)² + (-1/2)²)/2."""
    awr = hand_learner(0.5, value_scale=2.0)
    batch = hand_batch([3.0, 0.0], [0.0, 0.0])
    assert scaled_values(awr.model, batch.obs, awr.params).tolist() == [[1.0, 1.0]]
    loss, _ = value_loss(awr.model, batch, awr.params)
    assert loss.tolist() == [0.3125]
    (gradient,) = torch.autograd.grad(loss.sum(), awr.model.value.flat)
    assert awr.model.value.tensors(gradient)["bias_1"].item() == pytest.approx(-(1.0 - 0.5) / 2)


def test_standardised_advantages_by_hand() -> None:
    """Advantages 4, 0, 2 around V = 1: mean 2, population deviation √(8/3)."""
    awr, batch = hand_learner(1.0), hand_batch([5.0, 1.0, 3.0], [0.0] * 3)
    unit = 2.0 / (math.sqrt(8.0 / 3.0) + 1e-5)
    assert advantages_of(awr.model, batch, awr.params)[0].tolist() == pytest.approx([unit, -unit, 0.0], rel=1e-12)
    plain = hand_learner(1.0, normalise_advantages=False)
    assert advantages_of(plain.model, batch, plain.params)[0].tolist() == [4.0, 0.0, 2.0]


def test_equal_advantages_weigh_one() -> None:
    """No division by zero where the batch has no spread."""
    awr, batch = hand_learner(0.3, fixed_std=0.5), hand_batch([7.0, 7.0], [0.2, 0.2])
    loss, metrics = awr_loss(awr.model, batch, {}, awr.params)
    assert metrics["actor/weight"].tolist() == [1.0]
    density = -(((0.2 - math.tanh(0.3)) / 0.5) ** 2) / 2 - math.log(0.5 * math.sqrt(2 * math.pi))
    assert loss.item() == pytest.approx(-density, rel=1e-12)


def test_given_advantages_are_taken_as_they_are() -> None:
    """log 2 and log 1000 with β = 1: weights 2 and, clipped, 20; neither returns nor V are looked at."""
    awr = hand_learner(0.3, fixed_std=1.0)
    batch = hand_batch([1.0, 2.0], [0.0, 0.0], [math.log(2.0), math.log(1000.0)])
    loss, metrics = awr_loss(awr.model, batch, {}, awr.params)
    assert metrics["actor/weight"].item() == pytest.approx(11.0, rel=1e-12)
    density = -(math.tanh(0.3) ** 2) / 2 - 0.5 * math.log(2 * math.pi)
    assert loss.item() == pytest.approx(-11.0 * density, rel=1e-12)
    with torch.no_grad():
        awr.model.value.flat += 5.0
    other, _ = awr_loss(awr.model, batch._replace(returns_to_go=None), {}, awr.params)
    assert torch.equal(loss, other)


def test_huge_advantages_are_clipped_not_infinite() -> None:
    awr = hand_learner(0.0)
    batch = hand_batch([0.0, 0.0], [0.1, 0.1], [1e30, -1e30])
    loss, metrics = awr_loss(awr.model, batch, {}, awr.params)
    assert metrics["actor/weight"].tolist() == [10.0]  # 20 and 0
    (gradient,) = torch.autograd.grad(loss.sum(), awr.model.actor.flat)
    assert torch.isfinite(gradient).all()


def test_a_batch_without_returns_is_refused() -> None:
    awr, batch = learner(), random_batch(M, B, OBS, ACT)
    for loss in (lambda: value_loss(awr.model, batch, awr.params), lambda: awr_loss(awr.model, batch, {}, awr.params)):
        with pytest.raises(ValueError, match=r"^AWR needs returns_to_go in its batches; train_awr computes them$"):
            loss()
    wrong = batch._replace(returns_to_go=torch.zeros(M, B, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"returns_to_go has shape \(3, 6, 1\), expected \(3, 6\)"):
        value_loss(awr.model, wrong, awr.params)


# A constant deviation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixed_std", [0.2, 1.0, 2.5])
def test_a_fixed_deviation_never_moves(fixed_std: float) -> None:
    """1.0 is where the learnable parameter starts: it must not escape from there either."""
    awr, batch = AWR(OBS, ACT, seeds=SEEDS, **SIZES, fixed_std=fixed_std, actor_lr=0.1), batch_with_returns()
    batch = Batch(*(None if field is None else field.float() for field in batch))
    for _ in range(5):
        awr.update(batch)
    std = awr.model.actor.distribution(batch.obs).log_std.exp()
    np.testing.assert_allclose(std.detach().numpy(), fixed_std, rtol=1e-6)
    tiny = torch.full((M, B, ACT), 1e-3)
    awr.model.actor.flat.data.mul_(0.01)  # means near zero, so that acting's clip at ±1 stays out of the way
    drawn = awr.act(batch.obs, {"action": tiny}) - awr.act(batch.obs)
    np.testing.assert_allclose(drawn.numpy(), fixed_std * 1e-3, rtol=1e-3)


def test_a_learned_deviation_moves() -> None:
    awr, batch = learner(), batch_with_returns()
    before = awr.model.actor.tensors()["log_std"].detach().clone()
    awr.update(batch)
    assert not torch.isclose(awr.model.actor.tensors()["log_std"], before).any()


# What moves when ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["adam", "momentum"])
def test_narrow_update_is_value_then_actor_with_the_new_value(optimiser: str) -> None:
    """Three updates by hand with torch's optimisers, each loss taken at the parameters of its turn."""
    knobs = {"actor_lr": 2e-2, "value_lr": 3e-2, "optimiser": optimiser, "value_scale": 2.0}
    awr, twin, batch = learner(**knobs), learner(**knobs), batch_with_returns()
    made = torch.optim.Adam if optimiser == "adam" else lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)
    value, actor = made([twin.model.value.flat], lr=3e-2), made([twin.model.actor.flat], lr=2e-2)
    for _ in range(3):
        result = awr.update(batch)
        manual_step(value, value_loss(twin.model, batch, twin.params)[0])
        manual_step(actor, awr_loss(twin.model, batch, {}, twin.params)[0])
        assert_same_parameters(awr.model, twin.model)
        assert result.metrics.keys() > {"value/loss", "actor/loss"}
    assert awr.period == 1


def test_rounds_move_the_value_first_and_then_the_actor_alone() -> None:
    awr, batch = learner(**ROUNDS), batch_with_returns(advantages=True)
    assert awr.period == 5
    for update in range(12):
        before = snapshot(awr.model)
        metrics = awr.update(batch).metrics
        expected = "value" if update % 5 < 3 else "actor"
        assert moved(before, awr.model) == {expected}, update
        assert {name.partition("/")[0] for name in metrics} == {expected}, update
    steps = {name: int(optimiser.state["steps"]) for name, optimiser in awr.optimisers.items()}
    assert steps == {"value": 3 + 3 + 2, "actor": 2 + 2}


# Momentum -------------------------------------------------------------------------------------------------------------


def test_momentum_equals_torch_s_sgd_over_twenty_steps() -> None:
    start = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 7)))
    scales = torch.tensor([1.0, 1e-3, 5.0])
    for schedule in (None, Schedule(kind="linear")):
        ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        clock = torch.zeros((), dtype=torch.int64)
        optimiser = Momentum(ours, 0.05, clock, schedule=schedule, horizon=40)
        reference = torch.optim.SGD([theirs], lr=0.05, momentum=0.9)
        for update in range(20):
            target = torch.from_numpy(np.random.default_rng(update).normal(size=(3, 7)))
            if schedule is not None:
                reference.param_groups[0]["lr"] = 0.05 * (1 - update / 40)
            optimiser.step(scales * (ours - target).square().sum(-1))
            manual_step(reference, scales * (theirs - target).square().sum(-1))
            clock += 1
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-11, atol=1e-13)
        assert not torch.isclose(ours, start).all()


def test_two_steps_of_momentum_by_hand() -> None:
    """Gradient 1 throughout: velocities 1 and 1.9."""
    parameter = nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
    optimiser = Momentum(parameter, 0.1, torch.zeros((), dtype=torch.int64))
    for expected in (-0.1, -0.29):
        optimiser.step(parameter.sum(-1))
        assert parameter.item() == pytest.approx(expected, rel=1e-12)
    assert optimiser.state.keys() == {"velocity"}
    assert optimiser.state["velocity"].item() == pytest.approx(1.9)


def test_the_velocity_is_part_of_the_state() -> None:
    names = set(AWR(OBS, ACT, **SIZES, optimiser="momentum").state())
    assert {"optimiser.actor.velocity", "optimiser.value.velocity"} <= names
    assert not any("moment" in name.rpartition(".")[2] for name in names)


# Parameters -----------------------------------------------------------------------------------------------------------


def test_defaults_are_the_narrow_version() -> None:
    p = AWRParams()
    assert (p.td_lambda, p.value_scale, p.fixed_std, p.optimiser, p.normalise_advantages) == (
        *(None, 1.0, None, "adam", True),
    )
    assert (p.beta, p.max_weight, p.gamma, p.batch_size) == (1.0, 20.0, 0.99, 256)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"beta": 0}, "algo_kwargs.beta: must be above 0, got 0"),
        ({"max_weight": -1.0}, "algo_kwargs.max_weight: must be above 0, got -1.0"),
        ({"td_lambda": 1.5}, "algo_kwargs.td_lambda: must be at least 0 and at most 1, got 1.5"),
        ({"td_lambda": -0.1}, "algo_kwargs.td_lambda: must be at least 0 and at most 1, got -0.1"),
        ({"critic_updates": 0}, "algo_kwargs.critic_updates: must be at least 1, got 0"),
        ({"actor_updates": 0}, "algo_kwargs.actor_updates: must be at least 1, got 0"),
        ({"value_scale": 0.0}, "algo_kwargs.value_scale: must be above 0, got 0.0"),
        ({"fixed_std": 0.0}, "algo_kwargs.fixed_std: must be above 0, got 0.0; null learns it"),
        ({"gamma": 1.0}, "algo_kwargs.gamma: must be at least 0 and below 1, got 1.0"),
        ({"optimiser": "sgd"}, "algo_kwargs.optimiser: must be 'adam' or 'momentum', got 'sgd'"),
        ({"lambda": 0.9}, "algo_kwargs.lambda: no such option; did you mean 'td_lambda'?"),
        (
            {"critic_lr": 1e-3},
            "algo_kwargs.critic_lr: no such option; choose from actor_hidden, actor_lr, actor_updates, batch_size,"
            " beta, critic_updates, fixed_std, gamma, lr_schedule, max_weight, normalise_advantages, optimiser,"
            " td_lambda, value_hidden, value_lr, value_scale",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        AWR(OBS, ACT, **knobs)
    assert str(refusal.value) == message
