"""The stacked multilayer perceptron against a NumPy network per member and copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from numpy_reference import network
from rl_training.models import Initialiser, MLPSpec, StackedMLP, polyak
from rl_training.models.layers import LayerNormPlacement

SEEDS = (3, 11, 7)
placements = pytest.mark.parametrize("layer_norm", ["none", "pre", "post"])


def stacked(layer_norm: LayerNormPlacement = "none", seeds: tuple[int, ...] = SEEDS, copies: int = 2) -> StackedMLP:
    """A float64 network of sizes 4-8-6-3 with every parameter, scales and shifts too, different everywhere."""
    spec = MLPSpec((4, 8, 6, 3), layer_norm, constants={"extra": (0.5, 2)})
    mlp = StackedMLP(spec, seeds, "critic", copies).double()
    with torch.no_grad():
        for name, value in mlp.tensors().items():
            for row, seed in enumerate(np.repeat(seeds, copies)):
                noise = np.random.default_rng([seed, row % copies, sum(name.encode())]).normal(size=value.shape[1:])
                value[row] += 0.4 * torch.from_numpy(noise)
    return mlp


@placements
def test_forward_equals_numpy(layer_norm: LayerNormPlacement) -> None:
    mlp = stacked(layer_norm)
    reference = network(mlp)
    if layer_norm != "none":
        rows = reference.tensors["scale_0"].reshape(6, -1)
        assert len(np.unique(rows, axis=0)) == 6  # each member and each copy has its own
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 5, 4)))
    out = mlp(x).detach().numpy()
    assert out.shape == (3, 2, 5, 3)
    for m in range(3):
        for e in range(2):
            np.testing.assert_allclose(out[m, e], reference(m, x[m].numpy(), e), rtol=1e-10, atol=1e-12)


@placements
def test_an_input_per_copy_reaches_its_own_copy(layer_norm: LayerNormPlacement) -> None:
    mlp = stacked(layer_norm)
    reference = network(mlp)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 2, 5, 4)))
    out = mlp(x).detach().numpy()
    for m in range(3):
        for e in range(2):
            np.testing.assert_allclose(out[m, e], reference(m, x[m, e].numpy(), e), rtol=1e-10, atol=1e-12)


def test_layer_norm_epsilon_is_flax_s() -> None:
    """With activations of size 1e-3 an epsilon of 1e-5 (torch's default) would shrink them about threefold."""
    mlp = StackedMLP(MLPSpec((2, 2, 1), "pre"), [0], "critic").double()
    with torch.no_grad():
        p = mlp.tensors()
        p["weight_0"].copy_(1e-3 * torch.tensor([[[1.0, -1.0], [0.0, 0.0]]], dtype=torch.float64))
        p["bias_0"].zero_()
        p["weight_1"].copy_(torch.ones(1, 2, 1))
        p["bias_1"].zero_()
    out = mlp(torch.tensor([[[1.0, 0.0]]], dtype=torch.float64))
    assert float(out.detach()) == pytest.approx(1e-3 / np.sqrt(1e-6 + 1e-6), rel=1e-9)


@placements
def test_the_sum_of_losses_gives_each_member_its_own_gradient(layer_norm: LayerNormPlacement) -> None:
    together = stacked(layer_norm)
    x = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 5, 4)))
    loss = together(x).square().sum(1).mean((-1, -2))
    assert loss.shape == (3,)
    (gradient,) = torch.autograd.grad(loss.sum(), together.flat)
    assert float(gradient.abs().max()) > 0.1
    for m, seed in enumerate(SEEDS):
        alone = stacked(layer_norm, seeds=(seed,))
        assert torch.equal(alone.flat, together.flat[2 * m : 2 * m + 2])
        own = alone(x[m : m + 1]).square().sum(1).mean((-1, -2))
        (expected,) = torch.autograd.grad(own.sum(), alone.flat)
        np.testing.assert_allclose(gradient[2 * m : 2 * m + 2].numpy(), expected.numpy(), rtol=1e-12, atol=1e-13)


def test_a_member_starts_the_same_alone_and_among_others() -> None:
    spec = MLPSpec((4, 8, 3), init=Initialiser("orthogonal"))
    among = StackedMLP(spec, (1, 7, 2), "critic", copies=2)
    alone = StackedMLP(spec, (7,), "critic", copies=2)
    assert torch.equal(among.flat[2:4], alone.flat)
    assert not torch.equal(among.flat[0], among.flat[2])
    assert not torch.equal(among.flat[2], among.flat[3])


def test_networks_of_other_names_start_differently() -> None:
    one, other = (StackedMLP(MLPSpec((4, 8, 3)), [0], name) for name in ("actor", "critic"))
    assert not torch.equal(one.tensors()["weight_0"], other.tensors()["weight_0"])


def test_tensors_are_views_that_do_not_overlap() -> None:
    mlp = stacked("pre")
    views = mlp.tensors()
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "weight_0": (6, 4, 8),
        "bias_0": (6, 8),
        "scale_0": (6, 8),
        "shift_0": (6, 8),
        "weight_1": (6, 8, 6),
        "bias_1": (6, 6),
        "scale_1": (6, 6),
        "shift_1": (6, 6),
        "weight_2": (6, 6, 3),
        "bias_2": (6, 3),
        "extra": (6, 2),
    }
    with torch.no_grad():
        mlp.flat.zero_()
        for number, view in enumerate(views.values(), start=1):
            view.fill_(float(number))
    for number, view in enumerate(mlp.tensors().values(), start=1):
        assert (view == number).all()


def test_layer_norm_and_constants_start_at_their_values() -> None:
    spec = MLPSpec((4, 8, 3), "post", constants={"log_std": (-0.75, 2)})
    p = StackedMLP(spec, SEEDS, "actor", copies=2).tensors()
    assert (p["scale_0"] == 1.0).all()
    assert (p["shift_0"] == 0.0).all()
    assert (p["log_std"] == -0.75).all()
    assert "scale_1" not in p  # the output is not normalised


def test_a_target_is_an_exact_copy_without_gradient_and_without_shared_memory() -> None:
    mlp = stacked("pre")
    target = mlp.target()
    assert torch.equal(target.flat, mlp.flat)
    assert not target.flat.requires_grad
    assert mlp.flat.requires_grad
    with torch.no_grad():
        mlp.flat += 1.0
    assert not torch.equal(target.flat, mlp.flat)


@pytest.mark.parametrize("tau", [0.005, 0.3, 1.0])
def test_polyak(tau: float) -> None:
    online, target = stacked(), stacked(seeds=(5, 6, 8)).target()
    new, old = online.flat.detach().numpy().copy(), target.flat.numpy().copy()
    polyak(target, online, tau)
    np.testing.assert_allclose(target.flat.numpy(), (1 - tau) * old + tau * new, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(online.flat.detach().numpy(), new)
