"""The command that measures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rl_training.cli.telling import tell
from rl_training.errors import ConfigError
from rl_training.experiment.benchmark import Work, default_threads, machine, measure, require_seconds
from rl_training.experiment.output_file import require_place, write_output
from rl_training.runtime.machine_load import busy_notice
from rl_training.wording import cores_and_threads, notice_line


def bench(
    algos: Sequence[str], members: Sequence[int], options: Mapping[str, Any], seconds: float, output: Path | None
) -> None:
    """`rl-training bench`; `options` are fields of `Work`."""
    require_seconds(seconds)
    if output is not None:
        require_place(output, force=True)
    works = [
        Work(algo, members=count, **options).resolved()
        for algo in dict.fromkeys(algos)
        for count in dict.fromkeys(members)
    ]
    if works[0].device == "cpu":
        for notice in busy_notice(default_threads(), None):
            tell(notice_line(notice), err=True)
    about = {**machine(works[0].device), "threads": default_threads()}
    rows = measure(works, seconds, tell=lambda line: tell(line, err=True))
    uses = cores_and_threads(about["cores"], about["threads"])
    tell(f"{about.get('gpu') or about['cpu']}, {uses}, torch {about['torch']}")
    tell("\n".join(table(rows)))
    if output is not None:
        write_output(output, json.dumps({"machine": about, "results": rows}, indent=1) + "\n", force=True)
        tell(f"written to {output}")
    if all("failure" in row for row in rows):
        raise ConfigError(rows[0]["failure"])


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures as lines of text; memory is the GPU's where one is used."""
    lines = [
        f"{'algorithm':<10} {'engine':<9} {'members':>7} {'updates/s':>10} {'lowest–highest':>17} "
        f"{'seed-updates/s':>14} {'to compile':>10} {'peak memory':>11}"
    ]
    for row in rows:
        start = f"{row['algo']:<10} {row['engine']:<9} {row['members']:>7}"
        if "failure" in row:
            lines.append(f"{start} failed: {row['failure']}")
            continue
        rates = row["rates"]
        compiling = f"{row['preparing']:.1f} s" if row["engine"] == "compiled" else "–"
        lines.append(
            f"{start} {median(rates):>10,.1f} {f'{min(rates):,.1f}–{max(rates):,.1f}':>17} "
            f"{row['members'] * median(rates):>14,.1f} {compiling:>10} "
            f"{(row['cuda_memory'] or row['memory']) / 2**20:>7,.0f} MiB"
        )
    return lines
