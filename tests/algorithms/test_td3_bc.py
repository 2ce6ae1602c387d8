"""TD3+BC: the actor's loss, value and gradient, against the equations; what moves when. The critics' is TD3's."""

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
from rl_training.algorithms.td3 import td3_critic_loss
from rl_training.algorithms.td3_bc import TD3BC, TD3BCParams, td3_bc_loss
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2


def learner(**knobs: Any) -> TD3BC:
    """A float64 learner with random, mutually different networks."""
    td3_bc = TD3BC(OBS, ACT, seeds=SEEDS, actor_hidden=(8, 6), critic_hidden=(8, 6), **knobs)
    scramble(td3_bc.model)
    td3_bc.optimisers = td3_bc.build_optimisers()
    return td3_bc


def target_noise(seed: int = 5) -> dict[str, Tensor]:
    return {"target_action": torch.from_numpy(np.random.default_rng(seed).normal(size=(M, B, ACT)))}


def reference_actor_loss(nets: Networks, constants: Networks, batch: Batch, p: TD3BCParams) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action = np.tanh(nets["actor"](m, row["obs"]))
        q1 = q_values(nets["critics"], m, row["obs"], action)[0]
        held = q_values(constants["critics"], m, row["obs"], np.tanh(constants["actor"](m, row["obs"])))[0]
        scale = p.alpha / (np.abs(held).mean() + 1e-7) if p.normalise_q else p.alpha
        cloning = ((action - row["actions"]) ** 2).sum() / (B * ACT)
        losses.append(-scale * q1.mean() + p.bc_weight * cloning)
    return np.array(losses)


@pytest.mark.parametrize("knobs", [{}, {"alpha": 0.7}, {"normalise_q": False}, {"bc_weight": 0.3}, {"alpha": 0.0}])
def test_actor_loss(knobs: dict[str, Any]) -> None:
    td3_bc, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    model = td3_bc.model
    loss, _ = td3_bc_loss(model, batch, {}, td3_bc.params)
    constants = networks(model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, td3_bc.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-10)
    assert_network_gradient(loss, model, "actor", reference)


def test_scale_is_a_constant_of_the_batch() -> None:
    """Were λ differentiated, the value term's gradient through a Q of one sign would vanish: λ·mean Q = ±α."""
    td3_bc, batch = learner(bc_weight=0.0), random_batch(M, B, OBS, ACT)
    with torch.no_grad():
        td3_bc.model.critics.tensors()["bias_2"] += 100.0
    loss, _ = td3_bc_loss(td3_bc.model, batch, {}, td3_bc.params)
    np.testing.assert_allclose(loss.detach().numpy(), -2.5, rtol=1e-8)
    (gradient,) = torch.autograd.grad(loss.sum(), td3_bc.model.actor.flat)
    assert float(gradient.abs().max()) > 1e-4


def test_what_each_loss_trains() -> None:
    td3_bc, batch, noise = learner(), random_batch(M, B, OBS, ACT), target_noise()
    model = td3_bc.model
    for target in (model.target_critics, model.target_actor):
        assert not target.flat.requires_grad
        target.flat.requires_grad_(True)  # nothing may reach them even then
    loss, _ = td3_critic_loss(model, batch, noise, td3_bc.params)
    assert trained_parameters(loss, model) == {"critics"}
    loss, _ = td3_bc_loss(model, batch, noise, td3_bc.params)
    # The critics are on the actor's path, but its optimiser asks for the actor's gradient alone.
    assert trained_parameters(loss, model) == {"actor", "critics"}


