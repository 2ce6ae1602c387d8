"""Whether every way of running an update does the same: on CPU and GPU, eagerly, compiled, fused, in each precision.

    python benchmarks/device_agreement.py [--algo cql] [--updates 100] [--output FILE]

Prints, for each algorithm and way, the largest relative difference of its networks from eager float32 on the GPU after
some updates, whether a second run gives the same bits, and whether a run in pieces does (as a resumed one is). Needs a
CUDA device; no environment. A way that this machine cannot go is reported by its error and left out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rl_training import algorithms
from rl_training.algorithms.base import Learner
from rl_training.data.batch import PackedTransitions
from rl_training.runtime.engine import Engine, EngineMode, Kernels, Precision, set_arithmetic
from rl_training.runtime.sources import OfflineSource

OBS, ACT, ROWS = 17, 6, 100_000
WIDTHS = {"obs": OBS, "actions": ACT, "rewards": 1, "next_obs": OBS, "terminations": 1, "next_actions": ACT}


class Way(NamedTuple):
    """How updates are run."""

    device: str
    mode: EngineMode
    precision: Precision = "fp32"
    kernels: Kernels = "plain"


REFERENCE = Way("cuda", "eager")
WAYS = (
    Way("cpu", "eager"),
    Way("cuda", "compiled"),
    Way("cuda", "compiled", kernels="fused"),
    Way("cuda", "compiled", "tf32"),
    Way("cuda", "compiled", "tf32", "fused"),
    Way("cuda", "compiled", "bf16", "fused"),
)


def rows() -> torch.Tensor:
    """Random transitions of HalfCheetah's shape, with returns-to-go."""
    data = torch.randn(ROWS, sum(WIDTHS.values()) + 1, generator=torch.Generator().manual_seed(0))
    data[:, OBS : OBS + ACT].tanh_()
    data[:, 2 * OBS + ACT + 1] = 0.0
    data[:, -ACT - 1 : -1].tanh_()
    return data


def build(algo: str, way: Way, data: torch.Tensor) -> Engine:
    learner_type = algorithms.load(algo)
    learner: Learner = learner_type(OBS, ACT, seeds=(0, 1), device=way.device, batch_size=256)
    set_arithmetic(learner, way.precision, way.kernels)
    source = OfflineSource(PackedTransitions(data.to(way.device), {**WIDTHS, "returns_to_go": 1}))
    return Engine(learner, source, way.mode)


def weights(engine: Engine) -> list[torch.Tensor]:
    return [value.cpu() for value in engine.learner.model.state_dict().values()]


def trained(algo: str, way: Way, data: torch.Tensor, pieces: list[int]) -> tuple[list[torch.Tensor], float]:
    """The networks after so many updates, and the seconds they took."""
    torch.compiler.reset()
    engine, done = build(algo, way, data), 0
    began = time.perf_counter()
    for count in pieces:
        engine.run(done, count)
        done += count
    return weights(engine), time.perf_counter() - began


def difference(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference between two learners' networks, relative to the networks' own scale."""
    return max(float((x - y).norm() / (y.norm() + 1e-12)) for x, y in zip(a, b, strict=True))


def compare(algo: str, way: Way, reference: list[torch.Tensor], data: torch.Tensor, updates: int) -> dict[str, Any]:
    row: dict[str, Any] = {"algo": algo, **way._asdict(), "updates": updates}
    try:
        once, seconds = trained(algo, way, data, [updates])
        again, _ = trained(algo, way, data, [updates])
        in_pieces, _ = trained(algo, way, data, [updates // 3, 1, updates - updates // 3 - 1])
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {
        **row,
        "difference": difference(once, reference),
        "repeats": all(torch.equal(x, y) for x, y in zip(once, again, strict=True)),
        "resumes": all(torch.equal(x, y) for x, y in zip(once, in_pieces, strict=True)),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", action="append")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--output", type=Path, help="also write the rows as JSON")
    options = parser.parse_args()
    about = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    print(about, flush=True)
    data, found = rows(), []
    for algo in options.algo or algorithms.find():
        reference, _ = trained(algo, REFERENCE, data, [options.updates])
        for way in WAYS:
            row = compare(algo, way, reference, data, options.updates)
            found.append(row)
            name = f"{algo:<8} {way.device:<4} {way.mode:<8} {way.precision:<4} {way.kernels:<5}"
            said = row.get("error") or "{difference:.1e}  repeats {repeats}  resumes {resumes}  {seconds} s".format(
                **row
            )
            print(f"{name}  {said}", flush=True)
        if options.output:
            options.output.write_text(json.dumps({"machine": about, "results": found}, indent=1))


if __name__ == "__main__":
    main()
