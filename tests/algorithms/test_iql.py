"""IQL: its three losses, value and gradient, against the equations; the order of its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from numpy_reference import (
    Array,
    Networks,
    assert_network_gradient,
    gaussian_log_prob,
    member_rows,
    moved,
    networks,
    only_member,
    q_values,
    random_batch,
    scramble,
    snapshot,
    trained_parameters,
)
from rl_training.algorithms.base import Batch
from rl_training.algorithms.iql import (
    IQL,
    IQLParams,
    iql_critic_loss,
    iql_loss,
    learned_values,
    policy_loss,
    target_values,
    value_loss,
)
from rl_training.errors import ConfigError
from rl_training.models import DeterministicPolicy

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6), "value_hidden": (7, 5)}


def learner(seeds: tuple[int, ...] = SEEDS, **knobs: Any) -> IQL:
    """A float64 learner with random, mutually different networks."""
    iql = IQL(OBS, ACT, seeds=seeds, **SIZES, **knobs)
    scramble(iql.model)
    iql.optimisers = iql.build_optimisers()
    return iql


def advantage(nets: Networks, m: int, row: dict[str, Array]) -> Array:
    """min_i Q̄_i(s, a) - V(s)."""
    return q_values(nets["target_critics"], m, row["obs"], row["actions"]).min(0) - nets["value"](m, row["obs"])[:, 0]


def loss_of_value(model: Any, batch: Batch, noise: Any, p: IQLParams) -> Any:
    return value_loss(model, batch, target_values(model, batch), p)


def loss_of_actor(model: Any, batch: Batch, noise: Any, p: IQLParams) -> Any:
    advantages = target_values(model, batch) - learned_values(model, batch)[0]
    return policy_loss(model, batch, advantages, noise, p)


def loss_of_critics(model: Any, batch: Batch, noise: Any, p: IQLParams) -> Any:
    return iql_critic_loss(model, batch, learned_values(model, batch)[1], p)


def reference_value_loss(nets: Networks, constants: Networks, batch: Batch, p: IQLParams) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        u = advantage({"value": nets["value"], "target_critics": constants["target_critics"]}, m, row)
        losses.append(np.mean([abs(p.expectile - (1 if x < 0 else 0)) * x**2 for x in u]))
    return np.array(losses)


def reference_policy_loss(nets: Networks, constants: Networks, batch: Batch, p: IQLParams) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        weights = np.minimum(np.exp(p.beta * advantage(constants, m, row)), p.max_weight)
        if p.deterministic_policy:
            regression = ((np.tanh(nets["actor"](m, row["obs"])) - row["actions"]) ** 2).sum(-1)
        else:
            regression = -gaussian_log_prob(nets["actor"], m, row["obs"], row["actions"])
        losses.append((weights * regression).mean())
    return np.array(losses)


def reference_critic_loss(nets: Networks, constants: Networks, batch: Batch, p: IQLParams) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        y = row["rewards"] + p.gamma * (1 - row["terminations"]) * constants["value"](m, row["next_obs"])[:, 0]
        q = q_values(nets["critics"], m, row["obs"], row["actions"])
        losses.append(((q - y) ** 2).sum(0).mean())
    return np.array(losses)


REFERENCES = {
    "value": (loss_of_value, reference_value_loss),
    "actor": (loss_of_actor, reference_policy_loss),
    "critics": (loss_of_critics, reference_critic_loss),
}


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("value", {}),
        ("value", {"expectile": 0.9}),
        ("value", {"expectile": 0.1}),
        ("actor", {}),
        ("actor", {"beta": 0.5}),
        ("actor", {"beta": 10.0, "max_weight": 2.0}),
        ("actor", {"deterministic_policy": True}),
        ("critics", {}),
        ("critics", {"gamma": 0.5, "n_critics": 3}),
    ],
)
def test_losses(name: str, knobs: dict[str, Any]) -> None:
    iql, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    loss_of, numpy_loss = REFERENCES[name]
    loss, _ = loss_of(iql.model, batch, {}, iql.params)
    constants = networks(iql.model)

    def reference(nets: Networks) -> Array:
        return numpy_loss(nets, constants, batch, iql.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-7)
    assert_network_gradient(loss, iql.model, name, reference)


def test_both_sides_of_the_expectile_and_of_the_clip_are_met() -> None:
    """The cases above mean little if every advantage has one sign or no weight is clipped."""
    nets, batch = networks(learner().model), random_batch(M, B, OBS, ACT)
    advantages = np.stack([advantage(nets, m, member_rows(batch, m)) for m in range(M)])
    assert (advantages < 0).any()
    assert (advantages > 0).any()
    clipped = 10.0 * advantages > np.log(2.0)
    assert clipped.any()
    assert not clipped.all()


def test_sum_of_losses_trains_each_network_by_its_own() -> None:
    """`iql_loss` at one set of parameters: V, π and Q get exactly the gradients of L_V, L_π and L_Q."""
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    model = iql.model
    total, _ = iql_loss(model, batch, {}, iql.params)
    constants = networks(model)
    np.testing.assert_allclose(
        total.detach().numpy(),
        sum(numpy_loss(constants, constants, batch, iql.params) for _, numpy_loss in REFERENCES.values()),
        rtol=1e-7,
    )
    for name, (loss_of, _) in REFERENCES.items():
        flat = getattr(model, name).flat
        (own,) = torch.autograd.grad(loss_of(model, batch, {}, iql.params)[0].sum(), flat)
        (from_total,) = torch.autograd.grad(total.sum(), flat, retain_graph=True)
        np.testing.assert_allclose(from_total.numpy(), own.numpy(), rtol=1e-12, atol=1e-15)


def test_what_each_loss_trains() -> None:
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    assert not iql.model.target_critics.flat.requires_grad
    iql.model.target_critics.flat.requires_grad_(True)  # nothing may reach them even then
    for name, (loss_of, _) in REFERENCES.items():
        loss, _ = loss_of(iql.model, batch, {}, iql.params)
        assert trained_parameters(loss, iql.model) == {name}


def test_advantage_comes_from_the_target_critics() -> None:
    """Neither L_V nor L_π may look at the online critics."""
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    before = [loss_of(iql.model, batch, {}, iql.params)[0] for loss_of in (loss_of_value, loss_of_actor)]
    with torch.no_grad():
        iql.model.critics.flat += 1.0
    for loss_of, old in zip((loss_of_value, loss_of_actor), before, strict=True):
        assert torch.equal(loss_of(iql.model, batch, {}, iql.params)[0], old)
    with torch.no_grad():
        iql.model.target_critics.flat += 1.0
    for loss_of, old in zip((loss_of_value, loss_of_actor), before, strict=True):
        assert not torch.isclose(loss_of(iql.model, batch, {}, iql.params)[0], old).any()


def test_a_termination_stops_the_bootstrap() -> None:
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    elsewhere = batch._replace(next_obs=batch.next_obs + 3.0)
    for ended, changes in ((1.0, False), (0.0, True)):
        flags = torch.full((M, B), ended, dtype=torch.float64)
        one, _ = loss_of_critics(iql.model, batch._replace(terminations=flags), {}, iql.params)
        other, metrics = loss_of_critics(iql.model, elsewhere._replace(terminations=flags), {}, iql.params)
        assert torch.equal(one, other) is not changes
        if ended:
            np.testing.assert_allclose(metrics["critic/q_target"], batch.rewards.mean(-1), rtol=1e-12)


def test_order_is_value_then_actor_and_critics_with_the_new_value_then_targets() -> None:
    """Two updates by hand with torch's Adam, each loss taken at the parameters of its turn."""
    knobs = {"actor_lr": 2e-2, "critic_lr": 1e-2, "value_lr": 3e-2, "tau": 0.25, "lr_schedule": {}}
    iql, twin, batch = learner(**knobs), learner(**knobs), random_batch(M, B, OBS, ACT)
    rates = {"value": 3e-2, "actor": 2e-2, "critics": 1e-2}
    optimisers = {name: torch.optim.Adam([getattr(twin.model, name).flat], lr=lr) for name, lr in rates.items()}
    for _ in range(2):
        iql.update(batch)
        for name, (loss_of, _) in REFERENCES.items():
            optimisers[name].zero_grad()
            loss_of(twin.model, batch, {}, twin.params)[0].sum().backward()
            optimisers[name].step()
        with torch.no_grad():
            old = twin.model.target_critics.flat
            old.copy_(0.75 * old + 0.25 * twin.model.critics.flat)
    for name, value in iql.model.state_dict().items():
        np.testing.assert_allclose(value.numpy(), twin.model.state_dict()[name].numpy(), rtol=1e-8, atol=1e-12)


