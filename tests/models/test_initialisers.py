"""Initial weights: ranges, orthogonality, gains, biases, and what each algorithm's reference starts from."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from numpy_reference import network
from rl_training.algorithms.cql import CQL
from rl_training.algorithms.iql import IQL
from rl_training.algorithms.td3_bc import TD3BC
from rl_training.models import Initialiser, MLPSACModel, MLPSpec, StackedMLP

SIZES = (50, 64, 40, 3)


def start(init: Initialiser) -> dict[str, np.ndarray]:
    """`[M, copies, *shape]` parameters of a 50-64-40-3 network for two members with two copies."""
    return network(StackedMLP(MLPSpec(SIZES, init=init), (0, 1), "critic", copies=2)).tensors


def assert_fills(values: np.ndarray, bound: float) -> None:
    """Uniform on ±bound: inside it, close to its ends, with its standard deviation, in every member and copy."""
    assert np.abs(values).max() <= bound
    for member in values:
        for copy in member:
            assert np.abs(copy).max() > (1 - 20 / copy.size) * bound
            if copy.size >= 100:
                tolerance = 4 * math.sqrt(1 / copy.size)
                assert abs(copy.std() / (bound / math.sqrt(3)) - 1) < tolerance
                assert abs(copy.mean()) < tolerance * bound
    assert len(np.unique(values.reshape(4, -1), axis=0)) == 4


def test_torch_scheme_is_uniform_within_one_over_root_fan_in() -> None:
    p = start(Initialiser("torch"))
    for i, fan_in in enumerate(SIZES[:-1]):
        assert_fills(p[f"weight_{i}"], 1 / math.sqrt(fan_in))
        assert np.abs(p[f"bias_{i}"]).max() <= 1 / math.sqrt(fan_in)
        assert np.abs(p[f"bias_{i}"]).max() > 0.5 / math.sqrt(fan_in)


def test_torch_scheme_has_the_range_of_torch_s_own_linear_layer() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(400, 300)
    ours = network(StackedMLP(MLPSpec((400, 300)), [0], "actor")).tensors
    for own, theirs in ((ours["weight_0"], layer.weight), (ours["bias_0"], layer.bias)):
        assert np.abs(own).max() == pytest.approx(theirs.detach().abs().max().item(), rel=0.02)
        assert own.std() == pytest.approx(theirs.detach().std().item(), rel=0.15)


@pytest.mark.parametrize(("last", "last_gain"), [(None, math.sqrt(2)), (1e-2, 1e-2)])
def test_orthogonal_scheme(last: float | None, last_gain: float) -> None:
    p = start(Initialiser("orthogonal", last=last))
    for i in range(3):
        gain = last_gain if i == 2 else math.sqrt(2)
        for member in p[f"weight_{i}"]:
            for w in member:
                product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
                np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-5 * gain**2)
        assert len(np.unique(p[f"weight_{i}"].reshape(4, -1), axis=0)) == 4
        assert (p[f"bias_{i}"] == 0).all()


def test_orthogonal_matrices_have_no_preferred_direction() -> None:
    """QR alone would give its first column one sign; uniformly distributed matrices have mean zero everywhere."""
    mlp = StackedMLP(MLPSpec((4, 4), init=Initialiser("orthogonal")), range(2000), "critic")
    weights = mlp.tensors()["weight_0"].detach().numpy()
    # Each entry has variance gain²/n = 1/2.
    assert np.abs(weights.mean(0)).max() < 4 * math.sqrt(0.5 / 2000)
    determinants = np.linalg.det(weights.astype(np.float64) / math.sqrt(2))
    assert abs((determinants > 0).mean() - 0.5) < 4 * 0.5 / math.sqrt(2000)


def test_xavier_scheme() -> None:
    p = start(Initialiser("xavier"))
    for i, (fan_in, fan_out) in enumerate(pairwise(SIZES)):
        assert_fills(p[f"weight_{i}"], math.sqrt(6 / (fan_in + fan_out)))
        assert (p[f"bias_{i}"] == 0).all()


@pytest.mark.parametrize("last", [3e-3, 1e-3])
def test_edac_scheme(last: float) -> None:
    p = start(Initialiser("edac", last=last))
    for i in (0, 1):
        assert_fills(p[f"weight_{i}"], 1 / math.sqrt(SIZES[i]))
        np.testing.assert_array_equal(p[f"bias_{i}"], np.float32(0.1))
    assert_fills(p["weight_2"], last)
    assert np.abs(p["bias_2"]).max() <= last
    assert np.abs(p["bias_2"]).max() > 0.3 * last


def test_how_cql_starts() -> None:
    """Critics orthogonal √2 with 1e-2 on the last layer (CORL's), the actor as torch's linear layers, log σ = x - 1."""
    model = CQL(5, 2, actor_hidden=(16, 16), critic_hidden=(16, 12), seeds=(0, 1), target_gap=1.0).model
    critics = network(model.critics).tensors
    for m, e in np.ndindex(2, 2):
        np.testing.assert_allclose(critics["weight_1"][m, e].T @ critics["weight_1"][m, e], 2 * np.eye(12), atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(critics["weight_2"][m, e]), 1e-2, rtol=1e-5)
    actor = network(model.actor).tensors
    assert 0.24 < np.abs(actor["weight_1"]).max() <= 0.25
    assert 0.15 < np.abs(actor["bias_1"]).max() <= 0.25
    assert (actor["log_std_scale"] == 1.0).all()
    assert (actor["log_std_offset"] == -1.0).all()
    assert model.log_alpha.tolist() == [[0.0], [0.0]]
    assert model.log_lagrange.tolist() == [[1.0], [1.0]]  # α' starts at e, not at 1 as rlkit's


def test_iql_starts_as_the_authors() -> None:
    """Orthogonal √2 in every layer of every network, zero biases, log σ = 0."""
    model = IQL(5, 2, actor_hidden=(8,), critic_hidden=(8,), value_hidden=(8,), seeds=(0, 1)).model
    for part in (model.actor, model.critics, model.value):
        tensors = network(part).tensors
        for layer in (0, 1):
            for w in tensors[f"weight_{layer}"].reshape(-1, *tensors[f"weight_{layer}"].shape[2:]):
                product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
                np.testing.assert_allclose(product, 2 * np.eye(len(product)), atol=1e-5)
            assert (tensors[f"bias_{layer}"] == 0).all()
    assert (network(model.actor).tensors["log_std"] == 0).all()


def test_td3_bc_starts_as_torch_s_linear_layers() -> None:
    model = TD3BC(5, 2, actor_hidden=(100,), critic_hidden=(100,)).model
    for part, fan_in in ((model.actor, 5), (model.critics, 7)):
        tensors = network(part).tensors
        assert 0.99 / math.sqrt(fan_in) < np.abs(tensors["weight_0"]).max() <= 1 / math.sqrt(fan_in)
        assert 0.95 / math.sqrt(fan_in) < np.abs(tensors["bias_0"]).max() <= 1 / math.sqrt(fan_in)
        assert 0.095 < np.abs(tensors["weight_1"]).max() <= 0.1


@pytest.mark.parametrize(
    ("algorithm", "pairs"),
    [
        (CQL, [("target_critics", "critics")]),
        (TD3BC, [("target_critics", "critics"), ("target_actor", "actor")]),
        (IQL, [("target_critics", "critics")]),
    ],
)
def test_targets_start_as_exact_copies(algorithm: type, pairs: list[tuple[str, str]]) -> None:
    model = algorithm(4, 2, seeds=(3, 4)).model
    for target, online in pairs:
        assert torch.equal(getattr(model, target).flat, getattr(model, online).flat)
        assert not getattr(model, target).flat.requires_grad


def test_initial_alpha_is_kept_as_its_logarithm() -> None:
    model = MLPSACModel(3, 1, seeds=(0, 1, 2), initial_alpha=0.2)
    np.testing.assert_allclose(model.log_alpha.detach().numpy(), np.full((3, 1), math.log(0.2)), rtol=1e-6)
