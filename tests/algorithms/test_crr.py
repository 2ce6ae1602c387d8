"""CRR: both losses and every option, value and gradient, against the equations; targets; critic-weighted actions."""

from __future__ import annotations

import copy
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
    member_rows,
    moved,
    networks,
    q_values,
    random_batch,
    scramble,
    snapshot,
    squashed_log_prob,
    squashed_sample,
    trained_parameters,
)
from rl_training.algorithms.base import Batch, Noise
from rl_training.algorithms.crr import CRR, CRRParams, crr_critic_loss, crr_loss, crr_weights
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}


def learner(**knobs: Any) -> CRR:
    """A float64 learner with random, mutually different networks."""
    crr = CRR(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(crr.model)
    crr.optimisers = crr.build_optimisers()
    return crr


def reference_critic_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: CRRParams
) -> Array:
    """Σ_i mean (Q_i - y)², y = r + γ(1-d)·min_i Q̄_i(s', a'), a' ~ π̄(s')."""
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action, _ = squashed_sample(constants["target_actor"], m, row["next_obs"], noise["next_action"][m].numpy())
        value = q_values(constants["target_critics"], m, row["next_obs"], action).min(0)
        y = row["rewards"] + p.gamma * (1 - row["terminations"]) * value
        losses.append(sum(((q - y) ** 2).mean() for q in q_values(nets["critics"], m, row["obs"], row["actions"])))
    return np.array(losses)


def advantage(nets: Networks, m: int, row: dict[str, Array], noise: dict[str, Tensor], p: CRRParams) -> Array:
    """Q(s, a) - mean_j or max_j Q(s, a_j), a_j ~ π(s), Q = min_i Q_i."""
    own = []
    for eps in noise["advantage"][m].numpy():
        action, _ = squashed_sample(nets["actor"], m, row["obs"], eps)
        own.append(q_values(nets["critics"], m, row["obs"], action).min(0))
    baseline = sum(own) / len(own) if p.advantage_type == "mean" else np.max(own, axis=0)
    return q_values(nets["critics"], m, row["obs"], row["actions"]).min(0) - baseline


def reference_actor_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: CRRParams
) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        a = advantage(constants, m, row, noise, p)
        weights = (
            np.where(a > 0, 1.0, 0.0) if p.weight_type == "binary" else np.minimum(np.exp(a / p.beta), p.max_weight)
        )
        losses.append(-(weights * squashed_log_prob(nets["actor"], m, row["obs"], row["actions"])).mean())
    return np.array(losses)


@pytest.mark.parametrize("knobs", [{}, {"n_critics": 1}, {"gamma": 0.4, "n_critics": 3}], ids=str)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    crr, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(crr, B)
    loss, _ = crr_critic_loss(crr.model, batch, noise, crr.params)
    constants = networks(crr.model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, crr.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, crr.model, "critics", reference)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"beta": 0.3, "max_weight": 1.2},
        {"weight_type": "binary"},
        {"advantage_type": "max", "beta": 2.0},
        {"advantage_type": "max", "weight_type": "binary", "n_action_samples": 2},
        {"n_action_samples": 1, "n_critics": 1},
    ],
    ids=str,
)
def test_actor_loss(knobs: dict[str, Any]) -> None:
    crr, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(crr, B)
    loss, metrics = crr_loss(crr.model, batch, noise, crr.params)
    constants = networks(crr.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, noise, crr.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-7)
    assert_network_gradient(loss, crr.model, "actor", reference)
    advantages = [advantage(constants, m, member_rows(batch, m), noise, crr.params) for m in range(M)]
    np.testing.assert_allclose(metrics["actor/advantage"].numpy(), np.mean(advantages, axis=1), rtol=1e-8)


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_both_signs_and_both_sides_of_the_clip_are_met(kind: str) -> None:
    """The cases above mean little if every advantage has one sign or no weight is clipped."""
    crr, batch = learner(advantage_type=kind), random_batch(M, B, OBS, ACT)
    advantages, weights = crr_weights(crr.model, batch, draw(crr, B), crr.params)
    assert (advantages > 0).any()
    assert (advantages < 0).any()
    np.testing.assert_allclose(weights.numpy(), np.exp(advantages.numpy()), rtol=1e-12)
    clipped = torch.exp(advantages / 0.3) > 1.2
    assert clipped.any()
    assert not clipped.all()


