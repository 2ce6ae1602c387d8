"""Updates per second of every algorithm, by engine and number of members, on HalfCheetah's shapes.

    python benchmarks/updates_per_second.py [--quick] [--algo cql] [--output results.json]

Work: observations 17, actions 6, batch 256, two hidden layers of 256, sampling and metrics included, no evaluation.
Each figure is the median of several blocks measured in turns, so that a noisy machine hits all alike. The table is
printed, the raw figures are written as JSON beside the machine they were measured on.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch

from rl_training import algorithms
from rl_training.data.batch import PackedTransitions
from rl_training.runtime.engine import Engine, EngineMode, compiler_available
from rl_training.runtime.sources import OfflineSource

OBS, ACT, ROWS = 17, 6, 1_000_000


def transitions(device: str) -> PackedTransitions:
    """A million random rows of HalfCheetah's shape."""
    widths = {"obs": OBS, "actions": ACT, "rewards": 1, "next_obs": OBS, "terminations": 1, "next_actions": ACT}
    rows = torch.randn(ROWS, sum(widths.values()), generator=torch.Generator().manual_seed(0))
    rows[:, OBS : OBS + ACT].tanh_()
    rows[:, -ACT:].tanh_()
    rows[:, 2 * OBS + ACT + 1] = 0.0
    return PackedTransitions(rows.to(device), widths)


def engine_for(algo: str, mode: EngineMode, members: int, source: OfflineSource, device: str) -> Engine:
    learner_type = algorithms.load(algo)
    hidden = {name: (256, 256) for name in learner_type.Params.model_fields if name.endswith("_hidden")}
    learner = learner_type(OBS, ACT, seeds=range(members), device=device, batch_size=256, **hidden)
    return Engine(learner, source, mode)


def measure(engines: dict[tuple[str, str, int], Engine], blocks: int, seconds: float) -> list[dict[str, object]]:
    """Run every engine in turns; a block lasts about `seconds`."""
    rates: dict[tuple[str, str, int], list[float]] = {key: [] for key in engines}
    done = dict.fromkeys(engines, 0)
    count = dict.fromkeys(engines, 2)
    for block in range(blocks + 1):
        for key, engine in engines.items():
            began = time.perf_counter()
            engine.run(done[key], count[key])
            engine.take_metrics()
            rate = count[key] / (time.perf_counter() - began)
            done[key] += count[key]
            if block:
                rates[key].append(rate)
            if block == 0:  # warm-up: compile, then find how many updates fill a block
                began = time.perf_counter()
                engine.run(done[key], 4)
                done[key] += 4
                count[key] = max(4, int(seconds * 4 / (time.perf_counter() - began)))
    return [
        {
            "algo": algo,
            "engine": mode,
            "members": members,
            "updates_per_second": statistics.median(values),
            "seed_updates_per_second": members * statistics.median(values),
            "spread": (max(values) - min(values)) / statistics.median(values),
        }
        for (algo, mode, members), values in rates.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", action="append", help="only these algorithms")
    parser.add_argument("--members", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--quick", action="store_true", help="eager only, short blocks")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/updates_per_second.json"))
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source = OfflineSource(transitions(device))
    modes: list[EngineMode] = ["eager"] if options.quick or not compiler_available() else ["eager", "compiled"]
    results = []
    for algo in options.algo or algorithms.find():
        engines = {
            (algo, mode, m): engine_for(algo, mode, m, source, device) for mode in modes for m in options.members
        }
        rows = measure(engines, blocks=3 if options.quick else 5, seconds=0.5 if options.quick else 2.0)
        results += rows
        for row in rows:
            print(
                f"{row['algo']:<8} {row['engine']:<9} members {row['members']:<4} "
                f"{row['updates_per_second']:9.1f} updates/s {row['seed_updates_per_second']:9.1f} seed-updates/s",
                flush=True,
            )
    machine = {"system": platform.platform(), "processor": platform.processor(), "threads": torch.get_num_threads()}
    machine |= {"torch": torch.__version__, "device": device}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
