"""CQL: every loss and every option, value and gradient, against the equations; what moves when."""

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
    member_rows,
    moved,
    networks,
    only_member,
    q_values,
    random_batch,
    scramble,
    snapshot,
    squashed_log_prob,
    squashed_sample,
    trained_parameters,
)
from rl_training.algorithms.base import Batch, Noise
from rl_training.algorithms.base.losses import temperature_loss
from rl_training.algorithms.cql import CQL, CQLParams, actor_loss, bootstrap_target, cql_loss
from rl_training.errors import ConfigError
from rl_training.streams import NoiseStreams, member_keys

SEEDS = (3, 11, 7)
M, B, OBS, ACT, N = 3, 6, 4, 2, 3
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}


def learner(**knobs: Any) -> CQL:
    """A float64 learner with random, mutually different networks, temperatures and multipliers."""
    cql = CQL(OBS, ACT, seeds=SEEDS, num_cql_samples=N, **SIZES, **knobs)
    scramble(cql.model)
    cql.optimisers = cql.build_optimisers()
    return cql


def draw(cql: CQL, seed: int = 5) -> dict[str, Tensor]:
    """float64 noise of the shapes and kinds the learner asks for."""
    rng = np.random.default_rng(seed)
    kinds = {"normal": rng.normal, "uniform": rng.uniform}
    return {name: torch.from_numpy(kinds[n.kind](size=(M, *n.shape))) for name, n in cql.noise(B).items()}


def reference_target(nets: Networks, m: int, row: dict[str, Array], noise: Array, p: CQLParams) -> Array:
    """y = r + γ(1-d)·max_j [ min_i Q̄_i(s', a'_j) - α·log π(a'_j|s') if asked for ], with one j unless asked for."""
    best = np.full(B, -np.inf)
    for eps in noise:
        action, log_prob = squashed_sample(nets["actor"], m, row["next_obs"], eps)
        value = q_values(nets["target_critics"], m, row["next_obs"], action).min(0)
        if p.backup_entropy:
            value = value - np.exp(nets["log_alpha"].tensors["value"][m, 0, 0]) * log_prob
        best = np.maximum(best, value)
    return row["rewards"] + p.gamma * (1 - row["terminations"]) * best


def reference_gaps(
    nets: Networks, constants: Networks, m: int, row: dict[str, Array], noise: dict[str, Array], p: CQLParams
) -> Array:
    """g_i, `[E]`: T·log Σ_j exp(C_ij/T) - Q_i(s, a), clipped per transition, averaged over them."""
    data = q_values(nets["critics"], m, row["obs"], row["actions"])
    entries = [] if p.importance_sampling else [data]
    for j in range(N):
        uniform = 2 * noise["penalty_uniform"][j] - 1
        following, following_log_prob = squashed_sample(
            constants["actor"], m, row["next_obs"], noise["penalty_next"][j]
        )
        current, current_log_prob = squashed_sample(constants["actor"], m, row["obs"], noise["penalty_current"][j])
        for action, log_density in (
            (uniform, np.log(0.5**ACT)),
            (following, following_log_prob),
            (current, current_log_prob),
        ):
            value = q_values(nets["critics"], m, row["obs"], action)  # every action valued at s
            entries.append(value - log_density if p.importance_sampling else value)
    soft_maximum = p.temperature * np.log(np.sum([np.exp(c / p.temperature) for c in entries], axis=0))
    low = -np.inf if p.gap_min is None else p.gap_min
    high = np.inf if p.gap_max is None else p.gap_max
    return np.minimum(np.maximum(soft_maximum - data, low), high).mean(-1)


