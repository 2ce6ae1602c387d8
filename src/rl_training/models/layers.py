"""The stacked multilayer perceptron every network of the package is made of.

`members` independent trainings times `copies` (the critics of an ensemble) are one module: row m·copies + e of the
parameter matrix `flat` holds every weight of copy e of member m. One matrix per network makes the optimiser, the
Polyak average, a checkpoint and "take member 7 out" single operations on rows; matrix products run batched over rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from rl_training import streams
from rl_training.models import blocked_mlp, fused_mlp
from rl_training.models.initialisers import Initialiser

LayerNormPlacement = Literal["none", "pre", "post"]
Arithmetic = Literal["fp32", "tf32", "bf16"]
LAYER_NORM_EPS = 1e-6  # Flax's value, which the references with LayerNorm use; torch's default is 1e-5
_ALIGN = 16  # floats; keeps every parameter 64-byte aligned inside its row


@dataclass(frozen=True)
class MLPSpec:
    """The shape and start of one network.

    sizes: input, hidden and output widths.
    layer_norm: `pre` normalises before the ReLU (RLPD), `post` after it (ReBRAC).
    constants: extra learnable vectors kept beside the layers, by name, with their initial value and length.
    """

    sizes: tuple[int, ...]
    layer_norm: LayerNormPlacement = "none"
    init: Initialiser = field(default_factory=Initialiser)
    constants: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter's shape for one copy of one member, in storage order."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (fan_in, fan_out) in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            shapes[f"weight_{i}"] = (fan_in, fan_out)
            shapes[f"bias_{i}"] = (fan_out,)
            if self.layer_norm != "none" and not self.is_last(i):
                shapes[f"scale_{i}"] = (fan_out,)
                shapes[f"shift_{i}"] = (fan_out,)
        shapes.update({name: (length,) for name, (_, length) in self.constants.items()})
        return shapes

    def is_last(self, layer: int) -> bool:
        return layer == len(self.sizes) - 2


class StackedMLP(nn.Module):
    """`members` × `copies` ReLU networks of one shape, evaluated as one. Calling it maps `[M, B, in]` to
    `[M, copies, B, out]`; `[M, copies, B, in]` is accepted too."""

    flat: nn.Parameter

    def __init__(self, spec: MLPSpec, seeds: Sequence[int], name: str, copies: int = 1) -> None:
        super().__init__()
        self.spec = spec
        self.name = name
        self.members = len(seeds)
        self.copies = copies
        self._shapes = spec.shapes()
        self._lengths = [_padded(math.prod(shape)) for shape in self._shapes.values()]
        self.flat = nn.Parameter(self._initial(streams.member_keys(seeds)))
        self.compute_with("fp32")

    def compute_with(self, arithmetic: Arithmetic, fused: bool = False, blocked: bool = False) -> None:
        """How matrix products are computed, and whether, where the network's shape allows it, layers are fused (on a
        GPU) or large float32 batches go through them in blocks (on a CPU).

        Sums, biases and activations are float32 in any case. TF32 is what torch makes of float32 products on a GPU if
        `torch.set_float32_matmul_precision` lets it.
        """
        self.arithmetic = arithmetic
        self._precision = "ieee" if arithmetic == "fp32" else arithmetic  # as Triton names it
        self._fused = fused and fused_mlp.supports(self.spec.sizes, self.flat.device)
        self._blocked = blocked and arithmetic == "fp32" and blocked_mlp.supports(self.spec.sizes)

    @property
    def _layout(self) -> fused_mlp.Layout:
        """Of a network that is fused or blocked."""
        inputs, *hidden, outputs = self.spec.sizes
        return fused_mlp.Layout(inputs, hidden[0], outputs, len(hidden), fused_mlp.NORMS.index(self.spec.layer_norm))

    def _initial(self, keys: Tensor) -> Tensor:
        flat = torch.zeros(self.members * self.copies, sum(self._lengths))
        for name, view in self.tensors(flat).items():
            view.copy_(self._initial_value(keys, name).flatten(0, 1))
        return flat

    def _initial_value(self, keys: Tensor, name: str) -> Tensor:
        """`[M, copies, *shape]`: the starting value of one parameter."""
        shape = (self.copies, *self._shapes[name])
        if name in self.spec.constants:
            return torch.full((self.members, *shape), self.spec.constants[name][0])
        kind, _, layer = name.partition("_")
        is_last = self.spec.is_last(int(layer))
        stream = f"init/{self.name}/{name}"
        if kind == "weight":
            return self.spec.init.weight(keys, stream, (shape[0], shape[1], shape[2]), is_last)
        if kind == "bias":
            return self.spec.init.bias(keys, stream, (shape[0], shape[1]), self.spec.sizes[int(layer)], is_last)
        return torch.full((self.members, *shape), 1.0 if kind == "scale" else 0.0)

    def tensors(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Every parameter by name as a view `[M·copies, *shape]` of the matrix (of another one, if given)."""
        pieces = (self.flat if flat is None else flat).split(self._lengths, dim=1)
        return {
            name: piece[:, : math.prod(shape)].unflatten(1, shape) if len(shape) > 1 else piece[:, : shape[0]]
            for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }

    def forward(self, x: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """`masks`, where given, multiply each hidden layer after its activation, `[M·copies, B, hidden]` (dropout)."""
        h = x if x.dim() == 3 else x.flatten(0, 1)
        copies = self.copies if x.dim() == 3 else 1
        if self._fused and not masks:
            y = fused_mlp.apply(h, self.flat, self._layout, LAYER_NORM_EPS, copies, self._precision)
            return y.view(self.members, self.copies, *y.shape[1:])
        if self._blocked and not masks and blocked_mlp.pays(h.shape[1], self.spec.sizes[1]):
            y = blocked_mlp.apply(h, self.flat, self._layout, LAYER_NORM_EPS, copies)
            return y.view(self.members, self.copies, *y.shape[1:])
        p = self.tensors()
        for i in range(len(self.spec.sizes) - 1):
            h = self._layer(h, p, i)
            h = h * masks[i] if masks and not self.spec.is_last(i) else h
        return h.view(self.members, self.copies, *h.shape[1:])

    def _layer(self, h: Tensor, p: Mapping[str, Tensor], i: int) -> Tensor:
        """`[M·copies, B, out]`, activated unless it is the last, from inputs for each network or for each member."""
        weight, bias = p[f"weight_{i}"], p[f"bias_{i}"]
        if len(h) < len(weight):
            h = h.unsqueeze(1).expand(-1, self.copies, -1, -1).flatten(0, 1)
        # Not baddbmm, which first writes the bias into the result: added apart, it is fused with the activation.
        h = self._product(h, weight) + bias.unsqueeze(1)
        return h if self.spec.is_last(i) else self._activate(h, p, i)

    def _product(self, h: Tensor, weight: Tensor) -> Tensor:
        if self.arithmetic == "bf16":
            return torch.bmm(h.bfloat16(), weight.bfloat16()).to(h.dtype)
        return torch.bmm(h, weight)

    def _activate(self, h: Tensor, p: Mapping[str, Tensor], i: int) -> Tensor:
        if self.spec.layer_norm == "none":
            return functional.relu(h)
        if self.spec.layer_norm == "post":
            h = functional.relu(h)
        h = functional.layer_norm(h, h.shape[-1:], eps=LAYER_NORM_EPS)
        h = h * p[f"scale_{i}"].unsqueeze(1) + p[f"shift_{i}"].unsqueeze(1)
        return functional.relu(h) if self.spec.layer_norm == "pre" else h

    @torch.no_grad()
    def shift(self, amount: float) -> None:
        """Add the same to every output, wherever it is evaluated."""
        self.tensors()[f"bias_{len(self.spec.sizes) - 2}"].add_(amount)

    def target(self) -> Self:
        """An exact, gradient-free copy to be moved by Polyak averaging."""
        twin = copy.deepcopy(self)
        twin.flat.requires_grad_(False)
        return twin


def dropout_masks(uniforms: Sequence[Tensor], rate: float) -> list[Tensor]:
    """Inverted dropout from uniform noise: zero with probability `rate`, else 1/(1 - rate)."""
    return [(noise >= rate).to(noise.dtype) / (1.0 - rate) for noise in uniforms]


def _padded(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN


def polyak(target: StackedMLP, online: StackedMLP, tau: float | Tensor) -> None:
    """θ̄ ← (1-τ)θ̄ + τθ, in place. τ = 1 is an exact copy."""
    with torch.no_grad():
        target.flat.lerp_(online.flat, tau)
