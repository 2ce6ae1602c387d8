"""Whether every algorithm does the same on the GPU as on the CPU, and compiled as eagerly; with updates per second.

    python benchmarks/device_agreement.py [--algo cql] [--updates 100]

Prints, for each algorithm, the largest relative difference of its weights after some updates between CPU and GPU, and
between eager and compiled on the GPU, then how fast each ran. Needs a CUDA device; no environment.
"""

from __future__ import annotations

import argparse
import time

import torch

from rl_training import algorithms
from rl_training.algorithms.base import Learner
from rl_training.data.batch import PackedTransitions
from rl_training.runtime.engine import Engine, EngineMode
from rl_training.runtime.sources import OfflineSource

OBS, ACT, ROWS = 17, 6, 100_000
WIDTHS = {"obs": OBS, "actions": ACT, "rewards": 1, "next_obs": OBS, "terminations": 1, "next_actions": ACT}


def rows() -> torch.Tensor:
    """Random transitions of HalfCheetah's shape, with returns-to-go."""
    data = torch.randn(ROWS, sum(WIDTHS.values()) + 1, generator=torch.Generator().manual_seed(0))
    data[:, OBS : OBS + ACT].tanh_()
    data[:, 2 * OBS + ACT + 1] = 0.0
    data[:, -ACT - 1 : -1].tanh_()
    return data


def build(algo: str, mode: EngineMode, device: str) -> Engine:
    learner_type = algorithms.load(algo)
    hidden = {name: (256, 256) for name in learner_type.Params.model_fields if name.endswith("_hidden")}
    learner: Learner = learner_type(OBS, ACT, seeds=(0, 1), device=device, batch_size=256, **hidden)
    source = OfflineSource(PackedTransitions(rows().to(device), {**WIDTHS, "returns_to_go": 1}))
    return Engine(learner, source, mode)


def difference(a: Engine, b: Engine) -> float:
    """The largest difference between two learners' networks, relative to the networks' own scale."""
    pairs = zip(a.learner.model.state_dict().values(), b.learner.model.state_dict().values(), strict=True)
    return max(float((x.cpu() - y.cpu()).norm() / (x.cpu().norm() + 1e-12)) for x, y in pairs)


def pace(engine: Engine, first: int, count: int) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    engine.run(first, count)
    torch.cuda.synchronize()
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", action="append")
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for algo in options.algo or algorithms.find():
        host, eager, compiled = (
            build(algo, "eager", "cpu"),
            build(algo, "eager", "cuda"),
            build(algo, "compiled", "cuda"),
        )
        for engine in (host, eager, compiled):
            engine.run(0, options.updates)
        apart = f"cpu/gpu {difference(host, eager):.1e}  eager/compiled {difference(eager, compiled):.1e}"
        speeds = [pace(engine, options.updates, 200) for engine in (eager, compiled)]
        print(f"{algo:<8} {apart}  eager {speeds[0]:7.0f}/s  compiled {speeds[1]:7.0f}/s", flush=True)


if __name__ == "__main__":
    main()
