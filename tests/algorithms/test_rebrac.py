"""ReBRAC: both losses, value and gradient, against the equations; its start; what moves when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from numpy_reference import (
    Array,
    Networks,
    assert_network_gradient,
    assert_same_parameters,
    draw,
    manual_polyak,
    manual_step,
    member_rows,
    moved,
    networks,
    q_values,
    random_batch,
    scramble,
    snapshot,
    trained_parameters,
)
from rl_training.algorithms.base import Batch
from rl_training.algorithms.rebrac import ReBRAC, ReBRACParams, rebrac_critic_loss, rebrac_loss
from rl_training.algorithms.td3 import td3_critic_loss
from rl_training.errors import ConfigError
from rl_training.models import StackedMLP

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}
EVERYTHING = {"critics", "actor", "target_critics", "target_actor"}


def learner(**knobs: Any) -> ReBRAC:
    """A float64 learner with random, mutually different networks."""
    rebrac = ReBRAC(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(rebrac.model)
    rebrac.optimisers = rebrac.build_optimisers()
    return rebrac


def sarsa_batch() -> Batch:
    following = torch.from_numpy(np.random.default_rng(9).uniform(-0.95, 0.95, size=(M, B, ACT)))
    return random_batch(M, B, OBS, ACT)._replace(next_actions=following)


def target_action(nets: Networks, m: int, row: dict[str, Array], noise: Array, p: ReBRACParams) -> Array:
    smoothing = np.minimum(np.maximum(p.policy_noise * noise, -p.noise_clip), p.noise_clip)
    return np.clip(np.tanh(nets["target_actor"](m, row["next_obs"])) + smoothing, -1, 1)


def reference_critic_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: ReBRACParams
) -> Array:
    """Σ_i mean (Q_i - y)², y = r + γ(1-d)·[ min_i Q̄_i(s', a') - β₂·Σ_dims (a' - â')² ]."""
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action = target_action(constants, m, row, noise["target_action"][m].numpy(), p)
        value = q_values(constants["target_critics"], m, row["next_obs"], action).min(0)
        if "next_actions" in row:
            for dimension in range(ACT):
                value = value - p.critic_bc_weight * (action - row["next_actions"])[:, dimension] ** 2
        y = row["rewards"] + p.gamma * (1 - row["terminations"]) * value
        losses.append(sum(((q - y) ** 2).mean() for q in q_values(nets["critics"], m, row["obs"], row["actions"])))
    return np.array(losses)


def reference_actor_loss(nets: Networks, constants: Networks, batch: Batch, p: ReBRACParams) -> Array:
    """mean( β₁·Σ_dims (π(s) - a)² - λ·q ), q = min_i Q_i(s, π(s)), λ = w / mean|q| of the parameters as they were."""

    def chosen(some: Networks, m: int, obs: Array) -> tuple[Array, Array]:
        action = np.tanh(some["actor"](m, obs))
        values = q_values(some["critics"], m, obs, action)
        return action, values.min(0) if p.actor_reduce == "min" else values[0]

    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action, q = chosen(nets, m, row["obs"])
        scale = p.actor_q_weight
        if p.normalise_q:
            scale = scale / (np.abs(chosen(constants, m, row["obs"])[1]).mean() + 1e-7)
        distance = sum((action - row["actions"])[:, dimension] ** 2 for dimension in range(ACT))
        losses.append((p.actor_bc_weight * distance - scale * q).mean())
    return np.array(losses)


CRITIC_OPTIONS: list[dict[str, Any]] = [
    {},
    {"critic_bc_weight": 0.5},
    {"critic_bc_weight": 2.0, "policy_noise": 1.0, "noise_clip": 0.3},
    {"critic_bc_weight": 0.0},
    {"critic_bc_weight": 0.5, "gamma": 0.4, "n_critics": 3, "layer_norm": "none"},
    {"critic_bc_weight": 0.5, "layer_norm": "pre"},
]


@pytest.mark.parametrize("knobs", CRITIC_OPTIONS, ids=str)
@pytest.mark.parametrize("penalised", [True, False], ids=["with next actions", "without"])
def test_critic_loss(knobs: dict[str, Any], penalised: bool) -> None:
    rebrac, batch = learner(**knobs), sarsa_batch()
    batch = batch if penalised else batch._replace(next_actions=None)
    noise, model = draw(rebrac, B), rebrac.model
    loss, _ = rebrac_critic_loss(model, batch, noise, rebrac.params)
    constants = networks(model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, rebrac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, model, "critics", reference)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"actor_bc_weight": 1.5, "actor_q_weight": 0.3},
        {"normalise_q": False, "actor_q_weight": 0.7},
        {"actor_reduce": "first"},
        {"n_critics": 3, "layer_norm": "none"},
        {"actor_bc_weight": 0.0},
        {"actor_q_weight": 0.0},
    ],
    ids=str,
)
def test_actor_loss(knobs: dict[str, Any]) -> None:
    rebrac, batch = learner(**{"actor_bc_weight": 0.4, **knobs}), sarsa_batch()
    loss, _ = rebrac_loss(rebrac.model, batch, {}, rebrac.params)
    constants = networks(rebrac.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, rebrac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, rebrac.model, "actor", reference)


@pytest.mark.parametrize(("update", "factor"), [(0, 1.0), (5, 0.75), (10, 0.5), (13, 0.5)])
def test_the_actor_s_penalty_falls_linearly(update: int, factor: float) -> None:
    rebrac, batch = learner(actor_bc_weight=0.4, actor_bc_final=0.5, total_updates=10), sarsa_batch()
    rebrac.clock.fill_(update)
    loss, _ = rebrac.actor_loss(batch, {})
    left = rebrac.params.model_copy(update={"actor_bc_weight": 0.4 * factor})
    expected = reference_actor_loss(networks(rebrac.model), networks(rebrac.model), batch, left)
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-8)


def test_the_penalty_is_the_noised_target_action_s_distance_summed_over_dimensions() -> None:
    rebrac, batch = learner(), sarsa_batch()
    noise, nets = draw(rebrac, B), networks(rebrac.model)
    _, metrics = rebrac_critic_loss(rebrac.model, batch, noise, rebrac.params)
    _, actor_metrics = rebrac_loss(rebrac.model, batch, noise, rebrac.params)
    for m in range(M):
        row = member_rows(batch, m)
        action = target_action(nets, m, row, noise["target_action"][m].numpy(), rebrac.params)
        still = target_action(nets, m, row, 0 * noise["target_action"][m].numpy(), rebrac.params)
        distance, unnoised = (((a - row["next_actions"]) ** 2).sum() / B for a in (action, still))
        assert metrics["critic/bc_distance"][m].item() == pytest.approx(distance, rel=1e-8)
        assert distance != pytest.approx(unnoised, rel=1e-3)
        own = ((np.tanh(nets["actor"](m, row["obs"])) - row["actions"]) ** 2).sum() / B
        assert actor_metrics["actor/bc_distance"][m].item() == pytest.approx(own, rel=1e-8)


def test_data_without_next_actions_leave_the_critics_unpenalised() -> None:
    """Then, as with β₂ = 0, the critics' loss is TD3's; the actor's never asks for them."""
    rebrac, batch = learner(critic_bc_weight=0.7), sarsa_batch()
    noise, missing = draw(rebrac, B), batch._replace(next_actions=None)
    unpenalised = td3_critic_loss(rebrac.model, batch, noise, rebrac.params)[0]
    loss, metrics = rebrac_critic_loss(rebrac.model, missing, noise, rebrac.params)
    assert torch.equal(loss, unpenalised)
    assert metrics["critic/bc_distance"].tolist() == [0.0] * M
    free = learner(critic_bc_weight=0.0)
    assert torch.equal(rebrac_critic_loss(free.model, batch, noise, free.params)[0], unpenalised)
    assert not torch.isclose(rebrac_critic_loss(rebrac.model, batch, noise, rebrac.params)[0], unpenalised).any()
    losses = [rebrac_loss(rebrac.model, data, noise, rebrac.params)[0] for data in (batch, missing)]
    assert torch.equal(*losses)


