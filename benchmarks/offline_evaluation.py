"""Fitted Q evaluation beside the truth: policies of differing quality, estimated from data and played in the simulator.

    python benchmarks/offline_evaluation.py [--data DIR] [--dataset pendulum-replay] [--policy bc]

On d3rlpy's two Pendulum files: an untrained policy, one taught to do badly (rewards negated), clones, and early and
late checkpoints of TD3+BC and IQL. Each is estimated with the defaults of `rl-training evaluate --offline`, without
looking at the simulator, and then played in it: the discounted return of episodes that no time limit cuts, which is
what is estimated, and the usual return of 200 steps. Results go into `results/offline_evaluation.json`; the table in
`docs/offline_evaluation.md` is made of them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rl_training.data import TransitionDataset
from rl_training.experiment.manager import LoadedPolicy, load_policy, start
from rl_training.runtime.config import TrainConfig

RESULTS = Path(__file__).parent / "results" / "offline_evaluation.json"
PAGE = Path(__file__).parents[1] / "docs" / "offline_evaluation.md"
MARKS = ("<!-- measured -->\n", "<!-- /measured -->\n")
FILES = {"pendulum-replay": "d3rlpy/pendulum_replay.h5", "pendulum-random": "d3rlpy/pendulum_random.h5"}
EPISODES, FIRST_SEED, STEPS = 50, 50_000, 600  # 0.99^600 is 0.002
FEW, DRAWS = 15, 10  # recorded episodes, and how often so many are drawn
WIDTH = [64, 64]
# Name -> algorithm, updates, checkpoints to look at; `harmful` learns from negated rewards.
POLICIES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "untrained": ("bc", 1, (1,)),
    "harmful": ("td3_bc", 1_000, (1_000,)),
    "bc": ("bc", 2_000, (200, 2_000)),
    "td3_bc": ("td3_bc", 3_000, (300, 3_000)),
    "iql": ("iql", 3_000, (500, 3_000)),
}


def train(name: str, dataset: TransitionDataset, runs: Path) -> Path:
    """One seed with small networks; nothing is evaluated."""
    algo, updates, steps = POLICIES[name]
    hidden = {
        f"{part}_hidden": WIDTH
        for part in {"bc": ("actor",), "iql": ("actor", "critic", "value")}.get(algo, ("actor", "critic"))
    }
    config: dict[str, Any] = {"algo": algo, "total_timesteps": updates, "runs_dir": str(runs), "name": name}
    config |= {
        "checkpoint_interval": min(steps),
        "keep_every": min(steps),
        "keep_checkpoints": 1,
        "log_interval": 1_000,
    }
    config |= {"algo_kwargs": hidden, "transforms": {"normalise_observations": True}, "seed": len(name)}
    return start(TrainConfig.parse(config), dataset=dataset).run.path


def played(policy: LoadedPolicy, gamma: float) -> dict[str, Any]:
    """The truth: discounted returns of uncut episodes, and the return of 200 steps, with standard errors."""
    envs = [gymnasium.make("Pendulum-v1").unwrapped for _ in range(EPISODES)]
    obs = np.stack([env.reset(seed=FIRST_SEED + number)[0] for number, env in enumerate(envs)])
    discounted, plain = np.zeros(EPISODES), np.zeros(EPISODES)
    for step in range(STEPS):
        actions = policy.actor(obs[None].astype(np.float32))[0]
        outcomes = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        obs = np.stack([outcome[0] for outcome in outcomes])
        rewards = np.array([float(outcome[1]) for outcome in outcomes])
        discounted += gamma**step * rewards
        plain += rewards if step < 200 else 0.0
    return {
        "true_value": float(discounted.mean()),
        "true_value_error": float(discounted.std(ddof=1) / np.sqrt(EPISODES)),
        "true_return": float(plain.mean()),
    }


def measure(title: str, data: Path, runs: Path, names: list[str], known: list[dict[str, Any]]) -> dict[str, Any]:
    """These policies on one dataset, beside the rows that are known of others."""
    dataset = TransitionDataset.load(data / FILES[title])
    rows = [row for row in known if row["policy"] not in names]
    for name in names:
        steps = POLICIES[name][2]
        taught = replace(dataset, rewards=-dataset.rewards) if name == "harmful" else dataset
        run = train(name, taught, runs / title)
        for step in steps:
            policy = load_policy(run, step)
            began = time.perf_counter()
            found = policy.evaluate_offline(dataset, store=False)
            seconds = time.perf_counter() - began
            (one,) = found.policies
            row = {"policy": name, "step": step, **one.to_json(), "fitted": one.value.to_json()}
            row["updates"] = found.updates
            row |= {"gain": one.improvement.to_json(), "probability": one.probability, "seconds": round(seconds, 1)}
            rows.append(row | played(policy, found.gamma) | {"few": by_few_episodes(policy, dataset)})
            print(line(rows[-1]), flush=True)
    rows.sort(key=lambda row: (list(POLICIES).index(row["policy"]), row["step"]))
    summary = {"behaviour": found.to_json()["behaviour"], "gamma": found.gamma, "updates": found.settings.updates}
    return {
        "dataset": title,
        **summary,
        "repeats": found.settings.repeats,
        "policies": rows,
        "agreement": agreement(rows),
    }


def by_few_episodes(policy: LoadedPolicy, dataset: TransitionDataset) -> list[dict[str, Any]]:
    """Estimates from a few of the recorded episodes, drawn again and again."""
    found = []
    for draw in range(DRAWS):
        chosen = np.random.default_rng(draw).permutation(dataset.n_episodes)[:FEW]
        few = dataset.select(np.flatnonzero(np.isin(dataset.episode_ids, chosen)))
        (one,) = policy.evaluate_offline(few, store=False, seed=draw).policies
        found.append({"trusted": one.trusted, **one.value.to_json()})
    return found


def agreement(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How well estimates order the policies and hold the truth: all of them, and those that are trusted."""
    return {"all": _agreement(rows), "trusted": _agreement([row for row in rows if row["value"]])}


