"""How the Triton kernels of `fused_mlp` are launched: which of them, and how they are spread over a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
import triton
from torch import Tensor

from rl_training.models.fused_mlp_kernels import (
    backward_kernel,
    backward_step,
    forward_kernel,
    forward_step,
    gradient_kernel,
)

if TYPE_CHECKING:
    from rl_training.models.fused_mlp import Layout

_PROCESSORS: Final = 128  # about those of a large GPU
_MANY_ROWS: Final = 8_192  # of all networks together


class Launch(NamedTuple):
    """How a kernel is spread over the GPU: rows of the batch in a tile, columns of the last layer in it, terms of a sum
    taken at a time, warps of a program, and steps whose loads are under way at once."""

    rows: int
    columns: int
    step: int
    warps: int
    stages: int


def whole(networks: int, batch: int, shape: Layout, backward: bool, keep: bool = True) -> Launch | None:
    """Of the kernel that goes through all layers; None where cuBLAS's products, with a kernel between two, are faster.

    Larger tiles read the weights less often; smaller ones use more of the GPU. Programs can share columns only where
    nothing needs all of a row: two layers without a norm.
    """
    splittable = shape.depth == 2 and not shape.norm
    if is_wide(networks, batch):
        if backward:
            few = networks * batch < 8 * _MANY_ROWS
            return Launch(64, min(128, shape.hidden), 32, 4, 3) if splittable and few else None
        return None if keep else Launch(32, shape.hidden, 32, 4, 3)
    columns = shape.hidden
    tiles = networks * -(-batch // 16)
    while splittable and columns > 32 and tiles * shape.hidden // columns < _PROCESSORS:
        columns //= 2
    return Launch(16 if tiles <= 2 * _PROCESSORS else 32, columns, 32, 4, 3)


def between(shape: Layout, backward: bool) -> Launch:
    """Of the kernels between two products."""
    return Launch(32 if backward and not shape.norm else 16, 0, 32, 4, 3)


_WIDE_GRADIENT: Final = Launch(64, 64, 32, 4, 2)  # of weight gradients: a tile of the weights
_GRADIENT: Final = Launch(32, 32, 32, 4, 2)


def interpreted() -> bool:
    """Whether kernels run on the CPU, in Triton's interpreter (`TRITON_INTERPRET=1`)."""
    return bool(triton.knobs.runtime.interpret)


def is_wide(networks: int, batch: int) -> bool:
    """Whether there are so many rows that cuBLAS computes products."""
    return networks * batch >= _MANY_ROWS


