"""AWAC: both losses, value and gradient, against the equations; weights, weight decay and the order of steps."""

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
    normal_log_density,
    q_values,
    random_batch,
    scramble,
    snapshot,
    trained_parameters,
)
from rl_training.algorithms.awac import AWAC, AWACParams, awac_critic_loss, awac_loss
from rl_training.algorithms.base import Batch, Noise
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}


def learner(**knobs: Any) -> AWAC:
    """A float64 learner with random, mutually different networks."""
    awac = AWAC(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(awac.model)
    awac.optimisers = awac.build_optimisers()
    return awac


def policy(nets: Networks, m: int, obs: Array) -> tuple[Array, Array]:
    """Mean tanh(f(s)) and a σ that does not see the state: log σ goes from -6 to 0 through a sigmoid."""
    squashed = 1 / (1 + np.exp(-nets["actor"].tensors["log_std"][m, 0]))
    return np.tanh(nets["actor"](m, obs)), np.exp(-6 + 6 * squashed)


def sampled_action(nets: Networks, m: int, obs: Array, noise: Array) -> Array:
    mean, std = policy(nets, m, obs)
    return np.clip(mean + std * noise, -1, 1)


def log_prob(nets: Networks, m: int, row: dict[str, Array]) -> Array:
    return normal_log_density(row["actions"], *policy(nets, m, row["obs"])).sum(-1)


def action_values(critics: Any, m: int, obs: Array, actions: Array, p: AWACParams) -> Array:
    """Q_i(s, a), `[E, B]`, bounded by `critic_max`."""
    return np.minimum(q_values(critics, m, obs, actions), np.inf if p.critic_max is None else p.critic_max)


def advantage(nets: Networks, m: int, row: dict[str, Array], noise: dict[str, Tensor], p: AWACParams) -> Array:
    """min_i Q_i(s, a) - min_i Q_i(s, a_π)."""
    if p.baseline == "mean":
        compared = policy(nets, m, row["obs"])[0]
    else:
        compared = sampled_action(nets, m, row["obs"], noise["baseline_action"][m].numpy())
    data, own = (
        action_values(nets["critics"], m, row["obs"], action, p).min(0) for action in (row["actions"], compared)
    )
    return data - own


def reference_critic_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: AWACParams
) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action = sampled_action(constants, m, row["next_obs"], noise["next_action"][m].numpy())
        value = action_values(constants["target_critics"], m, row["next_obs"], action, p).min(0)
        goes_on = np.ones(B) if p.bootstrap_terminations else 1 - row["terminations"]
        y = row["rewards"] + p.gamma * goes_on * value
        own = action_values(nets["critics"], m, row["obs"], row["actions"], p)
        losses.append(sum(((q - y) ** 2).mean() for q in own))
    return np.array(losses)


def reference_actor_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: AWACParams
) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        exponentials = np.exp(advantage(constants, m, row, noise, p) / p.beta)
        if p.weight_type == "softmax":  # -Σ_b softmax_b(A/λ)·log π
            losses.append(-(exponentials / exponentials.sum() * log_prob(nets, m, row)).sum())
        else:
            losses.append(-(np.minimum(exponentials, p.max_weight) * log_prob(nets, m, row)).mean())
    return np.array(losses)


CRITIC_OPTIONS: list[dict[str, Any]] = [
    {},
    {"gamma": 0.4, "n_critics": 3},
    {"critic_max": 0.0},
    {"bootstrap_terminations": True},
    {"critic_max": 0.0, "bootstrap_terminations": True},
]


@pytest.mark.parametrize("knobs", CRITIC_OPTIONS, ids=str)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    awac, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(awac, B)
    loss, _ = awac_critic_loss(awac.model, batch, noise, awac.params)
    constants = networks(awac.model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, awac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, awac.model, "critics", reference)


ACTOR_OPTIONS: list[dict[str, Any]] = [
    {},
    {"beta": 0.3},
    {"baseline": "mean", "n_critics": 3},
    {"weight_type": "exp"},
    {"weight_type": "exp", "beta": 0.3, "max_weight": 1.2},
    {"weight_type": "exp", "baseline": "mean"},
    {"critic_max": 0.0, "baseline": "mean"},
]


@pytest.mark.parametrize("knobs", ACTOR_OPTIONS, ids=str)
def test_actor_loss(knobs: dict[str, Any]) -> None:
    awac, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(awac, B)
    loss, metrics = awac_loss(awac.model, batch, noise, awac.params)
    constants = networks(awac.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, noise, awac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, awac.model, "actor", reference)
    advantages = [advantage(constants, m, member_rows(batch, m), noise, awac.params) for m in range(M)]
    np.testing.assert_allclose(metrics["actor/advantage"].numpy(), np.mean(advantages, axis=1), rtol=1e-8)


