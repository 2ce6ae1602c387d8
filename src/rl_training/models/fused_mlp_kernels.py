"""The Triton kernels of `fused_mlp`. See there for the mathematics, and `fused_mlp_launches` for who starts them."""

from __future__ import annotations

import triton
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

# Few rows: all layers in one kernel ---------------------------------------------------------------------------------


@triton.jit
def forward_kernel(
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
def backward_kernel(
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
        own = tile_sums + (layer - 1) * 2 * H
        value = unactivate(total, scale, hidden + below, base + below, own, columns, places, live, eps, H, NORM)
        tl.store(deltas + below + places, value, mask=live)
        tl.debug_barrier()
    if TO_INPUTS:
        places = row_places * tl.num_programs(2) + split
        store_input_gradient(value, p, dx, columns, places, live, K, KP, H, PRECISION)


# Many rows: what is between two products ----------------------------------------------------------------------------


@triton.jit
def forward_step(
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
def backward_step(
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
def gradient_kernel(
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
