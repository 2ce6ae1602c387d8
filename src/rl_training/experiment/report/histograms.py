"""Figures of how values are spread: axes as far as nearly all of them lie, and hatched bars for what lies beyond."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.wording import number, share, within
from rl_training.experiment.report.bounds import bounds_text
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import RunDiagnostics
from rl_training.experiment.report.diagnostics import ActionCheck
from rl_training.experiment.report.drawing import Drawing, Size, group, look
from rl_training.experiment.report.spread import Rest, Spread
from rl_training.experiment.report.svg import Chart, marker

FloatArray = npt.NDArray[np.float64]

_WIDEST = 4.0  # an axis that shows the bounds as well, in spans of the values
_TD_BINS, _DISTANCE_BINS = 40, 30


def histogram(title: str, values: Spread) -> Drawing:
    """Upright bars with the mean marked."""
    every = values.every
    mean, median, lowest, highest = (
        within(value, every.std) for value in (every.mean, every.median, every.min, every.max)
    )
    caption = (
        f"<b>{escape(title)}</b>: mean {mean} ± {number(every.std)} (standard deviation of {sum(every.counts):,}"
        f" values), median {median}, from {lowest} to {highest}."
    )
    if values.bounds is not None:
        caption += f" Bounds: {escape(bounds_text(values.bounds))}{_bounds_drawn(values)}."
    caption += "" if values.rest is None else _of_the_rest(values.rest)
    beyond = [f"{count:,} {side}" for count, side in ((values.below, "below"), (values.above, "above")) if count]
    if beyond:
        one = values.below + values.above == 1
        caption += f" Hatched: beyond the axis ({' and '.join(beyond)}); {'it counts' if one else 'they count'} in"
        caption += " the numbers here."
    told = f"{title}: from {number(every.min)} to {number(every.max)}, mean {number(every.mean)}"
    return Drawing(caption, lambda size: _bars(title, values, mean, size).svg(told))


def _of_the_rest(rest: Rest) -> str:
    """What one tall bar does not show."""
    other = number(rest.low) if rest.low == rest.high else f"from {number(rest.low)} to {number(rest.high)}"
    be = "is" if rest.count == 1 else "are"
    return f" Nearly all are {number(rest.usual)}: {rest.count:,} of {rest.total:,} {be} not, but {other}."


def _bars(title: str, values: Spread, mean: str, size: Size) -> Chart:
    inside = values.inside
    edges, span = inside.edges, _axis(values)
    most = max(*inside.counts, values.below, values.above)
    axis = title[:1].lower() + title[1:]  # the rest may be a name or a unit, which has a spelling of its own
    sides = (values.below > 0, values.above > 0)
    chart = Chart(size, span, (0.0, 1.15 * most), (axis, "count"), beyond=sides)
    names = [
        f"{number(left)} to {number(right)}: {count:,}"
        for (left, right), count in zip(pairwise(edges), inside.counts, strict=True)
    ]
    drawn = chart.bars(edges, inside.counts, names)
    for count, above in ((values.below, False), (values.above, True)):
        if count:
            drawn += chart.bar_beyond(count, above=above)
            side = f"above {number(inside.max)}" if above else f"below {number(inside.min)}"
            text = f"{count:,} {side}"
            clear = chart.highest_below(text, edges, inside.counts, above=above)
            chart.name_beyond(count, text, clear, above=above)
    chart.add(f'<g class="data">{drawn}</g>')
    for bound in _shown_bounds(values):
        chart.rule_x(bound, css="bound")
    if span[0] <= values.every.mean <= span[1]:
        chart.rule_x(values.every.mean, f"mean {mean}")
    return chart


def _axis(values: Spread) -> tuple[float, float]:
    """From the first bar to the last, and on to the bounds that are shown."""
    ends = (values.inside.edges[0], values.inside.edges[-1], *_shown_bounds(values))
    return min(ends), max(ends)


def _shown_bounds(values: Spread) -> list[float]:
    """Those between which the values can still be told apart, and beyond which none lie."""
    low, high = values.inside.edges[0], values.inside.edges[-1]
    if values.bounds is None or values.bounds[1] - values.bounds[0] > _WIDEST * (high - low):
        return []
    sides = ((values.bounds[0], values.below), (values.bounds[1], values.above))
    return [bound for bound, outside in sides if not outside]


def _bounds_drawn(values: Spread) -> str:
    shown = len(_shown_bounds(values))
    return {2: " (solid lines)", 1: " (one of them within the axis, a solid line)"}.get(shown, " (beyond the axis)")


def td_errors(run: RunContents, found: RunDiagnostics, size: Size) -> str:
    """Temporal-difference errors on episodes trained on and on others."""
    assert found.values is not None
    checks = [("trained on", found.values, "")] + ([("held out", found.held, "5 3")] if found.held is not None else [])
    errors = [check.td_errors.ravel() for _, check, _ in checks]
    reach = float(np.quantile(np.abs(np.concatenate(errors)), 0.99)) or 1.0
    edges = np.linspace(-reach, reach, _TD_BINS + 1)
    shares = [100.0 * np.histogram(own, edges)[0] / own.size for own in errors]
    beyond = {False: [100.0 * (own < -reach).mean() for own in errors]}
    beyond[True] = [100.0 * (own > reach).mean() for own in errors]
    top = max(float(part.max()) for part in (*shares, *map(np.array, beyond.values())))
    sides = (any(beyond[False]), any(beyond[True]))
    room = 1.1 + 0.12 * len(checks)  # above all that is drawn, for their names
    chart = Chart(size, (-reach, reach), (0.0, room * top), ("TD error", "share of transitions, %"), beyond=sides)
    inside = ""
    for place, ((name, _, dash), heights) in enumerate(zip(checks, shares, strict=True)):
        xs, ys = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
        inside += chart.band(xs, np.zeros_like(ys), ys) if place == 0 else ""
        inside += chart.outline(edges, heights, "line", dash)
        y = chart.margins.top + 12 + 17 * place
        x = size[0] - chart.margins.right - 118
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        inside += f'<path class="line" d="M{x} {y - 4}h26"{dashes}/>' + chart.label(x + 33, y, name)
        for above, parts in beyond.items():
            if parts[place]:
                inside += chart.bar_beyond(parts[place], above=above, dash=dash, hatched=place == 0)
    for above, parts in beyond.items():
        if any(parts):
            _name_shares(chart, parts, (edges, shares), above=above)
    chart.rule_x(0.0)
    chart.add(group(run.number, inside))
    return chart.svg(f"{run.label}: distribution of TD errors, {' and '.join(name for name, *_ in checks)}")


def _name_shares(
    chart: Chart, percent: Sequence[float], drawn: tuple[FloatArray, Sequence[FloatArray]], *, above: bool
) -> None:
    """What the bars beyond an axis are, and how much is there where that is of one kind; drawn: edges and heights."""
    edges, heights = drawn
    much = f"{share(percent[0] / 100.0)} " if len(percent) == 1 else ""
    text = f"{much}{'above' if above else 'below'} {number(float(edges[-1 if above else 0]))}"
    clear = chart.highest_below(text, edges, np.max(heights, axis=0), above=above)
    chart.name_beyond(max(percent), text, clear, above=above)


def _furthest(checks: Sequence[ActionCheck]) -> float:
    """Where the axis of distances ends: beyond nearly all of them, and beyond those of random pairs."""
    most = max(float(np.quantile(check.distances, 0.995)) for check in checks)
    return max([most, *(1.15 * round(check.shuffled, 4) for check in checks)]) or 1.0


def distances_beyond(checks: Sequence[ActionCheck]) -> list[float]:
    """How many percent of each lie beyond the axis."""
    return [100.0 * float((check.distances > _furthest(checks)).mean()) for check in checks]


def of_random_pairs(check: ActionCheck) -> float:
    """Where the line of the data's own distances stands; one line is drawn where it is the same for all."""
    return round(check.shuffled, 4)


