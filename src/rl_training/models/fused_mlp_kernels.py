"""The Triton kernels of `fused_mlp` and how they are launched. See there for the mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

from rl_training.models.triton_layers import (
    activate,
    output_gradient,
    product,
    store_input_gradient,
    store_norm_gradient,
    store_output,
    sum_of_products,
    sum_of_rows,
    through_output,
    unactivate,
)

if TYPE_CHECKING:
    from rl_training.models.fused_mlp import Layout

_FEW_TILES: Final = 264  # twice the multiprocessors of a large GPU: below it, smaller tiles use more of them


class Launch(NamedTuple):
    """How a kernel is spread over the GPU: rows of the batch in a tile, terms of a sum taken at a time, warps of a
    program, and steps whose loads are under way at once."""

    rows: int
    step: int
    warps: int
    stages: int


def tall(networks: int, batch: int) -> Launch:
    """Of the kernels that go through all layers. Larger tiles read the weights less often."""
    rows = 16 if networks * -(-batch // 16) <= _FEW_TILES else 32
    return Launch(rows, 32, 4, 3)


_STEP: Final = Launch(32, 32, 4, 3)  # of the kernels between two products
_GRADIENT: Final = Launch(64, 32, 4, 2)  # of weight gradients; here the rows are a tile's of the weights


def interpreted() -> bool:
    """Whether kernels run on the CPU, in Triton's interpreter (`TRITON_INTERPRET=1`)."""
    return bool(triton.knobs.runtime.interpret)