def test_max_is_never_kinder_than_mean() -> None:
    batch, kinds = random_batch(M, B, OBS, ACT), (learner(), learner(advantage_type="max"))
    mean, most = (crr_weights(crr.model, batch, draw(crr, B), crr.params)[0] for crr in kinds)
    assert (most < mean).all()


def test_weights_by_hand() -> None:
    """Q = bias everywhere, so A = 0: a binary weight needs A above 0; an overflowing exponent is cut at the clip."""
    batch = random_batch(M, B, OBS, ACT)
    for knobs, expected in (({"weight_type": "binary"}, 0.0), ({}, 1.0)):
        crr = learner(**knobs)
        with torch.no_grad():
            crr.model.critics.tensors()["weight_2"].zero_()
        advantages, weights = crr_weights(crr.model, batch, draw(crr, B), crr.params)
        assert (advantages == 0).all()
        assert (weights == expected).all()
    crr = learner()
    with torch.no_grad():
        crr.model.critics.flat *= 1e8
    weights = crr_weights(crr.model, batch, draw(crr, B), crr.params)[1]
    assert set(weights.flatten().tolist()) == {0.0, 20.0}


def changed(crr: CRR, network: str, batch: Batch, noise: dict[str, Tensor]) -> tuple[bool, bool]:
    """Whether moving a network changes L_Q and L_π's weights."""
    other = copy.deepcopy(crr.model)
    with torch.no_grad():
        getattr(other, network).flat.add_(0.5)
    targets = (crr_critic_loss(model, batch, noise, crr.params)[1]["critic/q_target"] for model in (crr.model, other))
    weights = (crr_weights(model, batch, noise, crr.params)[1] for model in (crr.model, other))
    return not torch.equal(*targets), not torch.equal(*weights)


def test_the_bootstrap_asks_the_target_networks_and_the_advantage_the_online_ones() -> None:
    crr, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(crr, B)
    assert changed(crr, "target_actor", batch, noise) == (True, False)
    assert changed(crr, "target_critics", batch, noise) == (True, False)
    assert changed(crr, "actor", batch, noise) == (False, True)
    assert changed(crr, "critics", batch, noise) == (False, True)


def test_what_each_loss_trains() -> None:
    crr, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, model = draw(crr, B), crr.model
    for target in (model.target_critics, model.target_actor):
        assert not target.flat.requires_grad
        target.flat.requires_grad_(True)  # nothing may reach them even then
    assert trained_parameters(crr_critic_loss(model, batch, noise, crr.params)[0], model) == {"critics"}
    assert trained_parameters(crr_loss(model, batch, noise, crr.params)[0], model) == {"actor"}


def test_a_termination_stops_the_bootstrap() -> None:
    crr, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, elsewhere = draw(crr, B), batch._replace(next_obs=batch.next_obs + 3.0)
    for ended, changes in ((1.0, False), (0.0, True)):
        flags = torch.full((M, B), ended, dtype=torch.float64)
        one, _ = crr_critic_loss(crr.model, batch._replace(terminations=flags), noise, crr.params)
        other, metrics = crr_critic_loss(crr.model, elsewhere._replace(terminations=flags), noise, crr.params)
        assert torch.equal(one, other) is not changes
        if ended:
            np.testing.assert_allclose(metrics["critic/q_target"], batch.rewards.mean(-1), rtol=1e-12)


def manual_updates(twin: CRR, batch: Batch, noises: list[dict[str, Tensor]]) -> None:
    """Both gradients at the same parameters, then torch's Adam, then the targets."""
    p, model = twin.params, twin.model
    parts = {"critics": (model.critics.flat, p.critic_lr), "actor": (model.actor.flat, p.actor_lr)}
    optimisers = {name: torch.optim.Adam([flat], lr=lr) for name, (flat, lr) in parts.items()}
    for update, noise in enumerate(noises, start=1):
        losses = {"critics": crr_critic_loss, "actor": crr_loss}
        for name, loss_of in losses.items():
            flat = parts[name][0]
            (flat.grad,) = torch.autograd.grad(loss_of(model, batch, noise, p)[0].sum(), flat)
        for optimiser in optimisers.values():
            optimiser.step()
        tau = p.tau if p.target_period is None else float(update % p.target_period == 0)
        manual_polyak(model.target_critics, model.critics, tau)
        manual_polyak(model.target_actor, model.actor, tau)