def test_a_termination_stops_the_bootstrap_and_its_penalty() -> None:
    rebrac, batch = learner(critic_bc_weight=0.7), sarsa_batch()
    noise = draw(rebrac, B)
    for elsewhere in (
        batch._replace(next_obs=batch.next_obs + 3.0),
        batch._replace(next_actions=batch.next_actions.flip(1)),
    ):
        for ended, changes in ((1.0, False), (0.0, True)):
            flags = torch.full((M, B), ended, dtype=torch.float64)
            one, other = (
                rebrac_critic_loss(rebrac.model, data._replace(terminations=flags), noise, rebrac.params)[0]
                for data in (batch, elsewhere)
            )
            assert torch.equal(one, other) is not changes


def test_scale_is_a_constant_of_the_batch() -> None:
    """Were λ differentiated, the value term's gradient through a q of one sign would vanish: λ·mean q = ±w."""
    rebrac, batch = learner(actor_bc_weight=0.0, actor_q_weight=3.0), sarsa_batch()
    with torch.no_grad():
        rebrac.model.critics.tensors()["bias_2"] += 100.0
    loss, _ = rebrac_loss(rebrac.model, batch, {}, rebrac.params)
    np.testing.assert_allclose(loss.detach().numpy(), -3.0, rtol=1e-8)
    (gradient,) = torch.autograd.grad(loss.sum(), rebrac.model.actor.flat)
    assert float(gradient.abs().max()) > 1e-4