def tiles(networks: int, batch: int, wide: bool) -> int:
    """Programs that share the batch of one network."""
    return -(-batch // (_STEP if wide else tall(networks, batch)).rows)


def forward(
    x: Tensor, flat: Tensor, shape: Layout, eps: float, copies: int, keep: bool, precision: str, wide: bool
) -> tuple[Tensor, Tensor, Tensor]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch = len(flat), x.shape[1]
    out = flat.new_empty(networks, batch, shape.outputs)
    hidden = flat.new_empty(shape.depth, networks, batch, shape.hidden)
    base = flat.new_empty(hidden.shape if keep and shape.norm else (0,))
    pointers = (x, flat, out, hidden, base, batch, x.stride(0), x.stride(1), flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"COPIES": copies, "KEEP": keep}
    if wide:
        weights = _hidden_weights(flat, shape)
        for layer in range(shape.depth):
            if layer:
                _bmm(hidden[layer - 1], weights[layer - 1], hidden[layer], precision)
            grid = (networks, tiles(networks, batch, wide))
            _forward_step[grid](*pointers, LAYER=layer, **constants, **_options(_STEP))
    else:
        how = tall(networks, batch)
        _forward[networks, triton.cdiv(batch, how.rows)](*pointers, STEP=how.step, **constants, **_options(how))
    return out, hidden if keep else flat.new_empty(0), base


def backward(
    gradient: Tensor, flat: Tensor, hidden: Tensor, base: Tensor, shape: Layout, eps: float, to_inputs: bool,
    precision: str, wide: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _, networks, batch, _ = hidden.shape
    deltas = torch.empty_like(hidden)
    dx = flat.new_empty((networks, batch, shape.inputs) if to_inputs else (0,))
    grid = (networks, tiles(networks, batch, wide))
    sums = flat.new_empty((*grid, shape.depth, 2, shape.hidden) if shape.norm else (0,))
    pointers = (gradient, flat, hidden, base, deltas, dx, sums, batch, flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"TO_INPUTS": to_inputs}
    if wide:
        weights = _hidden_weights(flat, shape)
        for layer in reversed(range(shape.depth)):
            if layer < shape.depth - 1:
                _bmm(deltas[layer + 1], weights[layer].mT, deltas[layer], precision)
            _backward_step[grid](*pointers, LAYER=layer, **constants, **_options(_STEP))
    else:
        how = tall(networks, batch)
        _backward[grid](*pointers, STEP=how.step, **constants, **_options(how))
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
    across = width // _GRADIENT.rows
    products = 0 if wide else (depth - 1) * across * across
    _weight_gradient[networks, products + (depth + 1) * across, parts](
        gradient, x, hidden, deltas, sums, partials, batch, x.stride(0), x.stride(1), hidden.stride(0), flat.shape[1],
        sums.shape[1] if shape.norm else 0, triton.cdiv(batch, parts) if wide else _power(triton.cdiv(batch, parts)),
        PRODUCTS=products, COPIES=copies, TILE=_GRADIENT.rows, STEP=_GRADIENT.step, **_constants(shape, precision),
        num_warps=_GRADIENT.warps, num_stages=_GRADIENT.stages,
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


# Few rows: all layers in one kernel ---------------------------------------------------------------------------------


@triton.jit
def _forward(
    x, flat, out, hidden, base, batch, x_member, x_row, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    COPIES: tl.constexpr, KEEP: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Without a norm, the first layer is made a few columns at a time, as the second one needs it."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    inputs, columns = tl.arange(0, KP), tl.arange(0, H)
    p = flat + network * flat_row
    row_places = (network * batch + rows)[:, None]
    places = row_places * H + columns[None, :]
    given = tl.load(
        x + (network // COPIES) * x_member + rows[:, None] * x_row + inputs[None, :],
        mask=live & (inputs < K)[None, :], other=0.0,
    )  # fmt: skip
    if NORM != "none":
        weights = tl.load(p + inputs[:, None] * H + columns[None, :], mask=(inputs < K)[:, None], other=0.0)
        value = product(given, weights, tl.zeros((ROWS, H), tl.float32), PRECISION)
        value = activate(value, p + K * H, base, places, live, eps, H, NORM, KEEP)
        tl.store(hidden + places, value, mask=live)
        tl.debug_barrier()  # other threads of this program read it
    for layer in tl.static_range(1, DEPTH):
        weight = p + FIRST + (layer - 1) * EACH
        total = tl.zeros((ROWS, H), tl.float32)
        for start in range(0, H, STEP):
            some = start + tl.arange(0, STEP)
            if NORM == "none" and layer == 1:
                weights = tl.load(p + inputs[:, None] * H + some[None, :], mask=(inputs < K)[:, None], other=0.0)
                h = product(given, weights, tl.zeros((ROWS, STEP), tl.float32), PRECISION)
                h = tl.maximum(h + tl.load(p + K * H + some)[None, :], 0.0)
                if KEEP:
                    tl.store(hidden + row_places * H + some[None, :], h, mask=live)
            else:
                h = tl.load(hidden + (layer - 1) * layer_size + row_places * H + some[None, :], mask=live, other=0.0)
            total = product(h, tl.load(weight + some[:, None] * H + columns[None, :]), total, PRECISION)
        value = activate(total, weight + H * H, base + layer * layer_size, places, live, eps, H, NORM, KEEP)
        if KEEP or layer < DEPTH - 1:
            tl.store(hidden + layer * layer_size + places, value, mask=live)
            tl.debug_barrier()
    store_output(value, p + LAST, out, row_places, live, H, N, NP, PRECISION)


@triton.jit
def _backward(
    gradient, flat, hidden, base, deltas, dx, sums, batch, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    TO_INPUTS: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Without a norm, the last δ is made a few columns at a time, as the one before needs it."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    tile = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    columns = tl.arange(0, H)
    p = flat + network * flat_row
    row_places = (network * batch + rows)[:, None]
    places = row_places * H + columns[None, :]
    tile_sums = sums + (network * tl.num_programs(1) + tile) * DEPTH * 2 * H
    g = output_gradient(gradient, row_places, live, N, NP)
    if NORM != "none":
        top = (DEPTH - 1) * layer_size
        value = through_output(g, p + LAST, columns, N, NP, PRECISION)
        scale = p + FIRST + (DEPTH - 2) * EACH + H * H + H
        value = unactivate(
            value, scale, hidden + top, base + top, tile_sums + (DEPTH - 1) * 2 * H, places, live, eps, H, NORM
        )
        tl.store(deltas + top + places, value, mask=live)
        tl.debug_barrier()
    for layer in tl.static_range(DEPTH - 1, 0, -1):
        weight = p + FIRST + (layer - 1) * EACH
        total = tl.zeros((ROWS, H), tl.float32)
        for start in range(0, H, STEP):
            some = start + tl.arange(0, STEP)
            there = layer * layer_size + row_places * H + some[None, :]
            if NORM == "none" and layer == DEPTH - 1:
                h = tl.load(hidden + there, mask=live, other=0.0)
                delta = tl.where(h > 0.0, through_output(g, p + LAST, some, N, NP, PRECISION), 0.0)
                tl.store(deltas + there, delta, mask=live)
            else:
                delta = tl.load(deltas + there, mask=live, other=0.0)
            weights = tl.load(weight + columns[None, :] * H + some[:, None])  # Wᵀ
            total = product(delta, weights, total, PRECISION)
        below = (layer - 1) * layer_size
        scale = p + K * H + H if layer == 1 else weight - EACH + H * H + H
        value = unactivate(
            total, scale, hidden + below, base + below, tile_sums + (layer - 1) * 2 * H, places, live, eps, H, NORM
        )
        tl.store(deltas + below + places, value, mask=live)
        tl.debug_barrier()
    if TO_INPUTS:
        store_input_gradient(value, p, dx, row_places, live, K, KP, H, PRECISION)


# Many rows: what is between two products ----------------------------------------------------------------------------


@triton.jit
def _forward_step(
    x, flat, out, hidden, base, batch, x_member, x_row, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    COPIES: tl.constexpr, KEEP: tl.constexpr, LAYER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """h of one layer, from x or from the product that lies in its place; after the last one y."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    columns = tl.arange(0, H)
    p = flat + network * flat_row
    row_places = (network * batch + rows)[:, None]
    places = row_places * H + columns[None, :]
    if LAYER == 0:
        inputs = tl.arange(0, KP)
        given = tl.load(
            x + (network // COPIES) * x_member + rows[:, None] * x_row + inputs[None, :],
            mask=live & (inputs < K)[None, :], other=0.0,
        )  # fmt: skip
        weights = tl.load(p + inputs[:, None] * H + columns[None, :], mask=(inputs < K)[:, None], other=0.0)
        value = product(given, weights, tl.zeros((ROWS, H), tl.float32), PRECISION)
        vectors = p + K * H
    else:
        value = tl.load(hidden + LAYER * layer_size + places, mask=live, other=0.0)
        vectors = p + FIRST + (LAYER - 1) * EACH + H * H
    value = activate(value, vectors, base + LAYER * layer_size, places, live, eps, H, NORM, KEEP)
    if KEEP or LAYER < DEPTH - 1:
        tl.store(hidden + LAYER * layer_size + places, value, mask=live)
    if LAYER == DEPTH - 1:
        store_output(value, p + LAST, out, row_places, live, H, N, NP, PRECISION)


@triton.jit
def _backward_step(
    gradient, flat, hidden, base, deltas, dx, sums, batch, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    TO_INPUTS: tl.constexpr, LAYER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """δ of one layer, from g or from the product that lies in its place; after the first one dL/dx."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    tile = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    columns = tl.arange(0, H)
    p = flat + network * flat_row
    row_places = (network * batch + rows)[:, None]
    places = row_places * H + columns[None, :]
    here = LAYER * layer_size
    if LAYER == DEPTH - 1:
        g = output_gradient(gradient, row_places, live, N, NP)
        value = through_output(g, p + LAST, columns, N, NP, PRECISION)
    else:
        value = tl.load(deltas + here + places, mask=live, other=0.0)
    vectors = p + K * H if LAYER == 0 else p + FIRST + (LAYER - 1) * EACH + H * H
    tile_sums = sums + ((network * tl.num_programs(1) + tile) * DEPTH + LAYER) * 2 * H
    value = unactivate(value, vectors + H, hidden + here, base + here, tile_sums, places, live, eps, H, NORM)
    tl.store(deltas + here + places, value, mask=live)
    if LAYER == 0 and TO_INPUTS:
        store_input_gradient(value, p, dx, row_places, live, K, KP, H, PRECISION)


# Weight gradients ---------------------------------------------------------------------------------------------------


@triton.jit
def _weight_gradient(
    gradient, x, hidden, deltas, sums, partials, batch, x_member, x_row, layer_size, length, tiles_of_sums, part_rows,
    PRODUCTS: tl.constexpr, K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr,
    FIRST: tl.constexpr, EACH: tl.constexpr, LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr,
    NORM: tl.constexpr, PRECISION: tl.constexpr, COPIES: tl.constexpr, TILE: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Over a part of the batch, by program: a tile of dL/dW between hidden layers (the first PRODUCTS), a tile's width
    of the first layer's, of the output layer's, or of the vectors of a layer between."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    ACROSS: tl.constexpr = H // TILE
    part, job = tl.program_id(2), tl.program_id(1)
    result = partials + (network * tl.num_programs(2) + part) * length
    begin = part * part_rows
    end = tl.minimum(begin + part_rows, batch)
    column = (job % ACROSS) * TILE + tl.arange(0, TILE)
    h, delta = hidden + network * batch * H, deltas + network * batch * H
    tiles_of_sums = tl.where(part == 0, tiles_of_sums, 0)  # all of them are in the first part
    tile_sums = sums + network * tiles_of_sums * DEPTH * 2 * H
    if job < PRODUCTS:
        layer = 1 + job // (ACROSS * ACROSS)
        row = (job // ACROSS % ACROSS) * TILE + tl.arange(0, TILE)
        total, _ = sum_of_products(
            h + (layer - 1) * layer_size,
            H,
            row,
            H,
            delta + layer * layer_size,
            H,
            column,
            H,
            begin,
            end,
            STEP,
            PRECISION,
        )
        tl.store(result + FIRST + (layer - 1) * EACH + row[:, None] * H + column[None, :], total)
    elif job < PRODUCTS + ACROSS:
        inputs = tl.arange(0, KP)
        given = x + (network // COPIES) * x_member
        total, bias = sum_of_products(given, x_row, inputs, K, delta, H, column, H, begin, end, STEP, PRECISION)
        tl.store(result + inputs[:, None] * H + column[None, :], total, mask=(inputs < K)[:, None])
        tl.store(result + K * H + column, bias)
        store_norm_gradient(result + K * H + H, tile_sums, tiles_of_sums, column, H, DEPTH, NORM)
    elif job < PRODUCTS + 2 * ACROSS:
        outputs, last = tl.arange(0, NP), result + LAST
        top, g = h + (DEPTH - 1) * layer_size, gradient + network * batch * N
        total, bias = sum_of_products(top, H, column, H, g, N, outputs, N, begin, end, STEP, PRECISION)
        tl.store(last + column[:, None] * N + outputs[None, :], total, mask=(outputs < N)[None, :])
        if job == PRODUCTS + ACROSS:  # one of them also writes what ends the row: the last bias, and zeros
            tl.store(last + H * N + outputs, bias, mask=outputs < N)
            for unused in range(LAST + H * N + N, length, 64):
                rest = unused + tl.arange(0, 64)
                tl.store(result + rest, tl.zeros((64,), tl.float32), mask=rest < length)
    else:
        layer = (job - PRODUCTS) // ACROSS - 1
        vectors = result + FIRST + (layer - 1) * EACH + H * H
        tl.store(vectors + column, sum_of_rows(delta + layer * layer_size, H, column, begin, end, STEP))
        store_norm_gradient(vectors + H, tile_sums + layer * 2 * H, tiles_of_sums, column, H, DEPTH, NORM)
