"""Where the time of one update goes: every kernel (on a GPU) or operator (on a CPU), how often and for how long.

    python benchmarks/update_profile.py [--algo td3_bc] [--members 1 64] [--device auto] [--kernels plain] [--store]

Prints a table per algorithm and number of members; `--store` keeps the rows in `results/profile-<device>.json`, over
those of earlier runs of the same work. docs/performance.md is written from them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from rl_training.experiment.benchmark import Work, machine, prepare

RESULTS = Path(__file__).parent / "results"


def measure(work: Work, updates: int, shown: int) -> dict[str, Any]:
    """Updates per second, and the `shown` costliest kernels or operators of an update."""
    on_gpu = work.device.startswith("cuda")
    run = prepare(work).run
    began = time.perf_counter()
    run(200)
    starting = time.perf_counter() - began
    began = time.perf_counter()
    run(updates)
    rate = updates / (time.perf_counter() - began)
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
        run(100)
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in profiler.events():
        if on_gpu == (event.device_type == torch.autograd.DeviceType.CUDA):
            times[event.name][0] += 1 / 100
            times[event.name][1] += (event.device_time if on_gpu else event.self_cpu_time_total) / 100
    ranked = sorted(times.items(), key=lambda item: -item[1][1])
    return {
        "work": asdict(work),
        "updates_per_second": round(rate, 1),
        "first_updates_s": round(starting, 1),
        "kernels_per_update": round(sum(count for count, _ in times.values()), 1),
        "busy_us_per_update": round(sum(total for _, total in times.values()), 1),
        "costliest": [
            {"name": name[:120], "per_update": round(count, 2), "us_per_update": round(total, 2)}
            for name, (count, total) in ranked[:shown]
        ],
    }


def table(row: dict[str, Any]) -> str:
    work = row["work"]
    lines = [
        f"{work['algo']} x{work['members']} {work['kernels']} {work['precision']}: {row['updates_per_second']:.0f} "
        f"updates/s, {row['kernels_per_update']:.0f} kernels of {row['busy_us_per_update']:.0f} us per update, "
        f"first 200 updates {row['first_updates_s']:.0f} s"
    ]
    return "\n".join(
        lines + [f"  {e['per_update']:6.2f} x = {e['us_per_update']:8.2f} us  {e['name']}" for e in row["costliest"]]
    )


def store(rows: list[dict[str, Any]], device: str) -> None:
    path = RESULTS / f"profile-{'gpu' if device.startswith('cuda') else 'cpu'}.json"
    earlier = json.loads(path.read_text())["results"] if path.is_file() else []
    merged = {json.dumps(row["work"]): row for row in [*earlier, *rows]}
    path.write_text(json.dumps({"machine": machine(device), "results": list(merged.values())}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", nargs="+", default=["td3_bc"])
    parser.add_argument("--members", type=int, nargs="+", default=[1])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="compiled")
    parser.add_argument("--kernels", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--updates", type=int, default=1_000)
    parser.add_argument("--shown", type=int, default=25)
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    shared = {name: getattr(options, name) for name in ("device", "engine", "kernels", "precision")}
    rows = []
    for algo in options.algo:
        for members in options.members:
            work = Work(algo=algo, members=members, **shared).resolved()
            rows.append(measure(work, options.updates, options.shown))
            print(table(rows[-1]), flush=True)
    if options.store:
        store(rows, rows[0]["work"]["device"])


if __name__ == "__main__":
    main()
