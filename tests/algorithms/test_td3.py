"""TD3: both losses, value and gradient, against the equations; what moves when; exploration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

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
    numpy_critic_values,
    q_values,
    random_batch,
    scramble,
    snapshot,
    trained_parameters,
)
from rl_training.algorithms.base import Noise
from rl_training.algorithms.td3 import TD3, TD3Params, smoothed_target_action, td3_critic_loss, td3_loss
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}
EVERYTHING = {"critics", "actor", "target_critics", "target_actor"}


def learner(**knobs: Any) -> TD3:
    """A float64 learner with random, mutually different networks."""
    td3 = TD3(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(td3.model)
    td3.optimisers = td3.build_optimisers()
    return td3


def reference_target(nets: Networks, m: int, row: dict[str, Array], noise: Array, p: TD3Params) -> Array:
    """y = r + γ(1-d)·min_i Q̄_i(s', clip(π̄(s') + clip(σ·ε, ±c), ±1))."""
    smoothing = np.minimum(np.maximum(p.policy_noise * noise, -p.noise_clip), p.noise_clip)
    action = np.clip(np.tanh(nets["target_actor"](m, row["next_obs"])) + smoothing, -1, 1)
    values = q_values(nets["target_critics"], m, row["next_obs"], action)
    return row["rewards"] + p.gamma * (1 - row["terminations"]) * values.min(0)


@pytest.mark.parametrize(
    "knobs",
    [{}, {"gamma": 0.5}, {"policy_noise": 0.0}, {"policy_noise": 2.0, "noise_clip": 0.1}, {"n_critics": 3}],
    ids=str,
)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    td3, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise, model = draw(td3, B), td3.model
    loss, metrics = td3_critic_loss(model, batch, noise, td3.params)
    constants = networks(model)

    def reference(nets: Networks) -> Array:
        losses = []
        for m in range(M):
            row = member_rows(batch, m)
            y = reference_target(constants, m, row, noise["target_action"][m].numpy(), td3.params)
            q = q_values(nets["critics"], m, row["obs"], row["actions"])
            losses.append(sum(((q_i - y) ** 2).mean() for q_i in q))
        return np.array(losses)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-10)
    assert_network_gradient(loss, model, "critics", reference)
    expected = numpy_critic_values(model.critics, batch.obs, batch.actions)
    np.testing.assert_allclose(metrics["critic/q_data"].detach().numpy(), expected.mean((1, 2)), rtol=1e-9)


@pytest.mark.parametrize("knobs", [{}, {"n_critics": 3}], ids=str)
def test_actor_loss(knobs: dict[str, Any]) -> None:
    td3, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    loss, metrics = td3_loss(td3.model, batch, {}, td3.params)

    def reference(nets: Networks) -> Array:
        """-mean Q_1(s, π(s))."""
        rows = [member_rows(batch, m)["obs"] for m in range(M)]
        return np.array(
            [-q_values(nets["critics"], m, s, np.tanh(nets["actor"](m, s)))[0].mean() for m, s in enumerate(rows)]
        )

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(networks(td3.model)), rtol=1e-10)
    assert torch.equal(metrics["actor/q"], -loss)
    assert_network_gradient(loss, td3.model, "actor", reference)
    (gradient,) = torch.autograd.grad(loss.sum(), td3.model.critics.flat)
    per_critic = gradient.view(M, td3.params.n_critics, -1).abs().sum(-1)
    assert (per_critic[:, 0] > 0).all()
    assert (per_critic[:, 1:] == 0).all()


def test_what_each_loss_trains() -> None:
    td3, batch = learner(), random_batch(M, B, OBS, ACT)
    model = td3.model
    for target in (model.target_critics, model.target_actor):
        assert not target.flat.requires_grad
        target.flat.requires_grad_(True)  # nothing may reach them even then
    loss, _ = td3_critic_loss(model, batch, draw(td3, B), td3.params)
    assert trained_parameters(loss, model) == {"critics"}
    loss, _ = td3_loss(model, batch, {}, td3.params)
    # The critics are on the actor's path, but its optimiser asks for the actor's gradient alone.
    assert trained_parameters(loss, model) == {"actor", "critics"}


def test_target_action_noise_is_clipped_before_and_after() -> None:
    td3 = learner()
    with torch.no_grad():
        td3.model.target_actor.tensors()["bias_2"][:] = torch.tensor([1.0, -1.0])  # tanh is ±0.76, near the edge
    batch = random_batch(M, 3, OBS, ACT)
    batch = batch._replace(next_obs=torch.zeros_like(batch.next_obs))
    noise = torch.tensor([-1e6, 0.5, 1e6], dtype=torch.float64).view(1, 3, 1).expand(M, 3, ACT)
    centre = td3.model.target_actor.mode(batch.next_obs).numpy()
    action = smoothed_target_action(td3.model, batch, noise, td3.params).numpy()
    np.testing.assert_allclose(action[:, 0], np.clip(centre[:, 0] - 0.5, -1, 1), rtol=1e-12)
    np.testing.assert_allclose(action[:, 1], np.clip(centre[:, 1] + 0.1, -1, 1), rtol=1e-12)
    np.testing.assert_allclose(action[:, 2], np.clip(centre[:, 2] + 0.5, -1, 1), rtol=1e-12)
    assert (np.abs(action) == 1.0).any()


def test_the_target_action_is_the_target_actor_s_at_the_next_state() -> None:
    td3, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(td3, B)["target_action"]
    before = smoothed_target_action(td3.model, batch, noise, td3.params)
    with torch.no_grad():
        td3.model.actor.flat += 1.0
    elsewhere = batch._replace(obs=batch.obs + 1.0)
    assert torch.equal(smoothed_target_action(td3.model, elsewhere, noise, td3.params), before)
    with torch.no_grad():
        td3.model.target_actor.flat += 1.0
    assert not torch.equal(smoothed_target_action(td3.model, batch, noise, td3.params), before)


def test_a_termination_stops_the_bootstrap() -> None:
    td3, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, elsewhere = draw(td3, B), batch._replace(next_obs=batch.next_obs + 3.0)
    for ended, changes in ((1.0, False), (0.0, True)):
        flags = torch.full((M, B), ended, dtype=torch.float64)
        one, _ = td3_critic_loss(td3.model, batch._replace(terminations=flags), noise, td3.params)
        other, metrics = td3_critic_loss(td3.model, elsewhere._replace(terminations=flags), noise, td3.params)
        assert torch.equal(one, other) is not changes
        if ended:
            np.testing.assert_allclose(metrics["critic/q_target"], batch.rewards.mean(-1), rtol=1e-12)


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_actor_and_targets_move_only_on_every_delayed_update(delay: int) -> None:
    td3, batch = learner(policy_delay=delay), random_batch(M, B, OBS, ACT)
    for update in range(1, 7):
        before = snapshot(td3.model)
        result = td3.update(batch, draw(td3, B, update))
        on = update % delay == 0
        assert moved(before, td3.model) == (EVERYTHING if on else {"critics"}), update
        assert ("actor/loss" in result.metrics) is on
    steps = {name: int(optimiser.state["steps"]) for name, optimiser in td3.optimisers.items()}
    assert steps == {"critic": 6, "actor": 6 // delay}


def test_actor_steps_with_the_updated_critic_and_targets_with_both() -> None:
    """Four updates by hand: torch's Adam on the public losses, each at the parameters of its turn."""
    knobs = {"actor_lr": 1e-2, "critic_lr": 2e-2, "tau": 0.25}
    td3, twin, batch = learner(**knobs), learner(**knobs), random_batch(M, B, OBS, ACT)
    model = twin.model
    critic = torch.optim.Adam([model.critics.flat], lr=2e-2)
    actor = torch.optim.Adam([model.actor.flat], lr=1e-2)
    for update in range(4):
        noise = draw(td3, B, update)
        td3.update(batch, noise)
        manual_step(critic, td3_critic_loss(model, batch, noise, twin.params)[0])
        if update % 2 == 1:
            manual_step(actor, td3_loss(model, batch, noise, twin.params)[0])
            manual_polyak(model.target_critics, model.critics, 0.25)
            manual_polyak(model.target_actor, model.actor, 0.25)
        assert_same_parameters(td3.model, model)