def test_every_update_moves_every_network_once() -> None:
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    for update in range(1, 4):
        before = snapshot(iql.model)
        result = iql.update(batch)
        assert moved(before, iql.model) == {"value", "actor", "critics", "target_critics"}
        assert result.gradient_steps == 1
        assert {int(optimiser.state["steps"]) for optimiser in iql.optimisers.values()} == {update}
        assert int(iql.clock) == update


def test_the_actor_stops_at_the_end_of_its_schedule() -> None:
    iql, batch = learner(), random_batch(M, B, OBS, ACT)
    iql.clock.fill_(iql.total_updates)
    before = snapshot(iql.model)
    iql.update(batch)
    assert moved(before, iql.model) == {"value", "critics", "target_critics"}


def test_deterministic_option_has_a_deterministic_actor_and_sums_over_dimensions() -> None:
    iql, batch = learner(deterministic_policy=True, beta=0.0), random_batch(M, B, OBS, ACT)
    assert isinstance(iql.model.actor, DeterministicPolicy)
    loss, _ = loss_of_actor(iql.model, batch, {}, iql.params)
    with torch.no_grad():
        errors = (iql.model.actor.mode(batch.obs) - batch.actions).numpy() ** 2
    np.testing.assert_allclose(loss.detach().numpy(), errors.mean((1, 2)) * ACT, rtol=1e-12)


