"""Scores of the packaged configurations: every algorithm, five seeds trained together, last weights, twenty episodes.

    python benchmarks/scores.py [--algo cql] [--seeds 5] [--output benchmarks/results/scores.json]

The table is printed and the raw returns of every episode are written as JSON, over those of earlier runs of the same
configurations.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch

from rl_training import __version__
from rl_training.experiment import manager
from rl_training.experiment.config import packaged_configs, read_config


def score(name: str, seeds: int, episodes: int, runs_dir: str) -> dict[str, Any]:
    """Train one configuration and evaluate its last weights on episodes no evaluation during training has used."""
    config = read_config(name, [f"seed={list(range(seeds))}", f"runs_dir={runs_dir}"])
    began = time.perf_counter()
    result = manager.start(config)
    seconds = time.perf_counter() - began
    evaluation = manager.LoadedPolicy(result.checkpoint, result.actor).evaluate(episodes, seed=50_000)
    return {
        "config": name,
        "updates": result.progress.updates,
        "seconds": seconds,
        "behaviour": (result.run.describe()["dataset"] or {}).get("return_mean"),
        "returns": evaluation.returns.tolist(),
        "mean": evaluation.mean,
        "std_over_seeds": float(evaluation.returns.mean(1).std(ddof=1)) if seeds > 1 else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", help="only these packaged configurations")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/scores.json"))
    options = parser.parse_args()
    about = {"rl_training": __version__, "torch": torch.__version__, "gymnasium": gymnasium.__version__}
    about |= {"system": f"{platform.system()} {platform.machine()}", "threads": torch.get_num_threads()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    stored = json.loads(options.output.read_text())["results"] if options.output.is_file() else []
    results = {row["config"]: row for row in stored}
    with tempfile.TemporaryDirectory() as runs_dir:
        for name in options.config or [c for c in packaged_configs() if c.endswith("/pendulum")]:
            row = results[name] = score(name, options.seeds, options.episodes, runs_dir)
            behaviour = "" if row["behaviour"] is None else f"   (behaviour {row['behaviour']:.1f})"
            print(
                f"{row['config']:<18} {row['updates']:>7,} updates  {row['mean']:9.1f} ± {row['std_over_seeds']:.1f}"
                f"{behaviour}   {row['seconds']:.0f} s",
                flush=True,
            )
            rows = [results[key] for key in sorted(results)]
            options.output.write_text(json.dumps({"about": about, "results": rows}) + "\n")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