def reference_critic_loss(
    nets: Networks,
    constants: Networks,
    batch: Batch,
    noise: dict[str, Tensor],
    p: CQLParams,
    multiplier: Array | None = None,
) -> Array:
    """Σ_i [ mean (Q_i - y)² + w·g_i ], or with the multiplier Σ_i [ mean (Q_i - y)² + α'·w·(g_i - gap) ]."""
    losses = []
    for m in range(M):
        row, eps = member_rows(batch, m), {name: value[m].numpy() for name, value in noise.items()}
        y = reference_target(constants, m, row, eps["next_action"], p)
        q = q_values(nets["critics"], m, row["obs"], row["actions"])
        gaps = reference_gaps(nets, constants, m, row, eps, p)
        loss = 0.0
        for q_i, g_i in zip(q, gaps, strict=True):
            penalty = p.cql_alpha * g_i if multiplier is None else multiplier[m] * p.cql_alpha * (g_i - p.target_gap)
            loss += ((q_i - y) ** 2).mean() + penalty
        losses.append(loss)
    return np.array(losses)


def reference_actor_loss(
    nets: Networks, constants: Networks, batch: Batch, noise: dict[str, Tensor], cloning: bool = False
) -> Array:
    losses = []
    for m in range(M):
        row = member_rows(batch, m)
        action, log_prob = squashed_sample(nets["actor"], m, row["obs"], noise["actor"][m].numpy())
        if cloning:
            objective = squashed_log_prob(nets["actor"], m, row["obs"], row["actions"])
        else:
            objective = q_values(nets["critics"], m, row["obs"], action).min(0)
        alpha = math.exp(constants["log_alpha"].tensors["value"][m, 0, 0])
        losses.append((alpha * log_prob - objective).mean())
    return np.array(losses)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"cql_alpha": 0.5},
    {"temperature": 0.3},
    {"temperature": 4.0},
    {"importance_sampling": False},
    {"max_target_backup": True},
    {"backup_entropy": True},
    {"max_target_backup": True, "backup_entropy": True},
    {"gap_min": 2.8, "gap_max": 3.1},
    {"gamma": 0.3, "n_critics": 3},
]


@pytest.mark.parametrize("knobs", OPTIONS, ids=str)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    cql, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise = draw(cql)
    loss, metrics = cql_loss(cql.model, batch, noise, cql.params)
    constants = networks(cql.model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, cql.params)

    assert loss.shape == (M,)
    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, cql.model, "critics", reference)
    for m in range(M):
        eps = {name: value[m].numpy() for name, value in noise.items()}
        gaps = reference_gaps(constants, constants, m, member_rows(batch, m), eps, cql.params)
        np.testing.assert_allclose(metrics["critic/conservative_gap"][m].item(), gaps.mean(), rtol=1e-8)


@pytest.mark.parametrize("knobs", [{}, {"gap_max": 3.0, "cql_alpha": 2.0}], ids=str)
def test_critic_loss_with_a_multiplier(knobs: dict[str, Any]) -> None:
    cql, batch = learner(target_gap=0.8, **knobs), random_batch(M, B, OBS, ACT)
    noise, multiplier = draw(cql), torch.tensor([0.5, 2.0, 7.0], dtype=torch.float64)
    loss, _ = cql_loss(cql.model, batch, noise, cql.params, multiplier)
    constants = networks(cql.model)

    def reference(nets: Networks) -> Array:
        return reference_critic_loss(nets, constants, batch, noise, cql.params, multiplier.numpy())

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, cql.model, "critics", reference)


