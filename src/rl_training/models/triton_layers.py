"""Pieces of a stacked perceptron on tiles of a batch, for Triton kernels; see `fused_mlp` for the mathematics.

`columns` are those of a hidden layer that a tile has, `places` where its rows or numbers lie, `live` which of its rows
are of the batch, `[rows, 1]`.
"""

from __future__ import annotations

import triton
from triton import language as tl


@triton.jit
def product(a, b, total, PRECISION: tl.constexpr):
    """total + a b."""
    if PRECISION == "bf16":
        result = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)
    else:
        result = tl.dot(a, b, total, input_precision=PRECISION)
    return result


@triton.jit
def normalised(base, eps, H: tl.constexpr):
    """(base - mean) / deviation by row, and 1 / deviation."""
    centred = base - (tl.sum(base, 1) / H)[:, None]
    rate = tl.rsqrt(tl.sum(centred * centred, 1) / H + eps)[:, None]
    return centred * rate, rate


@triton.jit
def activate(z, vectors, base, columns, places, live, eps, H: tl.constexpr, NORM: tl.constexpr, KEEP: tl.constexpr):
    """h from z less its bias, whose layer's vectors begin at `vectors`; what is normalised goes to `base`."""
    columns = columns[None, :]
    value = z + tl.load(vectors + columns)
    if NORM != "pre":
        value = tl.maximum(value, 0.0)
    if NORM != "none":
        if KEEP:
            tl.store(base + places, value, mask=live)
        normed, _ = normalised(value, eps, H)
        value = normed * tl.load(vectors + H + columns) + tl.load(vectors + 2 * H + columns)
    if NORM == "pre":
        value = tl.maximum(value, 0.0)
    return value


@triton.jit
def unactivate(dh, scale, hidden, base, sums, columns, places, live, eps, H: tl.constexpr, NORM: tl.constexpr):
    """δ from dL/dh; this tile's part of the gradients of scale and shift goes to `sums`."""
    value = dh
    if NORM != "post":
        value = tl.where(tl.load(hidden + places, mask=live, other=0.0) > 0.0, value, 0.0)
    if NORM != "none":
        kept = tl.load(base + places, mask=live, other=0.0)
        normed, rate = normalised(kept, eps, H)
        tl.store(sums + columns, tl.sum(value * normed, 0))
        tl.store(sums + H + columns, tl.sum(value, 0))
        value = value * tl.load(scale + columns)[None, :]
        value = rate * (value - (tl.sum(value, 1) / H)[:, None] - normed * (tl.sum(value * normed, 1) / H)[:, None])
        if NORM == "post":
            value = tl.where(kept > 0.0, value, 0.0)
    return value


