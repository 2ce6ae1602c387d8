"""One hidden layer of a stacked perceptron, normalisation included, as one GPU kernel forward and two backward.

For the networks that `fused_mlp` does not take: deeper ones, and those with LayerNorm. The same holds as there: it is
optional, equal to plain torch to rounding, and every sum has a fixed order.

    z = x W + b,   y = relu(z)  |  relu(LN(z)·s + t)  |  LN(relu(z))·s + t          norm: none | pre | post
    backward, with δ = dL/dz:   dL/dW = xᵀδ,  dL/db = Σ δ,  dL/dx = δ Wᵀ,  dL/ds = Σ dy·LN,  dL/dt = Σ dy
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from rl_training.models.fused_mlp import partial_sums

try:
    from rl_training.models import fused_layer_kernels as kernels
except ImportError:  # torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]

_WIDTHS: Final = (64, 128, 256)
_MAX_INPUTS: Final = 512


def supports(inputs: int, outputs: int) -> bool:
    """Whether a layer of these widths can be fused."""
    return outputs in _WIDTHS and inputs <= _MAX_INPUTS


def apply(
    x: Tensor, weight: Tensor, bias: Tensor, affine: tuple[Tensor, Tensor] | None, norm: str, eps: float, precision: str
) -> Tensor:
    """`[R, B, out]` from inputs `[R / copies, B, in]`, weights `[R, in, out]`, biases, scales and shifts `[R, out]`."""
    scale, shift = affine or (None, None)
    keep = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    y: Tensor = torch.ops.rl_training.layer(x, weight, bias, scale, shift, norm, eps, keep, precision)[0]
    return y


@torch.library.custom_op("rl_training::layer", mutates_args=())
def _layer(
    x: Tensor, weight: Tensor, bias: Tensor, scale: Tensor | None, shift: Tensor | None, norm: str, eps: float,
    keep: bool, precision: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """y, and what was normalised if it is to be kept (else empty)."""
    if _runs_on_triton(x):
        return kernels.forward(x, weight, bias, scale, shift, norm, eps, keep, precision)
    z = torch.bmm(_spread(x, weight), weight) + bias.unsqueeze(1)
    if scale is None or shift is None:
        return torch.relu(z), z.new_empty(0)
    base = z if norm == "pre" else torch.relu(z)
    y = functional.layer_norm(base, base.shape[-1:], eps=eps) * scale.unsqueeze(1) + shift.unsqueeze(1)
    return torch.relu(y) if norm == "pre" else y, base if keep else z.new_empty(0)


@_layer.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, scale: Tensor | None, shift: Tensor | None, norm: str, eps: float,
    keep: bool, precision: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    y = x.new_empty(len(weight), x.shape[1], weight.shape[2])
    return y, torch.empty_like(y) if keep and norm != "none" else x.new_empty(0)


@torch.library.custom_op("rl_training::layer_backward", mutates_args=())
def _layer_backward(
    gradient: Tensor, y: Tensor, base: Tensor, weight: Tensor, scale: Tensor | None, norm: str, eps: float,
    to_inputs: bool, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """δ `[R, B, out]`; dL/dx for every network, `[R, B, in]`, if asked for; dL/ds and dL/dt as partial sums over the
    batch, `[S, R, 2, out]`, with a norm (else empty)."""
    if _runs_on_triton(gradient):
        return kernels.backward(gradient, y, base, weight, scale, norm, eps, to_inputs, precision)
    sums = gradient.new_zeros(_norm_sums(norm, y), len(y), 2, y.shape[2])
    if scale is None:
        delta = gradient * (y > 0)
    else:
        dy = gradient * (y > 0) if norm == "pre" else gradient
        centred = base - base.mean(-1, keepdim=True)
        rate = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        hat, d_hat = centred * rate, dy * scale.unsqueeze(1)
        sums[0] = torch.stack(((dy * hat).sum(1), dy.sum(1)), dim=1)
        delta = rate * (d_hat - d_hat.mean(-1, keepdim=True) - hat * (d_hat * hat).mean(-1, keepdim=True))
        delta = delta * (base > 0) if norm == "post" else delta
    return delta, torch.bmm(delta, weight.mT) if to_inputs else delta.new_empty(0), sums


@_layer_backward.register_fake
def _(
    gradient: Tensor, y: Tensor, base: Tensor, weight: Tensor, scale: Tensor | None, norm: str, eps: float,
    to_inputs: bool, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dx = y.new_empty((*y.shape[:2], weight.shape[1]) if to_inputs else (0,))
    return torch.empty_like(y), dx, y.new_empty(_norm_sums(norm, y), len(y), 2, y.shape[2])


@torch.library.custom_op("rl_training::layer_weight_gradient", mutates_args=())
def _layer_weight_gradient(x: Tensor, delta: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    """dL/dW `[S, R, in, out]` and dL/db `[S, R, out]` as partial sums over parts of the batch."""
    parts = partial_sums(len(delta), delta.shape[1])
    if _runs_on_triton(delta):
        return kernels.weight_gradient(x, delta, parts, precision)
    d_weight = x.new_zeros(parts, len(delta), x.shape[2], delta.shape[2])
    d_bias = x.new_zeros(parts, len(delta), delta.shape[2])
    d_weight[0] = torch.bmm(_spread(x, delta).mT, delta)
    d_bias[0] = delta.sum(1)
    return d_weight, d_bias


@_layer_weight_gradient.register_fake
def _(x: Tensor, delta: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    parts = partial_sums(len(delta), delta.shape[1])
    networks, _, outputs = delta.shape
    return x.new_empty(parts, networks, x.shape[2], outputs), x.new_empty(parts, networks, outputs)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, _, scale, _, norm, eps, _, precision = inputs
    ctx.save_for_backward(x, weight, scale, *output)
    ctx.norm, ctx.eps, ctx.precision = norm, eps, precision


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, scale, y, base = ctx.saved_tensors
    to_inputs = ctx.needs_input_grad[0]
    delta, dx, sums = torch.ops.rl_training.layer_backward(
        gradient.contiguous(), y, base, weight, scale, ctx.norm, ctx.eps, to_inputs, ctx.precision
    )
    d_weight, d_bias = torch.ops.rl_training.layer_weight_gradient(x, delta, ctx.precision)
    d_scale, d_shift = sums.sum(0).unbind(1) if scale is not None else (None, None)
    d_x = dx.unflatten(0, (len(x), -1)).sum(1) if to_inputs else None
    return d_x, d_weight.sum(0), d_bias.sum(0), d_scale, d_shift, None, None, None, None


_layer.register_autograd(_differentiate, setup_context=_save)


def _runs_on_triton(tensor: Tensor) -> bool:
    return kernels is not None and (tensor.is_cuda or kernels.interpreted())


def _spread(x: Tensor, networks: Tensor) -> Tensor:
    """Every input once for each network that shares it."""
    return x.repeat_interleave(len(networks) // len(x), 0)


def _norm_sums(norm: str, y: Tensor) -> int:
    """Parts in which the gradients of scale and shift are summed: one for each tile of the batch."""
    if norm == "none":
        return 0
    return kernels.tiles(len(y), y.shape[1]) if kernels is not None and (y.is_cuda or kernels.interpreted()) else 1
