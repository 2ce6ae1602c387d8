"""RLPD: SAC's losses in the paper's configuration, and what moves in which update of a round."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
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
    q_values,
    random_batch,
    scramble,
    snapshot,
    squashed_sample,
)
from rl_training.algorithms.rlpd import RLPD, RLPDParams, rlpd_loss
from rl_training.algorithms.sac import sac_actor_loss
from rl_training.errors import ConfigError
from rl_training.models import random_subset
from rl_training.streams import NoiseStreams

SEEDS = (3, 11, 7)
M, B, OBS, ACT, E, ROUND = 3, 6, 4, 2, 10, 4
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}
PAPER = {"n_critics": E, "target_subset": 2, "actor_reduce": "mean", "layer_norm": "pre", "target_entropy": -ACT / 2}


def learner(**knobs: Any) -> RLPD:
    """A float64 learner in the paper's configuration with random, mutually different networks and temperatures."""
    rlpd = RLPD(OBS, ACT, seeds=SEEDS, **{**SIZES, **PAPER, "gradient_updates_per_step": ROUND, **knobs})
    scramble(rlpd.model)
    rlpd.optimisers = rlpd.build_optimisers()
    return rlpd


def alpha_of(nets: Networks, m: int) -> float:
    return math.exp(nets["log_alpha"].tensors["value"][m, 0, 0])


@pytest.mark.parametrize(
    "knobs", [{}, {"backup_entropy": False}, {"target_subset": 1, "backup_entropy": False}], ids=str
)
def test_critic_loss(knobs: dict[str, Any]) -> None:
    """Σ_i mean (Q_i - y)² over all ten, y from the least of the subset."""
    rlpd, batch = learner(**knobs), random_batch(M, B, OBS, ACT)
    noise, p = draw(rlpd, B), rlpd.params
    loss, _ = rlpd_loss(rlpd.model, batch, noise, p)
    constants = networks(rlpd.model)

    def reference(nets: Networks) -> Array:
        losses = []
        for m in range(M):
            row = member_rows(batch, m)
            action, log_prob = squashed_sample(constants["actor"], m, row["next_obs"], noise["next_action"][m].numpy())
            values = q_values(constants["target_critics"], m, row["next_obs"], action)
            chosen = sorted(range(E), key=lambda i: -noise["target_subset"][m, i].item())[: p.target_subset]
            value = np.min([values[i] for i in chosen], axis=0)
            if p.backup_entropy:
                value = value - alpha_of(constants, m) * log_prob
            y = row["rewards"] + 0.99 * (1 - row["terminations"]) * value
            losses.append(sum(((q - y) ** 2).mean() for q in q_values(nets["critics"], m, row["obs"], row["actions"])))
        return np.array(losses)

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, rlpd.model, "critics", reference)


def test_the_actor_follows_the_mean_of_all_critics() -> None:
    rlpd, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(rlpd, B)
    loss, _, _ = sac_actor_loss(rlpd.model, batch, noise, rlpd.params)
    constants = networks(rlpd.model)

    def reference(nets: Networks) -> Array:
        losses = []
        for m in range(M):
            row = member_rows(batch, m)
            action, log_prob = squashed_sample(nets["actor"], m, row["obs"], noise["actor"][m].numpy())
            values = q_values(nets["critics"], m, row["obs"], action)
            losses.append((alpha_of(constants, m) * log_prob - sum(values) / E).mean())
        return np.array(losses)

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-8)
    assert_network_gradient(loss, rlpd.model, "actor", reference)
    # Each critic has the same say: a critic's last bias enters with weight -1/E.
    (gradient,) = torch.autograd.grad(loss.sum(), rlpd.model.critics.flat)
    np.testing.assert_allclose(rlpd.model.critics.tensors(gradient)["bias_2"].numpy(), -1 / E, rtol=1e-10)


def test_critics_and_targets_move_in_every_update_actor_and_temperature_in_a_round_s_last() -> None:
    rlpd, batch = learner(), random_batch(M, B, OBS, ACT)
    assert rlpd.period == ROUND
    for update in range(1, 2 * ROUND + 1):
        before = snapshot(rlpd.model)
        result = rlpd.update(batch, draw(rlpd, B, update))
        last = update % ROUND == 0
        always = {"critics", "target_critics"}
        assert moved(before, rlpd.model) == (always | {"actor", "log_alpha"} if last else always), update
        assert ("actor/loss" in result.metrics) is last
        assert result.gradient_steps == 1
    steps = {name: int(optimiser.state["steps"]) for name, optimiser in rlpd.optimisers.items()}
    assert steps == {"critic": 2 * ROUND, "actor": 2, "alpha": 2}