def test_the_clip_of_the_gap_is_met_on_both_sides() -> None:
    """Each transition's gap is clipped, not their mean; and a clipped one sends no gradient."""
    batch = random_batch(M, B, OBS, ACT)
    free, low, high = learner(), learner(gap_min=1e6), learner(gap_max=-1e6)
    noise = draw(free)
    for cql, gap in ((low, 1e6), (high, -1e6)):
        loss, metrics = cql_loss(cql.model, batch, noise, cql.params)
        assert metrics["critic/conservative_gap"].tolist() == [gap] * M
        gradients = [
            torch.autograd.grad(value.sum(), cql.model.critics.flat, retain_graph=True)[0]
            for value in (loss, metrics["critic/td_loss"])
        ]
        assert torch.equal(*gradients)
    both = learner(gap_min=2.8, gap_max=3.1)
    rows = []
    for row in range(B):
        one = Batch(*(None if field is None else field[:, row : row + 1].expand_as(field) for field in batch))
        noise_of_one = {name: value[..., row : row + 1, :].expand_as(value) for name, value in noise.items()}
        rows.append(cql_loss(free.model, one, noise_of_one, free.params)[1]["critic/conservative_gap"].detach())
    gaps = torch.stack(rows)
    assert (gaps < 2.8).any()
    assert (gaps > 3.1).any()
    assert ((gaps > 2.8) & (gaps < 3.1)).any()
    mean_of_clipped = cql_loss(both.model, batch, noise, both.params)[1]["critic/conservative_gap"]
    clipped_mean = cql_loss(free.model, batch, noise, free.params)[1]["critic/conservative_gap"].clamp(2.8, 3.1)
    assert not torch.isclose(mean_of_clipped, clipped_mean).any()


def test_bootstrap_takes_the_best_of_the_pessimistic_values() -> None:
    """max_j min_i, not rlkit's min_i max_j."""
    cql, batch = learner(max_target_backup=True), random_batch(M, B, OBS, ACT)
    noise = draw(cql)
    assert noise["next_action"].shape == (M, N, B, ACT)
    target = bootstrap_target(cql.model, batch, noise, cql.params)
    nets, other_order_differs = networks(cql.model), False
    for m in range(M):
        row = member_rows(batch, m)
        actions, _ = squashed_sample(nets["actor"], m, row["next_obs"], noise["next_action"][m].numpy())
        values = q_values(nets["target_critics"], m, row["next_obs"], actions)  # [E, n, B]
        alive = 0.99 * (1 - row["terminations"])
        np.testing.assert_allclose(target[m].numpy(), row["rewards"] + alive * values.min(0).max(0), rtol=1e-9)
        other_order_differs |= not np.allclose(values.min(0).max(0), values.max(1).min(0))
    assert other_order_differs


def test_one_bootstrap_action_unless_asked_for_more() -> None:
    assert CQL(OBS, ACT, **SIZES).noise(B)["next_action"] == Noise("normal", (1, B, ACT))
    assert CQL(OBS, ACT, num_cql_samples=7, **SIZES).noise(B)["penalty_uniform"] == Noise("uniform", (7, B, ACT))


def test_next_actions_are_drawn_at_the_next_state_but_valued_at_the_present_one() -> None:
    cql, batch = learner(), random_batch(M, B, OBS, ACT)
    noise, flags = draw(cql), torch.ones(M, B, dtype=torch.float64)  # no bootstrap: s' matters to the penalty alone
    one, _ = cql_loss(cql.model, batch._replace(terminations=flags), noise, cql.params)
    swapped = batch._replace(next_obs=batch.obs, terminations=flags)
    noise_swapped = {**noise, "penalty_next": noise["penalty_current"], "penalty_current": noise["penalty_next"]}
    other, _ = cql_loss(cql.model, swapped, noise, cql.params)
    assert not torch.isclose(one, other).any()
    # With s' = s the two kinds are the same kind, so their noise can be exchanged.
    exchanged, _ = cql_loss(cql.model, swapped, noise_swapped, cql.params)
    np.testing.assert_allclose(exchanged.detach().numpy(), other.detach().numpy(), rtol=1e-10)


def test_actor_loss() -> None:
    cql, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(cql)
    loss, log_probs, _ = actor_loss(cql.model, batch, noise, cql.params, cql.clock)
    constants = networks(cql.model)

    def reference(nets: Networks) -> Array:
        return reference_actor_loss(nets, constants, batch, noise)

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, cql.model, "actor", reference)
    for m in range(M):
        row = member_rows(batch, m)
        _, expected = squashed_sample(constants["actor"], m, row["obs"], noise["actor"][m].numpy())
        np.testing.assert_allclose(log_probs[m].detach().numpy(), expected, rtol=1e-8)


