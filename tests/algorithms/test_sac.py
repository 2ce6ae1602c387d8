"""SAC: its three losses, value and gradient, against the equations; the order of its steps."""

from __future__ import annotations

import math
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
    squashed_sample,
    trained_parameters,
)
from rl_training.algorithms.base import Batch, Noise
from rl_training.algorithms.base.losses import temperature_loss
from rl_training.algorithms.sac import SAC, SACParams, sac_actor_loss, sac_loss
from rl_training.errors import ConfigError

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}


def learner(**knobs: Any) -> SAC:
    """A float64 learner with random, mutually different networks and temperatures."""
    sac = SAC(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(sac.model)
    sac.optimisers = sac.build_optimisers()
    return sac


def alpha_of(nets: Networks, m: int) -> float:
    return math.exp(nets["log_alpha"].tensors["value"][m, 0, 0])


def reference_critic_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: SACParams
) -> Array:
    """Σ_i mean (Q_i - y)², y = r + γ(1-d)·[ min_{i∈Z} Q̄_i(s', a') - α·log π(a'|s') if asked for ]; mean for min."""
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action, log_prob = squashed_sample(constants["actor"], m, row["next_obs"], noise["next_action"][m].numpy())
        values = q_values(constants["target_critics"], m, row["next_obs"], action)
        if p.target_subset is not None:  # the critics with the largest draws
            values = values[np.argsort(noise["target_subset"][m].numpy())[-p.target_subset :]]
        value = values.min(0) if p.target_reduce == "min" else values.sum(0) / len(values)
        if p.backup_entropy:
            value = value - alpha_of(constants, m) * log_prob
        y = row["rewards"] + p.gamma * (1 - row["terminations"]) * value
        q = q_values(nets["critics"], m, row["obs"], row["actions"])
        losses.append(sum(((q_i - y) ** 2).mean() for q_i in q))
    return np.array(losses)


def reference_actor_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], p: SACParams
) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action, log_prob = squashed_sample(nets["actor"], m, row["obs"], noise["actor"][m].numpy())
        values = q_values(nets["critics"], m, row["obs"], action)
        value = values.min(0) if p.actor_reduce == "min" else values.sum(0) / len(values)
        losses.append((alpha_of(constants, m) * log_prob - value).mean())
    return np.array(losses)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"backup_entropy": False},
        {"gamma": 0.3, "n_critics": 1},
        {"n_critics": 5},
        {"n_critics": 5, "target_subset": 2},
        {"n_critics": 5, "target_subset": 1, "backup_entropy": False},
        {"n_critics": 5, "target_subset": 5},
        {"target_reduce": "mean"},
        {"n_critics": 5, "target_subset": 3, "target_reduce": "mean"},
        {"layer_norm": "pre"},
        {"layer_norm": "post", "n_critics": 3, "target_subset": 2},
    ],
    ids=str,
)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    sac, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(sac, B)
    loss, metrics = sac_loss(sac.model, batch, noise, sac.params)
    constants = networks(sac.model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, sac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, sac.model, "critics", reference)
    assert torch.equal(metrics["critic/loss"], loss)


@pytest.mark.parametrize(
    "knobs",
    [{}, {"actor_reduce": "mean"}, {"n_critics": 5}, {"n_critics": 5, "actor_reduce": "mean", "layer_norm": "pre"}],
    ids=str,
)
def test_actor_loss(knobs: dict[str, Any]) -> None:
    sac, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(sac, B)
    loss, log_probs, _ = sac_actor_loss(sac.model, batch, noise, sac.params)
    constants = networks(sac.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, noise, sac.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, sac.model, "actor", reference)
    for m in range(M):
        _, expected = squashed_sample(constants["actor"], m, batch.obs[m].numpy(), noise["actor"][m].numpy())
        np.testing.assert_allclose(log_probs[m].detach().numpy(), expected, rtol=1e-8)


