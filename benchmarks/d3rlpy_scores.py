"""d3rlpy on the same Pendulum data, with the same settings and the same number of updates as `offline_scores.py`.

    python benchmarks/d3rlpy_scores.py [--data DIR] [--algo iql] [--jobs 1] [--device cpu]

Run it with the Python of an environment that holds d3rlpy (`make bench-scores` makes one). Every seed is a process of
its own. Results go into `results/d3rlpy_scores.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from offline_scores import EPISODES, EVALUATION_SEED
from score_tables import DATASETS, PEER_ALGORITHMS, store, summary

PENDULUM_SETS = tuple(name for name in DATASETS if name.startswith("pendulum"))


def learner(algo: str, device: str) -> Any:
    """d3rlpy's algorithm with ours' batch, layers, rates and weights; IQL's rate stays constant, where ours falls."""
    import d3rlpy

    def layers(count: int) -> Any:
        return d3rlpy.models.VectorEncoderFactory([256] * count)

    shared: dict[str, Any] = {
        "observation_scaler": d3rlpy.preprocessing.StandardObservationScaler(),
        "action_scaler": d3rlpy.preprocessing.MinMaxActionScaler(minimum=-2.0, maximum=2.0),
        "batch_size": 256,
        "compile_graph": True,  # d3rlpy does so on GPUs only
    }
    algos = d3rlpy.algos
    configs = {
        "td3_bc": lambda: algos.TD3PlusBCConfig(**shared),
        "iql": lambda: algos.IQLConfig(**shared),
        # A fixed weight of 5 on the penalty instead of a tuned one.
        "cql": lambda: algos.CQLConfig(
            **shared,
            actor_encoder_factory=layers(3),
            critic_encoder_factory=layers(3),
            alpha_learning_rate=0.0,
            initial_alpha=1.0,
            conservative_weight=5.0,
        ),
        "awac": lambda: algos.AWACConfig(
            **shared | {"batch_size": 1024},
            actor_encoder_factory=layers(4),
            actor_optim_factory=d3rlpy.optimizers.AdamFactory(weight_decay=1e-4),
            lam=2.0,
        ),
        "crr": lambda: algos.CRRConfig(**shared, n_critics=2, target_update_type="soft"),
    }
    return configs[algo.partition("/")[0]]().create(device=device)


def without_entropy(policy: Any) -> None:
    """d3rlpy's AWAC takes its targets from SAC, with a temperature of 1 that nothing sets: r + γ(Q̄ - log π)."""
    next(policy.impl.modules.log_temp.parameters()).data.fill_(-100.0)


def squashed(policy: Any) -> None:
    """d3rlpy's CRR has a clipped Gaussian around tanh(μ), and its critics choose among four actions; here it has ours'
    tanh of a Gaussian and acts by its mode."""
    from d3rlpy.algos.qlearning.torch import crr_impl
    from d3rlpy.models.torch import build_squashed_gaussian_distribution

    crr_impl.build_gaussian_distribution = build_squashed_gaussian_distribution
    policy.impl.inner_predict_best_action = lambda x: policy.impl.policy(x).squashed_mu


# d3rlpy's algorithms with what they do otherwise taken out.
VARIANTS = {"awac/without-entropy": without_entropy, "crr/squashed": squashed}


def transitions(path: Path) -> Any:
    """The file as d3rlpy's own dataset."""
    import d3rlpy
    import h5py
    import numpy as np

    with h5py.File(path) as file:
        ends, terminals = file["episode_terminals"][:], file["terminals"][:]
        return d3rlpy.dataset.MDPDataset(
            observations=file["observations"][:],
            actions=file["actions"][:],
            rewards=file["rewards"][:],
            terminals=np.logical_and(ends, terminals),
            timeouts=np.logical_and(ends, np.logical_not(terminals)),
        )


def evaluate(policy: Any, env_id: str) -> list[float]:
    """The returns of the same episodes ours is evaluated on."""
    import gymnasium
    import numpy as np

    envs = [gymnasium.make(env_id) for _ in range(EPISODES)]
    observations = np.stack([env.reset(seed=EVALUATION_SEED + i)[0] for i, env in enumerate(envs)])
    returns, running = [0.0] * EPISODES, set(range(EPISODES))
    while running:
        actions = policy.predict(observations.astype(np.float32))
        for i in sorted(running):
            observations[i], reward, terminated, truncated, _ = envs[i].step(actions[i])
            returns[i] += float(reward)
            if terminated or truncated:
                running.discard(i)
    return returns


