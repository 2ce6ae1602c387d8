"""The stacked perceptron with two equal hidden layers as one GPU kernel forward and two backward, in Triton.

Written for small networks, whose time goes into starting kernels and into moving activations: a layer as plain torch is
a matrix product, a bias, an activation, each read from and written to memory. Here a program takes a tile of the batch
through all three layers of one network. Nothing is summed across programs except in a fixed order, so that results are
the same on every run, whatever the number of members.

Optional: `StackedMLP` uses it on CUDA where `supports` says so and Triton is there, else plain torch; both compute the
same to rounding. Each operator has a plain implementation for other devices, which its test compares.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

try:
    from rl_training.models import fused_mlp_kernels as kernels
except ImportError:  # torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]

_WIDTHS: Final = (64, 128, 256)
_MAX_INPUTS: Final = 128
_MAX_OUTPUTS: Final = 64


class Layout(NamedTuple):
    """Widths of a network and where its six parameters begin in its row of the parameter matrix."""

    inputs: int
    hidden: int
    outputs: int
    weight_0: int
    bias_0: int
    weight_1: int
    bias_1: int
    weight_2: int
    bias_2: int

    def view(self, flat: Tensor) -> list[Tensor]:
        """The six parameters, `[R, in, out]` and `[R, out]` in turn."""
        sizes = (self.inputs, self.hidden, self.hidden, self.outputs)
        views = []
        for layer in range(3):
            rows, columns = sizes[layer], sizes[layer + 1]
            weight, bias = self[3 + 2 * layer], self[4 + 2 * layer]
            views.append(flat[:, weight : weight + rows * columns].unflatten(1, (rows, columns)))
            views.append(flat[:, bias : bias + columns])
        return views


def available() -> bool:
    return kernels is not None and torch.cuda.is_available()


def supports(sizes: tuple[int, ...]) -> bool:
    """Whether networks of these widths can be fused."""
    if len(sizes) != 4:
        return False
    inputs, first, second, outputs = sizes
    return first == second and first in _WIDTHS and inputs <= _MAX_INPUTS and outputs <= _MAX_OUTPUTS


def apply(x: Tensor, flat: Tensor, layout: Layout, copies: int, precision: str) -> Tensor:
    """`[R, B, out]` from inputs `[R / copies, B, in]`, each shared by `copies` networks that follow one another."""
    keep = torch.is_grad_enabled() and (x.requires_grad or flat.requires_grad)
    out: Tensor = torch.ops.rl_training.mlp(x, flat, list(layout), copies, keep, precision)[0]
    return out


# The operators ------------------------------------------------------------------------------------------------------
#
# h_1 = relu(x W_0 + b_0),  h_2 = relu(h_1 W_1 + b_1),  y = h_2 W_2 + b_2, and backward with g = dL/dy:
# δ_2 = [h_2 > 0]·(g W_2ᵀ),  δ_1 = [h_1 > 0]·(δ_2 W_1ᵀ),  dL/dx = δ_1 W_0ᵀ,  dL/dW_i = h_iᵀ δ_{i+1}.


@torch.library.custom_op("rl_training::mlp", mutates_args=())
def _mlp(
    x: Tensor, flat: Tensor, layout: list[int], copies: int, keep: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """y, and h_1 and h_2 if they are to be kept (else empty)."""
    shape = Layout(*layout)
    if _runs_on_triton(x):
        return kernels.forward(x, flat, shape, copies, keep, precision)
    w0, b0, w1, b1, w2, b2 = shape.view(flat)
    h1 = torch.relu(torch.bmm(x.repeat_interleave(copies, 0), w0) + b0.unsqueeze(1))
    h2 = torch.relu(torch.bmm(h1, w1) + b1.unsqueeze(1))
    out = torch.bmm(h2, w2) + b2.unsqueeze(1)
    return (out, h1, h2) if keep else (out, out.new_empty(0), out.new_empty(0))


@_mlp.register_fake
def _(x: Tensor, flat: Tensor, layout: list[int], copies: int, keep: bool, precision: str) -> tuple[Tensor, ...]:
    shape = Layout(*layout)
    hidden = (len(flat), x.shape[1], shape.hidden) if keep else (0,)
    return flat.new_empty(len(flat), x.shape[1], shape.outputs), flat.new_empty(hidden), flat.new_empty(hidden)


@torch.library.custom_op("rl_training::mlp_backward", mutates_args=())
def _mlp_backward(
    gradient: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, layout: list[int], to_inputs: bool, precision: str
) -> tuple[Tensor, Tensor]:
    """δ_1 `[R, B, hidden]`, and dL/dx `[R, B, in]` if asked for (else empty)."""
    shape = Layout(*layout)
    if _runs_on_triton(gradient):
        return kernels.backward(gradient, flat, h1, h2, shape, to_inputs, precision)
    w0, _, w1, _, w2, _ = shape.view(flat)
    delta_2 = torch.bmm(gradient, w2.mT) * (h2 > 0)
    delta_1 = torch.bmm(delta_2, w1.mT) * (h1 > 0)
    return delta_1, torch.bmm(delta_1, w0.mT) if to_inputs else delta_1.new_empty(0)


@_mlp_backward.register_fake
def _(
    gradient: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, layout: list[int], to_inputs: bool, precision: str
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(h1), flat.new_empty((*h1.shape[:2], layout[0]) if to_inputs else (0,))


@torch.library.custom_op("rl_training::mlp_weight_gradient", mutates_args=())
def _mlp_weight_gradient(
    gradient: Tensor, x: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, delta_1: Tensor, layout: list[int],
    copies: int, precision: str,
) -> Tensor:  # fmt: skip
    """dL/dflat as partial sums over parts of the batch, `[S, R, P]`."""
    shape = Layout(*layout)
    if _runs_on_triton(gradient):
        parts = partial_sums(len(flat), x.shape[1])
        return kernels.weight_gradient(gradient, x, flat, h1, h2, delta_1, shape, copies, precision, parts)
    partials = flat.new_zeros(partial_sums(len(flat), x.shape[1]), *flat.shape)
    delta_2 = torch.bmm(gradient, shape.view(flat)[4].mT) * (h2 > 0)
    inputs = (x.repeat_interleave(copies, 0), h1, h2)
    for layer, (value, delta) in enumerate(zip(inputs, (delta_1, delta_2, gradient), strict=True)):
        weight, bias = shape.view(partials[0])[2 * layer : 2 * layer + 2]
        weight.copy_(torch.bmm(value.mT, delta))
        bias.copy_(delta.sum(1))
    return partials


@_mlp_weight_gradient.register_fake
def _(
    gradient: Tensor, x: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, delta_1: Tensor, layout: list[int],
    copies: int, precision: str,
) -> Tensor:  # fmt: skip
    return flat.new_empty(partial_sums(len(flat), x.shape[1]), *flat.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, flat, layout, copies, _, precision = inputs
    ctx.save_for_backward(x, flat, output[1], output[2])
    ctx.layout, ctx.copies, ctx.precision = layout, copies, precision


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    x, flat, h1, h2 = ctx.saved_tensors
    gradient = gradient.contiguous()
    to_inputs, to_weights = ctx.needs_input_grad[:2]
    delta_1, dx = torch.ops.rl_training.mlp_backward(gradient, flat, h1, h2, ctx.layout, to_inputs, ctx.precision)
    d_flat = None
    if to_weights:
        partials = torch.ops.rl_training.mlp_weight_gradient(
            gradient, x, flat, h1, h2, delta_1, ctx.layout, ctx.copies, ctx.precision
        )
        d_flat = partials.sum(0) if len(partials) > 1 else partials[0]
    d_x = dx.unflatten(0, (-1, ctx.copies)).sum(1) if to_inputs else None
    return d_x, d_flat, None, None, None, None


_mlp.register_autograd(_differentiate, setup_context=_save)


def _runs_on_triton(tensor: Tensor) -> bool:
    return kernels is not None and (tensor.is_cuda or kernels.interpreted())


def partial_sums(networks: int, batch: int) -> int:
    """Parts of the batch over which a weight gradient is summed by programs of their own: more of them keep more of the
    GPU busy where networks are few, and each costs a pass over the gradient."""
    few = max(1, 8 // networks)  # a network has about twenty tiles
    return _power_of_two(min(-(-batch // 64), max(few, -(-batch // 512))))


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