def test_a_member_s_update_does_not_depend_on_the_others() -> None:
    batch = Batch(*(None if field is None else field.float() for field in random_batch(M, B, OBS, ACT)))
    together = IQL(OBS, ACT, seeds=SEEDS, **SIZES)
    for _ in range(3):
        together.update(batch)
    for m, seed in enumerate(SEEDS):
        alone = IQL(OBS, ACT, seeds=(seed,), **SIZES)
        for _ in range(3):
            alone.update(only_member(batch, m))
        for name, value in alone.state().items():
            if value.dim() == 2:
                rows = together.state()[name].unflatten(0, (M, -1))[m]
                np.testing.assert_allclose(rows.numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_defaults_are_the_authors_for_mujoco() -> None:
    p = IQLParams()
    assert (p.expectile, p.beta, p.max_weight, p.gamma, p.tau, p.batch_size) == (0.7, 3.0, 100.0, 0.99, 0.005, 256)
    assert (p.n_critics, p.actor_hidden, p.critic_hidden, p.value_hidden) == (2, *[(256, 256)] * 3)
    assert not p.deterministic_policy
    assert IQL(OBS, ACT, **SIZES).model.actor.log_std_bounds == (-5.0, 2.0)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"expectile": 1.5}, "algo_kwargs.expectile: must be above 0 and below 1, got 1.5"),
        ({"expectile": 0.0}, "algo_kwargs.expectile: must be above 0 and below 1, got 0.0"),
        ({"beta": -3.0}, "algo_kwargs.beta: must be at least 0, got -3.0"),
        ({"max_weight": 0}, "algo_kwargs.max_weight: must be above 0, got 0"),
        ({"gamma": 5}, "algo_kwargs.gamma: must be at least 0 and below 1, got 5"),
        ({"value_lr": -1e-3}, "algo_kwargs.value_lr: must be above 0 and at most 1, got -0.001"),
        ({"expectil": 0.7}, "algo_kwargs.expectil: no such option; did you mean 'expectile'?"),
        (
            {"lr_schedule": {"actor": {"kind": "cosin"}}},
            "algo_kwargs.lr_schedule.actor.kind: must be 'constant', 'linear' or 'cosine', got 'cosin'"
            "; did you mean 'cosine'?",
        ),
        (
            {"lr_schedule": {"actor": {"wramup": 3}}},
            "algo_kwargs.lr_schedule.actor.wramup: no such option; did you mean 'warmup'?",
        ),
        (
            {"lr_schedule": {"critics": {"kind": "cosine"}}},
            "algo_kwargs.lr_schedule: no network 'critics' to schedule; did you mean 'critic'?",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        IQL(OBS, ACT, **knobs)
    assert str(refusal.value) == message