def score(dataset: str, algo: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One seed: train as long as told, then twenty episodes."""
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    d3rlpy.seed(seed)
    policy, data = learner(algo, options.device), transitions(options.data / DATASETS[dataset].path)
    if algo in VARIANTS:
        policy.build_with_dataset(data)
        VARIANTS[algo](policy)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as logs:
        policy.fit(
            data,
            n_steps=options.updates,
            n_steps_per_epoch=options.updates,
            logger_adapter=d3rlpy.logging.FileAdapterFactory(root_dir=logs),
            show_progress=False,
        )
    seconds = time.perf_counter() - began
    returns = evaluate(policy, DATASETS[dataset].env_id)
    return {"seed": seed, "d3rlpy": d3rlpy.__version__, "seconds": round(seconds, 1), "returns": returns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RL_TRAINING_DATA", "../shared/data")))
    parser.add_argument("--dataset", action="append", choices=PENDULUM_SETS)
    parser.add_argument("--algo", action="append", choices=(*PEER_ALGORITHMS, *VARIANTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    parser.add_argument(
        "--raw", type=Path, help="append one line per seed to this file; seeds that it has are not run again"
    )
    parser.add_argument("--merge", type=Path, nargs="+", help="store the raw lines of these files and do no more")
    parser.add_argument("--one", nargs=3, metavar=("DATASET", "ALGO", "SEED"), help="train one and print its JSON")
    options = parser.parse_args()
    if options.one:
        dataset, algo, seed = options.one
        row = {"dataset": dataset, "algo": algo, "updates": options.updates, "device": options.device}
        print(json.dumps(row | score(dataset, algo, int(seed), options)))
        return
    raw = options.raw or Path(tempfile.mkdtemp()) / "raw.jsonl"
    if not options.merge:
        run_all(options, raw)
    if not options.raw or options.merge:
        merge([json.loads(line) for path in options.merge or [raw] for line in path.read_text().splitlines()])


def run_all(options: argparse.Namespace, raw: Path) -> None:
    def one(work: tuple[str, str, int]) -> None:
        shared = ["--data", str(options.data), "--updates", str(options.updates), "--device", options.device]
        command = [sys.executable, __file__, "--one", *map(str, work), *shared]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(*work, "failed:", (done.stderr.strip().splitlines() or ["no message"])[-1], flush=True)
            return
        line = done.stdout.splitlines()[-1]
        with raw.open("a") as file:
            file.write(line + "\n")
        row = json.loads(line)
        mean = sum(row["returns"]) / len(row["returns"])
        print(
            f"{row['dataset']:<16} {row['algo']:<7} seed {row['seed']}  {mean:8.1f}  {row['seconds']:.0f} s", flush=True
        )

    raw.touch()
    done_before = {(row["dataset"], row["algo"], row["seed"]) for row in map(json.loads, raw.read_text().splitlines())}
    works = [
        (dataset, algo, seed)
        # The slowest first.
        for algo in sorted(options.algo or (*PEER_ALGORITHMS, *VARIANTS), key=lambda name: name != "cql")
        for dataset in options.dataset or PENDULUM_SETS
        for seed in range(options.seeds)
        if (dataset, algo, seed) not in done_before
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, works))


def merge(lines: list[dict[str, Any]]) -> None:
    """Seeds of one dataset, algorithm and budget become one row."""
    grouped: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        grouped[line["dataset"], line["algo"]][line["seed"]] = line
    rows = []
    for (dataset, algo), seeds in grouped.items():
        first = next(iter(seeds.values()))
        returns = [[round(value, 3) for value in seeds[seed]["returns"]] for seed in sorted(seeds)]
        row = {"dataset": dataset, "algo": algo, "updates": first["updates"], "d3rlpy": first["d3rlpy"]}
        row["devices"] = [seeds[seed]["device"] for seed in sorted(seeds)]
        rows.append(row | {"seeds": sorted(seeds), "returns": returns})
        print(f"{dataset:<16} {algo:<7} {summary(dataset, rows[-1])}")
    store("d3rlpy_scores", rows)


if __name__ == "__main__":
    main()
