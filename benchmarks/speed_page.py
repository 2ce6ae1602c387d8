"""The page of what `bench.py` stored, and its charts.

python benchmarks/speed_page.py       # writes docs/benchmarks/speed.md and speed-<cpu|gpu>.png
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "speed.md"
LIBRARIES = {"d3rlpy": "d3rlpy", "sb3": "Stable-Baselines3"}

INTRODUCTION = """\
# Speed

Work: observations of 17 numbers, actions of 6, a million made-up transitions, batch 256, two hidden layers of 256
units (ReBRAC: 1024, three layers), twin critics; CQL with 10 + 10 + 10 actions. Sampling is included and metrics are
logged, as `train` runs it; nothing is evaluated. Every contestant is a process of its own; all have the same number of
threads, and those of one algorithm take turns, block by block, so that a noisy machine hits all alike. Figures are
medians over the rounds, with the lowest and the highest; a ratio to d3rlpy is computed within each round, all seeds
counted, and is the median of those. Compare within one table only: machines and their hours differ.

`make bench` measures it in under ten minutes, `make bench-full` everything, `rl-training bench` this package on your
own machine. Raw figures are in `benchmarks/results/`; this page is written by `benchmarks/speed_page.py`.
"""
NOTHING = "\nNothing is stored yet.\n"
AXIS_NAMES = {"members": "members", "batch_size": "batch", "width": "units per layer", "rows": "transitions"}
START_NAMES = {
    "eager": "ours, eager",
    "compiled": "ours, compiled for the first time",
    "compiled before": "ours, compiled before",
    "d3rlpy": "d3rlpy",
}
LOADING_NAMES = {"ours_arrays": "ours", "d3rlpy_arrays": "d3rlpy"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def number(value: float) -> str:
    """Three significant digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values: list[float]) -> str:
    """Median (lowest–highest)."""
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def mebibytes(row: Mapping[str, Any]) -> str:
    """Peak memory: the host's, and the GPU's where it is used."""
    host = f"{row['memory'] / 2**20:,.0f} MiB"
    return f"{host} + {row['cuda_memory'] / 2**20:,.0f} MiB GPU" if row["cuda_memory"] else host


def who(row: Mapping[str, Any]) -> str:
    if "library" in row:
        return f"{LIBRARIES[row['library']]} {row.get('about', {}).get('version', '')}".strip()
    extras = [value for value, usual in ((row["kernels"], "auto"), (row["precision"], "auto")) if value != usual]
    return ", ".join(["ours", row["engine"], *extras])


def updates_table(rows: list[dict[str, Any]]) -> str:
    head = ("algorithm", "whose", "members", "updates/s", "seed-updates/s", "of d3rlpy's", "compiling", "peak memory")
    lines = []
    for row in sorted(rows, key=lambda row: row["algo"]):  # stable: within one algorithm as they competed
        start = [f"`{row['algo']}`", who(row), str(row.get("members", 1))]
        if "failure" in row:
            lines.append([*start, f"failed: {row['failure']}", "", "", "", ""])
            continue
        compiling = f"{row['preparing']:.0f} s" if row.get("engine") == "compiled" else ""
        beside = f"{row['ratio']:.2f}" if "ratio" in row else ""
        total = number(row.get("members", 1) * median(row["rates"]))
        lines.append([*start, spread(row["rates"]), total, beside, compiling, mebibytes(row)])
    return table(head, lines)


def growth_tables(axes: Mapping[str, list[dict[str, Any]]]) -> str:
    parts = []
    for axis, rows in axes.items():
        lines = []
        for row in rows:
            value = f"{row[axis]:,}"
            if "failure" in row:
                lines.append([value, f"failed: {row['failure']}", "", ""])
                continue
            lines.append([value, spread(row["rates"]), number(row["members"] * median(row["rates"])), mebibytes(row)])
        parts.append(table((AXIS_NAMES[axis], "updates/s", "seed-updates/s", "peak memory"), lines))
    return "\n".join(parts)


def loading_table(stored: Mapping[str, Any]) -> str:
    lines = [
        [LOADING_NAMES[name], number(row["ready_s"]), number(row["added_memory"]), number(row["batch_us"])]
        for name, row in stored["medians"].items()
    ]
    return table(("", "arrays to ready, s", "memory added, times the data's size", "a batch of 256, µs"), lines)


def measured_how(stored: Mapping[str, Any], section: str) -> str:
    settings = stored["settings"][section]
    words = [f"{settings['mode']}: {settings['rounds']} rounds of about {settings['seconds']:g} s"]
    words += [f"without {LIBRARIES[name]} ({reason})" for name, reason in settings["missing"].items()]
    return "; ".join(words)


