"""Offline learning on real data: every algorithm, five seeds trained together, last weights, twenty episodes each.

    python benchmarks/offline_scores.py [--data DIR] [--dataset hopper-medium] [--algo iql] [--jobs 1]

The datasets are Pendulum-v1 as d3rlpy ships it and Hopper and HalfCheetah files of 100,000 transitions in D4RL's layout
(`DATASETS`); `--data` says where they lie. SAC and TD3, which are not offline algorithms, are the negative controls.
Raw returns go into `results/offline_scores.json`, over those of earlier runs of the same pair; `score_tables.py` makes
the page of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from score_tables import DATASETS, page, store, summary

EPISODES, EVALUATION_SEED = 20, 50_000


NORMALISED: dict[str, Any] = {"transforms": {"normalise_observations": True}}
# Updates, and what differs from the algorithm's own defaults; `algo/variant` is another setting of the same algorithm,
# for TD3+BC and IQL the one JAX-CORL runs, for CQL also the one of CORL; they and BC take as many updates as theirs.
# ReBRAC's weights were tuned by its authors on files ten times as large; on these, a larger weight on cloning is the
# fair setting (see docs/algorithms/rebrac.md).
MUJOCO: dict[str, tuple[int, dict[str, Any]]] = {
    "bc": (200_000, NORMALISED),
    "td3_bc": (100_000, {"preset": "d4rl-mujoco"}),
    "iql": (100_000, {"preset": "d4rl-mujoco"}),
    "td3_bc/layernorm": (162_000, {"preset": "layernorm"}),
    "iql/layernorm": (180_000, {"preset": "layernorm"}),
    "cql": (60_000, NORMALISED | {"algo_kwargs": {"cql_alpha": 5.0}}),
    "cql/d4rl-mujoco": (100_000, {"preset": "d4rl-mujoco"}),
    "cql/layernorm": (100_000, {"preset": "layernorm"}),
    "awac": (60_000, {"preset": "d4rl-mujoco"}),
    "awac/layernorm": (100_000, {"preset": "layernorm"}),
    "crr": (60_000, NORMALISED),
    "crr/layernorm": (100_000, {"preset": "layernorm"}),
    "rebrac": (100_000, {"preset": "small-data"}),
    "awr": (50_000, NORMALISED),
    "sac": (30_000, NORMALISED),
    "td3": (30_000, NORMALISED),
}
PENDULUM: dict[str, tuple[int, dict[str, Any]]] = {
    algo: (20_000, NORMALISED | {"algo_kwargs": settings})
    for algo, settings in {
        "bc": {},
        "td3_bc": {},
        "iql": {},
        "cql": {"cql_alpha": 5.0},
        "awac": {},
        "crr": {},
        "rebrac": {},
        "awr": {},
        "sac": {},
        "td3": {},
    }.items()
}


def settings_for(dataset: str, algo: str) -> tuple[int, dict[str, Any]]:
    """Updates and settings of one pair."""
    return (PENDULUM if dataset.startswith("pendulum") else MUJOCO)[algo]


def score(dataset: str, algo: str, data: Path, seeds: int, updates: int | None) -> dict[str, Any]:
    """Train one algorithm on one dataset and evaluate its last weights."""
    from rl_training.data import TransitionDataset
    from rl_training.experiment import manager
    from rl_training.runtime.config import TrainConfig

    about = DATASETS[dataset]
    budget, settings = settings_for(dataset, algo)
    budget = updates or budget
    transitions = TransitionDataset.load(data / about.path)
    with tempfile.TemporaryDirectory() as runs_dir:
        run: dict[str, Any] = {"algo": algo.partition("/")[0], "seed": list(range(seeds)), "total_timesteps": budget}
        run |= {"log_interval": 1000, "checkpoint_interval": budget, "runs_dir": runs_dir, **settings}
        run |= {"env_id": about.env_id}
        run["evaluation"] = {"episodes": 1, "max_envs": 100, **settings.get("evaluation", {})}
        began = time.perf_counter()
        result = manager.start(TrainConfig.parse(run), dataset=transitions)
        seconds = time.perf_counter() - began
        policy = manager.LoadedPolicy(result.checkpoint, result.actor)
        evaluation = policy.evaluate(EPISODES, seed=EVALUATION_SEED)
    return {
        "dataset": dataset,
        "algo": algo,
        "updates": budget,
        "settings": settings,
        "seconds": round(seconds, 1),
        "machine": about_this_machine(),
        "behaviour": float(transitions.episode_returns().mean()),
        "returns": evaluation.returns.round(3).tolist(),
    }


# Running ----------------------------------------------------------------------------------------------------------


def run_all(pairs: list[tuple[str, str]], options: argparse.Namespace, output: Path) -> None:
    """Every pair in a process of its own, `--jobs` at a time."""

    def one(pair: tuple[str, str]) -> None:
        command = [sys.executable, __file__, "--one", *pair, "--data", str(options.data), "--seeds", str(options.seeds)]
        command += ["--updates", str(options.updates)] if options.updates else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{pair[0]:<26} {pair[1]:<8} failed: {last}", flush=True)
            return
        row = json.loads(done.stdout.splitlines()[-1])
        with output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{pair[0]:<26} {pair[1]:<8} {summary(pair[0], row):>18}   {row['seconds']:.0f} s", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RL_TRAINING_DATA", "../shared/data")))
    parser.add_argument("--dataset", action="append", choices=list(DATASETS))
    parser.add_argument("--algo", action="append", choices=list(MUJOCO | PENDULUM))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, help="instead of each algorithm's own number")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--raw", type=Path, help="append raw results to this file instead of storing them")
    parser.add_argument("--merge", type=Path, nargs="+", help="store the raw results of these files and do no more")
    parser.add_argument("--one", nargs=2, metavar=("DATASET", "ALGO"), help="train one pair and print its JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(score(*options.one, options.data, options.seeds, options.updates)))
        return
    if options.merge:
        rows = [json.loads(line) for path in options.merge for line in path.read_text().splitlines()]
        store("offline_scores", rows)
        print(page())
        return
    # The longest first, so that no processor waits for the last.
    costs = {algo: rank for rank, algo in enumerate(("cql", "rebrac", "awac", "crr", "iql", "sac", "td3_bc", "td3"))}
    algos = sorted(options.algo or MUJOCO | PENDULUM, key=lambda algo: costs.get(algo.partition("/")[0], len(costs)))
    known = (MUJOCO, PENDULUM)
    pairs = [
        (dataset, algo)
        for algo in algos
        for dataset in options.dataset or DATASETS
        if algo in known[dataset.startswith("pendulum")]
    ]
    raw = options.raw or Path(tempfile.mkdtemp()) / "raw.jsonl"
    raw.touch()
    run_all(pairs, options, raw)
    if not options.raw:
        store("offline_scores", [json.loads(line) for line in raw.read_text().splitlines()])
        print(page())


def about_this_machine() -> dict[str, Any]:
    import gymnasium
    import torch

    from rl_training import __version__

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return {
        "rl_training": __version__,
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
        "device": device,
    }


if __name__ == "__main__":
    main()