@triton.jit
def store_output(
    h, last, out, columns, split, places, live, H: tl.constexpr, N: tl.constexpr, NP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """What columns of the last hidden layer add to y, of a tile whose rows are at `places`; the first ones add
    the bias."""
    outputs = tl.arange(0, NP)
    if N == 1:
        value = tl.sum(h * tl.load(last + columns)[None, :], 1)[:, None] + tl.where(split == 0, tl.load(last + H), 0.0)
        tl.store(out + places, value, mask=live)
    else:
        used = (outputs < N)[None, :]
        weights = tl.load(last + columns[:, None] * N + outputs[None, :], mask=used, other=0.0)
        value = product(h, weights, tl.zeros((h.shape[0], NP), tl.float32), PRECISION)
        bias = tl.load(last + H * N + outputs, mask=outputs < N, other=0.0)
        value += tl.where(split == 0, bias, 0.0)[None, :]
        tl.store(out + places * N + outputs[None, :], value, mask=live & used)


@triton.jit
def output_gradient(gradient, places, live, N: tl.constexpr, NP: tl.constexpr):
    """g of a tile, `[rows, NP]`; `[rows, 1]` for a single output."""
    if N == 1:
        g = tl.load(gradient + places, mask=live, other=0.0)
    else:
        outputs = tl.arange(0, NP)
        g = tl.load(gradient + places * N + outputs[None, :], mask=live & (outputs < N)[None, :], other=0.0)
    return g


@triton.jit
def through_output(g, last, some, N: tl.constexpr, NP: tl.constexpr, PRECISION: tl.constexpr):
    """g Wᵀ of the output layer, at columns `some`."""
    if N == 1:
        d = g * tl.load(last + some)[None, :]
    else:
        outputs = tl.arange(0, NP)
        weights = tl.load(last + some[None, :] * N + outputs[:, None], mask=(outputs < N)[:, None], other=0.0)
        d = product(g, weights, tl.zeros((g.shape[0], some.shape[0]), tl.float32), PRECISION)
    return d


@triton.jit
def store_input_gradient(
    delta, p, dx, columns, places, live, K: tl.constexpr, KP: tl.constexpr, H: tl.constexpr, PRECISION: tl.constexpr
):
    """What columns of the first hidden layer add to dL/dx."""
    for start in range(0, KP, 16):
        some = start + tl.arange(0, 16)
        used = (some < K)[None, :]
        weights = tl.load(p + some[None, :] * H + columns[:, None], mask=used, other=0.0)  # W_0ᵀ
        value = product(delta, weights, tl.zeros((delta.shape[0], 16), tl.float32), PRECISION)
        tl.store(dx + places * K + some[None, :], value, mask=live & used)


@triton.jit
def sum_of_products(
    a, a_row, a_columns, a_width, b, b_row, b_columns, b_width, begin, end, STEP: tl.constexpr, PRECISION: tl.constexpr
):
    """aᵀ b and Σ b over rows `begin` to `end`, of columns that may lie beyond the width and are zero then."""
    total = tl.zeros((a_columns.shape[0], b_columns.shape[0]), tl.float32)
    of_rows = tl.zeros((STEP, b_columns.shape[0]), tl.float32)  # summed once, at the end: threads need one another then
    for start in range(begin, end, STEP):
        rows = (start + tl.arange(0, STEP)).to(tl.int64)[:, None]
        left = tl.load(
            a + rows * a_row + a_columns[None, :], mask=(rows < end) & (a_columns < a_width)[None, :], other=0.0
        )
        right = tl.load(
            b + rows * b_row + b_columns[None, :], mask=(rows < end) & (b_columns < b_width)[None, :], other=0.0
        )
        total = product(tl.trans(left), right, total, PRECISION)
        of_rows += right
    return total, tl.sum(of_rows, 0)


@triton.jit
def sum_of_rows(values, row_length, columns, weights, begin, end, STEP: tl.constexpr, WEIGHTED: tl.constexpr):
    """Σ v, or Σ w v, and Σ w."""
    total, of_weights = tl.zeros((STEP, columns.shape[0]), tl.float32), tl.zeros((STEP, 1), tl.float32)
    for start in range(begin, end, STEP):
        rows = (start + tl.arange(0, STEP)).to(tl.int64)[:, None]
        some = tl.load(values + rows * row_length + columns[None, :], mask=rows < end, other=0.0)
        if WEIGHTED:
            weight = tl.load(weights + rows, mask=rows < end, other=0.0)
            of_weights += weight
            some *= weight
        total += some
    return tl.sum(total, 0), tl.sum(tl.sum(of_weights, 1), 0)


@triton.jit
def store_output_gradient(
    last, h, columns, g, begin, end, biased, H: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, STEP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """dL/dW of the output layer at rows `columns` of it, over a part of the batch; if asked for, the bias's, too."""
    outputs = tl.arange(0, NP)
    if N == 1:
        total, bias = sum_of_rows(h, H, columns, g, begin, end, STEP, True)
        tl.store(last + columns, total)
        if biased:
            tl.store(last + H, bias)
    else:
        total, bias = sum_of_products(h, H, columns, H, g, N, outputs, N, begin, end, STEP, PRECISION)
        tl.store(last + columns[:, None] * N + outputs[None, :], total, mask=(outputs < N)[None, :])
        if biased:
            tl.store(last + H * N + outputs, bias, mask=outputs < N)


@triton.jit
def store_norm_gradient(scale, tile_sums, tiles, columns, H: tl.constexpr, DEPTH: tl.constexpr, NORM: tl.constexpr):
    """dL/ds and dL/dt of a layer, summed over the tiles of the backward pass."""
    if NORM != "none":
        d_scale, d_shift = tl.zeros(columns.shape, tl.float32), tl.zeros(columns.shape, tl.float32)
        for tile in range(tiles):
            given = tile_sums + tile * DEPTH * 2 * H + columns
            d_scale += tl.load(given)
            d_shift += tl.load(given + H)
        tl.store(scale + columns, d_scale)
        tl.store(scale + H + columns, d_shift)