def test_actor_loss_during_warm_up_clones_the_data() -> None:
    cql, batch = learner(bc_warmup_updates=10), random_batch(M, B, OBS, ACT)
    noise = draw(cql)
    constants = networks(cql.model)
    for at, cloning in ((0, True), (9, True), (10, False), (1000, False)):
        loss, _, _ = actor_loss(cql.model, batch, noise, cql.params, torch.tensor(at))

        def reference(nets: Networks, cloning: bool = cloning) -> Array:
            return reference_actor_loss(nets, constants, batch, noise, cloning)

        np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
        assert_network_gradient(loss, cql.model, "actor", reference)
        assert trained_parameters(loss, cql.model) == ({"actor"} if cloning else {"actor", "critics"})


@pytest.mark.parametrize(("warmup", "at", "cloning"), [(10, 0, True), (10, 9, True), (10, 10, False), (0, 0, False)])
def test_the_data_s_actions_reach_the_actor_during_warm_up_and_only_then(warmup: int, at: int, cloning: bool) -> None:
    cql, batch = learner(bc_warmup_updates=warmup), random_batch(M, B, OBS, ACT)
    other = batch._replace(actions=batch.actions.flip(1))
    after = []
    for data in (batch, other):
        twin = learner(bc_warmup_updates=warmup)
        twin.clock.fill_(at)
        twin.update(data, draw(cql))
        after.append(twin.model.actor.flat.detach().clone())
    assert torch.equal(*after) is not cloning


def test_what_each_loss_trains() -> None:
    cql, batch = learner(backup_entropy=True), random_batch(M, B, OBS, ACT)
    noise, model = draw(cql), cql.model
    assert not model.target_critics.flat.requires_grad
    model.target_critics.flat.requires_grad_(True)  # nothing may reach them even then
    loss, _ = cql_loss(model, batch, noise, cql.params)
    assert trained_parameters(loss, model) == {"critics"}
    loss, log_probs, _ = actor_loss(model, batch, noise, cql.params, cql.clock)
    assert trained_parameters(loss, model) == {"actor", "critics"}  # the optimiser asks for the actor's alone
    assert trained_parameters(temperature_loss(model.log_alpha, log_probs, -2.0), model) == {"log_alpha"}


def test_a_termination_stops_the_bootstrap() -> None:
    cql, batch = learner(backup_entropy=True), random_batch(M, B, OBS, ACT)
    noise = draw(cql)
    flags = torch.zeros(M, B, dtype=torch.float64)
    flags[:, 2] = 1.0
    target = bootstrap_target(cql.model, batch._replace(terminations=flags), noise, cql.params)
    assert torch.equal(target[:, 2], batch.rewards[:, 2])
    assert not torch.isclose(target, batch.rewards)[:, [0, 1, 3, 4, 5]].any()