def test_the_clip_is_met_by_some_weights_and_not_by_others() -> None:
    """The clipped case above means little otherwise."""
    awac, batch = learner(), random_batch(M, B, OBS, ACT)
    nets, noise = networks(awac.model), draw(awac, B)
    advantages = np.stack([advantage(nets, m, member_rows(batch, m), noise, awac.params) for m in range(M)])
    clipped = np.exp(advantages / 0.3) > 1.2
    assert clipped.any()
    assert not clipped.all()


def weights_of(awac: AWAC, batch: Batch, noise: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> Array:
    """`[M, B]`: where log π is 1 for one transition and 0 for the others, the loss is -w/B."""
    weights = []
    for row in range(B):
        indicator = torch.zeros(M, B, dtype=torch.float64)
        indicator[:, row] = 1.0
        with monkeypatch.context() as patch:
            patch.setattr(awac.model.actor, "log_prob", lambda obs, actions, known=indicator: known)
            weights.append(-B * awac_loss(awac.model, batch, noise, awac.params)[0].numpy())
    return np.stack(weights, axis=1)


def test_softmax_weights_have_mean_one_within_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    awac, batch = learner(beta=0.5), random_batch(M, B, OBS, ACT)
    noise = draw(awac, B)
    weights = weights_of(awac, batch, noise, monkeypatch)
    np.testing.assert_allclose(weights.mean(1), np.ones(M), rtol=1e-12)
    assert (weights.max(1) > 1.2).all()
    nets = networks(awac.model)
    for m in range(M):
        a = advantage(nets, m, member_rows(batch, m), noise, awac.params)
        np.testing.assert_allclose(np.log(weights[m]) - a / 0.5, np.full(B, (np.log(weights[m]) - a / 0.5)[0]))


@pytest.mark.parametrize(("weight_type", "largest"), [("softmax", float(B)), ("exp", 100.0)])
def test_huge_advantages_do_not_overflow(monkeypatch: pytest.MonkeyPatch, weight_type: str, largest: float) -> None:
    awac, batch = learner(weight_type=weight_type), random_batch(M, B, OBS, ACT)
    with torch.no_grad():
        awac.model.critics.flat *= 1e8
    weights = weights_of(awac, batch, draw(awac, B), monkeypatch)
    assert np.isfinite(weights).all()
    assert weights.max() == pytest.approx(largest)


def test_baseline_is_the_mean_or_a_sample() -> None:
    batch, mean, sample = random_batch(M, B, OBS, ACT), learner(baseline="mean"), learner()
    normal = Noise("normal", (B, ACT))
    assert mean.noise(B) == {"next_action": normal}
    assert sample.noise(B) == {"next_action": normal, "baseline_action": normal}
    still = {"baseline_action": torch.zeros(M, B, ACT, dtype=torch.float64)}
    one, other = (awac_loss(awac.model, batch, still, awac.params)[0] for awac in (mean, sample))
    assert torch.equal(one, other)
    assert not torch.equal(awac_loss(sample.model, batch, draw(sample, B), sample.params)[0], one)


def test_what_each_loss_trains() -> None:
    """The critics weigh the actor's regression but get no gradient from it."""
    awac, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, model = draw(awac, B), awac.model
    assert not model.target_critics.flat.requires_grad
    model.target_critics.flat.requires_grad_(True)  # nothing may reach them even then
    assert trained_parameters(awac_critic_loss(model, batch, noise, awac.params)[0], model) == {"critics"}
    assert trained_parameters(awac_loss(model, batch, noise, awac.params)[0], model) == {"actor"}


def test_the_advantage_comes_from_the_online_critics() -> None:
    awac, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(awac, B)
    before = awac_loss(awac.model, batch, noise, awac.params)[0]
    with torch.no_grad():
        awac.model.target_critics.flat += 1.0
    assert torch.equal(awac_loss(awac.model, batch, noise, awac.params)[0], before)
    with torch.no_grad():
        awac.model.critics.flat += 1.0
    assert not torch.isclose(awac_loss(awac.model, batch, noise, awac.params)[0], before).any()


def test_a_termination_stops_the_bootstrap() -> None:
    awac, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, elsewhere = draw(awac, B), batch._replace(next_obs=batch.next_obs + 3.0)
    for ended, changes in ((1.0, False), (0.0, True)):
        flags = torch.full((M, B), ended, dtype=torch.float64)
        one, _ = awac_critic_loss(awac.model, batch._replace(terminations=flags), noise, awac.params)
        other, metrics = awac_critic_loss(awac.model, elsewhere._replace(terminations=flags), noise, awac.params)
        assert torch.equal(one, other) is not changes
        if ended:
            np.testing.assert_allclose(metrics["critic/q_target"], batch.rewards.mean(-1), rtol=1e-12)


def test_log_std_lies_between_minus_six_and_zero() -> None:
    actor = AWAC(OBS, ACT, seeds=SEEDS, **SIZES).model.actor
    obs = torch.zeros(M, 1, OBS)
    assert (actor.distribution(obs).log_std == -3.0).all()
    for raw, log_std in ((-1e3, -6.0), (1e3, 0.0), (1.0, -6 + 6 / (1 + np.exp(-1.0)))):
        with torch.no_grad():
            actor.tensors()["log_std"].fill_(raw)
        np.testing.assert_allclose(
            actor.distribution(obs).log_std.detach().numpy(), np.full((M, 1, ACT), log_std), 1e-6
        )


def manual_updates(twin: AWAC, batch: Batch, noises: list[dict[str, Tensor]], decay: type[torch.optim.Adam]) -> None:
    """Critics, actor with the new critics, targets, by torch's optimisers; `decay` is the actor's."""
    p, model = twin.params, twin.model
    critic = torch.optim.Adam([model.critics.flat], lr=p.critic_lr)
    actor = decay([model.actor.flat], lr=p.actor_lr, weight_decay=p.weight_decay)
    for noise in noises:
        manual_step(critic, awac_critic_loss(model, batch, noise, p)[0])
        manual_step(actor, awac_loss(model, batch, noise, p)[0])
        manual_polyak(model.target_critics, model.critics, p.tau)


@pytest.mark.parametrize("knobs", [{}, {"weight_type": "exp", "weight_decay": 0.0}, {"weight_decay": 0.3}], ids=str)
def test_order_is_critics_then_actor_with_the_new_critics_then_targets(knobs: dict[str, Any]) -> None:
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "tau": 0.25}
    awac, twin, batch = learner(**rates, **knobs), learner(**rates, **knobs), random_batch(M, B, OBS, ACT)
    noises = [draw(awac, B, seed) for seed in range(4)]
    for noise in noises:
        awac.update(batch, noise)
    manual_updates(twin, batch, noises, torch.optim.Adam)
    assert_same_parameters(awac.model, twin.model)


