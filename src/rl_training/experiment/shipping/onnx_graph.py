"""A policy as an ONNX graph, written operator by operator: nothing in it depends on how a tracer sees our code.

Opset 13 and IR version 7 (2021) are read by every runtime in use; all arithmetic is float32, which every accelerator
has. A graph names its inputs `obs` (and `noise`, for samples) and its output `action`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training import __version__
from rl_training.data.action_gaps import snapping_layers
from rl_training.errors import ConfigError
from rl_training.experiment.shipping.network import Affine, Hidden, PolicyNetwork
from rl_training.models.layers import LAYER_NORM_EPS

OPSET = 13
IR_VERSION = 7


def build(network: PolicyNetwork, *, stochastic: bool, batch: int | None, facts: Mapping[str, str]) -> bytes:
    """The file's bytes. batch: a fixed batch size; none leaves it free. facts: kept in the model's metadata."""
    onnx = _onnx()
    graph = _Graph(onnx)
    x = _standardised(graph, network)
    h = x
    for i, layer in enumerate(network.hidden):
        h = _hidden(graph, h, layer, network.layer_norm, i)
    unit = _unit_action(graph, network, h, stochastic=stochastic)
    action = graph.add("Add", graph.add("Mul", unit, graph.keep("half", network.half)), graph.keep("c", network.centre))
    action = graph.add("Max", action, graph.keep("low", network.low))
    action = graph.add("Min", action, graph.keep("high", network.high))
    for i, ends in enumerate(snapping_layers(network.gaps, network.act_dim)):
        turn, below, above = (graph.keep(f"{name}_{i}", values) for name, values in ends._asdict().items())
        upwards = graph.add("GreaterOrEqual", action, turn)
        action = graph.add("Where", upwards, graph.add("Max", action, above), graph.add("Min", action, below))
    # x - x is 0 for a number and NaN for what is none: a ReLU may turn NaN into 0, and an action must not hide it.
    zeros = graph.add("ReduceSum", graph.add("Sub", x, x), graph.keep("columns", np.array([1], np.int64)), keepdims=1)
    graph.add("Add", action, zeros, output="action")
    width: str | int = "batch" if batch is None else batch
    names = {"obs": network.obs_dim, **({"noise": network.act_dim} if stochastic else {})}
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "policy",
            [_value(onnx, name, width, size) for name, size in names.items()],
            [_value(onnx, "action", width, network.act_dim)],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="rl-training",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, dict(facts))
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def run(model: bytes, parts: Sequence[Mapping[str, npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    """The file's actions on each of several inputs, computed by onnx's own reference implementation."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(_onnx().load_model_from_string(model))
    return [np.asarray(evaluator.run(None, dict(inputs))[0]) for inputs in parts]


class _Graph:
    """Nodes and constants in the order in which they were added, each result named after its operator."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [name], name=f"node_{name}", **attributes))
        return name

    def keep(self, name: str, values: npt.NDArray[Any]) -> str:
        self.constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def affine(self, x: str, layer: Affine, name: str) -> str:
        weight, bias = self.keep(f"{name}_weight", layer.weight), self.keep(f"{name}_bias", layer.bias)
        return self.add("Gemm", x, weight, bias)


def _standardised(graph: _Graph, network: PolicyNetwork) -> str:
    s = network.standardisation
    if s is None:
        return "obs"
    x = graph.add("Sub", "obs", graph.keep("mean_high", s.mean_high))
    x = graph.add("Sub", x, graph.keep("mean_low", s.mean_low))
    return graph.add("Div", x, graph.keep("divisor", s.divisor))


def _hidden(graph: _Graph, x: str, layer: Hidden, placement: str, i: int) -> str:
    h = graph.affine(x, layer, f"hidden_{i}")
    if layer.scale is None or layer.shift is None:
        return graph.add("Relu", h)
    if placement == "post":
        h = graph.add("Relu", h)
    centred = graph.add("Sub", h, graph.add("ReduceMean", h, axes=[-1], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[-1], keepdims=1)
    epsilon = graph.keep(f"epsilon_{i}", np.array(LAYER_NORM_EPS, np.float32))
    h = graph.add("Div", centred, graph.add("Sqrt", graph.add("Add", variance, epsilon)))
    h = graph.add("Mul", h, graph.keep(f"hidden_{i}_scale", layer.scale))
    h = graph.add("Add", h, graph.keep(f"hidden_{i}_shift", layer.shift))
    return graph.add("Relu", h) if placement == "pre" else h


def _unit_action(graph: _Graph, network: PolicyNetwork, h: str, *, stochastic: bool) -> str:
    """The mode or a sample, in [-1, 1]."""
    mean = graph.affine(h, network.mean, "mean")
    if not stochastic:
        return graph.add("Tanh", mean)
    if network.log_std is not None:
        low, high = (graph.keep(n, np.array(b, np.float32)) for n, b in zip("ab", network.log_std_bounds, strict=True))
        log_std = graph.add("Min", graph.add("Max", graph.affine(h, network.log_std, "log_std"), low), high)
        return graph.add("Tanh", graph.add("Add", mean, graph.add("Mul", graph.add("Exp", log_std), "noise")))
    assert network.std is not None
    one = np.array(1.0, np.float32)
    spread = graph.add("Mul", graph.keep("std", network.std), "noise")
    sample = graph.add("Max", graph.add("Add", graph.add("Tanh", mean), spread), graph.keep("minus_one", -one))
    return graph.add("Min", sample, graph.keep("one", one))


def _value(onnx: Any, name: str, batch: str | int, width: int) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, width])


def _onnx() -> Any:
    try:
        import onnx
        import onnx.helper
    except ImportError:
        raise ConfigError(
            "onnx: is not installed; pip install 'rl-training[export]', or --format torch, which needs nothing more"
        ) from None
    return onnx