def manual_updates(twin: CQL, batch: Batch, noises: list[dict[str, Tensor]]) -> None:
    """Updates by hand: every loss at the same parameters, gradients of all of them first, then torch's Adam."""
    p, model = twin.params, twin.model
    use_multiplier = p.target_gap is not None
    rates = {"actor": p.actor_lr, "critics": p.critic_lr, "log_alpha": p.alpha_lr}
    rates |= {"log_lagrange": p.lagrange_lr} if use_multiplier else {}
    parts = {name: getattr(getattr(model, name), "flat", getattr(model, name)) for name in rates}
    optimisers = {name: torch.optim.Adam([part], lr=rates[name]) for name, part in parts.items()}
    for noise in noises:
        alpha_prime = model.log_lagrange.exp().clamp(0, 1e6).squeeze(-1) if use_multiplier else torch.ones(M)
        q_loss, metrics = cql_loss(model, batch, noise, p, alpha_prime.detach() if use_multiplier else 1.0)
        pi_loss, log_probs, _ = actor_loss(model, batch, noise, p, twin.clock)
        losses = {"actor": pi_loss, "critics": q_loss}
        if p.learn_alpha:
            h = -ACT if p.target_entropy is None else p.target_entropy
            losses["log_alpha"] = -(model.log_alpha * (log_probs.detach() + h)).mean(-1)
        if use_multiplier:
            # -½ Σ_i α'·w·(g_i - gap): the metric is the mean over critics.
            excess = metrics["critic/conservative_gap"].detach() - p.target_gap
            losses["log_lagrange"] = -0.5 * p.n_critics * alpha_prime * p.cql_alpha * excess
        gradients = {
            name: torch.autograd.grad(loss.sum(), parts[name], retain_graph=True)[0] for name, loss in losses.items()
        }
        for name, gradient in gradients.items():
            parts[name].grad = gradient
            optimisers[name].step()
        with torch.no_grad():
            old = model.target_critics.flat
            old.copy_((1 - p.tau) * old + p.tau * model.critics.flat)
        twin.clock += 1


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"target_gap": 0.8},
        {"target_gap": 100.0, "n_critics": 3},
        {"learn_alpha": False},
        {"target_entropy": -0.5, "bc_warmup_updates": 1},
    ],
    ids=str,
)
def test_all_losses_are_taken_at_the_same_parameters(knobs: dict[str, Any]) -> None:
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "alpha_lr": 3e-2, "lagrange_lr": 4e-2, "tau": 0.25}
    cql, twin, batch = learner(**rates, **knobs), learner(**rates, **knobs), random_batch(M, B, OBS, ACT)
    noises = [draw(cql, seed) for seed in (1, 2)]
    for noise in noises:
        cql.update(batch, noise)
    manual_updates(twin, batch, noises)
    for name, value in cql.model.state_dict().items():
        np.testing.assert_allclose(
            value.numpy(), twin.model.state_dict()[name].numpy(), rtol=1e-8, atol=1e-11, err_msg=name
        )


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({}, {"log_alpha"}),
        ({"target_gap": 1.0}, {"log_alpha", "log_lagrange"}),
        ({"learn_alpha": False}, set()),
        ({"learn_alpha": False, "target_gap": 0.0}, {"log_lagrange"}),
    ],
    ids=["plain", "lagrange", "fixed alpha", "fixed alpha, lagrange"],
)
def test_what_an_update_moves(knobs: dict[str, Any], expected: set[str]) -> None:
    cql, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    for update in range(1, 4):
        before = snapshot(cql.model)
        result = cql.update(batch, draw(cql, update))
        assert moved(before, cql.model) == {"actor", "critics", "target_critics"} | expected
        assert {int(optimiser.state["steps"]) for optimiser in cql.optimisers.values()} == {update}
        assert ("alpha/value" in result.metrics) is ("log_alpha" in expected)
        assert ("lagrange/value" in result.metrics) is ("log_lagrange" in expected)


@pytest.mark.parametrize("n_critics", [2, 3])
def test_loss_of_the_multiplier(monkeypatch: pytest.MonkeyPatch, n_critics: int) -> None:
    """-½ Σ_i α'·w·(g_i - gap), caught on its way to the optimiser: Adam would hide a constant factor."""
    cql, batch = learner(target_gap=0.8, n_critics=n_critics), random_batch(M, B, OBS, ACT)
    noise, nets, caught = draw(cql), networks(cql.model), []
    monkeypatch.setattr(cql.optimisers["lagrange"], "step", caught.append)
    cql.update(batch, noise)
    expected = []
    for m in range(M):
        eps = {name: value[m].numpy() for name, value in noise.items()}
        gaps = reference_gaps(nets, nets, m, member_rows(batch, m), eps, cql.params)
        alpha_prime = math.exp(nets["log_lagrange"].tensors["value"][m, 0, 0])
        expected.append(-0.5 * sum(alpha_prime * 5.0 * (g_i - 0.8) for g_i in gaps))
    np.testing.assert_allclose(caught[0].detach().numpy(), expected, rtol=1e-8)
    assert trained_parameters(caught[0], cql.model) == {"log_lagrange"}
    (slope,) = torch.autograd.grad(caught[0].sum(), cql.model.log_lagrange)
    np.testing.assert_allclose(slope.squeeze(-1).numpy(), expected, rtol=1e-8)  # dα'/d log α' = α'