def test_weight_decay_is_coupled_and_the_actor_s_alone() -> None:
    """As in `torch.optim.Adam(weight_decay=…)` (above), not AdamW."""
    knobs = {"actor_lr": 1e-2, "weight_decay": 0.3}
    awac, twin, batch = learner(**knobs), learner(**knobs), random_batch(M, B, OBS, ACT)
    noises = [draw(awac, B, seed) for seed in range(4)]
    for noise in noises:
        awac.update(batch, noise)
    manual_updates(twin, batch, noises, torch.optim.AdamW)
    assert not torch.allclose(awac.model.actor.flat, twin.model.actor.flat, rtol=1e-3)
    assert {name: optimiser.weight_decay for name, optimiser in awac.optimisers.items()} == {
        "actor": 0.3,
        "critic": 0.0,
    }


def test_every_update_moves_every_network_once() -> None:
    awac, batch = learner(), random_batch(M, B, OBS, ACT)
    for update in range(1, 4):
        before = snapshot(awac.model)
        result = awac.update(batch, draw(awac, B, update))
        assert moved(before, awac.model) == {"actor", "critics", "target_critics"}
        assert result.gradient_steps == 1
        assert {int(optimiser.state["steps"]) for optimiser in awac.optimisers.values()} == {update}


def test_defaults_are_the_authors_for_mujoco() -> None:
    p = AWACParams()
    assert (p.beta, p.weight_type, p.baseline, p.weight_decay, p.batch_size) == (2.0, "softmax", "sample", 1e-4, 1024)
    assert (p.actor_hidden, p.critic_hidden, p.n_critics) == ((256,) * 4, (256, 256), 2)
    assert (p.actor_lr, p.critic_lr, p.gamma, p.tau, p.max_weight) == (3e-4, 3e-4, 0.99, 0.005, 100.0)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"beta": 0.0}, "algo_kwargs.beta: must be above 0, got 0.0"),
        ({"beta": float("inf")}, "algo_kwargs.beta: must be a finite number, got inf"),
        ({"max_weight": 0.0}, "algo_kwargs.max_weight: must be above 0, got 0.0"),
        ({"weight_type": "binary"}, "algo_kwargs.weight_type: must be 'softmax' or 'exp', got 'binary'"),
        ({"baseline": "max"}, "algo_kwargs.baseline: must be 'sample' or 'mean', got 'max'"),
        ({"weight_decay": -1e-4}, "algo_kwargs.weight_decay: must be at least 0, got -0.0001"),
        ({"gamma": 1.0}, "algo_kwargs.gamma: must be at least 0 and below 1, got 1.0"),
        ({"weight_deacy": 0.0}, "algo_kwargs.weight_deacy: no such option; did you mean 'weight_decay'?"),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        AWAC(OBS, ACT, **knobs)
    assert str(refusal.value) == message
