"""The Triton kernels of `fused_mlp` and how they are launched. See there for the mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import torch
import triton
from torch import Tensor
from triton import language as tl

if TYPE_CHECKING:
    from rl_training.models.fused_mlp import Layout

_FEW_TILES: Final = 264  # twice the multiprocessors of a large GPU: below it, smaller tiles use more of them


def interpreted() -> bool:
    """Whether kernels run on the CPU, in Triton's interpreter (`TRITON_INTERPRET=1`)."""
    return bool(triton.knobs.runtime.interpret)


class Launch(NamedTuple):
    """How a kernel is spread over the GPU: rows of a tile, columns or batch rows taken at a time, warps of a program
    and steps whose loads are under way at once."""

    rows: int
    step: int
    warps: int
    stages: int


def launch(kernel: Literal["forward", "backward", "weight_gradient"], networks: int, batch: int) -> Launch:
    """Larger tiles read the weights less often, smaller ones use more processors."""
    rows = next((rows for rows in (16, 32) if networks * -(-batch // rows) <= _FEW_TILES), 64)
    if kernel == "weight_gradient":
        return Launch(64, 32, 4, 3)
    return Launch(rows, 32, 4 if rows < 64 else 8, 3)


def _power(number: int) -> int:
    """The next power of two that a matrix product takes."""
    return max(16, 1 << (number - 1).bit_length())


def _constants(shape: Layout, precision: str) -> dict[str, Any]:
    names = ("W0", "B0", "W1", "B1", "W2", "B2")
    places = dict(zip(names, shape[3:], strict=True))
    widths = {"K": shape.inputs, "H": shape.hidden, "N": shape.outputs}
    return places | widths | {"KP": _power(shape.inputs), "NP": _power(shape.outputs), "PRECISION": precision}


def forward(
    x: Tensor, flat: Tensor, shape: Layout, copies: int, keep: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch = len(flat), x.shape[1]
    out = flat.new_empty(networks, batch, shape.outputs)
    h1, h2 = (flat.new_empty((networks, batch, shape.hidden) if keep else (0,)) for _ in range(2))
    how = launch("forward", networks, batch)
    _forward[(networks, triton.cdiv(batch, how.rows))](
        x, flat, out, h1, h2, batch, x.stride(0), x.stride(1), flat.stride(0),
        COPIES=copies, KEEP=keep, ROWS=how.rows, STEP=how.step, **_constants(shape, precision),
        num_warps=how.warps, num_stages=how.stages,
    )  # fmt: skip
    return out, h1, h2


def backward(
    gradient: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, shape: Layout, to_inputs: bool, precision: str
) -> tuple[Tensor, Tensor]:
    networks, batch = len(flat), h1.shape[1]
    delta_1 = torch.empty_like(h1)
    dx = flat.new_empty((networks, batch, shape.inputs) if to_inputs else (0,))
    how = launch("backward", networks, batch)
    _backward[(networks, triton.cdiv(batch, how.rows))](
        gradient, flat, h1, h2, delta_1, dx, batch, flat.stride(0),
        TO_INPUTS=to_inputs, ROWS=how.rows, STEP=how.step, **_constants(shape, precision),
        num_warps=how.warps, num_stages=how.stages,
    )  # fmt: skip
    return delta_1, dx


def weight_gradient(
    gradient: Tensor, x: Tensor, flat: Tensor, h1: Tensor, h2: Tensor, delta_1: Tensor, shape: Layout,
    copies: int, precision: str, parts: int,
) -> Tensor:  # fmt: skip
    """dL/dflat as sums over `parts` parts of the batch, `[parts, R, P]`."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    networks, batch = len(flat), x.shape[1]
    partials = flat.new_empty(parts, *flat.shape)
    how = launch("weight_gradient", networks, batch)
    tiles = shape.hidden // how.rows
    _weight_gradient[(networks, tiles * tiles + tiles, len(partials))](
        gradient, x, flat, h1, h2, delta_1, partials, batch, x.stride(0), x.stride(1), flat.stride(0), flat.shape[1],
        COPIES=copies, TILE=how.rows, STEP=how.step, PART=_power(triton.cdiv(batch, parts)),
        **_constants(shape, precision), num_warps=how.warps, num_stages=how.stages,
    )  # fmt: skip
    return partials


# Kernels ------------------------------------------------------------------------------------------------------------


@triton.jit
def _product(a, b, total, PRECISION: tl.constexpr):
    """total + a b."""
    if PRECISION == "bf16":
        result = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)
    else:
        result = tl.dot(a, b, total, input_precision=PRECISION)
    return result


@triton.jit
def _forward(
    x, flat, out, h1, h2, batch, x_member, x_row, flat_row,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr,
    W0: tl.constexpr, B0: tl.constexpr, W1: tl.constexpr, B1: tl.constexpr, W2: tl.constexpr, B2: tl.constexpr,
    COPIES: tl.constexpr, KEEP: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of the batch through one network; h_1 is made a few columns at a time, as the second layer needs it."""
    network = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inputs, columns = tl.arange(0, KP), tl.arange(0, H)
    live = (rows < batch)[:, None]
    p = flat + network * flat_row
    places = (network * batch + rows)[:, None]
    given = tl.load(
        x + (network // COPIES) * x_member + rows[:, None] * x_row + inputs[None, :],
        mask=live & (inputs < K)[None, :], other=0.0,
    )  # fmt: skip
    total = tl.zeros((ROWS, H), tl.float32)
    for start in range(0, H, STEP):
        some = start + tl.arange(0, STEP)
        weights = tl.load(p + W0 + inputs[:, None] * H + some[None, :], mask=(inputs < K)[:, None], other=0.0)
        hidden = _product(given, weights, tl.zeros((ROWS, STEP), tl.float32), PRECISION)
        hidden = tl.maximum(hidden + tl.load(p + B0 + some)[None, :], 0.0)
        if KEEP:
            tl.store(h1 + places * H + some[None, :], hidden, mask=live)
        total = _product(hidden, tl.load(p + W1 + some[:, None] * H + columns[None, :]), total, PRECISION)
    hidden = tl.maximum(total + tl.load(p + B1 + columns)[None, :], 0.0)
    if KEEP:
        tl.store(h2 + places * H + columns[None, :], hidden, mask=live)
    if N == 1:
        value = tl.sum(hidden * tl.load(p + W2 + columns)[None, :], 1) + tl.load(p + B2)
        tl.store(out + network * batch + rows, value, mask=rows < batch)
    else:
        outputs = tl.arange(0, NP)
        used = (outputs < N)[None, :]
        weights = tl.load(p + W2 + columns[:, None] * N + outputs[None, :], mask=used, other=0.0)
        value = _product(hidden, weights, tl.zeros((ROWS, NP), tl.float32), PRECISION)
        value += tl.load(p + B2 + outputs, mask=outputs < N, other=0.0)[None, :]
        tl.store(out + places * N + outputs[None, :], value, mask=live & used)


@triton.jit
def _output_gradient(gradient, p, places, live, N: tl.constexpr, NP: tl.constexpr):
    """g for a tile of the batch, `[rows, NP]`; `[rows, 1]` for a single output."""
    if N == 1:
        g = tl.load(gradient + places, mask=live, other=0.0)
    else:
        outputs = tl.arange(0, NP)
        g = tl.load(gradient + places * N + outputs[None, :], mask=live & (outputs < N)[None, :], other=0.0)
    return g


@triton.jit
def _delta_2(g, hidden, p, some, W2: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, PRECISION: tl.constexpr):
    """δ_2 at columns `some`, from g and h_2 there."""
    if N == 1:
        delta = g * tl.load(p + W2 + some)[None, :]
    else:
        outputs = tl.arange(0, NP)
        weights = tl.load(p + W2 + some[None, :] * N + outputs[:, None], mask=(outputs < N)[:, None], other=0.0)  # W_2ᵀ
        delta = _product(g, weights, tl.zeros(hidden.shape, tl.float32), PRECISION)
    return tl.where(hidden > 0.0, delta, 0.0)


@triton.jit
def _backward(
    gradient, flat, h1, h2, delta_1, dx, batch, flat_row,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr,
    W0: tl.constexpr, B0: tl.constexpr, W1: tl.constexpr, B1: tl.constexpr, W2: tl.constexpr, B2: tl.constexpr,
    TO_INPUTS: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """δ_1 and dL/dx for a tile of the batch of one network."""
    network = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, H)
    live = (rows < batch)[:, None]
    p = flat + network * flat_row
    places = (network * batch + rows)[:, None]
    g = _output_gradient(gradient, p, places, live, N, NP)
    total = tl.zeros((ROWS, H), tl.float32)
    for start in range(0, H, STEP):
        some = start + tl.arange(0, STEP)
        hidden = tl.load(h2 + places * H + some[None, :], mask=live, other=0.0)
        delta = _delta_2(g, hidden, p, some, W2, N, NP, PRECISION)
        weights = tl.load(p + W1 + columns[None, :] * H + some[:, None])  # W_1ᵀ
        total = _product(delta, weights, total, PRECISION)
    hidden = tl.load(h1 + places * H + columns[None, :], mask=live, other=0.0)
    delta = tl.where(hidden > 0.0, total, 0.0)
    tl.store(delta_1 + places * H + columns[None, :], delta, mask=live)
    if TO_INPUTS:
        for start in range(0, KP, 16):
            some = start + tl.arange(0, 16)
            used = (some < K)[None, :]
            weights = tl.load(p + W0 + some[None, :] * H + columns[:, None], mask=used, other=0.0)  # W_0ᵀ
            value = _product(delta, weights, tl.zeros((ROWS, 16), tl.float32), PRECISION)
            tl.store(dx + places * K + some[None, :], value, mask=live & used)


@triton.jit
def _weight_gradient(
    gradient, x, flat, h1, h2, delta_1, partials, batch, x_member, x_row, flat_row, length,
    K: tl.constexpr, H: tl.constexpr, N: tl.constexpr, KP: tl.constexpr, NP: tl.constexpr,
    W0: tl.constexpr, B0: tl.constexpr, W1: tl.constexpr, B1: tl.constexpr, W2: tl.constexpr, B2: tl.constexpr,
    COPIES: tl.constexpr, TILE: tl.constexpr, STEP: tl.constexpr, PART: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of dL/dW_1, or the columns of dL/dW_0 and of the rest that belong to it, over a part of the batch."""
    network = tl.program_id(0).to(tl.int64)
    tile, part = tl.program_id(1), tl.program_id(2).to(tl.int64)
    p = flat + network * flat_row
    result = partials + (part * tl.num_programs(0) + network) * length
    rows_here = tl.minimum(batch - part * PART, PART)
    TILES: tl.constexpr = H // TILE
    column = (tile % TILES) * TILE + tl.arange(0, TILE)
    if tile < TILES * TILES:
        row = (tile // TILES) * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), tl.float32)
        for start in range(0, rows_here, STEP):
            batch_rows = part * PART + start + tl.arange(0, STEP)
            live = (batch_rows < batch)[:, None]
            places = (network * batch + batch_rows)[:, None]
            g = _output_gradient(gradient, p, places, live, N, NP)
            hidden = tl.load(h2 + places * H + column[None, :], mask=live, other=0.0)
            delta = _delta_2(g, hidden, p, column, W2, N, NP, PRECISION)
            given = tl.load(h1 + places * H + row[None, :], mask=live, other=0.0)
            total = _product(tl.trans(given), delta, total, PRECISION)
        tl.store(result + W1 + row[:, None] * H + column[None, :], total)
    else:
        inputs, outputs = tl.arange(0, KP), tl.arange(0, NP)
        first = tl.zeros((KP, TILE), tl.float32)
        bias_0, bias_1 = tl.zeros((TILE,), tl.float32), tl.zeros((TILE,), tl.float32)
        last = tl.zeros((TILE, NP), tl.float32)
        bias_2 = tl.zeros((NP,), tl.float32)
        for start in range(0, rows_here, STEP):
            batch_rows = part * PART + start + tl.arange(0, STEP)
            live = (batch_rows < batch)[:, None]
            places = (network * batch + batch_rows)[:, None]
            given = tl.load(
                x + (network // COPIES) * x_member + batch_rows[:, None] * x_row + inputs[None, :],
                mask=live & (inputs < K)[None, :], other=0.0,
            )  # fmt: skip
            delta = tl.load(delta_1 + places * H + column[None, :], mask=live, other=0.0)
            first = _product(tl.trans(given), delta, first, PRECISION)
            bias_0 += tl.sum(delta, 0)
            g = _output_gradient(gradient, p, places, live, N, NP)
            hidden = tl.load(h2 + places * H + column[None, :], mask=live, other=0.0)
            bias_1 += tl.sum(_delta_2(g, hidden, p, column, W2, N, NP, PRECISION), 0)
            wide = tl.where((outputs == 0)[None, :], g, 0.0) if N == 1 else g
            last = _product(tl.trans(hidden), wide, last, PRECISION)
            bias_2 += tl.sum(wide, 0)
        tl.store(result + W0 + inputs[:, None] * H + column[None, :], first, mask=(inputs < K)[:, None])
        tl.store(result + B0 + column, bias_0)
        tl.store(result + B1 + column, bias_1)
        tl.store(result + W2 + column[:, None] * N + outputs[None, :], last, mask=(outputs < N)[None, :])
        if tile == TILES * TILES:  # one of them also writes what ends the row: the last bias, and zeros
            tl.store(result + B2 + outputs, bias_2, mask=outputs < N)
            for unused in range(B2 + N, length, 64):
                rest = unused + tl.arange(0, 64)
                tl.store(result + rest, tl.zeros((64,), tl.float32), mask=rest < length)
