"""The figures of the page. A run is told by its colour, its dashes, its sign and its name; none is needed alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np

from rl_training.data.doctor.findings import Distribution
from rl_training.data.doctor.wording import number, within
from rl_training.experiment import statistics
from rl_training.experiment.metric_words import MEANING
from rl_training.experiment.report.contents import Curve, RunContents
from rl_training.experiment.report.datasets import RunDiagnostics
from rl_training.experiment.report.diagnostics import ValueCheck
from rl_training.experiment.report.svg import DASHES, MARKERS, Chart, Margins, apart, marker, padded
from rl_training.experiment.statistics import Estimate

WIDE, NARROW, SMALL = (960, 380), (420, 320), (440, 280)
_DOTS = 500
_LONGEST_LABEL = 26
COLOURS = 6


def look(run: int) -> tuple[str, str, str]:
    """Class of the colour, dashes and sign of a run."""
    return f"r{run % COLOURS}", DASHES[run % len(DASHES)], MARKERS[(run + run // len(DASHES)) % len(MARKERS)]


def swatch(run: int) -> str:
    """A piece of the run's line, for lists and tables."""
    colour, dash, sign = look(run)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<svg class="swatch {colour}" viewBox="0 0 40 12" aria-hidden="true">'
        f'<path class="line" d="M1 6H39"{dashes}/>{marker(sign, 20, 6)}</svg>'
    )


def group(run: int, inside: str, extra: str = "") -> str:
    """What belongs to a run, so that it can be hidden."""
    return f'<g class="run {look(run)[0]}" data-run="{run}"{extra}>{inside}</g>'