def device_part(stored: Mapping[str, Any], kind: str) -> str:
    about = stored["machine"]
    place = about.get("gpu") or about["cpu"]
    parts = [
        f"## {'GPU' if kind == 'gpu' else 'CPU'}: {place}\n",
        f"{about['cpu']}, {about['cores']} cores, {about['threads']} threads; Python {about['python']}, "
        f"torch {about['torch']}, rl_training {about['rl_training']}; {about['system']}.\n",
    ]
    if "updates" in stored:
        parts += [f"![updates per second](speed-{kind}.png)\n", f"### Updates per second\n\n{updates_intro(stored)}\n"]
        parts.append(updates_table(stored["updates"]))
    if "growth" in stored:
        first = next(iter(stored["growth"].values()))[0]
        parts.append(f"### Growth\n\n`{first['algo']}`, {first['engine']} ({measured_how(stored, 'growth')}).\n")
        parts.append(growth_tables(stored["growth"]))
    if "start" in stored:
        parts.append(
            "### From the start of a process to its first update\n\nSeconds, TD3+BC, the data at hand as arrays.\n"
        )
        rows = ([START_NAMES[name], spread(values)] for name, values in stored["start"].items())
        parts.append(table(("", "seconds"), rows))
    if "imports" in stored:
        rows = ([f"`{code}`", spread(values)] for code, values in stored["imports"].items())
        parts += ["### Imports\n\nSeconds of a fresh Python.\n", table(("", "seconds"), rows)]
    if "loading" in stored:
        parts.append(f"### Loading {stored['loading']['rows']:,} transitions\n\nMore in `make bench-loading`.\n")
        parts.append(loading_table(stored["loading"]))
    return "\n".join(parts)


def updates_intro(stored: Mapping[str, Any]) -> str:
    text = measured_how(stored, "updates")
    return text[0].upper() + text[1:] + "."


def stored_results(results: Path) -> dict[str, dict[str, Any]]:
    paths = {kind: results / f"bench-{kind}.json" for kind in ("cpu", "gpu")}
    return {kind: json.loads(path.read_text()) for kind, path in paths.items() if path.is_file()}


def page(results: Path = RESULTS) -> str:
    parts = [device_part(stored, kind) for kind, stored in stored_results(results).items()]
    return "\n".join([INTRODUCTION, *parts]) if parts else INTRODUCTION + NOTHING


# Charts -------------------------------------------------------------------------------------------------------------


def series(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows by contestant and algorithm; several members are a contestant of their own."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: ("library" in row, row.get("members", 1))):  # ours first
        if "failure" not in row:
            members = row.get("members", 1)
            name = who(row) + (f", {members} members" if members > 1 else "")
            found.setdefault(name, {})[row["algo"]] = row
    return found


def draw_chart(stored: Mapping[str, Any], path: Path) -> None:
    """Seed-updates per second of every contestant by algorithm, and how they grow with members."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    bars, curve = figure.subplots(1, 2, width_ratios=(3, 1))
    algos = sorted({row["algo"] for row in stored["updates"]})
    contestants = series(stored["updates"])
    width = 0.85 / max(len(contestants), 1)
    for i, (name, by_algo) in enumerate(contestants.items()):
        present = [algo for algo in algos if algo in by_algo]
        totals = [[by_algo[a].get("members", 1) * rate for rate in by_algo[a]["rates"]] for a in present]
        middles = [median(values) for values in totals]
        errors = [
            [m - min(v) for m, v in zip(middles, totals, strict=True)],
            [max(v) - m for m, v in zip(middles, totals, strict=True)],
        ]
        places = [algos.index(algo) + (i - (len(contestants) - 1) / 2) * width for algo in present]
        bars.bar(places, middles, width, yerr=errors, label=name, error_kw={"linewidth": 0.8})
    bars.set_xticks(range(len(algos)), algos)
    bars.set_yscale("log")
    for set_formatter in (bars.yaxis.set_major_formatter, bars.yaxis.set_minor_formatter):
        set_formatter(lambda value, _: f"{value:,.0f}" if f"{value:.0e}"[0] in "125" else "")
    bars.set_ylabel("seed-updates per second")
    bars.set_title(
        stored["machine"].get("gpu") or f"{stored['machine']['cpu']}, {stored['machine']['threads']} threads"
    )
    bars.grid(axis="y", alpha=0.3)
    bars.legend(frameon=False, fontsize="small", ncols=2)
    draw_growth(curve, stored.get("growth", {}).get("members", []))
    figure.savefig(path, dpi=130)


def draw_growth(axes: Any, rows: list[dict[str, Any]]) -> None:
    good = [row for row in rows if "failure" not in row]
    axes.set_visible(bool(good))
    if not good:
        return
    members = [row["members"] for row in good]
    axes.plot(members, [row["members"] * median(row["rates"]) for row in good], marker="o")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0.0)
    axes.set_xticks(members, [str(count) for count in members])
    axes.set_xlabel("members")
    axes.set_title(f"{good[0]['algo']}, {good[0]['engine']}")
    axes.grid(alpha=0.3)


def write(results: Path = RESULTS, *, draw: bool = True) -> None:
    """The page; its charts, too, where matplotlib is at hand."""
    PAGE.write_text(page(results), "utf-8")
    for kind, stored in stored_results(results).items():
        if draw and stored.get("updates"):
            draw_chart(stored, PAGE.parent / f"speed-{kind}.png")
    print(f"written to {PAGE}" + ("" if draw else "; no charts: matplotlib is missing"))


if __name__ == "__main__":
    write()