@pytest.mark.parametrize(("gap", "expected"), [(None, False), (0.0, True), (2.0, True)])
def test_no_multiplier_without_a_threshold(gap: float | None, expected: bool) -> None:
    """Nothing that is not learned is made, stored or counted."""
    cql = learner(target_gap=gap)
    names = {name for name in cql.state() if "lagrange" in name}
    assert ("model.log_lagrange" in names, hasattr(cql.model, "log_lagrange")) == (expected, expected)
    assert bool(names) is expected


@pytest.mark.parametrize(("gap", "grows"), [(0.0, True), (1e3, False)])
def test_the_multiplier_grows_while_the_gap_is_above_the_threshold(gap: float, grows: bool) -> None:
    cql, batch = learner(target_gap=gap), random_batch(M, B, OBS, ACT)
    before = cql.model.log_lagrange.detach().clone()
    cql.update(batch, draw(cql))
    assert ((cql.model.log_lagrange > before) == grows).all()


@pytest.mark.parametrize(("entropy", "grows"), [(1e3, True), (-1e3, False)])
def test_the_temperature_grows_while_the_entropy_is_below_its_target(entropy: float, grows: bool) -> None:
    cql, batch = learner(target_entropy=entropy), random_batch(M, B, OBS, ACT)
    before = cql.model.log_alpha.detach().clone()
    cql.update(batch, draw(cql))
    assert ((cql.model.log_alpha > before) == grows).all()


def test_the_multiplier_is_capped_at_a_million() -> None:
    cql, batch = learner(target_gap=1.0), random_batch(M, B, OBS, ACT)
    with torch.no_grad():
        cql.model.log_lagrange.fill_(50.0)
    assert cql.update(batch, draw(cql)).metrics["lagrange/value"].tolist() == [1e6] * M


def test_a_fixed_alpha_is_the_one_given() -> None:
    cql = CQL(OBS, ACT, seeds=SEEDS, alpha=0.2, learn_alpha=False, **SIZES)
    assert set(cql.optimisers) == {"actor", "critic"}
    np.testing.assert_allclose(cql.model.log_alpha.detach().exp().numpy(), np.full((M, 1), 0.2), rtol=1e-6)