@pytest.mark.parametrize(
    "knobs", [{}, {"target_period": 2}, {"weight_type": "binary", "advantage_type": "max"}], ids=str
)
def test_both_losses_are_taken_at_the_same_parameters(knobs: dict[str, Any]) -> None:
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "tau": 0.25}
    crr, twin, batch = learner(**rates, **knobs), learner(**rates, **knobs), random_batch(M, B, OBS, ACT)
    noises = [draw(crr, B, seed) for seed in range(5)]
    for noise in noises:
        crr.update(batch, noise)
    manual_updates(twin, batch, noises)
    assert_same_parameters(crr.model, twin.model, rtol=1e-7)


@pytest.mark.parametrize("start", [0, 2])
def test_hard_targets_are_exact_copies_after_every_period_and_untouched_between(start: int) -> None:
    """The update's number decides, so a resumed run copies when an uninterrupted one would."""
    crr, batch = learner(target_period=3), random_batch(M, B, OBS, ACT)
    crr.clock.fill_(start)
    for update in range(start + 1, start + 8):
        before = snapshot(crr.model)
        crr.update(batch, draw(crr, B, update))
        copied = update % 3 == 0
        targets = {"target_actor", "target_critics"}
        assert moved(before, crr.model) == ({"actor", "critics"} | targets if copied else {"actor", "critics"}), update
        assert torch.equal(crr.model.target_actor.flat, crr.model.actor.flat) is copied
        assert torch.equal(crr.model.target_critics.flat, crr.model.critics.flat) is copied


def test_soft_targets_follow_after_every_update() -> None:
    crr, batch = learner(), random_batch(M, B, OBS, ACT)
    for update in range(1, 4):
        before = snapshot(crr.model)
        result = crr.update(batch, draw(crr, B, update))
        assert moved(before, crr.model) == {"actor", "critics", "target_actor", "target_critics"}
        assert result.gradient_steps == 1
        assert {int(optimiser.state["steps"]) for optimiser in crr.optimisers.values()} == {update}


def test_nothing_is_stored_that_nothing_uses() -> None:
    """Its networks are SAC's, its losses have no temperature."""
    networks = ("actor", "critics", "target_actor", "target_critics")
    stored = {name for name in learner().state() if name.startswith("model.")}
    assert stored == {f"model.{network}.flat" for network in networks}


def test_targets_start_as_copies() -> None:
    model = CRR(OBS, ACT, seeds=SEEDS, **SIZES).model
    assert torch.equal(model.target_actor.flat, model.actor.flat)
    assert torch.equal(model.target_critics.flat, model.critics.flat)


# Critic-weighted actions --------------------------------------------------------------------------------------------

N = 4


def candidates(crr: CRR, obs: Tensor, noise: Tensor) -> tuple[Array, Array]:
    """The actions to choose from `[M, n, B, act]` and min_i Q_i of each `[M, n, B]`."""
    nets = networks(crr.model)
    actions = np.stack([squashed_sample(nets["actor"], m, obs[m].numpy(), noise[m].numpy())[0] for m in range(M)])
    values = [q_values(nets["critics"], m, obs[m].numpy(), actions[m]).min(0) for m in range(M)]
    return actions, np.stack(values)


def test_with_huge_differences_the_best_of_the_samples_is_taken() -> None:
    crr, obs = learner(cwp_samples=N, beta=1e-9), random_batch(M, B, OBS, ACT).obs
    assert crr.acting_noise(B) == {"action": Noise("normal", (N, B, ACT)), "choice": Noise("uniform", (N, B))}
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.normal(size=(M, N, B, ACT)))
    actions, values = candidates(crr, obs, noise)
    best = np.take_along_axis(actions, values.argmax(1)[:, None, :, None], axis=1)[:, 0]
    for _ in range(5):
        choice = torch.from_numpy(rng.uniform(size=(M, N, B)))
        np.testing.assert_allclose(crr.act(obs, {"action": noise, "choice": choice}).numpy(), best, rtol=1e-10)
    assert len(set(values.argmax(1).flatten())) > 1


