"""The figures of the metrics of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rl_training.experiment.report import figures, tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.drawing import dots_swatch, first_few
from rl_training.experiment.report.saying import MOST_NAMES

_FIRST_METRICS = ("critic/loss", "critic/td_loss", "critic/q_data", "actor/loss", "value/loss", "actor/entropy")
_MOST_METRICS, _AT_ONCE = 6, 2


def metrics(runs: Sequence[RunContents], levels: Mapping[int, float], *, beside_curves: bool) -> str:
    """A figure for each of the metrics that tell most; under a heading of their own beside learning curves. levels: by
    run, the mean discounted return of its data."""
    names = {name for run in runs for name in run.metrics}
    shared = {name: sum(name in run.metrics for run in runs) for name in names}
    most = max(shared.values(), default=0)
    ranked = sorted(names, key=lambda name: (2 * shared[name] < most, _first(name), -shared[name], name))[
        :_MOST_METRICS
    ]
    if not ranked:
        return ""
    names_again = key(runs) if beside_curves else ""  # without curves the boxes stand right above
    shown = [figures.metric_curves(name, those, levels) for name in ranked for those in _on_one_axis(name, runs)]
    drawn = first_few(shown, _AT_ONCE, "More metrics")
    more = f" {len(names) - len(ranked)} more are in <code>metrics.jsonl</code>." if len(names) > len(ranked) else ""
    heading = "<h3>Metrics of training</h3>" if beside_curves else ""
    return (
        f'{heading}<p class="small faint">{over_seeds(runs)}; what lies beyond the middle 99% is drawn at the'
        f" border.{more}</p>{names_again}{drawn}"
    )


def _on_one_axis(name: str, runs: Sequence[RunContents]) -> list[list[RunContents]]:
    """Runs that have a metric, those that can be compared together: losses of different algorithms cannot."""
    of: dict[str | None, list[RunContents]] = {}
    for run in runs:
        if name in run.metrics:
            of.setdefault(run.summary.algo if name.endswith("loss") else None, []).append(run)
    return list(of.values())


def over_seeds(runs: Sequence[RunContents]) -> str:
    """What lines and bands are, of as many seeds as there are."""
    counts = {len(run.summary.seeds) for run in runs} or {0}
    many = span([count for count in counts if count > 1])
    if max(counts) <= 1:
        return "One seed: the line is its own, and there is no band"
    alone = "; no band of a single seed" if min(counts) <= 1 else ""
    if max(counts) == 2:
        return f"Mean of two seeds (line) and the span between them (band){alone}"
    return f"Interquartile mean over {many} seeds (line) and 95% bootstrap interval (band){alone}"


def span(counts: Sequence[int]) -> str:
    """`3`, or `2 to 5`."""
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)})) if counts else "0"


def _first(name: str) -> int:
    return _FIRST_METRICS.index(name) if name in _FIRST_METRICS else len(_FIRST_METRICS)


def key(runs: Sequence[RunContents], *, recorded: bool = False) -> str:
    """Names and looks once more, beside figures that are far from the boxes; of many runs they would fill the page.
    recorded: with the dots of what was recorded."""
    if not (1 if recorded else 2) <= len(runs) <= MOST_NAMES:
        return ""
    names = [f'<span data-run="{run.number}">{tables.name_cell(run).html}</span>' for run in runs]
    names += [f'<span class="name">{dots_swatch()}<span>recorded</span></span>'] if recorded else []
    return f'<p class="key small">{"".join(names)}</p>'
