"""Stacked perceptrons with equal hidden layers, computed by a few GPU kernels instead of dozens, in Triton.

As plain torch, a layer is a matrix product, a bias, a normalisation and an activation, each read from and written to
memory, and small networks spend most of their time in starting kernels. There are two ways here. Where few rows are to
be computed, one kernel takes a tile of the batch through all layers of one network. Where there are many, the products
of hidden layers are cuBLAS's, which nothing beats, and what is between two of them is one kernel. Sums have a fixed
order, so that a run gives the same every time.

Optional: `StackedMLP` uses it on CUDA where `supports` says so and Triton is there, else plain torch; both compute the
same to rounding. Each operator has a plain implementation for other devices, which its test compares.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

try:
    from rl_training.models import fused_mlp_launches as kernels
except ImportError:  # torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]

NORMS: Final = ("none", "pre", "post")
_WIDTHS: Final = (64, 128, 256)
_MAX_HIDDEN: Final = 4
_MAX_INPUTS: Final = 128
_MAX_OUTPUTS: Final = 64
_SMALL_GPUS: Final = ((8, 6), (8, 9), (12, 0), (12, 1))  # by compute capability: 99 KB for a program, not 163


class Layout(NamedTuple):
    """The shape of a network, which also says where its parameters begin in its row of the parameter matrix.

    norm: index into `NORMS`.
    """

    inputs: int
    hidden: int
    outputs: int
    depth: int
    norm: int

    @property
    def first(self) -> int:
        """Parameters of the first hidden layer: weights, then bias, then scale and shift if it is normalised."""
        return (self.inputs + self.vectors) * self.hidden

    @property
    def each(self) -> int:
        """Parameters of every further hidden layer."""
        return (self.hidden + self.vectors) * self.hidden

    @property
    def last(self) -> int:
        """Where the output layer begins."""
        return self.first + (self.depth - 1) * self.each

    @property
    def norm_name(self) -> str:
        return NORMS[self.norm]

    @property
    def vectors(self) -> int:
        return 1 if self.norm_name == "none" else 3

    def view(self, flat: Tensor) -> list[list[Tensor]]:
        """Weight `[R, in, out]`, bias and, with a norm, scale and shift `[R, out]`, layer by layer."""
        layers = []
        for layer in range(self.depth + 1):
            place = 0 if layer == 0 else self.first + (layer - 1) * self.each
            height = self.inputs if layer == 0 else self.hidden
            width = self.outputs if layer == self.depth else self.hidden
            parts = [flat[:, place : place + height * width].unflatten(1, (height, width))]
            place += height * width
            for vector in range(1 if layer == self.depth else self.vectors):
                parts.append(flat[:, place + vector * width : place + (vector + 1) * width])
            layers.append(parts)
        return layers


def available(device: torch.device) -> bool:
    """Whether this GPU and what is installed can run the kernels: TF32 came with compute capability 8."""
    can = kernels is not None and _is_there(device) and torch.cuda.get_device_capability(device)[0] >= 8
    return can and _triton_starts()


@functools.cache
def _triton_starts() -> bool:
    """Whether Triton reaches the driver: it builds its way there with a C compiler, which may be missing or broken."""
    try:
        from triton.runtime import driver

        driver.active.get_current_device()
    except Exception:  # of compilers, disks and drivers
        return False
    return True


def supports(sizes: tuple[int, ...], device: torch.device) -> bool:
    """Whether networks of these widths, whose parameters lie on this device, can be fused."""
    inputs, *hidden, outputs = sizes
    equal = len(set(hidden)) == 1 and hidden[0] in _WIDTHS and 2 <= len(hidden) <= _MAX_HIDDEN
    return equal and inputs <= _MAX_INPUTS and outputs <= _MAX_OUTPUTS and _has_room(inputs, hidden[0], outputs, device)


def _is_there(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def _has_room(inputs: int, width: int, outputs: int, device: torch.device) -> bool:
    """Whether the GPU holds a network's tiles: beside 256 units, wide inputs or outputs take 100 to 149 KB (compiled
    for capability 8.9), and a launch would fail."""
    if width < 256 or (inputs <= 64 and outputs <= 32) or not _is_there(device):
        return True
    return torch.cuda.get_device_capability(device) not in _SMALL_GPUS


def apply(x: Tensor, flat: Tensor, layout: Layout, eps: float, copies: int, precision: str) -> Tensor:
    """`[R, B, out]` from inputs `[R / copies, B, in]`, each shared by `copies` networks that follow one another."""
    keep = torch.is_grad_enabled() and (x.requires_grad or flat.requires_grad)
    parts: Tensor = torch.ops.rl_training.mlp(x, flat, list(layout), eps, copies, keep, precision)[0]
    return _total(parts, 2)


def partial_sums(networks: int, batch: int) -> int:
    """Parts of the batch over which weight gradients are summed by programs of their own: more of them keep more of the
    GPU busy where networks are few, and each costs a pass over the gradient."""
    if kernels is not None and kernels.is_wide(networks, batch):
        return batch // 256 if networks < 32 and batch % 256 == 0 else 1
    parts = min(-(-batch // 32), max(8 // networks, -(-batch // 512), 1))
    return 1 << (parts - 1).bit_length()


# The operators ------------------------------------------------------------------------------------------------------
#
# z_l = h_l W_l + b_l with h_0 = x;  h_{l+1} = relu(z_l)  |  relu(LN(z_l)·s + t)  |  LN(relu(z_l))·s + t;  y = z_last.
# Backward, with δ_l = dL/dz_l:  dL/dh_l = δ_l W_lᵀ,  dL/dW_l = h_lᵀ δ_l,  dL/db_l = Σ δ_l.


@torch.library.custom_op("rl_training::mlp", mutates_args=())
def _mlp(
    x: Tensor, flat: Tensor, layout: list[int], eps: float, copies: int, keep: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """y as a sum of parts, `[R, B, parts, out]`; h_1 and on, `[depth, R, B, hidden]`; what LN is taken of, if there is
    one, likewise. Empty unless kept."""
    shape = Layout(*layout)
    if _runs_on_triton(x):
        how = kernels.whole(len(flat), x.shape[1], shape, False, keep)
        return kernels.forward(x, flat, shape, eps, copies, keep, precision, how)
    norm = shape.norm_name
    h = x.repeat_interleave(copies, 0)
    hidden, bases = [], []
    for weight, bias, *affine in shape.view(flat)[:-1]:
        z = torch.bmm(h, weight) + bias.unsqueeze(1)
        bases.append(z if norm == "pre" else torch.relu(z))
        h = bases[-1]
        if affine:
            scale, shift = (part.unsqueeze(1) for part in affine)
            h = functional.layer_norm(h, h.shape[-1:], eps=eps) * scale + shift
        hidden.append(torch.relu(h) if norm == "pre" else h)
        h = hidden[-1]
    weight, bias = shape.view(flat)[-1]
    out = torch.bmm(h, weight) + bias.unsqueeze(1)
    kept = torch.stack(hidden) if keep else out.new_empty(0)
    return out.unsqueeze(2), kept, torch.stack(bases) if keep and norm != "none" else out.new_empty(0)


@_mlp.register_fake
def _(
    x: Tensor, flat: Tensor, layout: list[int], eps: float, copies: int, keep: bool, precision: str
) -> tuple[Tensor, ...]:
    shape = Layout(*layout)
    size = (shape.depth, len(flat), x.shape[1], shape.hidden)
    hidden = flat.new_empty(size if keep else (0,))
    base = flat.new_empty(size if keep and shape.norm else (0,))
    return flat.new_empty(len(flat), x.shape[1], _splits(flat, x.shape[1], shape, False), shape.outputs), hidden, base


@torch.library.custom_op("rl_training::mlp_backward", mutates_args=())
def _mlp_backward(
    gradient: Tensor, flat: Tensor, hidden: Tensor, base: Tensor, layout: list[int], eps: float, to_inputs: bool,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """δ of the hidden layers, `[depth, R, B, hidden]`; dL/dx if asked for (else empty), as a sum of parts
    `[R, B, parts, in]`; with a norm, the gradients of scale and shift as sums over tiles of the batch,
    `[R, tiles, depth, 2, hidden]`."""
    shape = Layout(*layout)
    if _runs_on_triton(gradient):
        how = kernels.whole(hidden.shape[1], hidden.shape[2], shape, True)
        return kernels.backward(gradient, flat, hidden, base, shape, eps, to_inputs, precision, how)
    layers, norm = shape.view(flat), shape.norm_name
    deltas = torch.empty_like(hidden)
    sums = flat.new_zeros(_sums_shape(hidden, shape))
    d_h = torch.bmm(gradient, layers[-1][0].mT)
    for layer in reversed(range(shape.depth)):
        if norm != "post":
            d_h = d_h * (hidden[layer] > 0)
        if norm != "none":
            centred = base[layer] - base[layer].mean(-1, keepdim=True)
            rate = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
            normed = centred * rate
            sums[:, 0, layer, 0], sums[:, 0, layer, 1] = (d_h * normed).sum(1), d_h.sum(1)
            d_h = d_h * layers[layer][2].unsqueeze(1)
            d_h = rate * (d_h - d_h.mean(-1, keepdim=True) - normed * (d_h * normed).mean(-1, keepdim=True))
        deltas[layer] = d_h * (base[layer] > 0) if norm == "post" else d_h
        d_h = torch.bmm(deltas[layer], layers[layer][0].mT) if layer or to_inputs else d_h.new_empty(0)
    return deltas, d_h.unsqueeze(2) if to_inputs else d_h, sums


@_mlp_backward.register_fake
def _(
    gradient: Tensor, flat: Tensor, hidden: Tensor, base: Tensor, layout: list[int], eps: float, to_inputs: bool,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    shape = Layout(*layout)
    _, networks, batch, _ = hidden.shape
    dx = flat.new_empty((networks, batch, _splits(flat, batch, shape, True), shape.inputs) if to_inputs else (0,))
    return torch.empty_like(hidden), dx, flat.new_empty(_sums_shape(hidden, shape))


@torch.library.custom_op("rl_training::mlp_weight_gradient", mutates_args=())
def _mlp_weight_gradient(
    gradient: Tensor, x: Tensor, flat: Tensor, hidden: Tensor, deltas: Tensor, sums: Tensor, layout: list[int],
    copies: int, precision: str,
) -> Tensor:  # fmt: skip
    """dL/dflat as partial sums over parts of the batch, `[R, parts, P]`."""
    shape = Layout(*layout)
    networks, batch = hidden.shape[1:3]
    parts = partial_sums(networks, batch)
    if _runs_on_triton(gradient):
        wide = kernels.is_wide(networks, batch)
        return kernels.weight_gradient(gradient, x, flat, hidden, deltas, sums, shape, copies, precision, parts, wide)
    partials = flat.new_zeros(networks, parts, flat.shape[1])
    inputs = (x.repeat_interleave(copies, 0), *hidden)
    for layer, (weight, bias, *affine) in enumerate(shape.view(partials[:, 0])):
        delta = gradient if layer == shape.depth else deltas[layer]
        weight.copy_(torch.bmm(inputs[layer].mT, delta))
        bias.copy_(delta.sum(1))
        for index, vector in enumerate(affine):
            vector.copy_(sums[:, :, layer, index].sum(1))
    return partials


@_mlp_weight_gradient.register_fake
def _(
    gradient: Tensor, x: Tensor, flat: Tensor, hidden: Tensor, deltas: Tensor, sums: Tensor, layout: list[int],
    copies: int, precision: str,
) -> Tensor:  # fmt: skip
    return flat.new_empty(len(flat), partial_sums(*hidden.shape[1:3]), flat.shape[1])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, flat, *ctx.shape, _, ctx.precision = inputs
    ctx.save_for_backward(x, flat, output[1], output[2])


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    x, flat, hidden, base = ctx.saved_tensors
    layout, eps, copies = ctx.shape
    gradient = gradient[:, :, 0].contiguous()  # that of a sum is the same for each of its parts
    to_inputs, to_weights = ctx.needs_input_grad[:2]
    deltas, dx, sums = torch.ops.rl_training.mlp_backward(
        gradient, flat, hidden, base, layout, eps, to_inputs, ctx.precision
    )
    d_flat = None
    if to_weights:
        d_flat = torch.ops.rl_training.mlp_weight_gradient(
            gradient, x, flat, hidden, deltas, sums, layout, copies, ctx.precision
        )
        d_flat = _total(d_flat, 1)
    d_x = _total(_total(dx, 2).unflatten(0, (-1, copies)), 1) if to_inputs else None
    return d_x, d_flat, None, None, None, None, None


_mlp.register_autograd(_differentiate, setup_context=_save)


def _runs_on_triton(tensor: Tensor) -> bool:
    return kernels is not None and (tensor.is_cuda or kernels.interpreted())


def _splits(flat: Tensor, batch: int, shape: Layout, backward: bool) -> int:
    """Parts of y or of dL/dx."""
    return kernels.splits(len(flat), batch, shape, backward) if _runs_on_triton(flat) else 1


def _total(parts: Tensor, axis: int) -> Tensor:
    """Their sum as additions, which a compiler puts into the kernel that needs it: as a reduction they are slow."""
    return functools.reduce(operator.add, parts.unbind(axis))


def _sums_shape(hidden: Tensor, shape: Layout) -> tuple[int, ...]:
    """One sum for each tile of the batch; none without a norm."""
    if not shape.norm:
        return (0,)
    depth, networks, batch, width = hidden.shape
    tiles = kernels.row_tiles(networks, batch, shape) if _runs_on_triton(hidden) else 1
    return networks, tiles, depth, 2, width