def action_distances(runs: Sequence[RunContents], found: Sequence[RunDiagnostics], size: Size) -> str:
    """How far each policy is from the data's actions."""
    checks = [(run, one.actions) for run, one in zip(runs, found, strict=True) if one.actions is not None]
    shuffled = {of_random_pairs(check) for _, check in checks}
    most = _furthest([check for _, check in checks])
    edges = np.linspace(0.0, most, _DISTANCE_BINS + 1)
    shares = [100.0 * np.histogram(check.distances, edges)[0] / check.distances.size for _, check in checks]
    beyond = distances_beyond([check for _, check in checks])
    top = max(*beyond, *(float(part.max()) for part in shares))
    labels = ("distance to the data's action", "share of transitions, %")
    chart = Chart(size, (0.0, most), (0.0, 1.2 * top), labels, beyond=(False, any(beyond)))
    middles = [(left + right) / 2 for left, right in pairwise(edges)]
    for (run, _), heights, rest in zip(checks, shares, beyond, strict=True):
        _, dash, sign = look(run.number)
        signs = "".join(
            marker(sign, float(chart.x(middles[i])), float(chart.y(heights[i])))
            for i in range(2 + run.number % 3, _DISTANCE_BINS, 6)
        )
        outside = chart.bar_beyond(rest, above=True) if rest else ""
        chart.add(group(run.number, chart.outline(edges, heights, "line", dash) + signs + outside))
    if any(beyond):
        _name_shares(chart, beyond, (edges, shares), above=True)
    if len(shuffled) == 1:  # of several datasets nobody could tell whose line is whose
        chart.rule_x(shuffled.pop(), "random pairs of the data")
    return chart.svg("Distribution of the distance between the policy's and the data's actions, for each run")
