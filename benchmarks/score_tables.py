"""What `offline_scores.py` and `d3rlpy_scores.py` store, and the page of tables made of it.

python benchmarks/score_tables.py       # writes docs/benchmarks/offline_scores.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill
from typing import Any

SEEDS = 5
ALIKE = ("td3_bc/layernorm", "iql/layernorm")  # with the settings of JAX-CORL
PEER_ALGORITHMS = ("td3_bc", "iql", "cql", "awac", "crr")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}  # two-sided 95% quantiles by number of seeds
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

Mean ± standard deviation over five seeds (unless a cell names another number) of the last weights, 20 episodes each:
returns for Pendulum-v1, D4RL's normalised scores (0 random, 100 expert) for Hopper and HalfCheetah. The Pendulum files
are d3rlpy's (a replay buffer, and random actions); the others hold 100,000 rows each in D4RL's layout, a tenth of
D4RL's own sets, so that published scores do not compare. `make bench-scores` runs all of it; settings and the return
of every episode are in `benchmarks/results/`. This page is written by `benchmarks/score_tables.py`.

"""
CONTROLS = """

`sac` and `td3` are no offline algorithms and stand here as negative controls: they learn Pendulum, whose data cover
every state and action, and nothing at all from narrower data. The rows `/layernorm` are
the same algorithms with `preset: layernorm`, `cql/d4rl-mujoco` is CQL with CORL's settings (a weight of 10 in place of
5, a slower actor). Budgets differ: {budgets}.

## Beside others' code

d3rlpy ran the same algorithms on the same Pendulum files, with the same settings and number of updates, but for IQL's
actor, whose rate falls along a cosine in ours (`benchmarks/d3rlpy_scores.py`). On Hopper and HalfCheetah stand the
scores that other people's programs reached on these very files (`benchmarks/results/reference_scores.json`).

"""
REASONS = """

"below": the mean of our seeds is under the other's 95% interval (Student's, over seeds; of two seeds it says next to
nothing). {missing}

Where ours is below, and where it is below behaviour cloning:

- On the Pendulum files ours and d3rlpy's reach the same: {pendulum}. Where five seeds hardly spread, that still is
  "below", in two places. Both come from what d3rlpy does otherwise: with that taken out, it is not above ours.
- CRR on pendulum-random: d3rlpy's policy is a clipped Gaussian, and its critics choose among four actions when it acts.
  With ours' squashed Gaussian, acting by its mode, it comes to {crr_squashed} (`d3rlpy_scores.py --algo
  crr/squashed`), ours to {crr_random}.
- AWAC on pendulum-replay: d3rlpy adds the policy's entropy to its targets, which neither paper nor authors' code
  does. Without, it comes to {awac_plain} (`--algo awac/without-entropy`), ours to {awac}.
- TD3+BC's updates are equal: from the same weights, with the
  same batches, noise and scaling, their actions differ by {same} after {steps} updates, which moved them by {moved}
  ([d3rlpy_agreement.json](../../benchmarks/results/d3rlpy_agreement.json), `benchmarks/d3rlpy_agreement.py`). On
  pendulum-random both are poor because cloning random actions outweighs the normalised value; plain TD3 learns these
  data (first table).
- TD3+BC and IQL with their papers' settings (`td3_bc`, `iql`) have lower means than JAX-CORL, which runs others:
  LayerNorm in TD3+BC's critics, an orthogonal start and learning rates of 1e-3; LayerNorm in IQL's state value, an
  unsquashed policy mean and a rate that hardly falls. `preset: layernorm` has those settings and, with as many updates,
  {layernorm}.
- ReBRAC needs more weight on cloning here than its authors tuned for files ten times as large (`preset: small-data`);
  CORL ran it with theirs.
- Below behaviour cloning ({bc}) on halfcheetah-medium-expert are CQL, CRR, IQL and TD3+BC. LayerNorm lifts TD3+BC far
  above it, CRR to {crr_ln} (without: {crr}), IQL to {iql_ln} ({iql}) and CQL to {cql_ln} ({cql}). No other program's
  score of CQL or CRR on this file is known.
- Neither more updates nor cloning first helps plain CQL there. With the table's settings it scores {cql_50} after
  50,000 updates and {cql_150} after 150,000. With 20,000 updates of warm-up it scores {warm_16} at 16,666, while it
  clones, {warm_33} at 33,332 and {warm_100} at 100,000: what cloning gave is unlearned. Its critics value the policy's
  actions like the data's ({cql_q} after 60,000 updates), though the policy earns nothing: a weight of 5 does not hold
  the policy to 100,000 narrow rows. Later the values run away, to {cql_runaway} at 150,000. Twice the weight with a
  slower actor gives {cql_corl}. The implementation is not the reason: on the Pendulum files it scores as d3rlpy's does.
  The curves, two seeds of five episodes each, are in [diagnosis.json](../../benchmarks/results/diagnosis.json), made by
  `benchmarks/learning_curve.py`.
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


def moments(dataset: str, row: dict[str, Any]) -> tuple[float, float, int]:
    """Mean and standard deviation over seeds, normalised where D4RL is, and the number of seeds."""
    if "returns" not in row:  # somebody else's figures, as they gave them
        mean, _, deviation = row["score"].partition(" ± ")
        return float(mean), float(deviation), SEEDS
    means = [DATASETS[dataset].normalised(fmean(returns)) for returns in row["returns"]]
    return fmean(means), stdev(means) if len(means) > 1 else 0.0, len(means)


def summary(dataset: str, row: dict[str, Any]) -> str:
    """Mean ± standard deviation over seeds, and how many, where they are not as many as everywhere else."""
    mean, deviation, seeds = moments(dataset, row)
    several = f"{mean:.1f} ± {deviation:.1f}" if seeds > 1 else f"{mean:.1f}"
    return several if seeds == SEEDS else f"{several} ({seeds} seed{'s' * (seeds > 1)})"


def interval(dataset: str, row: dict[str, Any]) -> tuple[float, float] | None:
    """Student's 95% interval of the mean over seeds; none for a single seed."""
    mean, deviation, seeds = moments(dataset, row)
    if seeds not in STUDENT:
        return None
    half = STUDENT[seeds] * deviation / seeds**0.5
    return mean - half, mean + half


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
    return (
        INTRODUCTION
        + "\n".join([*lines, "", wrapped(CONTROLS.format(budgets=budgets(ours))), "", comparison(ours)])
        + reasons(ours)
    )


