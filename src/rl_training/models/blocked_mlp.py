"""Stacked perceptrons on a CPU, computed in blocks of rows that stay in its cache.

As plain torch, each step of a layer goes through the whole batch; with thousands of rows that is through memory, forth
and back. Here a block of rows goes through all layers of one network, and on the way back gives its share of every
gradient, before the next is begun: only what the way back needs is written, once, and products run at the machine's
rate. Blocks follow one another in a fixed order, so that a run gives the same every time.

`StackedMLP` uses it where `supports` and `pays` say so; it computes the same as plain torch to rounding. With
z_l = h_l W_l + b_l and h_0 = x, it keeps one matrix for each hidden layer, the `base` from which its output is made:

    norm        base        h_{l+1}
    none        relu(z_l)   base
    pre         z_l         relu(LN(base)·s + t)
    post        relu(z_l)   LN(base)·s + t
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rl_training.models.fused_mlp import Layout

_BLOCK: Final = 512 * 256  # values of a layer for each thread: half a megabyte of a cache that often has one
_FEWEST_ROWS: Final = 256  # in a block: products of fewer are slow


def supports(sizes: tuple[int, ...]) -> bool:
    """Whether networks of these widths have a `Layout`: equal hidden layers, whose parameters then lie end to end."""
    return len(set(sizes[1:-1])) == 1 and sizes[1] % 16 == 0


def pays(batch: int, hidden: int) -> bool:
    """Whether blocks are faster than the whole: measured, from one block on, and not where a compiler fuses what is
    between two products, which leaves little to gain."""
    return not torch.compiler.is_compiling() and batch >= _block_rows(hidden)


def _block_rows(hidden: int) -> int:
    return max(_BLOCK // hidden, _FEWEST_ROWS) * torch.get_num_threads()


def apply(x: Tensor, flat: Tensor, layout: Layout, eps: float, copies: int) -> Tensor:
    """`[R, B, out]` from inputs `[R / copies, B, in]`, each shared by `copies` networks that follow one another.

    Gradients by inputs and by parameters are two branches, of which autograd leaves out the one that nobody asks for:
    an actor's loss wants none for the critics' weights.
    """
    sources = [source for source in (x, flat) if source.requires_grad and torch.is_grad_enabled()]
    stack = _Stack(x.detach(), flat.detach(), layout, eps, copies)
    y, bases = _forward(stack, keep=bool(sources))
    for source in sources:
        y = y + _Branch.apply(source, bases, stack, source is x)  # type: ignore[no-untyped-call]
    return y


class _Stack(NamedTuple):
    """The networks, without a history, and what they are given."""

    x: Tensor
    flat: Tensor
    shape: Layout
    eps: float
    copies: int

    @property
    def blocks(self) -> list[slice]:
        """Rows of equal blocks but for the last, which may be smaller."""
        batch = self.x.shape[1]
        rows = min(_block_rows(self.shape.hidden), batch)
        return [slice(start, min(start + rows, batch)) for start in range(0, batch, rows)]

    def by_network(self, flat: Tensor) -> list[list[list[Tensor]]]:
        """Weight `[in, out]`, bias and, with a norm, scale and shift `[out]`, by network and layer."""
        layers = self.shape.view(flat)
        return [[[part[network] for part in layer] for layer in layers] for network in range(len(flat))]


class _Branch(torch.autograd.Function):
    """Zeros `[R, B, out]` whose gradient by `source`, the inputs or the parameters, is that of the networks."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, bases: Tensor, stack: _Stack, to_inputs: bool) -> Tensor:
        ctx.save_for_backward(stack.x, stack.flat, bases)
        ctx.rest, ctx.to_inputs = stack[2:], to_inputs
        return stack.flat.new_zeros(len(stack.flat), stack.x.shape[1], stack.shape.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, flat, bases = ctx.saved_tensors
        return _backward(gradients[0], bases, _Stack(x, flat, *ctx.rest), ctx.to_inputs), None, None, None


def _forward(stack: _Stack, keep: bool) -> tuple[Tensor, Tensor]:
    """y `[R, B, out]`, and the bases `[depth, R, B, hidden]` if they are to be kept, else empty."""
    x, flat, shape, eps, copies = stack
    networks, batch, blocks = len(flat), x.shape[1], stack.blocks
    y = flat.new_empty(networks, batch, shape.outputs)
    bases = flat.new_empty((shape.depth, networks, batch, shape.hidden) if keep else (0,))
    spare = flat.new_empty(shape.depth, blocks[0].stop, shape.hidden)
    for network, (*hidden, (last, last_bias)) in enumerate(stack.by_network(flat)):
        for rows in blocks:
            h = x[network // copies, rows]
            for layer, (weight, bias, *affine) in enumerate(hidden):
                base = bases[layer, network, rows] if keep else spare[layer, : len(h)]
                torch.addmm(bias, h, weight, out=base)
                if shape.norm_name != "pre":
                    base.relu_()
                h = _output(base, affine, shape, eps).h
            torch.addmm(last_bias, h, last, out=y[network, rows])
    return y, bases


def _backward(gradient: Tensor, bases: Tensor, stack: _Stack, to_inputs: bool) -> Tensor:
    """dL/dx or dL/dflat from dL/dy."""
    x, flat, shape, eps, copies = stack
    total = torch.zeros_like(x if to_inputs else flat)
    gradients = [None] * len(flat) if to_inputs else stack.by_network(total)
    for network, layers in enumerate(stack.by_network(flat)):
        member = network // copies
        for rows in stack.blocks:
            dx = total[member, rows] if to_inputs else None
            block = bases[:, network, rows]
            _backward_block(gradient[network, rows], x[member, rows], block, layers, gradients[network], dx, shape, eps)
    return total


class _Output(NamedTuple):
    """What a hidden layer makes of its base, and by which mean and rate (1/σ) if it is normalised."""

    h: Tensor
    statistics: tuple[Tensor, ...] = ()


def _backward_block(
    delta: Tensor, x: Tensor, bases: Tensor, layers: list[list[Tensor]], gradients: list[list[Tensor]] | None,
    dx: Tensor | None, shape: Layout, eps: float,
) -> None:  # fmt: skip
    """One block of rows of one network: its share of the gradients is added to `gradients` and `dx`.

    delta: dL/dz of the output layer. From there, dL/dW_l = h_lᵀ δ_l, dL/db_l = Σ δ_l and dL/dh_l = δ_l W_lᵀ.
    """
    outputs = [_output(base, layer[2:], shape, eps) for base, layer in zip(bases, layers, strict=False)]
    for layer in range(shape.depth, -1, -1):
        weight = layers[layer][0]
        if gradients is not None:
            d_weight, d_bias = gradients[layer][:2]
            d_weight.addmm_((outputs[layer - 1].h if layer else x).mT, delta)
            d_bias.add_(delta.sum(0))
        if layer == 0:
            break
        below = layer - 1
        affine_gradients = gradients[below][2:] if gradients is not None else []
        delta = _through(
            torch.mm(delta, weight.mT), bases[below], outputs[below], layers[below][2:], affine_gradients, shape
        )
    if dx is not None:
        dx.addmm_(delta, layers[0][0].mT)


def _output(base: Tensor, affine: list[Tensor], shape: Layout, eps: float) -> _Output:
    """The table of the module's docstring."""
    if not affine:
        return _Output(base)
    h, *statistics = torch.native_layer_norm(base, [shape.hidden], affine[0], affine[1], eps)
    return _Output(functional.relu_(h) if shape.norm_name == "pre" else h, tuple(statistics))


def _through(
    d_h: Tensor, base: Tensor, output: _Output, affine: list[Tensor], gradients: list[Tensor], shape: Layout
) -> Tensor:
    """dL/dz of a hidden layer from dL/dh; those of its scale and shift are added to `gradients`."""
    if not affine:
        return _where_positive(d_h, base)
    if shape.norm_name == "pre":
        d_h = _where_positive(d_h, output.h)
    wanted = [True, bool(gradients), bool(gradients)]
    delta, *shares = torch.ops.aten.native_layer_norm_backward(
        d_h, base, [shape.hidden], *output.statistics, *affine, wanted
    )
    for vector, share in zip(gradients, shares, strict=False):
        vector.add_(share)
    return _where_positive(delta, base) if shape.norm_name == "post" else delta


def _where_positive(gradient: Tensor, activation: Tensor) -> Tensor:
    """Through a ReLU."""
    passed: Tensor = torch.ops.aten.threshold_backward(gradient, activation, 0)
    return passed