def test_a_member_s_update_does_not_depend_on_the_others() -> None:
    batch = Batch(*(None if field is None else field.float() for field in random_batch(M, B, OBS, ACT)))
    knobs = {**SIZES, "num_cql_samples": N, "target_gap": 1.0}
    together = CQL(OBS, ACT, seeds=SEEDS, **knobs)
    for _ in range(3):
        together.update(batch)
    for m, seed in enumerate(SEEDS):
        alone = CQL(OBS, ACT, seeds=(seed,), **knobs)
        for _ in range(3):
            alone.update(only_member(batch, m))
        for name, value in alone.state().items():
            if value.dim() == 2:
                rows = together.state()[name].unflatten(0, (M, -1))[m]
                np.testing.assert_allclose(rows.numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_update_draws_the_noise_of_its_own_number() -> None:
    """Without noise given, update k uses the streams at k: a learner put at k continues as one that came there."""
    batch = Batch(*(None if field is None else field.float() for field in random_batch(M, B, OBS, ACT)))
    straight, resumed, given = (CQL(OBS, ACT, seeds=SEEDS, num_cql_samples=N, **SIZES) for _ in range(3))
    for _ in range(3):
        straight.update(batch)
    saved = {name: value.clone() for name, value in straight.state().items()}
    straight.update(batch)
    for other, noise in ((resumed, None), (given, NoiseStreams(given.noise(B)).draw(member_keys(SEEDS), 3))):
        with torch.no_grad():
            for name, value in other.state().items():
                value.copy_(saved[name])
        other.update(batch, noise)
        for name, value in straight.state().items():
            assert torch.equal(value, other.state()[name]), name


def test_defaults_are_the_authors_for_mujoco() -> None:
    p = CQLParams()
    assert (p.cql_alpha, p.num_cql_samples, p.temperature, p.gamma, p.tau) == (5.0, 10, 1.0, 0.99, 0.005)
    assert (p.actor_lr, p.critic_lr, p.batch_size, p.n_critics) == (1e-4, 3e-4, 256, 2)
    assert (p.actor_hidden, p.critic_hidden) == ((256,) * 3, (256,) * 3)
    assert (p.target_gap, p.gap_min, p.gap_max, p.target_entropy) == (None, None, None, None)
    assert (p.importance_sampling, p.backup_entropy, p.max_target_backup, p.learn_alpha) == (True, False, False, True)
    assert CQL(OBS, ACT, **SIZES).model.actor.log_std_bounds == (-20.0, 2.0)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"cql_alpha": -5}, "algo_kwargs.cql_alpha: must be at least 0, got -5"),
        ({"num_cql_samples": 0}, "algo_kwargs.num_cql_samples: must be at least 1, got 0"),
        (
            {"num_cql_samples": 2.5},
            "algo_kwargs.num_cql_samples: must be a whole number, got 2.5",
        ),
        ({"temperature": 0}, "algo_kwargs.temperature: must be above 0, got 0"),
        ({"gamma": 5}, "algo_kwargs.gamma: must be at least 0 and below 1, got 5"),
        ({"gamma": -0.1}, "algo_kwargs.gamma: must be at least 0 and below 1, got -0.1"),
        ({"tau": 1.5}, "algo_kwargs.tau: must be above 0 and at most 1, got 1.5"),
        ({"alpha": 0.0}, "algo_kwargs.alpha: must be above 0, got 0.0"),
        ({"bc_warmup_updates": -1}, "algo_kwargs.bc_warmup_updates: must be at least 0, got -1"),
        ({"n_critics": 0}, "algo_kwargs.n_critics: must be at least 1, got 0"),
        ({"batch_size": 0}, "algo_kwargs.batch_size: must be at least 1, got 0"),
        ({"critic_lr": 0.0}, "algo_kwargs.critic_lr: must be above 0 and at most 1, got 0.0"),
        ({"cql_alpha": float("inf")}, "algo_kwargs.cql_alpha: must be a finite number, got inf"),
        (
            {"cql_alpha": "lots"},
            "algo_kwargs.cql_alpha: must be a number, got 'lots'",
        ),
        ({"cql_alpha": True}, "algo_kwargs.cql_alpha: must not be true"),
        ({"actor_hidden": []}, "algo_kwargs.actor_hidden: must have at least 1 value(s), got []"),
        ({"actor_hidden": [8, 0]}, "algo_kwargs.actor_hidden.1: must be at least 1, got 0"),
        ({"target_gap": -1.0}, "algo_kwargs.target_gap: must be at least 0, got -1.0"),
        ({"gap_min": 2.0, "gap_max": 1.0}, "algo_kwargs.gap_min (2) must be below gap_max (1)"),
        (
            {"cql_alpha": -5, "cql_aplha": 5.0},
            "algo_kwargs.cql_aplha: no such option; did you mean 'cql_alpha'?; and algo_kwargs.cql_alpha: must be"
            " at least 0, got -5",
        ),
        ({"cql_aplha": 5.0}, "algo_kwargs.cql_aplha: no such option; did you mean 'cql_alpha'?"),
        ({"num_samples": 5}, "algo_kwargs.num_samples: no such option; did you mean 'num_cql_samples'?"),
        (
            {"lr_schedule": {"lagrange": {"kind": "linear"}}},
            "algo_kwargs.lr_schedule: no network 'lagrange' to schedule; choose from actor, alpha, critic",
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        CQL(OBS, ACT, **knobs)
    assert str(refusal.value) == message