def row_tiles(networks: int, batch: int, shape: Layout) -> int:
    """Programs that share the batch of one network in the backward pass."""
    return -(-batch // (whole(networks, batch, shape, True) or between(shape, True)).rows)


def splits(networks: int, batch: int, shape: Layout, backward: bool) -> int:
    """Programs that share the columns of one network."""
    return _parts(whole(networks, batch, shape, backward), shape)


def _parts(how: Launch | None, shape: Layout) -> int:
    return shape.hidden // how.columns if how else 1


def forward(
    x: Tensor, flat: Tensor, shape: Layout, eps: float, copies: int, keep: bool, precision: str, how: Launch | None
) -> tuple[Tensor, Tensor, Tensor]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch = len(flat), x.shape[1]
    parts = _parts(how, shape)
    out = flat.new_empty(networks, batch, parts, shape.outputs)
    hidden = flat.new_empty(shape.depth, networks, batch, shape.hidden)
    base = flat.new_empty(hidden.shape if keep and shape.norm else (0,))
    pointers = (x, flat, out, hidden, base, batch, x.stride(0), x.stride(1), flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"COPIES": copies, "KEEP": keep}
    if how:
        tiles = triton.cdiv(batch, how.rows)
        forward_kernel[networks, tiles, parts](
            *pointers, COLUMNS=how.columns, STEP=how.step, **constants, **_options(how)
        )
    else:
        weights, step = _hidden_weights(flat, shape), between(shape, False)
        tiles = triton.cdiv(batch, step.rows)
        for layer in range(shape.depth):
            if layer:
                _bmm(hidden[layer - 1], weights[layer - 1], hidden[layer], precision)
            forward_step[networks, tiles](*pointers, LAYER=layer, **constants, **_options(step))
    return out, hidden if keep else flat.new_empty(0), base


def backward(
    gradient: Tensor, flat: Tensor, hidden: Tensor, base: Tensor, shape: Layout, eps: float, to_inputs: bool,
    precision: str, how: Launch | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _, networks, batch, _ = hidden.shape
    parts = _parts(how, shape)
    deltas = torch.empty_like(hidden)
    dx = flat.new_empty((networks, batch, parts, shape.inputs) if to_inputs else (0,))
    step = how or between(shape, True)
    grid = (networks, triton.cdiv(batch, step.rows))
    sums = flat.new_empty((*grid, shape.depth, 2, shape.hidden) if shape.norm else (0,))
    pointers = (gradient, flat, hidden, base, deltas, dx, sums, batch, flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"TO_INPUTS": to_inputs}
    if how:
        backward_kernel[*grid, parts](*pointers, COLUMNS=how.columns, STEP=how.step, **constants, **_options(how))
    else:
        weights = _hidden_weights(flat, shape)
        for layer in reversed(range(shape.depth)):
            if layer < shape.depth - 1:
                _bmm(deltas[layer + 1], weights[layer].mT, deltas[layer], precision)
            backward_step[grid](*pointers, LAYER=layer, **constants, **_options(step))
    return deltas, dx, sums


def weight_gradient(
    gradient: Tensor, x: Tensor, flat: Tensor, hidden: Tensor, deltas: Tensor, sums: Tensor, shape: Layout,
    copies: int, precision: str, parts: int, wide: bool,
) -> Tensor:  # fmt: skip
    x = x if x.stride(-1) == 1 else x.contiguous()
    depth, networks, batch, width = hidden.shape
    partials = flat.new_empty(networks, parts, flat.shape[1])
    if wide:
        rows = (networks * parts, batch // parts, width)
        for layer, result in enumerate(_hidden_weights(partials.flatten(0, 1), shape)):
            _bmm(hidden[layer].view(rows).mT, deltas[layer + 1].view(rows), result, precision)
    how = _WIDE_GRADIENT if wide else _GRADIENT
    across = width // how.rows
    products = 0 if wide else (depth - 1) * across * across
    gradient_kernel[networks, products + (depth + 1) * across, parts](
        gradient, x, hidden, deltas, sums, partials, batch, x.stride(0), x.stride(1), hidden.stride(0), flat.shape[1],
        sums.shape[1] if shape.norm else 0, triton.cdiv(batch, parts) if wide else _power(triton.cdiv(batch, parts)),
        PRODUCTS=products, COPIES=copies, TILE=how.rows, STEP=how.step, num_warps=how.warps, num_stages=how.stages,
        **_constants(shape, precision),
    )  # fmt: skip
    return partials


def _bmm(a: Tensor, b: Tensor, out: Tensor, precision: str) -> None:
    if precision == "bf16":
        out.copy_(torch.bmm(a.bfloat16(), b.bfloat16()))
    else:
        torch.bmm(a, b, out=out)


def _hidden_weights(flat: Tensor, shape: Layout) -> list[Tensor]:
    """Of the layers between hidden ones, `[R, hidden, hidden]` each."""
    return [layer[0] for layer in shape.view(flat)[1:-1]]


def _power(number: int) -> int:
    """The next power of two that a matrix product takes."""
    return max(16, 1 << (number - 1).bit_length())


def _constants(shape: Layout, precision: str) -> dict[str, Any]:
    widths = {"K": shape.inputs, "H": shape.hidden, "N": shape.outputs, "DEPTH": shape.depth}
    places = {"FIRST": shape.first, "EACH": shape.each, "LAST": shape.last}
    powers = {"KP": _power(shape.inputs), "NP": _power(shape.outputs)}
    return widths | places | powers | {"NORM": shape.norm_name, "PRECISION": precision}


def _options(how: Launch) -> dict[str, int]:
    return {"ROWS": how.rows, "num_warps": how.warps, "num_stages": how.stages}