def comparison(ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One row per dataset and algorithm that somebody else's program ran, too."""
    peers = {(row["dataset"], row["algo"]): row for row in stored("d3rlpy_scores")}
    references = {(row["dataset"], row["algo"]): row for row in stored("reference_scores")}
    lines = ["| dataset | algorithm | ours | updates | other | updates | 95% | | whose |", "|---" * 9 + "|"]
    for name, algo in sorted(ours, key=lambda pair: (list(DATASETS).index(pair[0]), pair[1])):
        row, plain = ours[name, algo], algo.partition("/")[0]
        other = peers.get((name, plain)) or references.get((name, plain))
        if other is None:
            continue
        code = other.get("code") or f"d3rlpy {other['d3rlpy']}"
        bounds = interval(name, other)
        between = f"{bounds[0]:.1f} to {bounds[1]:.1f}" if bounds else ""
        below = "below" if bounds and moments(name, row)[0] < bounds[0] else ""
        lines.append(
            f"| {name} | `{algo}` | {summary(name, row)} | {row['updates']:,} | {summary(name, other)} | "
            f"{other['updates']:,} | {between} | {below} | {code} |"
        )
    return "\n".join(lines)


def reasons(ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    """`REASONS` with its figures."""
    peers = {(row["dataset"], row["algo"]): row for row in stored("d3rlpy_scores")}
    curves = {row["name"]: row for row in stored("diagnosis")}

    def scores(name: str, step: int) -> str:
        row = curves[name]
        return " and ".join(f"{score:.1f}" for score in row["scores"][row["steps"].index(step)])

    def metric(key: str, step: int) -> list[float]:
        row = curves["cql"]
        values: list[float] = row["metrics"][key][row["metric_steps"].index(step)]
        return values

    def cell(algo: str) -> str:
        return summary(narrow, ours[narrow, algo])

    agreement = json.loads((RESULTS / "d3rlpy_agreement.json").read_text())
    narrow = "halfcheetah-medium-expert"
    policy, data = metric("actor/q", 60_000), metric("critic/q_data", 60_000)
    text = REASONS.format(
        missing=missing(peers),
        pendulum=pendulum(ours, peers),
        awac=summary("pendulum-replay", ours["pendulum-replay", "awac"]),
        awac_plain=summary("pendulum-replay", peers["pendulum-replay", "awac/without-entropy"]),
        crr_random=summary("pendulum-random", ours["pendulum-random", "crr"]),
        crr_squashed=summary("pendulum-random", peers["pendulum-random", "crr/squashed"]),
        layernorm=layernorm(ours),
        same=f"{agreement['difference']:.0e}",
        steps=agreement["updates"],
        moved=f"{agreement['moved']:.2f}",
        cql_50=scores("cql", 50_000),
        cql_150=scores("cql", 150_000),
        warm_16=scores("cql-warmup", 16_666),
        warm_33=scores("cql-warmup", 33_332),
        warm_100=scores("cql-warmup", 100_000),
        cql_q=" and ".join(f"{mine:.0f} against {theirs:.0f}" for mine, theirs in zip(policy, data, strict=True)),
        cql_corl=cell("cql/d4rl-mujoco"),
        cql_runaway=" and ".join(f"{value:,.0f}" for value in metric("critic/q_data", 150_000)),
        **{algo: cell(algo) for algo in ("bc", "cql", "crr", "iql")},
        **{f"{algo}_ln": cell(f"{algo}/layernorm") for algo in ("cql", "crr", "iql")},
    )
    return "\n\n" + wrapped(text) + "\n"


def wrapped(text: str) -> str:
    """Paragraphs and points at 120 columns, whatever figures were put into them."""
    lines: list[str] = []
    for block in text.strip().split("\n\n"):
        points = re.split(r"\n(?=- )", block)
        filled = [
            fill(" ".join(point.split()), 120, subsequent_indent="  " * point.startswith("- "), break_on_hyphens=False)
            for point in points
        ]
        lines.append("\n".join(filled))
    return "\n\n".join(lines)


def budgets(ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    """How many updates each algorithm took, those on Pendulum first."""
    by_updates: dict[int, set[str]] = {}
    for (name, algo), row in ours.items():
        if not name.startswith("pendulum"):
            by_updates.setdefault(row["updates"], set()).add(f"`{algo}`")
    (pendulum,) = {row["updates"] for (name, _), row in ours.items() if name.startswith("pendulum")}
    told = [f"{count:,} for {', '.join(sorted(algos))}" for count, algos in sorted(by_updates.items())]
    return f"{pendulum:,} updates on Pendulum; elsewhere {'; '.join(told)}"


def pendulum(ours: dict[tuple[str, str], dict[str, Any]], peers: dict[tuple[str, str], dict[str, Any]]) -> str:
    """How far apart the means of ours and of d3rlpy's seeds are."""
    apart = [
        abs(moments(pair[0], ours[pair])[0] - moments(pair[0], other)[0])
        for pair, other in peers.items()
        if pair[1] in PEER_ALGORITHMS
    ]
    return f"the means of all {len(apart)} pairs differ by {max(apart):.1f} at most"


def layernorm(ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    """In how many of the files this preset lies within or above the other's interval."""
    references = {(row["dataset"], row["algo"]): row for row in stored("reference_scores")}
    within = total = 0
    for (name, algo), row in ours.items():
        bounds = interval(name, references[name, algo.partition("/")[0]]) if algo in ALIKE else None
        if bounds:
            total, within = total + 1, within + (moments(name, row)[0] >= bounds[0])
    return f"is within or above the other's interval in {within} of {total} cells"


def missing(peers: dict[tuple[str, str], dict[str, Any]]) -> str:
    """Which of d3rlpy's cells are not there, or have fewer seeds than the rest."""
    pairs = [(name, algo) for algo in PEER_ALGORITHMS for name in DATASETS if name.startswith("pendulum")]
    seeds = {pair: len(peers[pair]["seeds"]) if pair in peers else 0 for pair in pairs}
    few = [f"{count or 'none'} of `{algo}` on {name}" for (name, algo), count in seeds.items() if count < SEEDS]
    return f"Of d3rlpy's five seeds there are only: {', '.join(few)}." if few else ""


if __name__ == "__main__":
    PAGE.write_text(page())
