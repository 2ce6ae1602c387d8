"""Runs updates: draws the batch and the noise, takes the step, keeps the sums of the metrics on the device.

`eager` is plain PyTorch. `compiled` hands the whole update, sampling included, to `torch.compile`; on a GPU, blocks of
updates are then captured as CUDA graphs and replayed. Algorithms never mention any of it: an update is a pure step, so
all run the same mathematics.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Learner
from rl_training.compilers import find_compiler, lack_of_files
from rl_training.errors import ConfigError
from rl_training.models import StackedMLP, fused_mlp
from rl_training.models.layers import Arithmetic
from rl_training.runtime.ahead import WorkAhead
from rl_training.runtime.allocation import keep_freed_memory
from rl_training.runtime.progress import METRICS_PER_UPDATE
from rl_training.runtime.sources import Source
from rl_training.runtime.torch_state import is_own, own_torch_state
from rl_training.validation import shortened

_log = logging.getLogger("rl_training")

EngineMode = Literal["auto", "eager", "compiled"]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
Kernels = Literal["auto", "plain", "fused"]
Phases = tuple[int, ...]

# Updates below which compiling takes longer than it saves: on two cores a run gains little by it, on a GPU a lot.
_COMPILE_PAYS_FROM = {"cpu": 30_000, "cuda": 5_000}
CAPTURED_BLOCKS = (64, 8, 1)  # updates captured at once: what is due is made up of these, the largest first


def choose_device(name: str) -> str:
    """`auto` is CUDA where there is one. A GPU named by its number becomes the current one: graphs and kernels start
    there, wherever their tensors lie."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    _, _, number = name.partition(":")
    if name != "cpu" and int(number or 0) >= torch.cuda.device_count():
        seen = f"torch sees {torch.cuda.device_count()} CUDA devices"
        raise ConfigError(f"device: {name!r} asked for, but {seen}; leave it out, or say cpu")
    if number:
        torch.cuda.set_device(int(number))
    return name


def choose_mode(mode: EngineMode, total_updates: int, device: torch.device) -> EngineMode:
    """`auto` compiles long runs where that is possible; where it is not, it is an error only if asked for by name."""
    if mode == "compiled" and (lack := lack_for_compiling()):
        raise ConfigError(f"engine: 'compiled' needs {lack}; use 'eager'")
    if mode != "auto":
        return mode
    return "compiled" if compiling_pays(total_updates, device) and not lack_for_compiling() else "eager"


def compiling_pays(total_updates: int, device: torch.device) -> bool:
    return total_updates >= _COMPILE_PAYS_FROM[device.type]


def engine_in_words(mode: EngineMode, device: torch.device) -> str:
    return f"{mode} on {device.type}"


def lack_for_compiling() -> str | None:
    """What `torch.compile` needs and does not have here."""
    return lack_of_files() if compiler_available() else "a C++ compiler (g++ or clang++) on this machine"


def compiler_available() -> bool:
    return find_compiler() is not None


def set_arithmetic(learner: Learner, precision: Precision = "auto", kernels: Kernels = "auto") -> None:
    """How a learner's networks are computed. `auto` is TF32 and fused on a GPU, float32 and, with many rows, in blocks
    elsewhere; TF32 is switched on for the whole process."""
    on_gpu = learner.device.type == "cuda"
    if precision == "tf32" and not on_gpu:
        raise ConfigError("precision: 'tf32' is a mode of CUDA devices; use fp32, bf16 or auto")
    fusable = fused_mlp.available(learner.device)
    if kernels == "fused" and not fusable:
        raise ConfigError("kernels: 'fused' needs a CUDA device and Triton; use 'plain'")
    arithmetic: Arithmetic = ("tf32" if on_gpu else "fp32") if precision == "auto" else precision
    if on_gpu:
        torch.set_float32_matmul_precision("highest" if arithmetic == "fp32" else "high")
    beyond_plain = kernels != "plain"
    for network in learner.model.modules():
        if isinstance(network, StackedMLP):
            network.compute_with(arithmetic, fused=beyond_plain and fusable, blocked=beyond_plain and not on_gpu)


@contextmanager
def arithmetic_kept() -> Iterator[None]:
    """For what is fitted beside a run that trains in this process and has an arithmetic of its own."""
    products = torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)


def uses_blocks(device: torch.device, mode: str, precision: Precision, kernels: Kernels) -> bool:
    """Whether large batches go through networks in blocks in a run of these settings."""
    return device.type == "cpu" and mode == "eager" and precision in ("auto", "fp32") and kernels != "plain"


