"""Large batches on a CPU, in blocks of rows: the values and gradients of the plain network."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.test_fused_mlp import Shape, inputs_of, network, value_and_gradients
from rl_training import algorithms
from rl_training.models import StackedMLP, blocked_mlp
from rl_training.runtime.engine import compiler_available, set_arithmetic

SHAPES = {
    "critics": Shape(23, 1, 2, 600),
    "whole blocks": Shape(23, 1, 2, 512),
    "actor": Shape(17, 6, 1, 257),
    "one layer": Shape(3, 2, 1, 300, (48,)),
    "four layers": Shape(70, 3, 2, 300, (80, 80, 80, 80)),
    "norm before": Shape(23, 1, 2, 600, (64, 64), "pre"),
    "norm after": Shape(23, 2, 2, 513, (64, 64, 64), "post"),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_mlp, "_block_rows", lambda hidden: 256)


def blocked(net: StackedMLP, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Switch blocks on; what is returned fills with the rows of every batch that goes through them."""
    rows = []
    apply = blocked_mlp.apply

    def counted(x: Tensor, *rest: object) -> Tensor:
        rows.append(x.shape[1])
        return apply(x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(blocked_mlp, "apply", counted)
    net.compute_with("fp32", blocked=True)
    return rows


@pytest.mark.parametrize("name", SHAPES)
def test_blocks_are_the_plain_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = network(SHAPES[name]).double(), inputs_of(SHAPES[name]).double()
    plain = value_and_gradients(net, x)
    rows = blocked(net, monkeypatch)
    ours = value_and_gradients(net, x)
    assert rows == [SHAPES[name].batch]
    for value, reference in zip(ours, plain, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-11, atol=1e-11)
    for value, again in zip(ours, value_and_gradients(net, x), strict=True):
        assert torch.equal(value, again)
    with torch.no_grad():
        assert torch.equal(net(x), ours[0])


def test_inputs_may_differ_by_copy_and_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(Shape(5, 1, 2, 300)).double()
    wide = torch.randn(3, 2, 300, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain = value_and_gradients(net, wide[..., 2:7])
    rows = blocked(net, monkeypatch)
    for value, reference in zip(value_and_gradients(net, wide[..., 2:7]), plain, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-11, atol=1e-11)
    assert rows == [300]


def test_only_the_gradient_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor's loss goes through the critics, whose weights want nothing of it."""
    net = network(Shape(5, 1, 2, 300))
    blocked(net, monkeypatch)
    asked: list[bool] = []
    backward = blocked_mlp._backward

    def counted(gradient: Tensor, bases: Tensor, stack: blocked_mlp._Stack, to_inputs: bool) -> Tensor:
        asked.append(to_inputs)
        return backward(gradient, bases, stack, to_inputs)

    monkeypatch.setattr(blocked_mlp, "_backward", counted)
    x = torch.zeros(3, 300, 5, requires_grad=True)
    torch.autograd.grad(net(x).sum(), x)
    torch.autograd.grad(net(x).sum(), net.flat)
    assert asked == [True, False]


def test_small_batches_masks_and_other_shapes_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(Shape(5, 1, 2, 300))
    rows = blocked(net, monkeypatch)
    net(torch.zeros(3, 255, 5))
    net(torch.zeros(3, 300, 5), masks=[torch.ones(6, 300, 64)] * 2)
    net.compute_with("bf16", blocked=True)
    net(torch.zeros(3, 300, 5))
    assert rows == []
    for sizes in ((17, 256, 128, 6), (17, 100, 100, 1), (3, 1)):
        assert not blocked_mlp.supports(sizes)
    assert blocked_mlp.supports((400, 512, 512, 100))


@pytest.mark.parametrize(("kernels", "expected"), [("auto", [300]), ("plain", [])])
def test_kernels_switch_it(kernels: str, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    learner = algorithms.load("bc")(3, 1)
    actor = next(part for part in learner.model.modules() if isinstance(part, StackedMLP))
    rows = blocked(actor, monkeypatch)
    set_arithmetic(learner, kernels=kernels)  # type: ignore[arg-type]
    actor(torch.zeros(1, 300, 3))
    assert rows == expected


@pytest.mark.skipif(not compiler_available(), reason="needs a C++ compiler")
def test_compiled_networks_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads, by which blocks go, is not to be asked for while compiling."""
    monkeypatch.undo()
    net = network(Shape(5, 1, 1, 3_000))
    net.compute_with("fp32", blocked=True)
    x = inputs_of(Shape(5, 1, 1, 3_000))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(net, fullgraph=True)(x), net(x))