def _agreement(rows: list[dict[str, Any]]) -> dict[str, Any]:
    fitted = [row["fitted"]["value"] for row in rows]
    held = [holds(row["fitted"], row) for row in rows]
    best = max(rows, key=lambda row: row["fitted"]["value"])
    return {
        "policies": len(rows),
        "rank_correlation_with_value": spearman(fitted, [row["true_value"] for row in rows]),
        "rank_correlation_with_return": spearman(fitted, [row["true_return"] for row in rows]),
        "mean_absolute_error": float(np.mean([abs(row["fitted"]["value"] - row["true_value"]) for row in rows])),
        "intervals_that_hold_the_truth": sum(held),
        "regret_of_the_choice": max(row["true_value"] for row in rows) - best["true_value"],
    }


def holds(fitted: dict[str, float], row: dict[str, Any]) -> bool:
    """Whether an interval reaches within two standard errors of the truth."""
    error = 2 * row["true_value_error"]
    return bool(fitted["low"] - error <= row["true_value"] <= fitted["high"] + error)


def spearman(one: list[float], other: list[float]) -> float:
    """Rank correlation; no two of these numbers are equal."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def line(row: dict[str, Any]) -> str:
    fitted = row["fitted"]
    ends = f"{fitted['low']:8.1f} to {fitted['high']:8.1f}"
    trust = "" if row["value"] else "   not trusted"
    true = f"{row['true_value']:8.1f} ± {row['true_value_error']:4.1f}   {row['true_return']:8.1f}"
    name = f"{row['policy']:<10} {row['step']:>5}"
    return f"{name}   {fitted['value']:8.1f}  {ends}   {true}   {row['seconds']:.0f} s{trust}"


# The page -------------------------------------------------------------------------------------------------------------


def measured(results: list[dict[str, Any]]) -> str:
    """The tables of the page."""
    parts = []
    for found in results:
        rows = found["policies"]
        behaviour = found["behaviour"]
        updates = f"{found['updates']:,} updates, more while not settled"
        settings = f"{found['repeats']} repeats of {updates}, γ = {found['gamma']:g}"
        parts += [
            f"**{found['dataset']}**, {settings}; the data's episodes return {shown(behaviour['return'])},"
            f" the behaviour is fitted as {shown(behaviour['value'])}.\n",
            "| policy | updates | estimate | trusted | improvement | true value | true return (200 steps) |",
            "|---|---|---|---|---|---|---|",
            *map(_page_row, rows),
            "",
        ]
    rows = [row for found in results for row in found["policies"]]
    groups = {found["dataset"]: found["policies"] for found in results} | {"both files together": rows}
    parts += [
        "| | estimates | rank correlation with the value | with the return | mean error |"
        " intervals that hold the truth | lost by choosing the highest |",
        "|---|---|---|---|---|---|---|",
        *(
            _summary_row(name, which, told)
            for name, group in groups.items()
            for which, told in agreement(group).items()
        ),
        "",
        *map(_few, results),
        "",
    ]
    return "\n".join(parts)


def _few(found: dict[str, Any]) -> str:
    """What remains with few episodes."""
    pairs = [(one, row) for row in found["policies"] for one in row["few"]]
    trusted = [holds(one, row) for one, row in pairs if one["trusted"]]
    return (
        f"From {FEW} episodes of {found['dataset']}, drawn {DRAWS} times for each policy, {len(trusted)} of"
        f" {len(pairs)} estimates are trusted; {sum(trusted)} of these intervals hold the truth.\n"
    )


def _summary_row(name: str, which: str, told: dict[str, Any]) -> str:
    cells = [f"{told[f'rank_correlation_with_{what}']:.2f}" for what in ("value", "return")]
    held = f"{told['intervals_that_hold_the_truth']} of {told['policies']}"
    cells = [name, which, *cells, f"{told['mean_absolute_error']:.0f}", held, f"{told['regret_of_the_choice']:.0f}"]
    return f"| {' | '.join(cells)} |"


def shown(found: dict[str, float]) -> str:
    return f"{round(found['value'])} ({round(found['low'])} to {round(found['high'])})"


def _page_row(row: dict[str, Any]) -> str:
    gain = f"{row['gain']['value']:+.0f} ({row['gain']['low']:.0f} to {row['gain']['high']:.0f})"
    true = f"{row['true_value']:.0f} ± {row['true_value_error']:.0f}"
    trusted = "yes" if row["value"] else "no"
    cells = (row["policy"], f"{row['step']:,}", shown(row["fitted"]), trusted, gain, true, f"{row['true_return']:.0f}")
    return f"| {' | '.join(cells)} |"


def write_page(results: list[dict[str, Any]]) -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}{measured(results)}{MARKS[1]}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RL_TRAINING_DATA", "../shared/data")))
    parser.add_argument("--dataset", action="append", choices=list(FILES))
    parser.add_argument("--policy", action="append", choices=list(POLICIES), help="these alone; others as stored")
    options = parser.parse_args()
    stored = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    for title in options.dataset or FILES:
        print(
            f"{title}\npolicy      step     fitted      95% interval             true value   true return", flush=True
        )
        with tempfile.TemporaryDirectory() as runs:
            known = next((old["policies"] for old in stored if old["dataset"] == title), [])
            result = measure(title, options.data, Path(runs), options.policy or list(POLICIES), known)
        stored = [old for old in stored if old["dataset"] != title] + [result]
        stored.sort(key=lambda one: list(FILES).index(one["dataset"]))
        RESULTS.write_text(json.dumps({"results": stored}, indent=1) + "\n")
        write_page(stored)
        for which, told in result["agreement"].items():
            print(f"{which}:", "  ".join(f"{key} {value:.3g}" for key, value in told.items()), flush=True)


if __name__ == "__main__":
    main()