@pytest.mark.parametrize("beta", [0.02, 0.1])
def test_samples_are_taken_in_proportion_to_their_exponentiated_values(beta: float) -> None:
    crr, draws = learner(cwp_samples=N, beta=beta), 20_000
    rng = np.random.default_rng(0)
    obs = random_batch(M, 1, OBS, ACT).obs.expand(M, draws, OBS)
    noise = torch.from_numpy(rng.normal(size=(M, N, 1, ACT))).expand(M, N, draws, ACT)
    choice = torch.from_numpy(rng.uniform(size=(M, N, draws)))
    chosen = crr.act(obs, {"action": noise, "choice": choice}).numpy()
    actions, values = candidates(crr, obs[:, :1], noise[:, :, :1])
    probabilities = np.exp(values[..., 0] / beta)
    probabilities /= probabilities.sum(1, keepdims=True)
    taken = np.isclose(chosen[:, None], actions, rtol=1e-9).all(-1)  # [M, n, draws]
    assert (taken.sum(1) == 1).all()
    deviation = np.sqrt(probabilities * (1 - probabilities) / draws)
    assert (np.abs(taken.mean(-1) - probabilities) < 4.5 * deviation).all()
    assert probabilities.max() > 2 * probabilities.min()


def test_draws_at_the_edges_still_let_the_values_decide() -> None:
    """At 0 and 1 the Gumbel noise would be infinite and every sample as good as any other."""
    crr, obs = learner(cwp_samples=N), random_batch(M, B, OBS, ACT).obs
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(M, N, B, ACT)))
    actions, values = candidates(crr, obs, noise)
    best = np.take_along_axis(actions, values.argmax(1)[:, None, :, None], axis=1)[:, 0]
    for edge in (0.0, 1.0):
        choice = torch.full((M, N, B), edge, dtype=torch.float64)
        np.testing.assert_allclose(crr.act(obs, {"action": noise, "choice": choice}).numpy(), best, rtol=1e-10)


def test_without_them_a_sample_is_the_policy_s() -> None:
    crr, obs = learner(), random_batch(M, B, OBS, ACT).obs
    assert crr.acting_noise(B) == {"action": Noise("normal", (B, ACT))}
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(M, B, ACT)))
    with torch.no_grad():
        assert torch.equal(crr.act(obs, {"action": noise}), crr.model.actor.sample_action(obs, noise))
    for knobs in ({}, {"cwp_samples": N}):
        with torch.no_grad():
            assert torch.equal(learner(**knobs).act(obs), crr.model.actor.mode(obs))


def test_defaults() -> None:
    p = CRRParams()
    assert (p.advantage_type, p.weight_type, p.beta, p.n_action_samples, p.max_weight) == ("mean", "exp", 1.0, 4, 20.0)
    assert (p.target_period, p.cwp_samples, p.n_critics) == (None, 0, 2)
    assert (p.actor_lr, p.critic_lr, p.gamma, p.tau, p.batch_size) == (3e-4, 3e-4, 0.99, 0.005, 256)
    assert (p.actor_hidden, p.critic_hidden) == ((256, 256), (256, 256))


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        (
            {"advantage_type": "median"},
            "algo_kwargs.advantage_type: must be 'mean' or 'max', got 'median'; did you mean 'mean'?",
        ),
        ({"weight_type": "softmax"}, "algo_kwargs.weight_type: must be 'binary' or 'exp', got 'softmax'"),
        ({"beta": 0.0}, "algo_kwargs.beta: must be above 0, got 0.0"),
        ({"n_action_samples": 0}, "algo_kwargs.n_action_samples: must be at least 1, got 0"),
        ({"max_weight": -1.0}, "algo_kwargs.max_weight: must be above 0, got -1.0"),
        ({"target_period": 0}, "algo_kwargs.target_period: must be at least 1, got 0; null uses tau (paper: 100)"),
        ({"cwp_samples": -1}, "algo_kwargs.cwp_samples: must be at least 0, got -1"),
        ({"n_samples": 4}, "algo_kwargs.n_samples: no such option; did you mean 'cwp_samples'?"),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        CRR(OBS, ACT, **knobs)
    assert str(refusal.value) == message
