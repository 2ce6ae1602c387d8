"""Dropout in IQL's actor: its masks, the loss under them, and that acting and the other networks know none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from numpy_reference import (
    Array,
    Network,
    Networks,
    assert_network_gradient,
    draw,
    member_rows,
    networks,
    normal_log_density,
    q_values,
    random_batch,
    scramble,
)
from rl_training.algorithms.iql import IQL, iql_loss, learned_values, policy_loss, target_values
from rl_training.errors import ConfigError
from rl_training.models import dropout_masks
from rl_training.streams import NoiseStreams

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 6, 4, 2
SIZES = {"actor_hidden": (8, 6), "critic_hidden": (8, 6), "value_hidden": (7, 5)}


def learner(**knobs: Any) -> IQL:
    iql = IQL(OBS, ACT, seeds=SEEDS, **SIZES, **knobs)
    scramble(iql.model)
    iql.optimisers = iql.build_optimisers()
    return iql


def advantages(iql: IQL, batch: Any) -> torch.Tensor:
    return target_values(iql.model, batch) - learned_values(iql.model, batch)[0]


def dropped_out(actor: Network, member: int, x: Array, masks: list[Array]) -> Array:
    """ReLU layers, each followed by its mask `[B, width]`; the output layer has none."""
    p = {name: value[member, 0] for name, value in actor.tensors.items()}
    for i, mask in enumerate(masks):
        x = np.maximum(x @ p[f"weight_{i}"] + p[f"bias_{i}"], 0.0) * mask
    return x @ p[f"weight_{len(masks)}"] + p[f"bias_{len(masks)}"]


def test_masks_by_hand() -> None:
    noise = torch.tensor([0.0, 0.1, 0.2499, 0.25, 0.9], dtype=torch.float64)
    (mask,) = dropout_masks([noise], 0.25)
    assert mask.tolist() == pytest.approx([0.0, 0.0, 0.0, 4 / 3, 4 / 3], rel=1e-12)
    assert dropout_masks([noise], 0.0)[0].tolist() == [1.0] * 5


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_masks_of_an_update(rate: float) -> None:
    """One for each hidden layer, of 0 and 1/(1-p) only; units drop independently, at the right rate."""
    iql = IQL(OBS, ACT, seeds=SEEDS, **SIZES, actor_dropout=rate)
    specification = iql.noise(400)
    assert {name: noise.shape for name, noise in specification.items()} == {
        "dropout_00": (400, 8),
        "dropout_01": (400, 6),
    }
    drawn = NoiseStreams(specification).draw(iql.keys, 0)
    masks = dropout_masks([drawn[name] for name in sorted(drawn)], rate)
    for mask, width in zip(masks, (8, 6), strict=True):
        assert mask.shape == (M, 400, width)
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)], rel=1e-6)
        share = (mask == 0).double()
        assert float(share.mean()) == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / mask.numel()))
        assert not torch.equal(mask[0], mask[1])
    later = NoiseStreams(specification).draw(iql.keys, 1)
    assert not torch.equal(drawn["dropout_00"], later["dropout_00"])


def test_eleven_layers_keep_their_order() -> None:
    """Names are sorted as text: layer 10 must not come before layer 2, whose width is another."""
    iql = IQL(OBS, ACT, actor_hidden=tuple(range(3, 14)), actor_dropout=0.1)
    names = sorted(iql.noise(2))
    assert [iql.noise(2)[name].shape[1] for name in names] == list(range(3, 14))
    noise = draw(iql, 2)
    batch = random_batch(1, 2, OBS, ACT)
    iql.model.double()
    assert torch.isfinite(policy_loss(iql.model, batch, advantages(iql, batch), noise, iql.params)[0]).all()


@pytest.mark.parametrize("knobs", [{}, {"deterministic_policy": True}, {"beta": 10.0, "max_weight": 2.0}], ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_policy_loss_under_masks(rate: float, knobs: dict[str, Any]) -> None:
    iql, batch = learner(actor_dropout=rate, **knobs), random_batch(M, B, OBS, ACT)
    noise, p = draw(iql, B), iql.params
    loss, _ = policy_loss(iql.model, batch, advantages(iql, batch), noise, p)
    constants = networks(iql.model)
    layers = [noise[name].numpy() for name in ("dropout_00", "dropout_01")]
    masks = [np.where(uniform < rate, 0.0, 1.0 / (1.0 - rate)) for uniform in layers]
    assert all(0 < (mask == 0).sum() < mask.size for mask in masks)

    def reference(nets: Networks) -> Array:
        losses = []
        for m in range(M):
            row = member_rows(batch, m)
            q = q_values(constants["target_critics"], m, row["obs"], row["actions"]).min(0)
            weights = np.minimum(np.exp(p.beta * (q - constants["value"](m, row["obs"])[:, 0])), p.max_weight)
            mean = np.tanh(dropped_out(nets["actor"], m, row["obs"], [mask[m] for mask in masks]))
            if p.deterministic_policy:
                regression = ((mean - row["actions"]) ** 2).sum(-1)
            else:
                std = np.exp(np.clip(nets["actor"].tensors["log_std"][m, 0], -5.0, 2.0))
                regression = -normal_log_density(row["actions"], mean, std).sum(-1)
            losses.append((weights * regression).mean())
        return np.array(losses)

    np.testing.assert_allclose(loss.detach().numpy(), reference(constants), rtol=1e-9)
    assert_network_gradient(loss, iql.model, "actor", reference)
    plain, _ = policy_loss(iql.model, batch, advantages(iql, batch), {}, p)
    assert not torch.isclose(loss, plain).any()


def test_a_dropped_unit_learns_nothing() -> None:
    """All but unit 0 of the first layer dropped: only its own incoming weights get a gradient."""
    iql, batch = learner(actor_dropout=0.5), random_batch(M, B, OBS, ACT)
    noise = {name: torch.ones_like(value) for name, value in draw(iql, B).items()}
    noise["dropout_00"][..., 1:] = 0.0
    loss, _ = policy_loss(iql.model, batch, advantages(iql, batch), noise, iql.params)
    (gradient,) = torch.autograd.grad(loss.sum(), iql.model.actor.flat)
    bias = iql.model.actor.tensors(gradient)["bias_0"]
    assert (bias[:, 1:] == 0).all()
    assert (bias[:, 0] != 0).any()


def test_acting_drops_nothing() -> None:
    """The same weights act the same, whatever dropout they were trained under."""
    with_dropout, without = learner(actor_dropout=0.5), learner()
    obs = random_batch(M, B, OBS, ACT).obs
    assert torch.equal(with_dropout.act(obs), without.act(obs))
    assert with_dropout.acting_noise(B).keys() == without.acting_noise(B).keys() == {"action"}
    noise = {"action": torch.ones(M, B, ACT, dtype=torch.float64)}
    assert torch.equal(with_dropout.act(obs, noise), without.act(obs, noise))


def test_value_and_critics_know_no_dropout() -> None:
    iql, batch = learner(actor_dropout=0.5), random_batch(M, B, OBS, ACT)
    networks = (iql.model.value.flat, iql.model.critics.flat)
    dropped, kept = draw(iql, B), {name: torch.ones_like(noise) for name, noise in draw(iql, B).items()}
    with_noise, without = (
        torch.autograd.grad(iql_loss(iql.model, batch, given, iql.params)[0].sum(), networks)
        for given in (dropped, kept)
    )
    assert all(torch.equal(a, b) for a, b in zip(with_noise, without, strict=True))


def test_an_update_draws_its_own_masks() -> None:
    """Noise not given comes from the members' streams, so that a repeated update is the same and the next is not."""
    batch = random_batch(M, B, OBS, ACT)
    one, two, other = learner(actor_dropout=0.5), learner(actor_dropout=0.5), learner(actor_dropout=0.5)
    other.clock.fill_(1)
    losses = [iql.update(batch).metrics["actor/loss"] for iql in (one, two, other)]
    assert torch.equal(losses[0], losses[1])
    assert not torch.isclose(losses[0], losses[2]).any()


def test_without_dropout_no_noise_is_asked_for() -> None:
    assert learner().noise(B) == {}


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError) as refusal:
        IQL(OBS, ACT, actor_dropout=rate)
    assert str(refusal.value) == f"algo_kwargs.actor_dropout: must be at least 0 and below 1, got {rate}"
