"""The figures of the page. A run is told by its colour, its dashes, its sign and its name; none is needed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np

from rl_training.data.doctor.wording import listed, number
from rl_training.experiment import statistics
from rl_training.experiment.costs import common
from rl_training.experiment.metric_words import MEANING, NEAR_RETURNS
from rl_training.experiment.report.contents import Curve, RunContents
from rl_training.experiment.report.diagnostics import ValueCheck
from rl_training.experiment.report.drawing import Drawing, Size, group, look, shortened
from rl_training.experiment.report.svg import Chart, Margins, apart, marker, padded
from rl_training.experiment.statistics import Estimate

WIDE, NARROW = (960, 380), (420, 320)
_MOST_LEVELS = 3  # of data, that a figure has room for
_LEVELS_APART = 32.0  # so that their names do not overlap, above or below their lines
_ROOM_FOR_A_LEVEL = 0.12  # of the axis, beyond its line: its name fits there
DOTS = 500  # of a cloud


def steps_of(runs: Sequence[RunContents]) -> str:
    """What the steps of these runs are."""
    names = {"updates": "gradient updates", "steps": "environment steps"}
    return " or ".join(dict.fromkeys(names.get(run.unit, "steps") for run in runs))


# Learning curves ----------------------------------------------------------------------------------------------------


def learning_curves(runs: Sequence[RunContents], reference_line: float | None) -> str:
    """Return over steps: one picture for wide screens and one for narrow ones, of which the page shows one."""
    curves = [(run, run.evaluations.thinned) for run in runs if run.evaluations is not None]
    names, shown = ", ".join(run.label for run, _ in curves), common([run.shown for run in runs])
    told = f"Learning curves of {names}: {shown.noun} over {runs[0].unit}; the numbers are in the table of scores."
    wide = _curves(curves, WIDE, reference_line, told, end_labels=True)
    narrow = _curves(curves, NARROW, reference_line, told, end_labels=False)
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _curves(
    curves: Sequence[tuple[RunContents, Curve]],
    size: tuple[int, int],
    level: float | None,
    told: str,
    *,
    end_labels: bool,
) -> str:
    shown = common([run.shown for run, _ in curves])
    bands = [(shown.values(middle), *shown.ends(low, high)) for middle, low, high in (one.bands for _, one in curves)]
    heights = [part for band in bands for part in band] + [shown.values(curve.values) for _, curve in curves]
    level = None if level is None else shown.number(level)
    heights += [] if level is None else [np.array([level])]
    last = max(curve.steps[-1] for _, curve in curves)
    first = min(0, *(curve.steps[0] for _, curve in curves))
    names = [shortened(run.label) for run, _ in curves]
    room = 26 + 7.4 * max(map(len, names)) if end_labels and len(curves) <= 8 else 16
    chart = Chart(
        size,
        (first, last),
        padded(heights),
        (steps_of([run for run, _ in curves]), shown.axis),
        Margins(right=room),
        (8 if size == WIDE else 4, 6),
    )
    if level is not None:
        chart.rule_y(level, f"mean {shown.noun} of the data: {number(level)}")
    for (run, curve), (middle, low, high) in zip(curves, bands, strict=True):
        own = replace(curve, values=shown.values(curve.values))
        chart.add(group(run.number, _one_curve(chart, run, own, middle, low, high)))
    if end_labels and len(curves) <= 8:
        ends = [float(chart.y(band[0][-1])) for band in bands]
        for (run, curve), y, name in zip(curves, apart(ends, 17, 20, size[1] - 52), names, strict=True):
            chart.add(group(run.number, chart.label(float(chart.x(curve.steps[-1])) + 10, y + 4, name, "end")))
    return chart.svg(told)


def _one_curve(
    chart: Chart, run: RunContents, curve: Curve, middle: np.ndarray, low: np.ndarray, high: np.ndarray
) -> str:
    _, dash, sign = look(run.number)
    parts = [chart.band(curve.steps, low, high)]
    if len(curve.seeds) > 1:
        for column, seed in enumerate(curve.seeds):
            thin = chart.line(curve.steps, curve.values[:, column], "thin", dash)
            parts.append(f'<g class="seed" data-seed="{seed}">{thin}</g>')
    parts.append(chart.line(curve.steps, middle, "line", dash))
    every = -(-len(curve.steps) // 12)
    chosen = range((len(curve.steps) - 1) % every, len(curve.steps), every)
    for i in chosen:
        if np.isfinite(middle[i]):
            span = f" [{number(low[i])}, {number(high[i])}]" if high[i] > low[i] else ""
            title = f"{run.label}, {run.unit} {curve.steps[i]:,}: {number(middle[i])}{span}"
            parts.append(marker(sign, float(chart.x(curve.steps[i])), float(chart.y(middle[i])), title))
    return "".join(parts)


def metric_curves(name: str, runs: Sequence[RunContents], levels: Mapping[int, float], counted: str = "") -> Drawing:
    """One metric of these runs and what is good of it. levels: by run, the mean discounted return of its data.
    counted: what it is counted in, a sentence of HTML."""
    meaning = MEANING.get(name, "")
    whose_level: dict[str, list[RunContents]] = {}
    for run in runs if NEAR_RETURNS in meaning else ():
        if run.number in levels:
            whose_level.setdefault(number(levels[run.number]), []).append(run)
    if len(whose_level) > _MOST_LEVELS:
        whose_level = {}
    shown = {text: levels[those[0].number] for text, those in whose_level.items()}
    told = f": {escape(meaning if shown else meaning.replace(NEAR_RETURNS, ''))}" if meaning else ""
    several = len(shown) > 1
    names = [text + f" ({', '.join(run.label for run in own)})" * several for text, own in whose_level.items()]
    told += f" Dashed: the mean of these, {escape(listed(names))}." if shown else ""
    told += f" {counted}" if counted else ""
    of = {run.summary.algo or "unknown" for run in runs}
    whose = f" of {escape(of.pop())}" if name.endswith("loss") and len(of) == 1 else ""
    return Drawing(f"<code>{escape(name)}</code>{whose}{told}", lambda size: _metric(name, runs, size, shown))


def _metric(name: str, runs: Sequence[RunContents], size: Size, levels: Mapping[str, float]) -> str:
    """One metric of training over steps; of heavy tails, what lies beyond the middle 99% is at the border."""
    curves = [(run, run.metrics[name]) for run in runs if name in run.metrics]
    bands = [curve.bands for _, curve in curves]
    joined = np.concatenate([np.ravel(part) for band in bands for part in band])
    ends = np.nanquantile(joined, [0.005, 0.995])
    last = max(curve.steps[-1] for _, curve in curves)
    heights = padded([ends, [*levels.values()]], _ROOM_FOR_A_LEVEL if levels else 0.05)
    chart = Chart(size, (0, last), heights, (steps_of([run for run, _ in curves]), shortened(name)))
    named: list[float] = []
    for text, level in levels.items():
        y = float(chart.y(level))
        is_clear = all(abs(y - other) > _LEVELS_APART for other in named)
        chart.rule_y(level, f"data: {text}" if is_clear else "")
        named += [y] * is_clear
    for (run, curve), (middle, low, high) in zip(curves, bands, strict=True):
        _, dash, sign = look(run.number)
        parts = [chart.band(curve.steps, low, high), chart.line(curve.steps, middle, "line", dash)]
        every = -(-len(curve.steps) // 5)
        for i in range((len(curve.steps) - 1) % every, len(curve.steps), every):
            if np.isfinite(middle[i]):
                parts.append(marker(sign, float(chart.x(curve.steps[i])), float(chart.y(middle[i]))))
        chart.add(group(run.number, "".join(parts)))
    return chart.svg(f"{name} over {runs[0].unit}")


# Scores -------------------------------------------------------------------------------------------------------------


def profiles(runs: Sequence[RunContents], size: Size) -> str:
    """Performance profiles of the last weights: the share of seeds whose return lies above each threshold (whose cost
    lies below it)."""
    scored = [(run, found.last) for run in runs if (found := run.scores) is not None]
    shown = common([run.shown for run in runs])
    low, high = padded([last for _, last in scored], 0.08)
    names = (f"threshold τ: {shown.named}", f"share of seeds {'below' if shown.costs else 'above'} τ")
    chart = Chart(size, shown.ends(low, high), (0.0, 1.02), names, about=(4, 5))
    for run, last in scored:
        edges = np.unique(np.concatenate([[low], last, [high]]))  # between two scores nothing changes
        xs = shown.values(np.repeat(edges, 2)[1:-1])
        middle, bottom, top = (np.repeat(part, 2) for part in statistics.profile_bands([last], edges[:-1]))
        _, dash, sign = look(run.number)
        inside = chart.band(xs, bottom, top) + chart.line(xs, middle, "line", dash)
        inside += "".join(
            marker(sign, float(chart.x(shown.number(value))), _height(chart, last, value)) for value in np.unique(last)
        )
        chart.add(group(run.number, inside))
    return chart.svg(f"Performance profiles: {names[1]}, for each run")


def _height(chart: Chart, scores: np.ndarray, threshold: float) -> float:
    return float(chart.y(statistics.performance_profile(scores, [threshold])[0]))


def forest(
    rows: Sequence[tuple[str, Estimate, int]],
    x_label: str,
    width: int,
    *,
    middle: float | None = None,
    unit: bool = False,
) -> str:
    """Estimates with their intervals, one below the other; a run's look by its number. middle: where a line stands."""
    height = 34 + 46 * len(rows) + 30
    ends = [end for _, found, _ in rows for end in (found.value, found.low, found.high, middle) if end is not None]
    span = (0.0, 1.0) if unit else padded([np.array(ends)], 0.15)
    chart = Chart(
        (width, height), span, (0.0, float(len(rows))), (x_label, ""), Margins(left=20, top=8, right=20), (4, 0)
    )
    for place, (name, found, run) in enumerate(rows):
        y = float(chart.y(len(rows) - place - 0.68))
        x = float(chart.x(found.value))
        if middle is not None:  # beside the bars alone: names stand where no line runs
            chart.rule_x(middle, between=(y - 8, y + 18))
        parts = [chart.label(chart.left, y - 13, shortened(name, 58), "name")]
        if found.low is not None and found.high is not None:
            left, right = float(chart.x(found.low)), float(chart.x(found.high))
            whiskers = "".join(f"M{end:.1f} {y - 5:.1f}v10" for end in (left, right))
            parts.append(f'<path class="line" d="M{left:.1f} {y:.1f}H{right:.1f}{whiskers}"/>')
        parts.append(marker(look(run)[2], x, y, f"{name}: {number(found.value)}"))
        chart.add(group(run, "".join(parts)))
    return chart.svg("; ".join(f"{name}: {number(found.value)}" for name, found, _ in rows))


