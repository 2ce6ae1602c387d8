"""A policy as an exported torch program (`.pt2`): a graph as JSON, weights as plain bytes, no class of this package.

Neither example inputs nor stack traces are kept. The first are all that torch would pickle, so a file made here holds
no pickle at all; the second tell where on which disk this package lay.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from rl_training.data.action_gaps import snapping_layers
from rl_training.experiment.shipping.network import Affine, Floats, PolicyNetwork
from rl_training.models.layers import LAYER_NORM_EPS
from rl_training.paths import require_temporary_folder


class PolicyProgram(nn.Module):
    """The same arithmetic as the ONNX graph's, on tensors."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network
        for i, layer in enumerate(network.hidden):
            self._keep_layer(f"hidden_{i}", layer)
            for name, values in (("scale", layer.scale), ("shift", layer.shift)):
                if values is not None:
                    self._keep(f"hidden_{i}_{name}", values)
        self._keep_layer("mean", network.mean)
        if network.log_std is not None:
            self._keep_layer("log_std", network.log_std)
        if network.std is not None:
            self._keep("std", network.std)
        if (s := network.standardisation) is not None:
            for name in ("mean_high", "mean_low", "divisor"):
                self._keep(name, getattr(s, name))
        for name in ("low", "high", "centre", "half"):
            self._keep(f"action_{name}", getattr(network, name))
        self._snapping = snapping_layers(network.gaps, network.act_dim)
        for i, ends in enumerate(self._snapping):
            for name, values in ends._asdict().items():
                self._keep(f"{name}_{i}", values)

    def _keep(self, name: str, values: Floats) -> None:
        self.register_buffer(name, torch.tensor(values))

    def _keep_layer(self, name: str, layer: Affine) -> None:
        self._keep(f"{name}_weight", layer.weight)
        self._keep(f"{name}_bias", layer.bias)

    def _affine(self, x: Tensor, name: str) -> Tensor:
        return torch.addmm(self.get_buffer(f"{name}_bias"), x, self.get_buffer(f"{name}_weight"))

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        x = obs
        if self.network.standardisation is not None:
            x = ((x - self.get_buffer("mean_high")) - self.get_buffer("mean_low")) / self.get_buffer("divisor")
        h = x
        for i, layer in enumerate(self.network.hidden):
            h = self._affine(h, f"hidden_{i}")
            if layer.scale is None:
                h = functional.relu(h)
                continue
            h = functional.relu(h) if self.network.layer_norm == "post" else h
            h = functional.layer_norm(h, h.shape[-1:], eps=LAYER_NORM_EPS)
            h = h * self.get_buffer(f"hidden_{i}_scale") + self.get_buffer(f"hidden_{i}_shift")
            h = functional.relu(h) if self.network.layer_norm == "pre" else h
        unit = self._unit_action(h, noise)
        action = self.get_buffer("action_centre") + self.get_buffer("action_half") * unit
        action = torch.maximum(action, self.get_buffer("action_low")).minimum(self.get_buffer("action_high"))
        for i, ends in enumerate(self._snapping):
            turn, below, above = (self.get_buffer(f"{name}_{i}") for name in ends._fields)
            action = torch.where(action >= turn, torch.maximum(action, above), torch.minimum(action, below))
        return action + (x - x).sum(-1, keepdim=True)  # NaN where an observation is not finite, as in the ONNX graph

    def _unit_action(self, h: Tensor, noise: Tensor | None) -> Tensor:
        mean = self._affine(h, "mean")
        if noise is None:
            return mean.tanh()
        if self.network.log_std is not None:
            log_std = self._affine(h, "log_std").clamp(*self.network.log_std_bounds)
            return (mean + log_std.exp() * noise).tanh()
        return (mean.tanh() + self.get_buffer("std") * noise).clamp(-1.0, 1.0)


def build(network: PolicyNetwork, *, stochastic: bool, batch: int | None, facts: Mapping[str, str]) -> bytes:
    """The file's bytes. batch: a fixed batch size; none leaves it free. facts: kept in the archive."""
    require_temporary_folder()  # torch asks for one when its compiler is imported
    program = PolicyProgram(network).eval()
    widths = (network.obs_dim, network.act_dim) if stochastic else (network.obs_dim,)
    examples = tuple(torch.zeros(batch or 2, width) for width in widths)
    free = {0: torch.export.Dim("batch", min=1)} if batch is None else None
    names = ("obs", "noise")[: len(widths)]
    with torch.no_grad(), _quietly():
        exported = torch.export.export(program, examples, dynamic_shapes=dict.fromkeys(names, free))
        exported.example_inputs = None
        for module in exported.graph_module.modules():
            for node in getattr(module, "graph", torch.fx.Graph()).nodes:
                node.meta.pop("stack_trace", None)
        file = io.BytesIO()
        torch.export.save(exported, file, extra_files=dict(facts))
    return file.getvalue()


def run(program: bytes, parts: Sequence[Mapping[str, npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    """The file's actions on each of several inputs. Only for bytes made here: `torch.export.load` may run what a
    stranger's file says."""
    with torch.no_grad(), _quietly():
        module = torch.export.load(io.BytesIO(program)).module()
        answers = [module(*(torch.tensor(values) for values in inputs.values())) for inputs in parts]
    return [np.asarray(answer.numpy()) for answer in answers]


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch notes about its own file format."""
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
