"""The network as one operator: its plain implementation, its kernels, and a whole update with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rl_training import algorithms
from rl_training.data.batch import PackedTransitions
from rl_training.errors import ConfigError
from rl_training.models import Initialiser, LayerNormPlacement, MLPSpec, StackedMLP, fused_mlp
from rl_training.runtime.engine import Engine, compiler_available, set_arithmetic
from rl_training.runtime.sources import OfflineSource

WIDTHS = {"obs": 3, "actions": 2, "rewards": 1, "next_obs": 3, "terminations": 1}


class Shape(NamedTuple):
    """A network and its batch."""

    inputs: int
    outputs: int
    copies: int
    batch: int
    hidden: tuple[int, ...] = (64, 64)
    norm: LayerNormPlacement = "none"


def network(shape: Shape) -> StackedMLP:
    """Three members; weights as they start, biases off zero. One that has no copies has a constant, too."""
    extra = {"log_std": (0.0, shape.outputs)} if shape.copies == 1 else {}
    spec = MLPSpec((shape.inputs, *shape.hidden, shape.outputs), shape.norm, Initialiser(), extra)
    made = StackedMLP(spec, [0, 1, 2], "test", copies=shape.copies)
    with torch.no_grad():
        made.flat.add_(0.05 * torch.randn(made.flat.shape, generator=torch.Generator().manual_seed(1)))
    return made


def inputs_of(shape: Shape) -> Tensor:
    return torch.randn(3, shape.batch, shape.inputs, generator=torch.Generator().manual_seed(0))


def value_and_gradients(net: StackedMLP, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y, and the gradients of a fixed weighted sum of it by inputs and parameters."""
    x = x.detach().requires_grad_()
    y = net(x)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=y.dtype)
    return y, *torch.autograd.grad((y * weights).sum(), (x, net.flat))