# Diagnostics --------------------------------------------------------------------------------------------------------


def values_against_returns(run: RunContents, check: ValueCheck, size: Size) -> str:
    """A sample of rows of all seeds: what the networks say over what followed."""
    assert check.returns is not None
    x, y = check.returns.ravel(), check.values.ravel()
    ends = np.concatenate([np.quantile(part, [0.002, 0.998]) for part in (x, y)])
    span = padded([ends])
    chart = Chart(size, span, span, ("discounted return-to-go", f"{check.kind} of the data's {_of(check)}"))
    chart.add(chart.line(span, span, "rule"))
    rows = np.linspace(0, len(x) - 1, min(DOTS, len(x))).astype(int)
    rows = np.random.default_rng(0).permutation(len(x))[:DOTS] if len(x) > DOTS else rows
    chart.add(group(run.number, chart.dots(x[rows], y[rows])))
    correlation = check.correlation()
    if correlation is not None and np.isfinite(correlation).any():
        text = f"r = {np.nanmean(correlation):.2f}"
        if (y > x).mean() > 0.5:  # where there is room: on the other side of the line
            made = chart.label(
                size[0] - chart.margins.right - 8, size[1] - chart.margins.bottom - 12, text, "title", "end"
            )
        else:
            made = chart.label(chart.left + 10, chart.margins.top + 14, text, "title")
        chart.add(made)
    return chart.svg(f"{run.label}: values over discounted returns-to-go, with the line on which they are equal")


def _of(check: ValueCheck) -> str:
    return "action" if check.kind == "Q" else "state"
