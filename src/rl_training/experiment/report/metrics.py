"""The figures of the metrics of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

from rl_training.experiment.report import figures, tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.diagnostics import ValueCheck
from rl_training.experiment.report.drawing import dots_swatch, first_few
from rl_training.experiment.report.saying import MOST_NAMES
from rl_training.runtime.divergence import VALUES

_FIRST_METRICS = ("critic/loss", "critic/td_loss", "critic/q_data", "actor/loss", "value/loss", "actor/entropy")
_MOST_METRICS, _AT_ONCE = 6, 2
_SUMS_OF_REWARDS = (*VALUES, "value/return")
_ON_REWARDS = {"reward_scale": 1.0, "reward_shift": 0.0, "reward_range_scaling": False, "reward_clip": None}


def metrics(runs: Sequence[RunContents], values: Mapping[int, ValueCheck], *, beside_curves: bool) -> str:
    """A figure for each of the metrics that tell most; under a heading of their own beside learning curves. values: by
    run, what was found of its values: their scale, and the mean discounted return of its data."""
    names = {name for run in runs for name in run.metrics}
    shared = {name: sum(name in run.metrics for run in runs) for name in names}
    most = max(shared.values(), default=0)
    ranked = sorted(names, key=lambda name: (2 * shared[name] < most, _first(name), -shared[name], name))[
        :_MOST_METRICS
    ]
    if not ranked:
        return ""
    names_again = key(runs) if beside_curves else ""  # without curves the boxes stand right above
    levels = {run: level for run, found in values.items() if (level := found.level()) is not None}
    scales = {run.number: _scale(run, values.get(run.number)) for run in runs}
    shown = [
        figures.metric_curves(name, [_in_raw_units(run, name, scales) for run in those], levels, told)
        for name in ranked
        for told, those in _on_one_axis(name, runs, scales)
    ]
    drawn = first_few(shown, _AT_ONCE, "More metrics")
    more = f" {len(names) - len(ranked)} more are in <code>metrics.jsonl</code>." if len(names) > len(ranked) else ""
    heading = "<h3>Metrics of training</h3>" if beside_curves else ""
    return (
        f'{heading}<p class="small faint">{over_seeds(runs)}; what lies beyond the middle 99% is drawn at the'
        f" border.{_transformed(scales)}{more}</p>{names_again}{drawn}"
    )


def _transformed(scales: Mapping[int, float | None]) -> str:
    """What all others are counted in, where that is not the unit of the data."""
    some = any(scale != 1.0 for scale in scales.values())
    return " Losses and advantages are of transformed rewards, as the networks see them." if some else ""


def _scale(run: RunContents, found: ValueCheck | None) -> float | None:
    """What the rewards that its networks see are, times the raw ones; none where that is no one factor, or unknown."""
    if found is not None:
        return found.scale
    said = run.config.get("transforms")
    plain = isinstance(said, Mapping) and all(said.get(name, usual) == usual for name, usual in _ON_REWARDS.items())
    return 1.0 if plain else None


def _in_raw_units(run: RunContents, name: str, scales: Mapping[int, float | None]) -> RunContents:
    """The run with this metric in units of its data, where it is a sum of rewards and that can be known."""
    scale = scales[run.number] if name in _SUMS_OF_REWARDS else None
    if scale is None or scale == 1.0:
        return run
    curve = run.metrics[name]
    return replace(run, metrics={**run.metrics, name: replace(curve, values=curve.values / scale)})


def _on_one_axis(
    name: str, runs: Sequence[RunContents], scales: Mapping[int, float | None]
) -> list[tuple[str, list[RunContents]]]:
    """Runs that have a metric, those that can be compared together, with what it is counted in: losses of different
    algorithms cannot, nor sums of raw and of transformed rewards."""
    of: dict[tuple[str, str | None], list[RunContents]] = {}
    for run in runs:
        if name in run.metrics:
            algo = run.summary.algo if name.endswith("loss") else None
            told = _counted_in(run, scales[run.number]) if name in _SUMS_OF_REWARDS else ""
            of.setdefault((told, algo), []).append(run)
    return [(_with_factors(told, those, scales), those) for (told, _), those in of.items()]


def _counted_in(run: RunContents, scale: float | None) -> str:
    if scale is None:
        return "In transformed rewards, as the networks see them."
    costs = ", the negative of costs" if run.shown.costs else ""
    return f"In {escape(run.shown.counted_in or 'units of the raw reward')}{costs}"


def _with_factors(told: str, runs: Sequence[RunContents], scales: Mapping[int, float | None]) -> str:
    """What a metric is counted in, and how that comes from the numbers of `metrics.jsonl`, which warnings name."""
    of = {f"{scale:.4g}" for run in runs if (scale := scales[run.number]) is not None and scale != 1.0}
    if not told or told.endswith("."):
        return told
    by = f": the numbers of <code>metrics.jsonl</code> over {min(of)}" if len(of) == 1 else ""
    by = ": the numbers of <code>metrics.jsonl</code> over each run's factor on rewards" if len(of) > 1 else by
    return f"{told}{by}."


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
