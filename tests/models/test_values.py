"""Critic ensembles, state values and how several critics become one value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from numpy_reference import network, numpy_critic_values, q_values, scramble
from rl_training.models import Critics, StateValue, random_subset, reduce_critics
from rl_training.models.layers import LayerNormPlacement
from rl_training.streams import member_keys, uniform

SEEDS = (3, 11, 7)
M, E, B, OBS, ACT = 3, 2, 5, 4, 2


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("layer_norm", ["none", "pre", "post"])
def test_critic_values_equal_numpy(layer_norm: LayerNormPlacement) -> None:
    critics = Critics(OBS, ACT, (8, 6), SEEDS, n_critics=E, layer_norm=layer_norm)
    scramble(critics)
    obs, actions = random(M, B, OBS), random(M, B, ACT, seed=1)
    values = critics.values(obs, actions)
    assert values.shape == (M, E, B)
    np.testing.assert_allclose(
        values.detach().numpy(), numpy_critic_values(critics, obs, actions), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("layer_norm", ["none", "pre", "post"])
def test_several_actions_per_observation_are_each_valued_at_it(layer_norm: LayerNormPlacement) -> None:
    critics = Critics(OBS, ACT, (8, 6), SEEDS, n_critics=E, layer_norm=layer_norm)
    scramble(critics)
    obs, actions = random(M, B, OBS), random(M, 4, B, ACT, seed=1)
    values = critics.values(obs, actions)
    assert values.shape == (M, E, 4, B)
    for m, e, j, b in np.ndindex(M, E, 4, B):
        expected = q_values(network(critics), m, obs[m, b].numpy(), actions[m, j, b].numpy())[e]
        assert values[m, e, j, b].item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_state_values_equal_numpy() -> None:
    value = StateValue(OBS, (8, 6), SEEDS)
    scramble(value)
    obs = random(M, B, OBS)
    values = value.values(obs)
    assert values.shape == (M, B)
    for m in range(M):
        np.testing.assert_allclose(
            values[m].detach().numpy(), network(value)(m, obs[m].numpy())[:, 0], rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("shape", [(M, 4, B), (M, 4, 6, B)], ids=["one action", "six actions"])
def test_reduce_critics(shape: tuple[int, ...]) -> None:
    values = random(*shape)
    for reduction, expected in (
        ("first", values[:, 0]),
        ("min", values.numpy().min(1)),
        ("mean", values.numpy().mean(1)),
    ):
        result = reduce_critics(values, reduction)
        assert result.shape == (shape[0], *shape[2:])
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(M, 4, B), (M, 4, 6, B)], ids=["one action", "six actions"])
def test_reduce_critics_over_a_subset_per_member(shape: tuple[int, ...]) -> None:
    values = random(*shape)
    subset = torch.tensor([[0, 3], [2, 1], [3, 2]])
    chosen = np.stack([values.numpy()[m, subset[m].numpy()] for m in range(M)])
    for reduction, expected in (("first", chosen[:, 0]), ("min", chosen.min(1)), ("mean", chosen.mean(1))):
        np.testing.assert_allclose(reduce_critics(values, reduction, subset).numpy(), expected, rtol=1e-12)


def test_gradient_of_the_minimum_reaches_the_smaller_critic_only() -> None:
    values = torch.tensor([[[1.0, 5.0], [2.0, 4.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(reduce_critics(values, "min").sum(), values)
    assert gradient.tolist() == [[[1.0, 0.0], [0.0, 1.0]]]


def test_random_subsets_are_distinct_in_range_and_every_pair_equally_likely() -> None:
    draws = 6000
    noise = uniform(member_keys([5]), 1, 0, (draws, 4))[0]
    subsets = random_subset(noise, 2)
    assert subsets.shape == (draws, 2)
    pairs = np.sort(subsets.numpy(), axis=1)
    assert pairs.min() >= 0
    assert pairs.max() <= 3
    assert (pairs[:, 0] < pairs[:, 1]).all()
    counts = np.unique(pairs @ [10, 1], return_counts=True)[1]
    assert len(counts) == 6
    # Chi-square with five degrees of freedom: 20.5 is its 0.1% critical value.
    assert ((counts - draws / 6) ** 2 / (draws / 6)).sum() < 20.5


def test_a_subset_of_all_is_all() -> None:
    noise = uniform(member_keys([5, 6]), 1, 0, (10,))
    assert random_subset(noise, 10).sort(-1).values.tolist() == [list(range(10))] * 2


def test_subsets_stay_distinct_where_the_noise_ties() -> None:
    assert random_subset(torch.zeros(3, 5), 5).sort(-1).values.tolist() == [list(range(5))] * 3
