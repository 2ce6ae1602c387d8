"""The tables of docs/performance.md, from the profiles and kernel times that are stored.

    python benchmarks/profile_page.py

`update_profile.py --store` and `kernel_times.py --output results/kernel_times.json` measure; this replaces what is
between the page's marks. The words around the tables are written by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
NAMES = {"td3_bc": "TD3+BC", "iql": "IQL", "cql": "CQL", "rebrac": "ReBRAC", "crr": "CRR"}
# What a kernel or operator is for, by its name; the first that fits counts.
KINDS = {
    "whole networks": r"^_?(forward|backward|weight_gradient|gradient)(_step|_kernel)?$",
    "matrix products": r"gemm|cutlass|cublas|aten::(bmm|mm|baddbmm|addmm)|mkl",
    "optimiser and targets": r"(sqrt.*lerp|lerp.*sqrt|rsqrt)|aten::(lerp_|sqrt|addcmul_|addcdiv_|_fused_adam_)",
}
REST = "sampling, losses, metrics"


def profiles(kind: str, results: Path = RESULTS) -> str:
    """One row for each work: how fast, how busy, and with what."""
    path = results / f"profile-{kind}.json"
    if not path.is_file():
        return "Nothing is stored yet."
    stored = json.loads(path.read_text())
    machine = stored["machine"]
    heads = ["algorithm", "members", "updates/s", "kernels", "busy, µs", *KINDS, REST]
    lines = [f"{machine.get('gpu', machine['cpu'])}, torch {machine['torch']}; microseconds per update.", ""]
    lines += [_row(heads), _row(["---"] * len(heads))]
    lines += [_row(_cells(row)) for row in sorted(stored["results"], key=_order)]
    return "\n".join(lines)


def _order(row: dict[str, Any]) -> tuple[int, int, str]:
    work = row["work"]
    return list(NAMES).index(work["algo"]), work["members"], work["engine"]


def _cells(row: dict[str, Any]) -> list[str]:
    work, shares = row["work"], dict.fromkeys((*KINDS, REST), 0.0)
    for entry in row["costliest"]:
        kind = next((name for name, pattern in KINDS.items() if re.search(pattern, entry["name"])), REST)
        shares[kind] += entry["us_per_update"]
    shares[REST] += row["busy_us_per_update"] - sum(shares.values())
    name = NAMES[work["algo"]] + (", eager" if work["engine"] == "eager" else "")
    facts = [
        f"{row['updates_per_second']:,.0f}",
        f"{row['kernels_per_update']:.0f}",
        f"{row['busy_us_per_update']:,.0f}",
    ]
    return [name, str(work["members"]), *facts, *(f"{value:,.0f}" if value >= 0.5 else "" for value in shares.values())]


def kernels(results: Path = RESULTS) -> str:
    """The fastest launch of each way through a network."""
    path = results / "kernel_times.json"
    if not path.is_file():
        return "Nothing is stored yet."
    stored = json.loads(path.read_text())
    ways = {"one kernel, whole rows": False, "one kernel, columns shared": True, "cuBLAS, a kernel between": None}
    heads = ["networks", "pass", *ways]
    lines = [f"{stored['machine']}; microseconds, {stored['precision']}.", "", _row(heads), _row(["---"] * len(heads))]
    passes = [(row["shape"], row["kernel"]) for row in stored["results"] if row["kernel"] != "weight gradient"]
    for shape, name in dict.fromkeys(passes):
        rows = [row for row in stored["results"] if (row["shape"], row["kernel"]) == (shape, name)]
        found = [_fastest(rows, shared) for shared in ways.values()]
        lines.append(_row([shape, name, *found]))
    return "\n".join(lines)


def _fastest(rows: list[dict[str, Any]], shared: bool | None) -> str:
    widest = max(row["columns"] for row in rows)
    times = [row["us"] for row in rows if (None if not row["columns"] else row["columns"] < widest) == shared]
    return f"{min(times):.1f}" if times else ""


def tried(results: Path = RESULTS) -> str:
    """What changes gave, in updates per second."""
    stored = json.loads((results / "tried.json").read_text())
    heads = ["change", "work", "updates/s before", "after"]
    rows = [[row["change"], row["work"], f"{row['before']:,}", f"{row['after']:,}"] for row in stored["results"]]
    return "\n".join([f"{stored['machine']}.", "", _row(heads), _row(["---"] * len(heads)), *map(_row, rows)])


def agreement(results: Path = RESULTS) -> str:
    """How far every way of running an update is from eager float32 on the GPU, and whether all repeat and resume."""
    stored = json.loads((results / "device_agreement.json").read_text())
    ways: dict[tuple[str, ...], str] = {
        ("cpu", "eager", "fp32", "plain"): "CPU, eager",
        ("cuda", "compiled", "fp32", "plain"): "compiled",
        ("cuda", "compiled", "fp32", "fused"): "fused",
        ("cuda", "compiled", "tf32", "fused"): "fused, TF32",
        ("cuda", "compiled", "bf16", "fused"): "fused, bf16",
    }
    found = {
        (row["algo"], *(row[key] for key in ("device", "mode", "precision", "kernels"))): row
        for row in stored["results"]
    }
    exact = sum(row["repeats"] and row["resumes"] for row in stored["results"])
    heads = ["algorithm", *ways.values()]
    rows = [
        [f"`{algo}`", *(f"{found[algo, *way]['difference']:.0e}" for way in ways)]
        for algo in sorted({row["algo"] for row in stored["results"]})
    ]
    said = f"{stored['machine']}. {exact} of {len(stored['results'])} combinations repeat and resume bit for bit."
    return "\n".join([said, "", _row(heads), _row(["---"] * len(heads)), *map(_row, rows)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


TABLES = {"gpu": lambda: profiles("gpu"), "cpu": lambda: profiles("cpu"), "kernels": kernels, "tried": tried}
TABLES["agreement"] = agreement


def filled(text: str) -> str:
    """A page with every table between `<!-- name -->` and `<!-- end -->` made anew."""
    return re.sub(
        r"<!-- (\w+) -->\n.*?<!-- end -->",
        lambda mark: f"<!-- {mark[1]} -->\n{TABLES[mark[1]]()}\n<!-- end -->",
        text,
        flags=re.S,
    )


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