def test_the_subset_thins_out_the_backup_but_not_the_actor_s_critics() -> None:
    batch, full, thin = random_batch(M, B, OBS, ACT), learner(n_critics=5), learner(n_critics=5, target_subset=1)
    noise = draw(thin, B)
    assert torch.equal(*(sac_actor_loss(sac.model, batch, noise, sac.params)[0] for sac in (full, thin)))
    assert not torch.isclose(*(sac_loss(sac.model, batch, noise, sac.params)[0] for sac in (full, thin))).any()


def test_what_each_loss_trains() -> None:
    sac, batch = learner(n_critics=3, target_subset=2), random_batch(M, B, OBS, ACT)
    noise, model = draw(sac, B), sac.model
    assert not model.target_critics.flat.requires_grad
    model.target_critics.flat.requires_grad_(True)  # nothing may reach them even then
    loss, _ = sac_loss(model, batch, noise, sac.params)
    assert trained_parameters(loss, model) == {"critics"}
    loss, log_probs, _ = sac_actor_loss(model, batch, noise, sac.params)
    assert trained_parameters(loss, model) == {"actor", "critics"}  # the optimiser asks for the actor's alone
    assert trained_parameters(temperature_loss(model.log_alpha, log_probs, -2.0), model) == {"log_alpha"}


def test_a_termination_stops_the_bootstrap_and_its_entropy() -> None:
    sac, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, elsewhere = draw(sac, B), batch._replace(next_obs=batch.next_obs + 3.0)
    for ended, changes in ((1.0, False), (0.0, True)):
        flags = torch.full((M, B), ended, dtype=torch.float64)
        one, _ = sac_loss(sac.model, batch._replace(terminations=flags), noise, sac.params)
        other, metrics = sac_loss(sac.model, elsewhere._replace(terminations=flags), noise, sac.params)
        assert torch.equal(one, other) is not changes
        if ended:
            np.testing.assert_allclose(metrics["critic/q_target"], batch.rewards.mean(-1), rtol=1e-12)


@pytest.mark.parametrize("entropy", [None, 0.7], ids=["minus the action's dimensions", "given"])
def test_temperature_loss(monkeypatch: pytest.MonkeyPatch, entropy: float | None) -> None:
    """-mean( log α·(log π(ã|s) + H̄) ), caught on its way to the optimiser, with the actions of the actor's loss."""
    sac, batch = learner(target_entropy=entropy), random_batch(M, B, OBS, ACT)
    noise, nets, caught = draw(sac, B), networks(sac.model), []
    monkeypatch.setattr(sac.optimisers["alpha"], "step", caught.append)
    result = sac.update(batch, noise)
    wanted, slopes = -2.0 if entropy is None else entropy, []
    for m in range(M):
        _, log_prob = squashed_sample(nets["actor"], m, batch.obs[m].numpy(), noise["actor"][m].numpy())
        slopes.append(-(log_prob + wanted).mean())
    log_alpha = nets["log_alpha"].tensors["value"][:, 0, 0]
    np.testing.assert_allclose(caught[0].detach().numpy(), log_alpha * slopes, rtol=1e-8)
    (slope,) = torch.autograd.grad(caught[0].sum(), sac.model.log_alpha, retain_graph=True)
    np.testing.assert_allclose(slope.squeeze(-1).numpy(), slopes, rtol=1e-8)
    assert trained_parameters(caught[0], sac.model) == {"log_alpha"}
    np.testing.assert_allclose(result.metrics["alpha/value"].numpy(), np.exp(log_alpha), rtol=1e-12)


def test_the_temperature_loss_on_alpha_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """-mean( α·(log π(ã|s) + H̄) ): in log α its slope is that of the other form, times α."""
    batch, caught = random_batch(M, B, OBS, ACT), []
    for form in ("log_alpha", "alpha"):
        sac = learner(alpha_loss=form)
        monkeypatch.setattr(sac.optimisers["alpha"], "step", caught.append)
        sac.update(batch, draw(sac, B))
        caught.append(*torch.autograd.grad(caught[-1].sum(), sac.model.log_alpha))
    alpha = sac.model.log_alpha.detach().exp()
    _, slope, loss, scaled_slope = caught
    np.testing.assert_allclose(loss.detach().numpy(), (alpha * slope).squeeze(-1).numpy(), rtol=1e-8)
    np.testing.assert_allclose(scaled_slope.numpy(), (alpha * slope).numpy(), rtol=1e-8)
    assert (alpha - 1.0).abs().min() > 1e-3  # where the two differ