@pytest.mark.parametrize("scale", [0.0, 0.1, 5.0])
def test_exploration_adds_noise_to_the_policy_s_action_and_clips(scale: float) -> None:
    td3, obs = learner(exploration_noise=scale), random_batch(M, B, OBS, ACT).obs
    assert td3.acting_noise(B) == {"action": Noise("normal", (B, ACT))}
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(M, B, ACT)))
    explored = td3.explore(obs, {"action": noise})
    actor = networks(td3.model)["actor"]
    policy = np.stack([np.tanh(actor(m, obs[m].numpy())) for m in range(M)])
    np.testing.assert_allclose(explored.numpy(), np.clip(policy + scale * noise.numpy(), -1, 1), rtol=1e-10)
    assert not explored.requires_grad
    if scale == 5.0:
        assert {-1.0, 1.0} <= set(explored.flatten().tolist())
    # Evaluation has none of it, sampled or not.
    for action in (td3.act(obs), td3.act(obs, {"action": noise})):
        np.testing.assert_allclose(action.numpy(), policy, rtol=1e-10)


def test_defaults_are_the_authors() -> None:
    p = TD3Params()
    assert (p.gamma, p.tau, p.policy_noise, p.noise_clip, p.policy_delay) == (0.99, 0.005, 0.2, 0.5, 2)
    assert (p.actor_lr, p.critic_lr, p.batch_size, p.n_critics) == (3e-4, 3e-4, 256, 2)
    assert (p.actor_hidden, p.critic_hidden) == ((256, 256), (256, 256))
    assert (p.exploration_noise, p.learning_starts, p.buffer_capacity) == (0.1, 25_000, 1_000_000)
    assert (p.train_frequency, p.gradient_updates_per_step) == (1, 1)
    assert TD3(OBS, ACT, **SIZES).noise(B) == {"target_action": Noise("normal", (B, ACT))}


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"policy_delay": 0}, "algo_kwargs.policy_delay: must be at least 1, got 0"),
        ({"noise_clip": -0.5}, "algo_kwargs.noise_clip: must be at least 0, got -0.5"),
        ({"policy_noise": -0.1}, "algo_kwargs.policy_noise: must be at least 0, got -0.1"),
        ({"exploration_noise": -0.1}, "algo_kwargs.exploration_noise: must be at least 0, got -0.1"),
        ({"exploration_noise": float("nan")}, "algo_kwargs.exploration_noise: must be a finite number, got nan"),
        ({"learning_starts": -1}, "algo_kwargs.learning_starts: must be at least 0, got -1"),
        ({"gamma": 1.0}, "algo_kwargs.gamma: must be at least 0 and below 1, got 1.0"),
        ({"tau": 0.0}, "algo_kwargs.tau: must be above 0 and at most 1, got 0.0"),
        ({"critic_lr": 2.0}, "algo_kwargs.critic_lr: must be above 0 and at most 1, got 2.0"),
        ({"explore_noise": 0.1}, "algo_kwargs.explore_noise: no such option; did you mean 'exploration_noise'?"),
        (
            {"lr_schedule": {"alpha": {"kind": "linear"}}},
            "algo_kwargs.lr_schedule: no network 'alpha' to schedule; choose from actor, critic",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        TD3(OBS, ACT, **knobs)
    assert str(refusal.value) == message
