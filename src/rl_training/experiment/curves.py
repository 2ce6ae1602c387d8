"""The learning curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.data.formats.atomic import new_file
from rl_training.errors import ConfigError
from rl_training.runtime.run_directory import RunDirectory
from rl_training.wording import readable

_MOST_LINES = 20


def draw_learning_curve(run: RunDirectory) -> Path | None:
    """Write `learning_curve.png` into the run: return over steps, a line for each seed, or one for many. None without
    evaluations."""
    records = run.records("evaluations")
    if not records:
        return None
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("`pip install rl-training[report]` brings matplotlib") from None
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for label, steps, middle, low, high in lines_of(records):
        (line,) = axes.plot(steps, middle, marker="o", markersize=3, label=label)
        axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    facts = run.describe()
    behaviour = (facts["dataset"] or {}).get("return_mean")  # none of rows that are not whole episodes
    if behaviour is not None:
        axes.axhline(behaviour, color="0.4", linestyle="--", linewidth=1, label=f"data's mean ({readable(behaviour)})")
    axes.set_xlabel(facts.get("unit", "steps"))  # a run killed before its first checkpoint has not said
    axes.set_ylabel(f"return (mean ± std of {records[0]['episodes']} episodes)")
    axes.set_title(run.path.name)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    path = run.path / "learning_curve.png"
    with new_file(path) as temporary:  # what lies there may be a link of a stranger's
        figure.savefig(temporary, dpi=150, format="png")
    return path


def lines_of(records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Of each line its label, its steps, and there the line and both ends of its band."""
    seeds = records[0]["seeds"]
    if len(seeds) > _MOST_LINES:
        of = [record["return_mean"] for record in records]
        band = np.array([np.percentile(means, [10.0, 50.0, 90.0]) for means in of]).T
        label = f"median of {len(seeds):,} seeds (band: 10% to 90% of them)"
        yield label, [record["step"] for record in records], band[1], band[0], band[2]
        return
    for seed in seeds:
        own = [(record, record["seeds"].index(seed)) for record in records if seed in record["seeds"]]
        mean, spread = (np.array([record[f"return_{of}"][row] for record, row in own]) for of in ("mean", "std"))
        yield f"seed {seed}", [record["step"] for record, _ in own], mean, mean - spread, mean + spread