@pytest.mark.parametrize(("entropy", "grows"), [(1e3, True), (-1e3, False)])
def test_the_temperature_grows_while_the_entropy_is_below_its_target(entropy: float, grows: bool) -> None:
    sac, batch = learner(target_entropy=entropy), random_batch(M, B, OBS, ACT)
    before = sac.model.log_alpha.detach().clone()
    sac.update(batch, draw(sac, B))
    assert ((sac.model.log_alpha > before) == grows).all()


def test_a_fixed_alpha_is_the_one_given_and_stays() -> None:
    sac = SAC(OBS, ACT, seeds=SEEDS, alpha=0.2, learn_alpha=False, **SIZES)
    assert set(sac.optimisers) == {"actor", "critic"}
    np.testing.assert_allclose(sac.model.log_alpha.detach().exp().numpy(), np.full((M, 1), 0.2), rtol=1e-6)
    fixed, batch = learner(learn_alpha=False), random_batch(M, B, OBS, ACT)
    for update in range(3):
        before = snapshot(fixed.model)
        result = fixed.update(batch, draw(fixed, B, update))
        assert moved(before, fixed.model) == {"actor", "critics", "target_critics"}
        assert "alpha/value" not in result.metrics


def manual_updates(twin: SAC, batch: Batch, noises: list[dict[str, Tensor]]) -> None:
    """Critics, actor with the new critics, temperature on that actor step's actions, targets: by torch's Adam."""
    p, model = twin.params, twin.model
    critic = torch.optim.Adam([model.critics.flat], lr=p.critic_lr)
    actor = torch.optim.Adam([model.actor.flat], lr=p.actor_lr)
    alpha = torch.optim.Adam([model.log_alpha], lr=p.alpha_lr)
    for noise in noises:
        manual_step(critic, sac_loss(model, batch, noise, p)[0])
        loss, log_probs, _ = sac_actor_loss(model, batch, noise, p)
        manual_step(actor, loss)
        if p.learn_alpha:
            entropy = -ACT if p.target_entropy is None else p.target_entropy
            manual_step(alpha, -(model.log_alpha * (log_probs.detach() + entropy)).mean(-1))
        manual_polyak(model.target_critics, model.critics, p.tau)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"learn_alpha": False},
        {"backup_entropy": False, "target_entropy": -0.5},
        {"n_critics": 5, "target_subset": 2, "actor_reduce": "mean", "layer_norm": "pre"},
    ],
    ids=str,
)
def test_order_is_critics_then_actor_with_the_new_critics_then_temperature_then_targets(knobs: dict[str, Any]) -> None:
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "alpha_lr": 3e-2, "tau": 0.25}
    sac, twin, batch = learner(**rates, **knobs), learner(**rates, **knobs), random_batch(M, B, OBS, ACT)
    noises = [draw(sac, B, seed) for seed in (1, 2, 3)]
    for noise in noises:
        sac.update(batch, noise)
    manual_updates(twin, batch, noises)
    assert_same_parameters(sac.model, twin.model)


def test_every_update_moves_every_network_once() -> None:
    """However many updates a round has: only RLPD saves the actor for a round's last."""
    sac, batch = learner(gradient_updates_per_step=4), random_batch(M, B, OBS, ACT)
    for update in range(1, 4):
        before = snapshot(sac.model)
        result = sac.update(batch, draw(sac, B, update))
        assert moved(before, sac.model) == {"actor", "critics", "target_critics", "log_alpha"}
        assert result.gradient_steps == 1
        assert {int(optimiser.state["steps"]) for optimiser in sac.optimisers.values()} == {update}