def test_the_actor_follows_the_least_critic_of_each_transition() -> None:
    """A critic's last bias enters with -λ times the share of transitions at which it is the least."""
    rebrac, batch = learner(normalise_q=False, n_critics=3), sarsa_batch()
    loss, _ = rebrac_loss(rebrac.model, batch, {}, rebrac.params)
    (gradient,) = torch.autograd.grad(loss.sum(), rebrac.model.critics.flat)
    nets, shares = networks(rebrac.model), []
    for m in range(M):
        obs = batch.obs[m].numpy()
        least = q_values(nets["critics"], m, obs, np.tanh(nets["actor"](m, obs))).argmin(0)
        shares.append([-(least == i).mean() for i in range(3)])
    biases = rebrac.model.critics.tensors(gradient)["bias_2"].view(M, 3).numpy()
    np.testing.assert_allclose(biases, shares, rtol=1e-10, atol=1e-15)
    assert len(np.unique(np.nonzero(np.array(shares))[1])) > 1


def test_what_each_loss_trains() -> None:
    rebrac, batch = learner(), sarsa_batch()
    model = rebrac.model
    for target in (model.target_critics, model.target_actor):
        assert not target.flat.requires_grad
        target.flat.requires_grad_(True)  # nothing may reach them even then
    loss, _ = rebrac_critic_loss(model, batch, draw(rebrac, B), rebrac.params)
    assert trained_parameters(loss, model) == {"critics"}
    loss, _ = rebrac_loss(model, batch, {}, rebrac.params)
    assert trained_parameters(loss, model) == {"actor", "critics"}  # the optimiser asks for the actor's alone


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_actor_and_targets_move_on_the_first_of_every_delayed_updates(delay: int) -> None:
    rebrac, batch = learner(policy_delay=delay), sarsa_batch()
    for update in range(6):
        before = snapshot(rebrac.model)
        result = rebrac.update(batch, draw(rebrac, B, update))
        on = update % delay == 0
        assert moved(before, rebrac.model) == (EVERYTHING if on else {"critics"}), update
        assert ("actor/loss" in result.metrics) is on
    steps = {name: int(optimiser.state["steps"]) for name, optimiser in rebrac.optimisers.items()}
    assert steps == {"critic": 6, "actor": 6 // delay}


@pytest.mark.parametrize("lagged", [True, False])
def test_order_by_hand(lagged: bool) -> None:
    """Critics; actor with the new critics; target critics to the new ones; target actor to the actor before its step
    if lagged, else to the new one."""
    knobs = {"actor_lr": 1e-2, "critic_lr": 2e-2, "tau": 0.25, "critic_bc_weight": 0.3, "lagged_target_actor": lagged}
    rebrac, twin, batch = learner(**knobs), learner(**knobs), sarsa_batch()
    p, model = twin.params, twin.model
    critic = torch.optim.Adam([model.critics.flat], lr=2e-2)
    actor = torch.optim.Adam([model.actor.flat], lr=1e-2)
    for update in range(5):
        noise = draw(rebrac, B, update)
        rebrac.update(batch, noise)
        manual_step(critic, rebrac_critic_loss(model, batch, noise, p)[0])
        if update % 2 == 0:
            followed = model.actor.target()
            manual_step(actor, rebrac_loss(model, batch, noise, p)[0])
            manual_polyak(model.target_critics, model.critics, 0.25)
            manual_polyak(model.target_actor, followed if lagged else model.actor, 0.25)
        assert_same_parameters(rebrac.model, model)


def test_the_networks_start_as_edac_s() -> None:
    """Hidden weights U(±1/√fan_in), hidden biases 0.1, last layer U(±1e-3) for the actor and U(±3e-3) for critics."""
    model = ReBRAC(17, 6, seeds=(0, 1), actor_hidden=(64, 64), critic_hidden=(64, 64)).model
    networks_and_ranges: list[tuple[StackedMLP, float, int]] = [(model.actor, 1e-3, 17), (model.critics, 3e-3, 23)]
    for network, last, inputs in networks_and_ranges:
        tensors = network.tensors()
        for layer, fan_in in ((0, inputs), (1, 64)):
            assert (tensors[f"bias_{layer}"] == 0.1).all()
            largest = tensors[f"weight_{layer}"].abs().max().item() * np.sqrt(fan_in)
            assert 0.98 < largest <= 1.0
        weights, biases = tensors["weight_2"].abs(), tensors["bias_2"].abs()
        assert 0.95 * last < weights.max().item() <= last * (1 + 1e-6)
        assert 0.0 < biases.max().item() <= last * (1 + 1e-6)
    for target, online in ((model.target_actor, model.actor), (model.target_critics, model.critics)):
        assert torch.equal(target.flat, online.flat)


def test_layer_norm_follows_the_activation_and_is_the_critics_alone() -> None:
    model = ReBRAC(OBS, ACT, seeds=SEEDS, **SIZES).model
    assert (model.critics.spec.layer_norm, model.target_critics.spec.layer_norm) == ("post", "post")
    assert model.actor.spec.layer_norm == "none"
    assert model.critics.tensors()["scale_1"].shape == (M * 2, 6)  # each critic its own
    assert not any(name.startswith("scale") for name in model.actor.tensors())


def test_shapes_that_would_broadcast_are_refused() -> None:
    rebrac, batch = learner(), sarsa_batch()
    noise = draw(rebrac, B)
    with pytest.raises(ValueError, match=r"^actions has shape \(3, 6, 1\), expected \(3, 6, 2\)$"):
        rebrac_loss(rebrac.model, batch._replace(actions=batch.actions[..., :1]), {}, rebrac.params)
    narrow = batch._replace(next_actions=batch.next_actions[..., :1])
    with pytest.raises(ValueError, match=r"^next_actions has shape \(3, 6, 1\), expected \(3, 6, 2\)$"):
        rebrac_critic_loss(rebrac.model, narrow, noise, rebrac.params)


def test_defaults_are_the_authors_for_mujoco() -> None:
    p = ReBRACParams()
    assert (p.batch_size, p.actor_lr, p.critic_lr, p.gamma, p.tau) == (1024, 1e-3, 1e-3, 0.99, 0.005)
    assert (p.actor_hidden, p.critic_hidden, p.n_critics) == ((256,) * 3, (256,) * 3, 2)
    assert (p.policy_noise, p.noise_clip, p.policy_delay) == (0.2, 0.5, 2)
    assert (p.actor_bc_weight, p.critic_bc_weight, p.actor_q_weight) == (0.01, 0.01, 1.0)
    assert (p.normalise_q, p.actor_reduce, p.layer_norm, p.lagged_target_actor) == (True, "min", "post", True)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"actor_bc_weight": -1.0}, "algo_kwargs.actor_bc_weight: must be at least 0, got -1.0"),
        ({"critic_bc_weight": -0.1}, "algo_kwargs.critic_bc_weight: must be at least 0, got -0.1"),
        ({"actor_q_weight": -1}, "algo_kwargs.actor_q_weight: must be at least 0, got -1"),
        ({"actor_reduce": "mean"}, "algo_kwargs.actor_reduce: must be 'min' or 'first', got 'mean'"),
        ({"layer_norm": True}, "algo_kwargs.layer_norm: must not be true; choose from none, pre, post"),
        ({"policy_delay": 0}, "algo_kwargs.policy_delay: must be at least 1, got 0"),
        ({"critic_bc_weight": float("inf")}, "algo_kwargs.critic_bc_weight: must be a finite number, got inf"),
        ({"actor_bc_wieght": 0.1}, "algo_kwargs.actor_bc_wieght: no such option; did you mean 'actor_bc_weight'?"),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        ReBRAC(OBS, ACT, **knobs)
    assert str(refusal.value) == message