def shortened(text: str, most: int = _LONGEST_LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def steps_of(runs: Sequence[RunContents]) -> str:
    """What the steps of these runs are."""
    names = {"updates": "gradient updates", "steps": "environment steps"}
    return " or ".join(dict.fromkeys(names.get(run.unit, "steps") for run in runs))


def figure(caption: str, *pictures: str, css: str = "") -> str:
    """A figure with its caption below, which is HTML already."""
    return f'<figure class="{css}">{"".join(pictures)}<figcaption>{caption}</figcaption></figure>'


# Learning curves ----------------------------------------------------------------------------------------------------


def learning_curves(runs: Sequence[RunContents], reference_line: float | None) -> str:
    """Return over steps: one picture for wide screens and one for narrow ones, of which the page shows one."""
    curves = [(run, run.evaluations.thinned) for run in runs if run.evaluations is not None]
    names = ", ".join(run.label for run, _ in curves)
    told = f"Learning curves of {names}: return over {runs[0].unit}; the numbers are in the table of scores."
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
    bands = [curve.bands for _, curve in curves]
    heights = [part for band in bands for part in band] + [curve.values for _, curve in curves]
    heights += [] if level is None else [np.array([level])]
    last = max(curve.steps[-1] for _, curve in curves)
    first = min(0, *(curve.steps[0] for _, curve in curves))
    names = [shortened(run.label) for run, _ in curves]
    room = 26 + 7.4 * max(map(len, names)) if end_labels and len(curves) <= 8 else 16
    chart = Chart(
        size,
        (first, last),
        padded(heights),
        (steps_of([run for run, _ in curves]), "return"),
        Margins(right=room),
        (8 if size == WIDE else 4, 6),
    )
    if level is not None:
        chart.rule_y(level, f"mean return of the data: {number(level)}")
    for (run, curve), (middle, low, high) in zip(curves, bands, strict=True):
        chart.add(group(run.number, _one_curve(chart, run, curve, middle, low, high)))
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


def metric_curves(name: str, runs: Sequence[RunContents]) -> str:
    """One metric of training over steps; of heavy tails, what lies beyond the middle 99% is at the border."""
    curves = [(run, run.metrics[name]) for run in runs if name in run.metrics]
    bands = [curve.bands for _, curve in curves]
    joined = np.concatenate([np.ravel(part) for band in bands for part in band])
    ends = np.nanquantile(joined, [0.005, 0.995])
    last = max(curve.steps[-1] for _, curve in curves)
    chart = Chart(SMALL, (0, last), padded([ends]), (steps_of([run for run, _ in curves]), ""))
    for (run, curve), (middle, low, high) in zip(curves, bands, strict=True):
        _, dash, sign = look(run.number)
        parts = [chart.band(curve.steps, low, high), chart.line(curve.steps, middle, "line", dash)]
        every = -(-len(curve.steps) // 5)
        for i in range((len(curve.steps) - 1) % every, len(curve.steps), every):
            if np.isfinite(middle[i]):
                parts.append(marker(sign, float(chart.x(curve.steps[i])), float(chart.y(middle[i]))))
        chart.add(group(run.number, "".join(parts)))
    told = f" {escape(MEANING[name])}" if name in MEANING else ""
    return figure(f"<code>{escape(name)}</code>{told}", chart.svg(f"{name} over {runs[0].unit}"), css="metric")


# Scores -------------------------------------------------------------------------------------------------------------


def profiles(runs: Sequence[RunContents]) -> str:
    """Performance profiles of the last weights: the share of seeds whose return lies above each threshold."""
    scored = [(run, found.last) for run in runs if (found := run.scores) is not None]
    low, high = padded([last for _, last in scored], 0.08)
    chart = Chart(SMALL, (low, high), (0.0, 1.02), ("return threshold τ", "share of seeds above τ"), about=(4, 5))
    for run, last in scored:
        edges = np.unique(np.concatenate([[low], last, [high]]))  # between two scores nothing changes
        xs = np.repeat(edges, 2)[1:-1]
        middle, bottom, top = (np.repeat(part, 2) for part in statistics.profile_bands([last], edges[:-1]))
        _, dash, sign = look(run.number)
        inside = chart.band(xs, bottom, top) + chart.line(xs, middle, "line", dash)
        inside += "".join(
            marker(sign, float(chart.x(value)), float(chart.y(statistics.performance_profile(last, [value])[0])))
            for value in np.unique(last)
        )
        chart.add(group(run.number, inside))
    return chart.svg("Performance profiles: share of seeds above a return, for each run")


def forest(
    rows: Sequence[tuple[str, Estimate, int]], x_label: str, *, middle: float | None = None, unit: bool = False
) -> str:
    """Estimates with their intervals, one below the other; a run's look by its number."""
    height = 34 + 46 * len(rows) + 30
    ends = [end for _, found, _ in rows for end in (found.value, found.low, found.high) if end is not None]
    span = (0.0, 1.0) if unit else padded([np.array(ends)], 0.15)
    chart = Chart(
        (SMALL[0], height), span, (0.0, float(len(rows))), (x_label, ""), Margins(left=20, top=8, right=20), (4, 0)
    )
    if middle is not None:
        chart.rule_x(middle, "")
    for place, (name, found, run) in enumerate(rows):
        y = float(chart.y(len(rows) - place - 0.68))
        x = float(chart.x(found.value))
        parts = [chart.label(chart.left, y - 13, shortened(name, 58), "name")]
        if found.low is not None and found.high is not None:
            left, right = float(chart.x(found.low)), float(chart.x(found.high))
            whiskers = "".join(f"M{end:.1f} {y - 5:.1f}v10" for end in (left, right))
            parts.append(f'<path class="line" d="M{left:.1f} {y:.1f}H{right:.1f}{whiskers}"/>')
        parts.append(marker(look(run)[2], x, y, f"{name}: {number(found.value)}"))
        chart.add(group(run, "".join(parts)))
    return chart.svg("; ".join(f"{name}: {number(found.value)}" for name, found, _ in rows))


# Diagnostics --------------------------------------------------------------------------------------------------------


def values_against_returns(run: RunContents, check: ValueCheck) -> str:
    """A sample of rows of all seeds: what the networks say over what followed."""
    assert check.returns is not None
    x, y = check.returns.ravel(), check.values.ravel()
    ends = np.concatenate([np.quantile(part, [0.002, 0.998]) for part in (x, y)])
    span = padded([ends])
    chart = Chart(SMALL, span, span, ("discounted return-to-go", f"{check.kind} of the data's {_of(check)}"))
    chart.add(chart.line(span, span, "rule"))
    rows = np.linspace(0, len(x) - 1, min(_DOTS, len(x))).astype(int)
    rows = np.random.default_rng(0).permutation(len(x))[:_DOTS] if len(x) > _DOTS else rows
    chart.add(group(run.number, chart.dots(x[rows], y[rows])))
    correlation = check.correlation()
    if correlation is not None and np.isfinite(correlation).any():
        text = f"r = {np.nanmean(correlation):.2f}"
        if (y > x).mean() > 0.5:  # where there is room: on the other side of the line
            made = chart.label(
                SMALL[0] - chart.margins.right - 8, SMALL[1] - chart.margins.bottom - 12, text, "title", "end"
            )
        else:
            made = chart.label(chart.left + 10, chart.margins.top + 14, text, "title")
        chart.add(made)
    return chart.svg(f"{run.label}: values over discounted returns-to-go, with the line on which they are equal")


def _of(check: ValueCheck) -> str:
    return "action" if check.kind == "Q" else "state"


def td_errors(run: RunContents, found: RunDiagnostics) -> str:
    """Temporal-difference errors on episodes trained on and on others."""
    assert found.values is not None
    checks = [("trained on", found.values, "")] + ([("held out", found.held, "5 3")] if found.held is not None else [])
    reach = float(np.quantile(np.abs(np.concatenate([check.td_errors.ravel() for _, check, _ in checks])), 0.99)) or 1.0
    edges = np.linspace(-reach, reach, 41)
    shares = [
        np.histogram(np.clip(check.td_errors, -reach, reach), edges)[0] / check.td_errors.size for _, check, _ in checks
    ]
    top = 100.0 * max(float(part.max()) for part in shares)
    chart = Chart(SMALL, (-reach, reach), (0.0, 1.12 * top), ("TD error", "share of transitions, %"))
    inside = ""
    for place, ((name, _, dash), share) in enumerate(zip(checks, shares, strict=True)):
        heights = 100.0 * share
        xs, ys = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
        inside += (chart.band(xs, np.zeros_like(ys), ys) if place == 0 else "") + chart.outline(
            edges, heights, "line", dash
        )
        y = chart.margins.top + 12 + 17 * place
        x = SMALL[0] - chart.margins.right - 118
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        inside += f'<path class="line" d="M{x} {y - 4}h26"{dashes}/>' + chart.label(x + 33, y, name)
    chart.rule_x(0.0)
    chart.add(group(run.number, inside))
    return chart.svg(f"{run.label}: distribution of TD errors, {' and '.join(name for name, *_ in checks)}")


def action_distances(runs: Sequence[RunContents], found: Sequence[RunDiagnostics]) -> str:
    """How far each policy is from the data's actions."""
    checks = [(run, one.actions) for run, one in zip(runs, found, strict=True) if one.actions is not None]
    most = max(float(np.quantile(check.distances, 0.995)) for _, check in checks)
    shuffled = {round(check.shuffled, 4) for _, check in checks}
    most = max([most, *(1.15 * value for value in shuffled)]) or 1.0
    edges = np.linspace(0.0, most, 31)
    shares = [100.0 * np.histogram(np.clip(c.distances, 0, most), edges)[0] / c.distances.size for _, c in checks]
    top = max(float(part.max()) for part in shares)
    chart = Chart(SMALL, (0.0, most), (0.0, 1.12 * top), ("distance to the data's action", "share of transitions, %"))
    for (run, _), share in zip(checks, shares, strict=True):
        _, dash, sign = look(run.number)
        middles = [(left + right) / 2 for left, right in pairwise(edges)]
        signs = "".join(
            marker(sign, float(chart.x(middles[i])), float(chart.y(share[i]))) for i in range(2 + run.number % 3, 30, 6)
        )
        chart.add(group(run.number, chart.outline(edges, share, "line", dash) + signs))
    if len(shuffled) == 1:  # of several datasets nobody could tell whose line is whose
        chart.rule_x(shuffled.pop(), "random pairs of the data")
    return chart.svg("Distribution of the distance between the policy's and the data's actions, for each run")


# Data ---------------------------------------------------------------------------------------------------------------


def histogram(title: str, values: Distribution) -> str:
    """Upright bars with the mean marked."""
    edges = values.edges
    last = edges[-1] - 1 if values.whole else edges[-1]
    mean, median, lowest, highest = (
        within(value, values.std) for value in (values.mean, values.median, values.min, values.max)
    )
    chart = Chart(SMALL, (edges[0], edges[-1]), (0.0, 1.1 * max(values.counts)), (title.lower(), "count"))
    names = [
        f"{number(left)} to {number(right)}: {count:,}"
        for (left, right), count in zip(pairwise(edges), values.counts, strict=True)
    ]
    chart.add(f'<g class="data">{chart.bars(edges, values.counts, names)}</g>')
    chart.rule_x(values.mean, f"mean {mean}")
    told = f"{title}: from {number(values.min)} to {number(last)}, mean {number(values.mean)}"
    caption = (
        f"<b>{escape(title)}</b>: mean {mean} ± {number(values.std)} (standard deviation),"
        f" median {median}, from {lowest} to {highest}."
    )
    return figure(caption, chart.svg(told))