def test_noise_is_asked_for_only_where_it_is_used() -> None:
    normal = Noise("normal", (B, ACT))
    assert SAC(OBS, ACT, **SIZES).noise(B) == {"actor": normal, "next_action": normal}
    with_subset = SAC(OBS, ACT, n_critics=5, target_subset=2, **SIZES)
    assert with_subset.noise(B)["target_subset"] == Noise("uniform", (5,))


def test_layer_norm_and_start_reach_the_networks() -> None:
    """LayerNorm is the critics' alone; the start is both networks'."""
    model = SAC(OBS, ACT, layer_norm="pre", init="xavier", **SIZES).model
    assert (model.critics.spec.layer_norm, model.actor.spec.layer_norm) == ("pre", "none")
    assert model.target_critics.spec.layer_norm == "pre"
    for network in (model.actor, model.critics):
        assert network.spec.init.scheme == "xavier"
        assert all((value == 0).all() for name, value in network.tensors().items() if name.startswith("bias"))


def test_defaults_are_the_authors() -> None:
    p = SACParams()
    assert (p.gamma, p.tau, p.batch_size, p.n_critics) == (0.99, 0.005, 256, 2)
    assert (p.actor_lr, p.critic_lr, p.alpha_lr) == (3e-4, 3e-4, 3e-4)
    assert (p.actor_hidden, p.critic_hidden) == ((256, 256), (256, 256))
    assert (p.alpha, p.learn_alpha, p.target_entropy, p.backup_entropy) == (1.0, True, None, True)
    assert (p.target_subset, p.actor_reduce, p.layer_norm, p.init) == (None, "min", "none", "torch")
    assert (p.buffer_capacity, p.learning_starts, p.train_frequency, p.gradient_updates_per_step) == (10**6, 5000, 1, 1)
    assert SAC(OBS, ACT, **SIZES).model.actor.log_std_bounds == (-20.0, 2.0)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"target_subset": 3}, "algo_kwargs.target_subset (3) must be at most n_critics (2)"),
        ({"target_subset": 11, "n_critics": 10}, "algo_kwargs.target_subset (11) must be at most n_critics (10)"),
        ({"target_subset": 0}, "algo_kwargs.target_subset: must be at least 1, got 0; null takes all"),
        ({"alpha": 0.0}, "algo_kwargs.alpha: must be above 0, got 0.0"),
        ({"actor_reduce": "max"}, "algo_kwargs.actor_reduce: must be 'min' or 'mean', got 'max'"),
        ({"layer_norm": "both"}, "algo_kwargs.layer_norm: must be 'none', 'pre' or 'post', got 'both'"),
        ({"init": "edac"}, "algo_kwargs.init: must be 'torch', 'orthogonal' or 'xavier', got 'edac'"),
        ({"gamma": 1.0}, "algo_kwargs.gamma: must be at least 0 and below 1, got 1.0"),
        ({"tau": 0.0}, "algo_kwargs.tau: must be above 0 and at most 1, got 0.0"),
        ({"alpha_lr": 0.0}, "algo_kwargs.alpha_lr: must be above 0 and at most 1, got 0.0"),
        ({"n_critics": 0}, "algo_kwargs.n_critics: must be at least 1, got 0"),
        ({"learning_starts": -1}, "algo_kwargs.learning_starts: must be at least 0, got -1"),
        ({"buffer_capacity": 0}, "algo_kwargs.buffer_capacity: must be at least 1, got 0"),
        ({"learn_alhpa": False}, "algo_kwargs.learn_alhpa: no such option; did you mean 'learn_alpha'?"),
        (
            {"learn_alpha": False, "lr_schedule": {"alpha": {"kind": "linear"}}},
            "algo_kwargs.lr_schedule: no network 'alpha' to schedule; choose from actor, critic",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        SAC(OBS, ACT, **knobs)
    assert str(refusal.value) == message