def test_two_rounds_by_hand() -> None:
    """torch's Adam on each loss at the parameters of its turn, Polyak averages after every step of the critics."""
    knobs = {"actor_lr": 1e-2, "critic_lr": 2e-2, "alpha_lr": 3e-2, "tau": 0.25}
    rlpd, twin, batch = learner(**knobs), learner(**knobs), random_batch(M, B, OBS, ACT)
    p, model = twin.params, twin.model
    critic = torch.optim.Adam([model.critics.flat], lr=2e-2)
    actor = torch.optim.Adam([model.actor.flat], lr=1e-2)
    alpha = torch.optim.Adam([model.log_alpha], lr=3e-2)
    for update in range(1, 2 * ROUND + 1):
        noise = draw(rlpd, B, update)
        rlpd.update(batch, noise)
        manual_step(critic, rlpd_loss(model, batch, noise, p)[0])
        if update % ROUND == 0:
            loss, log_probs, _ = sac_actor_loss(model, batch, noise, p)
            manual_step(actor, loss)
            manual_step(alpha, -(model.log_alpha * (log_probs.detach() - ACT / 2)).mean(-1))
        manual_polyak(model.target_critics, model.critics, 0.25)
        assert_same_parameters(rlpd.model, model)


def test_the_subset_is_redrawn_for_every_update_and_member() -> None:
    """Each of the 45 pairs of ten critics comes up equally often, whatever the update before drew."""
    rlpd = RLPD(OBS, ACT, seeds=SEEDS, **SIZES, **PAPER)
    streams = NoiseStreams(rlpd.noise(1))
    updates = 1_500
    draws = [random_subset(streams.draw(rlpd.keys, update)["target_subset"], 2) for update in range(updates)]
    pairs = [[frozenset(subset) for subset in member] for member in torch.stack(draws, dim=1).tolist()]
    assert all(len(pair) == 2 for member in pairs for pair in member)
    counts = Counter(pair for member in pairs for pair in member)
    expected = M * updates / 45
    assert len(counts) == 45
    assert max(abs(count - expected) for count in counts.values()) < 4.5 * math.sqrt(expected)
    for member in pairs:
        repeated = sum(one == other for one, other in pairwise(member))
        assert repeated == pytest.approx(updates / 45, abs=4.5 * math.sqrt(updates / 45))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        shared = sum(a == b for a, b in zip(pairs[one], pairs[other], strict=True))
        assert shared == pytest.approx(updates / 45, abs=4.5 * math.sqrt(updates / 45))


def test_an_update_bootstraps_from_the_subset_it_drew() -> None:
    """Critics outside Z may say what they like; those inside it may not."""
    rlpd, batch = learner(), random_batch(M, B, OBS, ACT)
    noise = draw(rlpd, B)
    before = rlpd_loss(rlpd.model, batch, noise, rlpd.params)[0].detach()
    chosen = random_subset(noise["target_subset"], 2)
    for inside in (False, True):
        with torch.no_grad():
            bias = rlpd.model.target_critics.tensors()["bias_2"].view(M, E)
            mask = torch.zeros(M, E, dtype=torch.bool).scatter(1, chosen, True)
            bias[mask if inside else ~mask] -= 100.0
        after = rlpd_loss(rlpd.model, batch, noise, rlpd.params)[0].detach()
        assert torch.equal(before, after) is not inside


def test_every_critic_has_its_own_layer_norm() -> None:
    critics = RLPD(OBS, ACT, seeds=SEEDS, **SIZES, **PAPER).model.critics
    assert critics.tensors()["scale_0"].shape == critics.tensors()["shift_0"].shape == (M * E, 8)
    assert critics.spec.layer_norm == "pre"


def test_defaults_are_sac_s() -> None:
    p = RLPDParams()
    assert (p.offline_batch_ratio, p.offline_pretrain_updates) == (0.5, 0)
    assert (p.n_critics, p.target_subset, p.actor_reduce, p.layer_norm) == (2, None, "min", "none")
    assert (p.gradient_updates_per_step, p.train_frequency, p.batch_size) == (1, 1, 256)
    assert RLPD(OBS, ACT, **SIZES).period == 1


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"offline_batch_ratio": 1.5}, "algo_kwargs.offline_batch_ratio: must be at least 0 and at most 1, got 1.5"),
        ({"offline_batch_ratio": -0.1}, "algo_kwargs.offline_batch_ratio: must be at least 0 and at most 1, got -0.1"),
        ({"offline_pretrain_updates": -1}, "algo_kwargs.offline_pretrain_updates: must be at least 0, got -1"),
        ({"gradient_updates_per_step": 0}, "algo_kwargs.gradient_updates_per_step: must be at least 1, got 0"),
        ({"train_frequency": 0}, "algo_kwargs.train_frequency: must be at least 1, got 0"),
        ({"target_subset": 4, "n_critics": 3}, "algo_kwargs.target_subset (4) must be at most n_critics (3)"),
        ({"offline_ratio": 0.5}, "algo_kwargs.offline_ratio: no such option; did you mean 'offline_batch_ratio'?"),
    ],
)
def test_wrong_values_are_refused_in_one_line(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        RLPD(OBS, ACT, **knobs)
    assert str(refusal.value) == message
