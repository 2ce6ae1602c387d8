"""Initial weights as the reference implementations draw them, from each member's own random stream.

An initialiser fills one parameter of one network for every member and every copy (critic) at once. What it draws
depends on the member's seed, the network's and the parameter's name, and nothing else: not on how many members train.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rl_training import streams

Scheme = Literal["torch", "orthogonal", "xavier", "edac"]


@dataclass(frozen=True)
class Initialiser:
    """How one network's linear layers start.

    scheme: `torch` is U(±1/√fan_in) for weights and biases (TD3, TD3+BC); `orthogonal` has gain √2 and zero biases
        (IQL, CQL's critics); `xavier` is Xavier-uniform with zero biases (RLPD); `edac` is U(±1/√fan_in) with hidden
        biases of 0.1 (EDAC, ReBRAC).
    last: gain of the last layer for `orthogonal`, half-width of its uniform range for `edac`; None keeps the scheme's
        own value (√2, or 1/√fan_in).
    """

    scheme: Scheme = "torch"
    last: float | None = None

    def weight(self, keys: Tensor, name: str, shape: tuple[int, int, int], is_last: bool) -> Tensor:
        """`[M, copies, in, out]` weights; `shape` is `(copies, in, out)`."""
        _, fan_in, fan_out = shape
        if self.scheme == "orthogonal":
            gain = self.last if is_last and self.last is not None else math.sqrt(2.0)
            return gain * _orthogonal(streams.normal(keys, streams.stream_id(name), 0, shape))
        bound = 1.0 / math.sqrt(fan_in)
        if self.scheme == "xavier":
            bound = math.sqrt(6.0 / (fan_in + fan_out))
        elif self.scheme == "edac" and is_last and self.last is not None:
            bound = self.last
        return _symmetric_uniform(keys, name, shape, bound)

    def bias(self, keys: Tensor, name: str, shape: tuple[int, int], fan_in: int, is_last: bool) -> Tensor:
        """`[M, copies, out]` biases; `shape` is `(copies, out)`."""
        if self.scheme in ("orthogonal", "xavier"):
            return torch.zeros(len(keys), *shape)
        if self.scheme == "edac" and not is_last:
            return torch.full((len(keys), *shape), 0.1)
        bound = self.last if self.scheme == "edac" and self.last is not None else 1.0 / math.sqrt(fan_in)
        return _symmetric_uniform(keys, name, shape, bound)


def _symmetric_uniform(keys: Tensor, name: str, shape: tuple[int, ...], bound: float) -> Tensor:
    return (2.0 * streams.uniform(keys, streams.stream_id(name), 0, shape) - 1.0) * bound


def _orthogonal(gaussian: Tensor) -> Tensor:
    """Matrices with orthonormal rows or columns (whichever are fewer), uniformly distributed, from normal ones."""
    rows, columns = gaussian.shape[-2:]
    tall = gaussian.double() if rows >= columns else gaussian.double().transpose(-1, -2)
    q, r = torch.linalg.qr(tall)
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)
    oriented: Tensor = q if rows >= columns else q.transpose(-1, -2)
    return oriented.float()
