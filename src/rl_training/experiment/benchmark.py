"""How fast this package trains here: updates per second of an algorithm, each measurement a process of its own.

A worker takes its parts from the algorithm's trainer and runs its updates as the loop does, sampling included, metrics
taken at the log interval; nothing is evaluated or saved. The data are made up.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

import rl_training
from rl_training import algorithms
from rl_training.data.formats.limits import check_size
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ConfigError, DataError, RLTrainingError
from rl_training.experiment.contest import Contestant, Prepared, compete, environment, serve, synthetic_arrays
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.engine import Engine, choose_device, choose_mode, set_arithmetic
from rl_training.runtime.trainer import Trainer, trainer_for

UPDATES = 1_000_000  # the run that is measured a piece of: `engine: auto` and schedules go by it
_BYTES_OF_A_NUMBER = 4
_STANDARD_SIZES = {"rebrac": (1024, 3)}  # batch and hidden layers where papers agree on others than 256 and 2


@dataclass(frozen=True)
class Work:
    """What is measured. The shapes are HalfCheetah's; `batch_size` and `layers` of 0 are the algorithm's usual ones."""

    algo: str
    engine: str = "auto"
    members: int = 1
    batch_size: int = 0
    width: int = 256
    layers: int = 0
    rows: int = 1_000_000
    obs_dim: int = 17
    act_dim: int = 6
    device: str = "auto"
    precision: str = "auto"
    kernels: str = "auto"
    may_go_without: bool = False  # compiling was not asked for by name

    def config(self) -> TrainConfig:
        """The run whose updates are measured; a mistake is one line."""
        for name in ("members", "width", "rows", "obs_dim", "act_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("batch_size", "layers"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: must be at least 1, or 0 for the usual, got {getattr(self, name)}")
        batch_size, layers = self.sizes
        fields = algorithms.load(self.algo).Params.model_fields
        hidden = {name: (self.width,) * layers for name in fields if name.endswith("_hidden")}
        values = {name: getattr(self, name) for name in ("algo", "engine", "device", "precision", "kernels")}
        knobs = {"batch_size": batch_size, **hidden}
        seeds = tuple(range(self.members))
        return TrainConfig.parse({**values, "seed": seeds, "total_timesteps": UPDATES, "algo_kwargs": knobs})

    @property
    def sizes(self) -> tuple[int, int]:
        """Batch size and number of hidden layers."""
        batch_size, layers = _STANDARD_SIZES.get(self.algo, (256, 2))
        return self.batch_size or batch_size, self.layers or layers

    def resolved(self) -> Work:
        """The same with nothing left to choose; what this machine cannot do is refused."""
        config = self.config()
        try:
            check_size(_BYTES_OF_A_NUMBER * self.rows * (2 * self.obs_dim + self.act_dim + 1), purpose="made up")
        except DataError as error:
            raise ConfigError(f"rows: {error}") from None
        device = choose_device(config.device)
        batch_size, layers = self.sizes
        mode = choose_mode(config.engine, UPDATES, torch.device(device))
        if (self.precision, self.kernels) != ("auto", "auto"):
            learner = algorithms.load(self.algo)(self.obs_dim, self.act_dim, device=device)
            set_arithmetic(learner, config.precision, config.kernels)
        found = {"engine": mode, "device": device, "batch_size": batch_size, "layers": layers}
        return Work(**{**asdict(self), **found, "may_go_without": self.may_go_without or self.engine == "auto"})

    @property
    def name(self) -> str:
        return f"{self.algo} {self.engine}, {self.members} member{'s' if self.members > 1 else ''}"


# A worker -----------------------------------------------------------------------------------------------------------


def prepare(work: Work) -> Prepared:
    """Data, learner and engine, as `train` would have them."""
    config = work.config()
    began = time.perf_counter()
    arrays = synthetic_arrays(work.rows, work.obs_dim, work.act_dim)
    generating = time.perf_counter() - began
    dataset = TransitionDataset.from_dict(arrays, action_low=-1.0, action_high=1.0)
    trainer = _offline(trainer_for(work.algo))(config, dataset=dataset)
    parts = trainer.assemble()
    learner = parts.learner
    must_compile = parts.mode == "compiled" and not work.may_go_without
    engine = Engine(learner, trainer.source(parts), parts.mode, must_compile=must_compile)
    about = {"version": rl_training.__version__, "torch": torch.__version__}
    done = 0

    def run(count: int) -> None:
        nonlocal done
        end = done + count
        while done < end:
            stop = min(end, (done // config.log_interval + 1) * config.log_interval)
            turn = engine.source.advance(stop - done)
            engine.run(done, turn.updates)
            done += turn.updates
            if done % config.log_interval == 0:
                engine.take_metrics()
        engine.peek_metrics()  # waits for the device
        about["engine"] = engine.mode

    captured = parts.mode == "compiled" and learner.device.type == "cuda"
    unit = math.lcm(config.log_interval, learner.period) if captured else learner.period
    return Prepared(run, unit, generating, about)


def _offline(trainer: type[Trainer]) -> type[Trainer]:
    """The trainer of a run that collects nothing: its data are all given, RLPD's prior data included."""
    return type(trainer.__name__, (trainer,), {"online_settings": lambda self: None})


# Measuring ----------------------------------------------------------------------------------------------------------


def require_seconds(seconds: float) -> None:
    """A time that ends."""
    if not 0.0 < seconds < math.inf:
        must = "finite" if seconds == math.inf else "above 0"
        raise ConfigError(f"seconds: must be {must}, got {seconds:g}")


def contestant(work: Work, threads: int, compiled: Path | None = None) -> Contestant:
    """A worker process for `work`; `compiled` is where it keeps what it compiles."""
    env = environment(threads, compiled)
    here = str(Path(rl_training.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [env.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "rl_training.experiment.benchmark", json.dumps(asdict(work))]
    return Contestant(work.name, command, asdict(work), env)


def measure(
    works: Sequence[Work],
    seconds: float,
    rounds: int = 3,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """One row of figures for each, `seconds` of measuring in each row; those of one algorithm take turns."""
    require_seconds(seconds)
    checked = [work.resolved() for work in works]
    rows = []
    for algo, of_one in groupby(checked, key=lambda work: work.algo):
        with tempfile.TemporaryDirectory() as compiled:  # of its own: what compiling costs is part of the answer
            group = [contestant(work, default_threads(), Path(compiled) / str(i)) for i, work in enumerate(of_one)]
            tell(f"measuring {algo}: {len(group)} in turns")
            rows += compete(group, rounds, seconds / rounds, tell)
    return [{**row, "engine": row.get("about", {}).get("engine", row["engine"])} for row in rows]


def default_threads() -> int:
    """All cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine(device: str) -> dict[str, Any]:
    """What figures are worth little without."""
    facts: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": default_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "rl_training": rl_training.__version__,
    }
    if device.startswith("cuda"):
        facts["gpu"] = torch.cuda.get_device_name(torch.device(device))
    return facts


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    try:
        serve(lambda: prepare(Work(**json.loads(sys.argv[1]))))
    except RLTrainingError as mistake:
        sys.exit(f"error: {mistake}")
