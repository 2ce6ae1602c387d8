"""Random numbers as a pure function of (seed, stream, update, position).

Nothing here has a state: the batch indices and the noise of seed 7 at update 1,000 are the same numbers whether the
run was resumed there, trains alone or trains among 64 others. The generator is SplitMix64 (Steele, Lea & Flood 2014),
started for each (seed, stream, update) at a state that is itself a hash of the three. Integers and uniforms are the
same on every device; normals, which go through log and cos, agree to rounding. It is written in wrapping 64-bit integer
tensor operations, so it can live inside a compiled or captured block.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, as a signed 64-bit integer
_MULTIPLIER_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MULTIPLIER_2 = 0x94D049BB133111EB - (1 << 64)
_STREAM_SPREAD = 0x2545F491  # odd: spreads 32-bit stream numbers over 62 bits


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical (not arithmetic) right shift of a signed 64-bit tensor."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's output function: a bijection of 64-bit integers whose outputs look independent."""
    x = (x ^ _shift_right(x, 30)) * _MULTIPLIER_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLIER_2
    return x ^ _shift_right(x, 31)


def stream_id(name: str) -> int:
    """A stable number for a stream's name (the same in every process and release)."""
    return zlib.crc32(name.encode())


def member_keys(seeds: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """One 64-bit key per member, `[M]`, from the members' seeds."""
    return _mix(torch.tensor(list(seeds), dtype=torch.int64, device=device) * _GOLDEN + _GOLDEN)


def derive(keys: Tensor, number: Tensor) -> Tensor:
    """Keys for numbered parts of what each key stands for: `[M]` and `[W]` give `[M, W]`."""
    return _mix(keys.unsqueeze(-1) + (number + 1) * _GOLDEN)


def bits(keys: Tensor, stream: int, update: Tensor | int, count: int) -> Tensor:
    """`[M, count]` random 64-bit integers for each member at one update of one stream."""
    at = torch.as_tensor(update, dtype=torch.int64, device=keys.device)
    state = _mix(_mix(keys ^ (stream * _STREAM_SPREAD)) + at * _GOLDEN)
    position = torch.arange(1, count + 1, dtype=torch.int64, device=keys.device)
    # A value read at run time, not a literal: Triton folds literals into 32-bit index arithmetic, where this overflows.
    golden = (keys[:1] & 0) + _GOLDEN
    return _mix(state.unsqueeze(-1) + position * golden)


def uniform(keys: Tensor, stream: int, update: Tensor | int, shape: Sequence[int]) -> Tensor:
    """`[M, *shape]` uniform floats in [0, 1), 24 bits each."""
    raw = bits(keys, stream, update, math.prod(shape))
    return (_shift_right(raw, 40).float() * 2.0**-24).view(len(keys), *shape)


def normal(keys: Tensor, stream: int, update: Tensor | int, shape: Sequence[int]) -> Tensor:
    """`[M, *shape]` standard normal floats (Box-Muller, two from each 64-bit integer)."""
    count = math.prod(shape)
    raw = bits(keys, stream, update, (count + 1) // 2)
    radius = torch.sqrt(-2.0 * torch.log((_shift_right(raw, 40).float() + 1.0) * 2.0**-24))
    angle = (raw & 0xFFFFFF).float() * (2.0 * math.pi * 2.0**-24)
    pair = torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return pair[:, :count].view(len(keys), *shape)


def integers(keys: Tensor, stream: int, update: Tensor | int, count: int, bound: Tensor | int) -> Tensor:
    """`[M, count]` integers in [0, bound), uniform to within bound / 2^63."""
    return _shift_right(bits(keys, stream, update, count), 1) % bound


@dataclass(frozen=True)
class Noise:
    """One named source of randomness an update asks for: its distribution and its shape without the member axis."""

    kind: Literal["normal", "uniform"]
    shape: tuple[int, ...]


class NoiseStreams:
    """Draws every noise tensor an update asked for, each from the stream of its own name."""

    def __init__(self, specification: Mapping[str, Noise], purpose: str = "") -> None:
        """`purpose` keeps streams of one name apart: exploring at step 5 is not updating at step 5."""
        self._plan = [(name, stream_id(purpose + name), noise) for name, noise in specification.items()]

    def draw(self, keys: Tensor, update: Tensor | int) -> dict[str, Tensor]:
        """`[M, *shape]` by name, for the members with these `keys` at `update`."""
        return {
            name: (normal if noise.kind == "normal" else uniform)(keys, stream, update, noise.shape)
            for name, stream, noise in self._plan
        }
