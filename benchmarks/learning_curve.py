"""How one algorithm's score moves while it learns: the curves behind the reasons that the page of scores gives.

    python benchmarks/learning_curve.py --dataset halfcheetah-medium-expert --algo cql --updates 100000 \\
        --set bc_warmup_updates=20000 [--name cql-warmup] [--seeds 2] [--data DIR]
    python benchmarks/learning_curve.py --dataset halfcheetah-medium-expert --name cql-warmup --run FOLDER

The first trains, the second takes the curve of a run that is there already. Returns of every evaluation, logged metrics
and what the run was told go into `results/diagnosis.json`, over an earlier curve of the same name. Those that
`score_tables.py` cites, on halfcheetah-medium-expert with `--episodes 5`: `cql` for 150,000 updates, `cql-warmup` as
above, `crr-layernorm` with `--algo crr --set layer_norm=pre` for 40,000.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml
from offline_scores import EPISODES, EVALUATION_SEED, NORMALISED
from score_tables import DATASETS, RESULTS, stored

NAME = "diagnosis"
METRICS = ("critic/q_data", "critic/conservative_gap", "actor/q", "actor/entropy", "actor/bc_loss", "actor/weight")


def train(options: argparse.Namespace, runs_dir: Path) -> Path:
    """The folder of a new run."""
    from rl_training.data import TransitionDataset
    from rl_training.experiment import manager
    from rl_training.runtime.config import TrainConfig

    about = DATASETS[options.dataset]
    run: dict[str, Any] = {"algo": options.algo, "name": "curve", "runs_dir": str(runs_dir), "env_id": about.env_id}
    run |= {"seed": list(range(options.first_seed, options.first_seed + options.seeds)), **NORMALISED}
    run |= {"total_timesteps": options.updates, "log_interval": max(options.updates // 20, 1)}
    run |= {"eval_interval": max(options.updates // options.evaluations, 1), "checkpoint_interval": options.updates}
    run["evaluation"] = {"episodes": options.episodes, "seed": EVALUATION_SEED, "max_envs": 100}
    pairs = (pair.partition("=") for pair in options.set)
    run["algo_kwargs"] = {key: yaml.safe_load(value) for key, _, value in pairs}
    manager.start(TrainConfig.parse(run), dataset=TransitionDataset.load(options.data / about.path))
    return runs_dir / "curve"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def shortened(values: list[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def curve(name: str, dataset: str, folder: Path) -> dict[str, Any]:
    """What a run's folder tells of its learning; `returns` and `metrics` hold one figure per seed at every step."""
    config: dict[str, Any] = yaml.safe_load((folder / "config.yaml").read_text())
    facts = json.loads((folder / "run.json").read_text())
    evaluations, metrics = lines(folder / "evaluations.jsonl"), lines(folder / "metrics.jsonl")
    return {
        "name": name,
        "dataset": dataset,
        "algo": config["algo"],
        "algo_kwargs": config["algo_kwargs"],
        "transforms": config["transforms"],
        "evaluation": config["evaluation"],
        "seeds": evaluations[0]["seeds"],
        "versions": facts["versions"],
        "steps": [row["step"] for row in evaluations],
        "returns": [shortened(row["return_mean"]) for row in evaluations],
        "scores": [
            [round(DATASETS[dataset].normalised(value), 1) for value in row["return_mean"]] for row in evaluations
        ],
        "metric_steps": [row["step"] for row in metrics],
        "metrics": {key: [shortened(row[key]) for row in metrics] for key in METRICS if key in metrics[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RL_TRAINING_DATA", "../shared/data")))
    parser.add_argument("--dataset", required=True, choices=list(DATASETS))
    parser.add_argument("--algo", help="required unless --run is given")
    parser.add_argument("--updates", type=int, default=60_000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the algorithm")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=6, help="points of the curve")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes of each evaluation")
    parser.add_argument("--name", help="of the curve; made of the algorithm and its settings if not given")
    parser.add_argument("--run", type=Path, help="take this run's curve and train nothing")
    options = parser.parse_args()
    if bool(options.run) == bool(options.algo):
        parser.error("one of --algo and --run is needed")
    if options.run and not options.name:
        parser.error("--run needs a --name")
    name = options.name or " ".join([options.algo, *options.set])
    with tempfile.TemporaryDirectory() as runs_dir:
        row = curve(name, options.dataset, options.run or train(options, Path(runs_dir)))
    kept = {(old["dataset"], old["name"]): old for old in [*stored(NAME), row]}
    text = ",\n".join(json.dumps(kept[key]) for key in sorted(kept))
    (RESULTS / f"{NAME}.json").write_text(f'{{"results": [\n{text}\n]}}\n')
    print(f"{row['dataset']}, {row['algo']} ({name}), seeds {row['seeds']}")
    for step, scores in zip(row["steps"], row["scores"], strict=True):
        print(f"{step:>9,}  " + "  ".join(f"{score:8.1f}" for score in scores))


if __name__ == "__main__":
    main()
