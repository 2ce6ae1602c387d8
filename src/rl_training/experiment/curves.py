"""The learning curve of a run as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rl_training.data.formats.atomic import new_file
from rl_training.errors import ConfigError
from rl_training.runtime.run_directory import RunDirectory
from rl_training.wording import readable


def draw_learning_curve(run: RunDirectory) -> Path | None:
    """Write `learning_curve.png` into the run: return over steps, one line per seed. None without evaluations."""
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
    for seed in records[0]["seeds"]:
        own = [(record, record["seeds"].index(seed)) for record in records if seed in record["seeds"]]
        steps = [record["step"] for record, _ in own]
        mean, spread = (np.array([record[f"return_{of}"][row] for record, row in own]) for of in ("mean", "std"))
        (line,) = axes.plot(steps, mean, marker="o", markersize=3, label=f"seed {seed}")
        axes.fill_between(steps, mean - spread, mean + spread, color=line.get_color(), alpha=0.12, linewidth=0)
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