SHAPES = {
    "critics": Shape(23, 1, 2, 50, (128, 128)),
    "actor": Shape(17, 6, 1, 33),
    "wide head": Shape(3, 12, 1, 16),
    "batch in two parts": Shape(23, 1, 2, 600),
    "three layers": Shape(23, 1, 2, 40, (64, 64, 64)),
    "wide input": Shape(70, 3, 1, 20, (128, 128)),
    "norm before": Shape(23, 1, 2, 40, (64, 64), "pre"),
    "norm after": Shape(23, 1, 2, 600, (64, 64, 64), "post"),
    "many rows": Shape(23, 1, 2, 1_400),
    "many rows in parts": Shape(5, 3, 1, 2_816, (64, 64, 64)),
    "many rows, norm before": Shape(23, 1, 2, 1_400, (64, 64), "pre"),
    "many rows, norm after": Shape(3, 2, 1, 2_816, (64, 64, 64, 64), "post"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_fused_is_the_plain_network(name: str) -> None:
    net = network(SHAPES[name]).double()
    x = inputs_of(SHAPES[name]).double()
    plain = value_and_gradients(net, x)
    net.compute_with("fp32", fused=True)
    for ours, reference in zip(value_and_gradients(net, x), plain, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-11, atol=1e-11)


def test_gradients_are_those_of_finite_differences() -> None:
    net = network(Shape(3, 2, 1, 4)).double()
    net.compute_with("fp32", fused=True)
    x = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: net(given), (x,))


def test_inputs_may_differ_by_copy_and_lie_apart() -> None:
    net = network(Shape(5, 1, 2, 8))
    wide = torch.randn(3, 2, 8, 9, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = net(wide[..., 2:7])
        net.compute_with("fp32", fused=True)
        torch.testing.assert_close(net(wide[..., 2:7]), plain)


def test_only_suitable_networks_are_fused() -> None:
    cpu = torch.device("cpu")
    assert fused_mlp.supports((17, 256, 256, 6), cpu)
    assert fused_mlp.supports((17, 256, 256, 256, 1), cpu)
    for sizes in ((17, 256, 6), (17, 256, 128, 6), (17, 100, 100, 1), (300, 256, 256, 6), (17, *5 * (64,), 1), (3, 1)):
        assert not fused_mlp.supports(sizes, cpu)


@pytest.mark.parametrize(("capability", "wide"), [((8, 0), True), ((8, 9), False), ((9, 0), True), ((12, 0), False)])
def test_what_a_small_gpu_has_no_room_for_is_not_fused(
    capability: tuple[int, int], wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu = torch.device("cuda", 0)
    for sizes in ((120, 256, 256, 1), (17, 256, 256, 64)):
        assert fused_mlp.supports(sizes, gpu) == wide
        assert fused_mlp.supports(sizes, torch.device("cpu"))
    for sizes in ((60, 256, 256, 12), (120, 128, 128, 1)):
        assert fused_mlp.supports(sizes, gpu)


def test_the_device_of_the_parameters_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a machine with several GPUs, not the one that is current."""
    capabilities = {torch.device("cuda", 0): (7, 0), torch.device("cuda", 1): (9, 0), torch.device("cuda", 2): (8, 9)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    monkeypatch.setattr(fused_mlp, "kernels", object())
    for starts in (False, True):
        monkeypatch.setattr(fused_mlp, "_triton_starts", lambda starts=starts: starts)
        assert [fused_mlp.available(device) for device in capabilities] == [False, starts, starts]
    assert not fused_mlp.available(torch.device("cpu"))
    assert [fused_mlp.supports((120, 256, 256, 1), device) for device in capabilities] == [True, True, False]
    asked = []
    monkeypatch.setattr(fused_mlp, "supports", lambda sizes, device: asked.append(device) or False)
    net = StackedMLP(MLPSpec((3, 64, 64, 1), "none", Initialiser(), {}), [0], "test").to("meta")
    net.compute_with("fp32", fused=True)
    assert asked == [torch.device("meta")]


@pytest.mark.skipif(not compiler_available(), reason="needs a C++ compiler")
def test_a_compiled_update_takes_it() -> None:
    rows = torch.randn(200, 3 + 2 + 1 + 3 + 1, generator=torch.Generator().manual_seed(0)).clamp(-0.9, 0.9)
    rows[:, -1] = 0.0
    source = OfflineSource(PackedTransitions(rows, WIDTHS))
    states = []
    for fused in (False, True):
        learner = algorithms.load("iql")(
            3, 2, seeds=(0, 1), batch_size=32, actor_hidden=(64, 64), critic_hidden=(64, 64), value_hidden=(64, 64)
        )
        for part in learner.model.modules():
            if isinstance(part, StackedMLP):
                part.compute_with("fp32", fused=fused)
        Engine(learner, source, "compiled" if fused else "eager").run(0, 4)
        states.append(learner.state())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_asking_for_it_without_a_gpu_is_refused() -> None:
    with pytest.raises(ConfigError, match="kernels: 'fused' needs a CUDA device and Triton; use 'plain'"):
        set_arithmetic(algorithms.load("bc")(3, 1), kernels="fused")


INTERPRETED = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from models.test_fused_mlp import SHAPES, inputs_of, network, value_and_gradients
from rl_training.models import fused_mlp

assert fused_mlp.kernels.interpreted()
for name, shape in SHAPES.items():
    net, x = network(shape), inputs_of(shape)
    plain = value_and_gradients(net, x)
    net.compute_with("fp32", fused=True)
    for ours, reference in zip(value_and_gradients(net, x), plain):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=2e-4, msg=name)
"""


COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rl_training.models import fused_mlp_kernels as kernels, fused_mlp_launches as launches
from rl_training.models.fused_mlp import Layout

WHOLE = ("batch", "x_member", "x_row", "flat_row", "layer_size", "length", "tiles_of_sums", "part_rows")


def build(kernel, how, **constants):
    constants |= {"ROWS": how.rows, "TILE": how.rows, "COLUMNS": how.columns, "STEP": how.step}
    types = {name: "i32" if name in WHOLE else "fp32" if name == "eps" else "*fp32" for name in kernel.arg_names}
    types |= {name: "constexpr" for name in kernel.arg_names if name in constants}
    values = {(place,): constants[name] for place, name in enumerate(kernel.arg_names) if name in constants}
    options = {"num_warps": how.warps, "num_stages": how.stages}
    triton.compile(ASTSource(kernel, types, values), target=GPUTarget("cuda", 90, 32), options=options)


for *sizes, precision in ((23, 64, 1, 2, 0, "bf16"), (17, 64, 6, 3, 1, "tf32"), (3, 64, 1, 2, 2, "ieee")):
    layout = Layout(*sizes)
    shape = launches._constants(layout, precision)
    build(kernels.forward_kernel, launches.whole(2, 256, layout, False), COPIES=1, KEEP=True, **shape)
    build(kernels.backward_kernel, launches.whole(2, 256, layout, True), TO_INPUTS=True, **shape)
    for layer in (0, layout.depth - 1):
        build(kernels.forward_step, launches.between(layout, False), COPIES=1, KEEP=True, LAYER=layer, **shape)
        build(kernels.backward_step, launches.between(layout, True), TO_INPUTS=True, LAYER=layer, **shape)
    for products in (0, layout.depth - 1):
        how = launches._GRADIENT if products else launches._WIDE_GRADIENT
        build(kernels.gradient_kernel, how, COPIES=1, PRODUCTS=products, **shape)
"""


def run_with_triton(script: str, **variables: str) -> None:
    pytest.importorskip("triton", reason="torch for CPUs comes without Triton")
    command = [sys.executable, "-c", script, str(Path(__file__).parents[1])]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_kernels_in_tritons_interpreter() -> None:
    run_with_triton(INTERPRETED, TRITON_INTERPRET="1")


def test_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    """Which needs none; the interpreter takes programs that the compiler does not."""
    run_with_triton(COMPILED, TRITON_CACHE_DIR=str(tmp_path))


# Precision ----------------------------------------------------------------------------------------------------------


def test_bf16_changes_the_loss_by_its_rounding_and_no_more() -> None:
    net = network(SHAPES["critics"])
    x = torch.randn(3, 256, 23, generator=torch.Generator().manual_seed(0))
    exact, exact_dx, exact_dp = value_and_gradients(net, x)
    net.compute_with("bf16")
    rounded, dx, dp = value_and_gradients(net, x)
    assert rounded.dtype == torch.float32
    error = (rounded - exact).norm() / exact.norm()
    assert 1e-4 < error < 2e-2  # factors of 8 bits: 2^-9 each, averaged over 256 of them
    for ours, reference in ((dx, exact_dx), (dp, exact_dp)):  # units near zero switch, which gradients feel more
        assert (ours - reference).norm() / reference.norm() < 0.1
    loss, exact_loss = rounded.square().mean(), exact.square().mean()
    assert abs(loss - exact_loss) / exact_loss < 1e-2


def test_tf32_is_refused_without_a_gpu() -> None:
    with pytest.raises(ConfigError, match="precision: 'tf32' is a mode of CUDA devices; use fp32, bf16 or auto"):
        set_arithmetic(algorithms.load("bc")(3, 1), "tf32")
