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
    store_output_gradient,
    sum_of_products,
    sum_of_rows,
    through_output,
    unactivate,
)

if TYPE_CHECKING:
    from rl_training.models.fused_mlp import Layout

_PROCESSORS: Final = 128  # about those of a large GPU
_MANY_ROWS: Final = 8_192  # of all networks together, from which on cuBLAS computes products


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
    rows = networks * batch
    if rows >= _MANY_ROWS:
        if backward:
            return Launch(64, min(128, shape.hidden), 32, 4, 3) if splittable and rows < 8 * _MANY_ROWS else None
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
    return networks * batch >= _MANY_ROWS


def row_tiles(networks: int, batch: int, shape: Layout) -> int:
    """Programs that share the batch of one network in the backward pass."""
    return -(-batch // (whole(networks, batch, shape, True) or between(shape, True)).rows)


def splits(networks: int, batch: int, shape: Layout, backward: bool) -> int:
    """Programs that share the columns of one network."""
    how = whole(networks, batch, shape, backward)
    return shape.hidden // how.columns if how else 1


def forward(
    x: Tensor, flat: Tensor, shape: Layout, eps: float, copies: int, keep: bool, precision: str, how: Launch | None
) -> tuple[Tensor, Tensor, Tensor]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch = len(flat), x.shape[1]
    parts = shape.hidden // how.columns if how else 1
    out = flat.new_empty(networks, batch, parts, shape.outputs)
    hidden = flat.new_empty(shape.depth, networks, batch, shape.hidden)
    base = flat.new_empty(hidden.shape if keep and shape.norm else (0,))
    pointers = (x, flat, out, hidden, base, batch, x.stride(0), x.stride(1), flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"COPIES": copies, "KEEP": keep}
    if how:
        tiles = triton.cdiv(batch, how.rows)
        _forward[networks, tiles, parts](*pointers, COLUMNS=how.columns, STEP=how.step, **constants, **_options(how))
    else:
        weights = _hidden_weights(flat, shape)
        for layer in range(shape.depth):
            if layer:
                _bmm(hidden[layer - 1], weights[layer - 1], hidden[layer], precision)
            step = between(shape, False)
            tiles = triton.cdiv(batch, step.rows)
            _forward_step[networks, tiles](*pointers, LAYER=layer, **constants, **_options(step))
    return out, hidden if keep else flat.new_empty(0), base


def backward(
    gradient: Tensor, flat: Tensor, hidden: Tensor, base: Tensor, shape: Layout, eps: float, to_inputs: bool,
    precision: str, how: Launch | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _, networks, batch, _ = hidden.shape
    parts = shape.hidden // how.columns if how else 1
    deltas = torch.empty_like(hidden)
    dx = flat.new_empty((networks, batch, parts, shape.inputs) if to_inputs else (0,))
    step = how or between(shape, True)
    grid = (networks, triton.cdiv(batch, step.rows))
    sums = flat.new_empty((*grid, shape.depth, 2, shape.hidden) if shape.norm else (0,))
    pointers = (gradient, flat, hidden, base, deltas, dx, sums, batch, flat.stride(0), hidden.stride(0), eps)
    constants = _constants(shape, precision) | {"TO_INPUTS": to_inputs}
    if how:
        _backward[*grid, parts](*pointers, COLUMNS=how.columns, STEP=how.step, **constants, **_options(how))
    else:
        weights = _hidden_weights(flat, shape)
        for layer in reversed(range(shape.depth)):
            if layer < shape.depth - 1:
                _bmm(deltas[layer + 1], weights[layer].mT, deltas[layer], precision)
            _backward_step[grid](*pointers, LAYER=layer, **constants, **_options(step))
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
    _weight_gradient[networks, products + (depth + 1) * across, parts](
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


# Few rows: all layers in one kernel ---------------------------------------------------------------------------------


@triton.jit
def _forward(
    x, flat, out, hidden, base, batch, x_member, x_row, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    COPIES: tl.constexpr, KEEP: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Without a norm, the first layer is made a few columns at a time, as the second one needs it. Programs that share
    the columns of the last layer each give their part of y."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    split = tl.program_id(2)
    inputs, columns = tl.arange(0, KP), split * COLUMNS + tl.arange(0, COLUMNS)
    p = flat + network * flat_row
    row_places = (network * batch + rows)[:, None]
    places = row_places * H + columns[None, :]
    given = tl.load(
        x + (network // COPIES) * x_member + rows[:, None] * x_row + inputs[None, :],
        mask=live & (inputs < K)[None, :], other=0.0,
    )  # fmt: skip
    if NORM != "none":
        weights = tl.load(p + inputs[:, None] * H + columns[None, :], mask=(inputs < K)[:, None], other=0.0)
        value = product(given, weights, tl.zeros((ROWS, COLUMNS), tl.float32), PRECISION)
        value = activate(value, p + K * H, base, columns, places, live, eps, H, NORM, KEEP)
        tl.store(hidden + places, value, mask=live)
        tl.debug_barrier()  # other threads of this program read it
    for layer in tl.static_range(1, DEPTH):
        weight = p + FIRST + (layer - 1) * EACH
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, H, STEP):
            some = start + tl.arange(0, STEP)
            if NORM == "none" and layer == 1:
                weights = tl.load(p + inputs[:, None] * H + some[None, :], mask=(inputs < K)[:, None], other=0.0)
                h = product(given, weights, tl.zeros((ROWS, STEP), tl.float32), PRECISION)
                h = tl.maximum(h + tl.load(p + K * H + some)[None, :], 0.0)
                if KEEP:
                    tl.store(
                        hidden + row_places * H + some[None, :], h, mask=live & (some // COLUMNS == split)[None, :]
                    )
            else:
                h = tl.load(hidden + (layer - 1) * layer_size + row_places * H + some[None, :], mask=live, other=0.0)
            total = product(h, tl.load(weight + some[:, None] * H + columns[None, :]), total, PRECISION)
        value = activate(total, weight + H * H, base + layer * layer_size, columns, places, live, eps, H, NORM, KEEP)
        if KEEP or layer < DEPTH - 1:
            tl.store(hidden + layer * layer_size + places, value, mask=live)
            tl.debug_barrier()
    places = row_places * tl.num_programs(2) + split
    store_output(value, p + LAST, out, columns, split, places, live, H, N, NP, PRECISION)


@triton.jit
def _backward(
    gradient, flat, hidden, base, deltas, dx, sums, batch, flat_row, layer_size, eps,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr, FIRST: tl.constexpr, EACH: tl.constexpr,
    LAST: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
    TO_INPUTS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Without a norm, the last δ is made a few columns at a time, as the one before needs it. Programs that share the
    columns of the first layer each give their part of dL/dx."""
    network, layer_size = tl.program_id(0).to(tl.int64), tl.cast(layer_size, tl.int64)
    tile = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    live = (rows < batch)[:, None]
    split = tl.program_id(2)
    columns = split * COLUMNS + tl.arange(0, COLUMNS)
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
            value, scale, hidden + top, base + top, tile_sums + (DEPTH - 1) * 2 * H, columns, places, live, eps, H, NORM
        )
        tl.store(deltas + top + places, value, mask=live)
        tl.debug_barrier()
    for layer in tl.static_range(DEPTH - 1, 0, -1):
        weight = p + FIRST + (layer - 1) * EACH
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, H, STEP):
            some = start + tl.arange(0, STEP)
            there = layer * layer_size + row_places * H + some[None, :]
            if NORM == "none" and layer == DEPTH - 1:
                h = tl.load(hidden + there, mask=live, other=0.0)
                delta = tl.where(h > 0.0, through_output(g, p + LAST, some, N, NP, PRECISION), 0.0)
                tl.store(deltas + there, delta, mask=live & (some // COLUMNS == split)[None, :])
            else:
                delta = tl.load(deltas + there, mask=live, other=0.0)
            weights = tl.load(weight + columns[None, :] * H + some[:, None])  # Wᵀ
            total = product(delta, weights, total, PRECISION)
        below = (layer - 1) * layer_size
        scale = p + K * H + H if layer == 1 else weight - EACH + H * H + H
        value = unactivate(
            total,
            scale,
            hidden + below,
            base + below,
            tile_sums + (layer - 1) * 2 * H,
            columns,
            places,
            live,
            eps,
            H,
            NORM,
        )
        tl.store(deltas + below + places, value, mask=live)
        tl.debug_barrier()
    if TO_INPUTS:
        places = row_places * tl.num_programs(2) + split
        store_input_gradient(value, p, dx, columns, places, live, K, KP, H, PRECISION)


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
    value = activate(value, vectors, base + LAYER * layer_size, columns, places, live, eps, H, NORM, KEEP)
    if KEEP or LAYER < DEPTH - 1:
        tl.store(hidden + LAYER * layer_size + places, value, mask=live)
    if LAYER == DEPTH - 1:
        store_output(value, p + LAST, out, columns, 0, row_places, live, H, N, NP, PRECISION)


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
    value = unactivate(value, vectors + H, hidden + here, base + here, tile_sums, columns, places, live, eps, H, NORM)
    tl.store(deltas + here + places, value, mask=live)
    if LAYER == 0 and TO_INPUTS:
        store_input_gradient(value, p, dx, columns, row_places, live, K, KP, H, PRECISION)


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
        top, g = h + (DEPTH - 1) * layer_size, gradient + network * batch * N
        ends = job == PRODUCTS + ACROSS  # one of them also writes what ends the row: the last bias, and zeros
        store_output_gradient(result + LAST, top, column, g, begin, end, ends, H, N, NP, STEP, PRECISION)
        if ends:
            for unused in range(LAST + H * N + N, length, 64):
                rest = unused + tl.arange(0, 64)
                tl.store(result + rest, tl.zeros((64,), tl.float32), mask=rest < length)
    else:
        layer = (job - PRODUCTS) // ACROSS - 1
        vectors = result + FIRST + (layer - 1) * EACH + H * H
        of_rows, _ = sum_of_rows(delta + layer * layer_size, H, column, gradient, begin, end, STEP, False)
        tl.store(vectors + column, of_rows)
        store_norm_gradient(vectors + H, tile_sums + layer * 2 * H, tiles_of_sums, column, H, DEPTH, NORM)
