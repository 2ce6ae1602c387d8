"""The Triton kernels of `fused_layer` and how they are launched. See there for the mathematics."""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton import language as tl

from rl_training.models.fused_mlp_kernels import _power, _product, interpreted, launch

__all__ = ["backward", "forward", "interpreted", "tiles", "weight_gradient"]


def tiles(networks: int, batch: int) -> int:
    """Programs that share the batch of one network."""
    return -(-batch // launch("forward", networks, batch).rows)


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, scale: Tensor | None, shift: Tensor | None, norm: str, eps: float,
    keep: bool, precision: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, inputs, outputs = weight.shape
    batch, how = x.shape[1], launch("forward", networks, x.shape[1])
    y = x.new_empty(networks, batch, outputs)
    base = torch.empty_like(y) if keep and norm != "none" else x.new_empty(0)
    scale, shift = (bias if scale is None else scale), (bias if shift is None else shift)  # not read without a norm
    _forward[(networks, tiles(networks, batch))](
        x, weight, bias, scale, shift, y, base, batch, x.stride(0), x.stride(1), weight.stride(0), bias.stride(0),
        scale.stride(0), eps, K=inputs, H=outputs, COPIES=networks // len(x), NORM=norm, KEEP=keep, ROWS=how.rows,
        STEP=how.step, PRECISION=precision, num_warps=how.warps, num_stages=how.stages,
    )  # fmt: skip
    return y, base


def backward(
    gradient: Tensor, y: Tensor, base: Tensor, weight: Tensor, scale: Tensor | None, norm: str, eps: float,
    to_inputs: bool, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    networks, inputs, outputs = weight.shape
    batch, how = y.shape[1], launch("forward", networks, y.shape[1])
    delta = torch.empty_like(y)
    dx = y.new_empty((networks, batch, inputs) if to_inputs else (0,))
    sums = y.new_empty(0 if norm == "none" else tiles(networks, batch), networks, 2, outputs)
    scale = weight if scale is None else scale  # not read without a norm
    _backward[(networks, tiles(networks, batch))](
        gradient, y, base, weight, scale, delta, dx, sums, batch, weight.stride(0), scale.stride(0), eps,
        K=inputs, H=outputs, NORM=norm, TO_INPUTS=to_inputs, ROWS=how.rows, STEP=how.step, PRECISION=precision,
        num_warps=how.warps, num_stages=how.stages,
    )  # fmt: skip
    return delta, dx, sums


def weight_gradient(x: Tensor, delta: Tensor, parts: int, precision: str) -> tuple[Tensor, Tensor]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch, outputs = delta.shape
    inputs = x.shape[2]
    d_weight, d_bias = x.new_empty(parts, networks, inputs, outputs), x.new_empty(parts, networks, outputs)
    high = min(64, _power(inputs))
    _weight_gradient[(networks, triton.cdiv(inputs, high) * (outputs // 64), parts)](
        x, delta, d_weight, d_bias, batch, x.stride(0), x.stride(1), K=inputs, H=outputs, COPIES=networks // len(x),
        HIGH=high, WIDE=64, STEP=32, PART=_power(triton.cdiv(batch, parts)), PRECISION=precision, num_warps=4,
    )  # fmt: skip
    return d_weight, d_bias


@triton.jit
def _normalised(base, eps, H: tl.constexpr):
    """(base - mean) / deviation by row, and 1 / deviation."""
    centred = base - (tl.sum(base, 1) / H)[:, None]
    rate = tl.rsqrt(tl.sum(centred * centred, 1) / H + eps)[:, None]
    return centred * rate, rate


@triton.jit
def _forward(
    x, weight, bias, scale, shift, y, base, batch, x_member, x_row, weight_row, bias_row, scale_row, eps,
    K: tl.constexpr, H: tl.constexpr, COPIES: tl.constexpr, NORM: tl.constexpr, KEEP: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of the batch through one layer of one network."""
    network = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, H)
    live = (rows < batch)[:, None]
    places = (network * batch + rows)[:, None] * H + columns[None, :]
    given = x + (network // COPIES) * x_member + rows[:, None] * x_row
    total = tl.zeros((ROWS, H), tl.float32)
    for start in range(0, K, STEP):
        some = start + tl.arange(0, STEP)
        values = tl.load(given + some[None, :], mask=live & (some < K)[None, :], other=0.0)
        weights = tl.load(
            weight + network * weight_row + some[:, None] * H + columns[None, :], mask=(some < K)[:, None], other=0.0
        )
        total = _product(values, weights, total, PRECISION)
    value = total + tl.load(bias + network * bias_row + columns)[None, :]
    if NORM != "pre":
        value = tl.maximum(value, 0.0)
    if NORM != "none":
        if KEEP:
            tl.store(base + places, value, mask=live)
        hat, _ = _normalised(value, eps, H)
        value = hat * tl.load(scale + network * scale_row + columns)[None, :]
        value += tl.load(shift + network * scale_row + columns)[None, :]
    if NORM == "pre":
        value = tl.maximum(value, 0.0)
    tl.store(y + places, value, mask=live)


@triton.jit
def _backward(
    gradient, y, base, weight, scale, delta, dx, sums, batch, weight_row, scale_row, eps,
    K: tl.constexpr, H: tl.constexpr, NORM: tl.constexpr, TO_INPUTS: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """δ and dL/dx for a tile of the batch of one network, and the tile's part of dL/ds and dL/dt."""
    network = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1).to(tl.int64)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, H)
    live = (rows < batch)[:, None]
    places = (network * batch + rows)[:, None] * H + columns[None, :]
    value = tl.load(gradient + places, mask=live, other=0.0)
    if NORM != "post":
        value = tl.where(tl.load(y + places, mask=live, other=0.0) > 0.0, value, 0.0)
    if NORM != "none":
        kept = tl.load(base + places, mask=live, other=0.0)
        hat, rate = _normalised(kept, eps, H)
        result = sums + ((tile * tl.num_programs(0) + network) * 2) * H + columns
        tl.store(result, tl.sum(value * hat, 0))
        tl.store(result + H, tl.sum(value, 0))
        value = value * tl.load(scale + network * scale_row + columns)[None, :]
        value = rate * (value - (tl.sum(value, 1) / H)[:, None] - hat * (tl.sum(value * hat, 1) / H)[:, None])
        if NORM == "post":
            value = tl.where(kept > 0.0, value, 0.0)
    tl.store(delta + places, value, mask=live)
    if TO_INPUTS:
        for start in range(0, K, STEP):
            some = start + tl.arange(0, STEP)
            used = (some < K)[None, :]
            weights = tl.load(
                weight + network * weight_row + some[None, :] * H + columns[:, None], mask=used, other=0.0
            )  # Wᵀ
            back = _product(value, weights, tl.zeros((ROWS, STEP), tl.float32), PRECISION)
            tl.store(dx + (network * batch + rows)[:, None] * K + some[None, :], back, mask=live & used)


@triton.jit
def _weight_gradient(
    x, delta, d_weight, d_bias, batch, x_member, x_row,
    K: tl.constexpr, H: tl.constexpr, COPIES: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    STEP: tl.constexpr, PART: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of dL/dW over a part of the batch; the first row of tiles also has dL/db."""
    network = tl.program_id(0).to(tl.int64)
    tile, part = tl.program_id(1), tl.program_id(2).to(tl.int64)
    ACROSS: tl.constexpr = H // WIDE
    inputs = (tile // ACROSS) * HIGH + tl.arange(0, HIGH)
    columns = (tile % ACROSS) * WIDE + tl.arange(0, WIDE)
    total = tl.zeros((HIGH, WIDE), tl.float32)
    bias = tl.zeros((WIDE,), tl.float32)
    for start in range(0, tl.minimum(batch - part * PART, PART), STEP):
        rows = part * PART + start + tl.arange(0, STEP)
        live = (rows < batch)[:, None]
        given = tl.load(
            x + (network // COPIES) * x_member + rows[:, None] * x_row + inputs[None, :],
            mask=live & (inputs < K)[None, :], other=0.0,
        )  # fmt: skip
        value = tl.load(delta + (network * batch + rows)[:, None] * H + columns[None, :], mask=live, other=0.0)
        total = _product(tl.trans(given), value, total, PRECISION)
        bias += tl.sum(value, 0)
    result = part * tl.num_programs(0) + network
    places = (result * K + inputs[:, None]) * H + columns[None, :]
    tl.store(d_weight + places, total, mask=(inputs < K)[:, None])
    if tile < ACROSS:
        tl.store(d_bias + result * H + columns, bias)