def test_actor_uses_the_first_critic_only() -> None:
    td3_bc, batch = learner(), random_batch(M, B, OBS, ACT)
    loss, _ = td3_bc_loss(td3_bc.model, batch, {}, td3_bc.params)
    (gradient,) = torch.autograd.grad(loss.sum(), td3_bc.model.critics.flat)
    assert (gradient[1::2] == 0).all()
    assert (gradient[0::2].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_actor_and_targets_move_only_on_every_delayed_update(delay: int) -> None:
    td3_bc, batch = learner(policy_delay=delay), random_batch(M, B, OBS, ACT)
    for update in range(1, 7):
        before = snapshot(td3_bc.model)
        td3_bc.update(batch, target_noise(update))
        everything = {"critics", "actor", "target_critics", "target_actor"}
        assert moved(before, td3_bc.model) == (everything if update % delay == 0 else {"critics"}), update
    steps = {name: int(optimiser.state["steps"]) for name, optimiser in td3_bc.optimisers.items()}
    assert steps == {"critic": 6, "actor": 6 // delay}
    assert int(td3_bc.clock) == 6


def test_actor_steps_with_the_updated_critic_and_targets_with_both() -> None:
    """Two updates by hand: torch's Adam on the public losses, each at the parameters of its turn."""
    knobs = {"actor_lr": 1e-2, "critic_lr": 1e-2, "tau": 0.25}
    td3_bc, twin, batch, noise = learner(**knobs), learner(**knobs), random_batch(M, B, OBS, ACT), target_noise()
    critic, actor = (torch.optim.Adam([part.flat], lr=1e-2) for part in (twin.model.critics, twin.model.actor))
    for turn in range(2):
        td3_bc.update(batch, noise)
        manual_step(critic, td3_critic_loss(twin.model, batch, noise, twin.params)[0])
        if turn == 1:
            manual_step(actor, td3_bc_loss(twin.model, batch, noise, twin.params)[0])
            manual_polyak(twin.model.target_critics, twin.model.critics, 0.25)
            manual_polyak(twin.model.target_actor, twin.model.actor, 0.25)
    assert_same_parameters(td3_bc.model, twin.model)


def test_a_member_s_update_does_not_depend_on_the_others() -> None:
    batch = random_batch(M, B, OBS, ACT)
    batch = Batch(*(None if field is None else field.float() for field in batch))
    sizes = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}
    together = TD3BC(OBS, ACT, seeds=SEEDS, **sizes)
    for _ in range(4):
        together.update(batch)
    for m, seed in enumerate(SEEDS):
        alone = TD3BC(OBS, ACT, seeds=(seed,), **sizes)
        for _ in range(4):
            alone.update(Batch(*(None if field is None else field[m : m + 1] for field in batch)))
        for name, value in alone.state().items():
            if value.dim() == 2:
                rows = together.state()[name].unflatten(0, (M, -1))[m]
                np.testing.assert_allclose(rows.numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_actions_of_another_shape_are_refused_not_broadcast() -> None:
    td3_bc, batch = learner(), random_batch(M, B, OBS, ACT)
    with pytest.raises(ValueError, match=r"actions has shape \(3, 6, 1\), expected \(3, 6, 2\)"):
        td3_bc_loss(td3_bc.model, batch._replace(actions=batch.actions[..., :1]), {}, td3_bc.params)


def test_defaults_are_the_authors() -> None:
    p = TD3BCParams()
    assert (p.alpha, p.gamma, p.tau, p.policy_noise, p.noise_clip, p.policy_delay) == (2.5, 0.99, 0.005, 0.2, 0.5, 2)
    assert (p.batch_size, p.n_critics, p.actor_hidden, p.critic_hidden) == (256, 2, (256, 256), (256, 256))
    assert (p.bc_weight, p.normalise_q) == (1.0, True)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"alpha": -1.0}, "algo_kwargs.alpha: must be at least 0, got -1.0"),
        ({"alpha": float("nan")}, "algo_kwargs.alpha: must be a finite number, got nan"),
        ({"policy_delay": 0}, "algo_kwargs.policy_delay: must be at least 1, got 0"),
        ({"noise_clip": -0.5}, "algo_kwargs.noise_clip: must be at least 0, got -0.5"),
        ({"policy_noise": -0.1}, "algo_kwargs.policy_noise: must be at least 0, got -0.1"),
        ({"bc_weight": -2}, "algo_kwargs.bc_weight: must be at least 0, got -2"),
        ({"gamma": 1.0}, "algo_kwargs.gamma: must be at least 0 and below 1, got 1.0"),
        ({"tau": 0.0}, "algo_kwargs.tau: must be above 0 and at most 1, got 0.0"),
        ({"actor_lr": 0.0}, "algo_kwargs.actor_lr: must be above 0 and at most 1, got 0.0"),
        ({"polcy_delay": 2}, "algo_kwargs.polcy_delay: no such option; did you mean 'policy_delay'?"),
        (
            {"lr_schedule": {"value": {"kind": "linear"}}},
            "algo_kwargs.lr_schedule: no network 'value' to schedule; choose from actor, critic",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        TD3BC(OBS, ACT, **knobs)
    assert str(refusal.value) == message