class Engine:
    """Drives one learner from one source. must_compile: the mode was asked for by name; else what cannot be compiled is
    trained without."""

    def __init__(
        self, learner: Learner, source: Source, mode: EngineMode = "eager", *, must_compile: bool = False
    ) -> None:
        self.learner = learner
        self.source = source
        self.mode = mode
        self._must_compile = must_compile
        self._noise = streams.NoiseStreams(learner.noise(learner.params.batch_size))
        self._metrics = _MetricSums(learner)
        self._graphs: dict[Phases, torch.cuda.CUDAGraph] = {}
        self._ahead: WorkAhead | None = None
        self._ran: set[int] = set()  # kinds of update compiled by having run once; only such can be captured
        self._update: Callable[[int, Tensor], tuple[str, ...]] = self._one
        if mode == "compiled":
            self._update = _compile(self._one, learner.device.type)
        if learner.device.type == "cpu":
            keep_freed_memory()
        self._captures = mode == "compiled" and learner.device.type == "cuda" and source.is_capturable

    @property
    def told(self) -> str:
        """What computes updates now, as a run keeps it: `compiled on cpu`."""
        return engine_in_words(self.mode, self.learner.device)

    def _one(self, phase: int, sums: Tensor) -> tuple[str, ...]:
        """One update, its metrics added to `sums`, one row each; their names in the order of the rows."""
        learner = self.learner
        batch = self.source.batch(learner.keys, learner.clock, learner.params.batch_size)
        metrics = learner.advance(batch, self._noise.draw(learner.keys, learner.clock), phase)
        sums[: len(metrics)] += torch.stack(list(metrics.values()))
        return tuple(metrics)

    def run(self, first: int, count: int) -> None:
        """Updates `first` to `first + count - 1`."""
        if self._ahead is not None:
            begun = min(max(self._ahead.end - first, 0), count)
            first, count = first + begun, count - begun
            if count:
                self._ahead = None
        self.begin(first, count)
        if self.learner.device.type == "cuda":
            torch.cuda.synchronize(self.learner.device)  # what a caller measures or saves has happened

    def begin(self, first: int, count: int) -> None:
        """The same without waiting for the device."""
        if not is_own():  # an environment or a callback may have set it since
            with own_torch_state():
                self.begin(first, count)
            return
        phases = tuple(self.learner.phase(update) for update in range(first, first + count))
        while phases:
            size = next(n for n in CAPTURED_BLOCKS if n <= len(phases)) if self._captures else 1
            self._run_block(phases[:size])
            phases = phases[size:]

    def _run_block(self, phases: Phases) -> None:
        warm = self._ran.issuperset(phases)
        for phase in phases:
            self._metrics.counts[phase] = self._metrics.counts.get(phase, 0) + 1
        if self._captures and warm:
            if phases not in self._graphs:
                self._graphs[phases] = self._capture(phases)
            self._graphs[phases].replay()
            return
        for phase in phases:  # the first of its kind: compiled by running it
            try:
                self._metrics.names[phase] = self._update(phase, self._metrics.sums_of(phase))
            except RuntimeError as error:
                if not self._is_of_compiler(error):
                    raise
                self._do_without(error)  # the whole update is one graph: nothing of it has run
                self._metrics.names[phase] = self._update(phase, self._metrics.sums_of(phase))
            self._ran.add(phase)

    def _is_of_compiler(self, error: RuntimeError) -> bool:
        return self.mode == "compiled" and isinstance(error, torch._dynamo.exc.TorchDynamoException)

    def _do_without(self, error: RuntimeError) -> None:
        """Go on in eager mode where the compiler fails, or its disk is full."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip(" :") and not line.endswith("raised:")]
        told = shortened(lines[0] if lines else type(error).__name__)
        if self._must_compile:
            advice = "use 'eager', or see rl-training doctor"
            raise ConfigError(f"engine: 'compiled', but compiling failed ({told}); {advice}") from error
        # Updates before this one were compiled, be it in a process before; the first of a run changes nothing.
        mixed = ", and not bit for bit as a run that is compiled throughout" if int(self.learner.clock) else ""
        _log.warning("warning: compiling failed (%s); training goes on without it, more slowly%s", told, mixed)
        self.mode, self._update, self._captures = "eager", self._one, False

    def _capture(self, phases: Phases) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with _uncollected(), torch.cuda.graph(graph):
            for phase in phases:
                self._update(phase, self._metrics.sums_of(phase))
        return graph

    # Working ahead ----------------------------------------------------------------------------------------------

    @property
    def can_work_ahead(self) -> bool:
        """Whether updates can be begun without waiting for them, and depend on nothing that the host does meanwhile."""
        return self._captures and self.source.is_idle

    def work_ahead(self, first: int, limit: int, mark_every: int, held: Mapping[str, Tensor]) -> None:
        """Updates from `first` to `limit` may be begun now (`go_on_ahead`); `run` will find them done.

        held: the learner's state now, as a copy.
        """
        sums, counts = self.metric_state()
        metrics = ({name: value.clone() for name, value in sums.items()}, dict(counts))
        self._ahead = WorkAhead(self, first, limit, mark_every, held, metrics)

    def go_on_ahead(self, block: int) -> None:
        """Begin up to `block` more of them, unless the device is busy."""
        if self._ahead is not None:
            self._ahead.go_on(block)

    def settle(self, update: int) -> None:
        """Have the learner be where the run is, at `update`: what was begun beyond it is undone."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.undo(update)

    # Metrics ----------------------------------------------------------------------------------------------------

    @property
    def metric_names(self) -> set[str]:
        """Every metric seen so far."""
        return {name for names in self._metrics.names.values() for name in names}

    def peek_metrics(self) -> dict[str, list[float]]:
        """The mean of every metric since they were last taken, by name, one value per member. Reads the device once."""
        return self._metrics.means()

    def take_metrics(self) -> dict[str, list[float]]:
        """The same, and start anew."""
        return self.take_record()[0]

    def take_record(self) -> tuple[dict[str, list[float]], Tensor]:
        """The same, and which of the learner's rows are finite where the run is."""
        ahead = None if self._ahead is None else self._ahead.take_mark()
        if ahead is not None:
            return _means(*ahead[0]), ahead[1]
        means = self._metrics.means()
        self._metrics.clear()
        return means, self.learner.finite_rows()

    def clear_metrics(self) -> None:
        self._metrics.clear()

    def metric_state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Sums and counts since they were last taken, for a checkpoint."""
        return self._metrics.state()

    def restore_metrics(self, sums: Mapping[str, Tensor], counts: Mapping[str, int]) -> None:
        """The inverse of `metric_state`."""
        self._metrics.restore(sums, counts)


class _MetricSums:
    """Running sums of metrics, float64, one fixed buffer for each kind of update so that graphs can write to it."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._buffers: dict[int, Tensor] = {}
        self.names: dict[int, tuple[str, ...]] = {}
        self.counts: dict[int, int] = {}

    def sums_of(self, phase: int) -> Tensor:
        if phase not in self._buffers:
            shape = (METRICS_PER_UPDATE, self._learner.members)
            self._buffers[phase] = torch.zeros(shape, dtype=torch.float64, device=self._learner.device)
        return self._buffers[phase]

    def means(self) -> dict[str, list[float]]:
        return _means(*self.state())

    def clear(self) -> None:
        self.counts.clear()
        for sums in self._buffers.values():
            sums.zero_()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Sums and counts, both by `phase/name`, in the order of the rows."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, int] = {}
        for phase in sorted(self.counts):
            for row, name in enumerate(self.names[phase]):
                sums[f"{phase}/{name}"] = self._buffers[phase][row]
                counts[f"{phase}/{name}"] = self.counts[phase]
        return sums, counts

    def restore(self, sums: Mapping[str, Tensor], counts: Mapping[str, int]) -> None:
        self.clear()
        for key, count in counts.items():
            phase, name = int(key.partition("/")[0]), key.partition("/")[2]
            if phase not in self.counts:
                self.counts[phase], self.names[phase] = count, ()
            self.sums_of(phase)[len(self.names[phase])].copy_(sums[key])
            self.names[phase] += (name,)


