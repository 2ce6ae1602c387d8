"""Runs updates: draws the batch and the noise, takes the step, keeps the sums of the metrics on the device.

`eager` is plain PyTorch. `compiled` hands the whole update, sampling included, to `torch.compile`. Algorithms never
mention either: an update is a pure step, so both run the same mathematics.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Learner, Metrics
from rl_training.errors import ConfigError
from rl_training.runtime.sources import Source

EngineMode = Literal["auto", "eager", "compiled"]
_COMPILE_PAYS_FROM = 30_000  # updates; below it, compiling takes longer than it saves on two cores


def choose_mode(mode: EngineMode, total_updates: int) -> EngineMode:
    """`auto` compiles long runs where a C++ compiler is at hand; missing it is an error only if asked for by name."""
    if mode == "compiled" and not compiler_available():
        raise ConfigError("engine: 'compiled' needs a C++ compiler (g++ or clang++) on this machine; use 'eager'")
    if mode != "auto":
        return mode
    return "compiled" if total_updates >= _COMPILE_PAYS_FROM and compiler_available() else "eager"


def compiler_available() -> bool:
    compiler = os.environ.get("CXX")
    return sys.platform.startswith("linux") and any(shutil.which(c) for c in (compiler, "g++", "clang++") if c)


class Engine:
    """Drives one learner from one source."""

    def __init__(self, learner: Learner, source: Source, mode: EngineMode = "eager") -> None:
        self.learner = learner
        self.source = source
        self.mode = mode
        self._noise = streams.NoiseStreams(learner.noise(learner.params.batch_size))
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self._update: Callable[[int], Metrics] = self._one
        if mode == "compiled":
            torch._dynamo.config.trace_autograd_ops = True
            # Every engine compiles the same function for its own learner; several may live in one process.
            torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
            self._update = torch.compile(self._one, fullgraph=True, dynamic=False)

    def _one(self, phase: int) -> Metrics:
        learner = self.learner
        batch = self.source.batch(learner.keys, learner.clock, learner.params.batch_size)
        return learner.advance(batch, self._noise.draw(learner.keys, learner.clock), phase)

    def run(self, first: int, count: int) -> None:
        """Updates `first` to `first + count - 1`."""
        for update in range(first, first + count):
            for name, value in self._update(self.learner.phase(update)).items():
                if name in self.sums:
                    self.sums[name] += value
                    self.counts[name] += 1
                else:
                    self.sums[name] = value.double()
                    self.counts[name] = 1

    def peek_metrics(self) -> dict[str, list[float]]:
        """The mean of every metric since they were last taken, by name, one value per member. Reads the device once."""
        names = sorted(self.sums)
        if not names:
            return {}
        counts = torch.tensor([self.counts[name] for name in names], dtype=torch.float64)
        means = torch.stack([self.sums[name] for name in names]).cpu() / counts[:, None]
        return dict(zip(names, means.tolist(), strict=True))

    def take_metrics(self) -> dict[str, list[float]]:
        """The same, and start anew."""
        means = self.peek_metrics()
        self.sums, self.counts = {}, {}
        return means
