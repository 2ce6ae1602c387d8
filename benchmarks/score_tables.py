"""What `offline_scores.py` and `d3rlpy_scores.py` store, and the page of tables made of it.

python benchmarks/score_tables.py       # writes docs/benchmarks/offline_scores.md
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "offline_scores.md"


@dataclass(frozen=True)
class Dataset:
    """A file, the environment it was recorded in, and D4RL's returns of a random and an expert policy, where known."""

    path: str
    env_id: str
    random: float | None = None
    expert: float | None = None

    def normalised(self, value: float) -> float:
        """D4RL's score, 0 for random and 100 for expert; the return itself where D4RL has no constants."""
        if self.random is None or self.expert is None:
            return value
        return 100.0 * (value - self.random) / (self.expert - self.random)


HOPPER = ("Hopper-v4", -20.272305, 3234.3)
HALFCHEETAH = ("HalfCheetah-v4", -280.178953, 12135.0)
DATASETS = {
    "pendulum-replay": Dataset("d3rlpy/pendulum_replay.h5", "Pendulum-v1"),
    "pendulum-random": Dataset("d3rlpy/pendulum_random.h5", "Pendulum-v1"),
    "hopper-medium": Dataset("mujoco/hopper-medium.hdf5", *HOPPER),
    "hopper-medium-expert": Dataset("mujoco/hopper-medium-expert.hdf5", *HOPPER),
    "hopper-mixed": Dataset("mujoco/hopper-mixed.hdf5", *HOPPER),
    "halfcheetah-medium": Dataset("mujoco/halfcheetah-medium.hdf5", *HALFCHEETAH),
    "halfcheetah-medium-expert": Dataset("mujoco/halfcheetah-medium-expert.hdf5", *HALFCHEETAH),
}

INTRODUCTION = """\
# Learning on real data

Mean ± standard deviation over five seeds of the last weights, 20 episodes each: returns for Pendulum-v1, D4RL's
normalised scores (0 random, 100 expert) for Hopper and HalfCheetah. The Pendulum files are d3rlpy's (a replay buffer,
and random actions); the others hold 100,000 rows each in D4RL's layout, a tenth of D4RL's own sets, so that published
scores do not compare. `make bench-scores` runs all of it; settings and the return of every episode are in
`benchmarks/results/`. This page is written by `benchmarks/score_tables.py`.

"""
CONTROLS = """

`sac` and `td3` are no offline algorithms and stand here as negative controls: they learn Pendulum, whose data cover
every state and action, and nothing at all from narrower data. `td3_bc/layernorm` and `iql/layernorm` are these
algorithms with `preset: layernorm`.

## Beside others' code

d3rlpy ran the same algorithms on the same Pendulum files, with the same settings and number of updates
(`benchmarks/d3rlpy_scores.py`). On Hopper and HalfCheetah stand the scores that other people's programs reached on
these very files (`benchmarks/results/reference_scores.json`).

"""
REASONS = """

Where ours is below the other's:

- TD3+BC and IQL with their papers' settings (`td3_bc`, `iql`) are below JAX-CORL, which runs others: LayerNorm in
  TD3+BC's critics, an orthogonal start and learning rates of 1e-3; LayerNorm in IQL's state value and an unsquashed
  policy mean. `preset: layernorm` has those settings and closes the gap to within the spread of seeds, but for IQL on
  HalfCheetah, where JAX-CORL took 178,000 updates at an almost constant rate and ours 100,000 along a whole cosine.
- ReBRAC needs more weight on cloning here than its authors tuned for files ten times as large (`preset: small-data`);
  CORL ran it with theirs.
- Below behaviour cloning on halfcheetah-medium-expert are CQL, CRR, IQL and TD3+BC without LayerNorm. What makes the
  difference for TD3+BC is known (above); CQL, with a fixed weight of 5, has hardly left its start after 60,000 updates
  there. No other program's score of CQL or CRR on this file is known.
"""


def stored(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["results"] if path.is_file() else []
    return rows


def store(name: str, rows: list[dict[str, Any]]) -> None:
    """Write `rows` over earlier ones of the same dataset and algorithm."""
    merged = {(row["dataset"], row["algo"]): row for row in [*stored(name), *rows]}
    order = sorted(merged, key=lambda pair: (list(DATASETS).index(pair[0]), pair[1]))
    text = ",\n".join(json.dumps(merged[pair]) for pair in order)
    (RESULTS / f"{name}.json").write_text(f'{{"results": [\n{text}\n]}}\n')


def summary(dataset: str, row: dict[str, Any]) -> str:
    """Mean ± standard deviation over seeds, normalised where D4RL is."""
    if "returns" not in row:
        return str(row["score"])
    means = [DATASETS[dataset].normalised(fmean(returns)) for returns in row["returns"]]
    return f"{fmean(means):.1f} ± {stdev(means) if len(means) > 1 else 0.0:.1f}"


def page() -> str:
    """The whole page: what every algorithm reached on every dataset, then beside others' code."""
    ours = {(row["dataset"], row["algo"]): row for row in stored("offline_scores")}
    algos = sorted({algo for _, algo in ours}, key=lambda algo: (algo in ("sac", "td3"), algo))
    lines = ["| | " + " | ".join(DATASETS) + " |", "|---|" + "---|" * len(DATASETS)]
    behaviours = [next(row["behaviour"] for (at, _), row in ours.items() if at == name) for name in DATASETS]
    data = [f"{about.normalised(value):.1f}" for about, value in zip(DATASETS.values(), behaviours, strict=True)]
    lines.append("| the data | " + " | ".join(data) + " |")
    for algo in algos:
        cells = [summary(name, ours[name, algo]) if (name, algo) in ours else "" for name in DATASETS]
        lines.append(f"| `{algo}` | " + " | ".join(cells) + " |")
    return INTRODUCTION + "\n".join(lines) + CONTROLS + comparison(ours) + REASONS


def comparison(ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One row per dataset and algorithm that somebody else's program ran, too."""
    peers = {(row["dataset"], row["algo"]): row for row in stored("d3rlpy_scores")}
    references = {(row["dataset"], row["algo"]): row for row in stored("reference_scores")}
    lines = ["| dataset | algorithm | ours | updates | other | updates | whose |", "|---|---|---|---|---|---|---|"]
    for name, algo in sorted(ours, key=lambda pair: (list(DATASETS).index(pair[0]), pair[1])):
        row, plain = ours[name, algo], algo.partition("/")[0]
        other = peers.get((name, plain)) or references.get((name, plain))
        if other is None:
            continue
        code = other.get("code") or f"d3rlpy {other['d3rlpy']}"
        lines.append(
            f"| {name} | `{algo}` | {summary(name, row)} | {row['updates']:,} | {summary(name, other)} | "
            f"{other['updates']:,} | {code} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