def _means(sums: Mapping[str, Tensor], counts: Mapping[str, int]) -> dict[str, list[float]]:
    """By name, over every kind of update that reports it."""
    if not sums:
        return {}
    values = torch.stack(list(sums.values())).cpu()
    totals: dict[str, Tensor] = {}
    updates: dict[str, int] = {}
    for (key, count), value in zip(counts.items(), values, strict=True):
        name = key.partition("/")[2]
        totals[name] = totals[name] + value if name in totals else value
        updates[name] = updates.get(name, 0) + count
    return {name: (totals[name] / updates[name]).tolist() for name in sorted(totals)}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Graphs of engines that are gone must not be let go of while another one is captured: that ends the capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _compile(
    function: Callable[[int, Tensor], tuple[str, ...]], device: str
) -> Callable[[int, Tensor], tuple[str, ...]]:
    torch._dynamo.config.trace_autograd_ops = True
    # Every engine compiles the same function for its own learner; several may live in one process.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
    return torch.compile(function, fullgraph=True, dynamic=False, options=_compile_options(device))


def _compile_options(device: str) -> dict[str, Any]:
    """Of this function alone: an engine for another device in the same process has its own."""
    # Reordering loops after fusion trips an assertion of Inductor's on whole updates (seen in torch 2.11).
    options: dict[str, Any] = {"loop_ordering_after_fusion": False}
    if device == "cuda":
        # Else which launch was faster when it was compiled decides how a GPU rounds; another compilation, as of a
        # resumed run, may choose another. The first is of sums, the second of all other kernels.
        options |= {"deterministic": True, "triton.autotune_pointwise": False}
    return options
