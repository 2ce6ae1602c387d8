"""Figures as SVG text: axes with round ticks, lines, bands, dots and bars. Colours are the page's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

DASHES = ("", "7 4", "2 3", "10 3 2 3", "14 4", "5 2 1 2 1 2")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus")
_SIZE = 3.6  # of a marker, from its middle
_GAP, _BAR = 7.0, 16.0  # between an axis and the bar of what lies beyond it, and the width of that bar
_HATCH = 5.0  # from one stroke to the next
_LOWEST = 6.0  # of such a bar, so that its strokes can be seen
_FEWEST_TICKS = 3  # that tell a scale
_LETTER = 7.4  # the width of a letter, roughly


class Margins(NamedTuple):
    top: float = 14
    right: float = 14
    bottom: float = 46
    left: float | None = None  # as wide as the ticks need


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from `low` to `high`: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [power * nice for nice in (0.5, 1.0, 2.0, 2.5, 5.0, 10.0)]
    place = next(place for place, step in enumerate(steps) if step >= rough * (1 - 1e-9))
    found = _multiples(low, high, steps[place])
    return found if len(found) >= min(_FEWEST_TICKS, about) else _multiples(low, high, steps[place - 1])


def to_ticks(span: tuple[float, float], about: int) -> tuple[float, float]:
    """The span, up to the next tick at an end that is less than half a step from one."""
    found = ticks(*span, about)
    if len(found) < 2:
        return span
    step = found[1] - found[0]
    low, high = found[0] - step, found[-1] + step
    return (low if span[0] - low < step / 2 else span[0], high if high - span[1] < step / 2 else span[1])


def _multiples(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + i) * step, 12) for i in range(count)]


def tick_text(value: float, step: float) -> str:
    """`1,000`, `2.5M`, `0.25`, `1e-05`: as many digits as the distance of the ticks needs."""
    size = max(abs(value), step)
    if value == 0:
        return "0"
    if size >= 1e10 or step < 1e-5:
        return f"{value:.3g}"
    if size >= 1e6:
        return f"{value / 1e6:,.10g}M"
    digits = next(n for n in range(8) if abs(round(step, n) - step) < 1e-9 * max(1.0, step))
    return f"{value:,.{digits}f}"


def padded(values: Iterable[npt.ArrayLike], part: float = 0.05) -> tuple[float, float]:
    """From the least to the greatest finite value, a little room at both ends."""
    arrays = [np.ravel(np.asarray(value, dtype=np.float64)) for value in values]
    joined = np.concatenate(arrays) if arrays else np.zeros(0)
    finite = joined[np.isfinite(joined)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    room = part * (high - low) or 0.05 * abs(low) or 1.0
    return low - room, high + room


def marker(kind: str, x: float, y: float, title: str = "") -> str:
    """A sign at a place, with a text that a pointer calls up."""
    r = _SIZE
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"{{}}',
        "square": f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"{{}}',
        "triangle": _path([(x, y - r * 1.2), (x + r * 1.1, y + r), (x - r * 1.1, y + r)]),
        "diamond": _path([(x, y - r * 1.3), (x + r * 1.3, y), (x, y + r * 1.3), (x - r * 1.3, y)]),
        "cross": f'<path class="open" d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}"{{}}',
        "plus": f'<path class="open" d="M{x - r:.1f} {y:.1f}h{2 * r}m{-r} {-r}v{2 * r}"{{}}',
    }
    ending = f"><title>{escape(title)}</title></{shapes[kind][1:].split()[0]}>" if title else "/>"
    return shapes[kind].format(ending)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}Z"{{}}'


class Chart:
    """One pair of axes and what is drawn into it, in the order it is drawn."""

    def __init__(
        self,
        size: tuple[int, int],
        xs: tuple[float, float],
        ys: tuple[float, float],
        labels: tuple[str, str] = ("", ""),
        margins: Margins | None = None,
        about: tuple[int, int] = (4, 4),
        beyond: tuple[bool, bool] = (False, False),
    ) -> None:
        """`about`: how many ticks there should be on each axis, roughly. `beyond`: whether there is to be room for a
        bar of what lies below the x axis, and above it."""
        self.width, self.height = size
        self.x_range, self.y_range = _opened(xs), _opened(ys)
        self.labels = labels
        self.x_ticks, self.y_ticks = _named_ticks(self.x_range, about[0]), _named_ticks(self.y_range, about[1])
        self.margins = margins or Margins()
        if beyond[1]:
            self.margins = self.margins._replace(right=self.margins.right + _GAP + _BAR)
        widest = max((len(text) for _, text in self.y_ticks), default=0)
        needed = (24 if labels[1] else 6) + 7.2 * widest + 8
        self._aside = _GAP + _BAR if beyond[0] else 0.0
        self.left = (needed if self.margins.left is None else self.margins.left) + self._aside
        self._drawn: list[str] = []
        self._above: list[str] = []

    # Places -----------------------------------------------------------------------------------------------------

    def x(self, value: Any) -> Any:
        low, high = self.x_range
        left, right = self.left, self.width - self.margins.right
        return left + (np.clip(value, low, high) - low) / (high - low) * (right - left)

    def y(self, value: Any) -> Any:
        low, high = self.y_range
        top, bottom = self.margins.top, self.height - self.margins.bottom
        return bottom - (np.clip(value, low, high) - low) / (high - low) * (bottom - top)

    # What can be drawn ------------------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        self._drawn.append(text)

    def line(self, xs: npt.ArrayLike, ys: npt.ArrayLike, css: str = "line", dash: str = "") -> str:
        """A path through the finite points, broken where there are none."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<path class="{css}" d="{self._points(xs, ys)}"{dashes}/>'

    def _points(self, xs: npt.ArrayLike, ys: npt.ArrayLike) -> str:
        heights = np.asarray(ys, dtype=float)
        places = zip(self.x(np.asarray(xs, dtype=float)).tolist(), self.y(heights).tolist(), strict=True)
        steps, pen = [], "M"
        for (x, y), is_there in zip(places, np.isfinite(heights).tolist(), strict=True):
            if is_there:
                steps.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L" if is_there else "M"
        return "".join(steps)

    def band(self, xs: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> str:
        """The area between two curves."""
        x, bottom, top = (np.asarray(part, dtype=float) for part in (xs, low, high))
        sound = np.isfinite(bottom) & np.isfinite(top)
        if sound.sum() < 2:
            return ""
        there, back = self._points(x[sound], top[sound]), self._points(x[sound][::-1], bottom[sound][::-1])
        return f'<path class="band" d="{there}L{back[1:]}Z"/>'

    def dots(self, xs: npt.ArrayLike, ys: npt.ArrayLike) -> str:
        """Many points as one path."""
        pairs = zip(self.x(np.asarray(xs, dtype=float)), self.y(np.asarray(ys, dtype=float)), strict=True)
        return f'<path class="dots" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y in pairs)}"/>'

    def bars(self, edges: Sequence[float], counts: Sequence[float], titles: Sequence[str]) -> str:
        """A histogram."""
        floor = float(self.y(self.y_range[0]))
        drawn = []
        for (left, right), count, title in zip(pairwise(edges), counts, titles, strict=True):
            x, y = float(self.x(left)), float(self.y(count))
            wide = max(0.6, float(self.x(right)) - x - 1.0)
            if count:
                drawn.append(
                    f'<rect class="bar" x="{x + 0.5:.1f}" y="{min(y, floor - 1):.1f}" width="{wide:.1f}"'
                    f' height="{max(1.0, floor - y):.1f}"><title>{escape(title)}</title></rect>'
                )
        return "".join(drawn)

    def bar_beyond(self, height: float, *, above: bool, dash: str = "", hatched: bool = True) -> str:
        """A bar beside the axis, hatched, for what lies outside it: no colour is needed to tell it from the others."""
        x = self.width - self.margins.right + _GAP if above else self.left - _GAP - _BAR
        floor = float(self.y(self.y_range[0]))
        tall = max(_LOWEST, floor - float(self.y(height)))
        strokes = []
        for start in np.arange(_HATCH - tall, _BAR, _HATCH).tolist() if hatched else []:
            low, high = max(0.0, -start), min(tall, _BAR - start)  # along the stroke, as far as it is in the bar
            strokes.append(f"M{x + start + low:.1f} {floor - low:.1f}L{x + start + high:.1f} {floor - high:.1f}")
        box = f"M{x:.1f} {floor:.1f}v{-tall:.1f}h{_BAR}v{tall:.1f}Z"
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<path class="beyond" d="{box}{"".join(strokes)}"{dashes}/>'

    def name_beyond(self, height: float, text: str, clear: float, *, above: bool) -> None:
        """The label of that bar, at the height `clear`, where nothing is drawn, with a line down to the bar."""
        bar = min(float(self.y(height)), float(self.y(self.y_range[0])) - _LOWEST)
        y = max(min(float(self.y(clear)), bar) - 6.0, self.margins.top + 26.0)
        x = self.width - self.margins.right + _GAP + _BAR if above else self.left - _GAP - _BAR
        middle = x + (-_BAR if above else _BAR) / 2
        if bar - y > 10.0:
            self._drawn.append(f'<path class="axis" d="M{middle:.1f} {y + 3:.1f}V{bar:.1f}"/>')
        self._above.append(self.label(x, y, text, "note", "end" if above else "start"))

    def highest_below(self, text: str, edges: npt.ArrayLike, heights: npt.ArrayLike, *, above: bool) -> float:
        """The highest bar where such a label would stand, `edges` one more than `heights`."""
        room = _LETTER * len(text) - _GAP - _BAR
        low, high = self.left, self.width - self.margins.right
        low, high = (high - room, high) if above else (low, low + room)
        ends = np.asarray(self.x(np.asarray(edges, dtype=float)))
        there = (ends[1:] > low) & (ends[:-1] < high)
        return float(np.max(np.asarray(heights, dtype=float), where=there, initial=0.0))

    def outline(self, edges: npt.ArrayLike, heights: npt.ArrayLike, css: str = "line", dash: str = "") -> str:
        """A histogram as its outline."""
        xs, ys = np.repeat(np.asarray(edges, float), 2)[1:-1], np.repeat(np.asarray(heights, float), 2)
        return self.line(xs, ys, css, dash)

    def rule_y(self, value: float, text: str, css: str = "rule") -> None:
        """A line across at a height, its text above it at the left; below where another line runs through there."""
        y = float(self.y(value))
        left, right = self.left, self.width - self.margins.right
        self._drawn.append(f'<path class="{css}" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        others = [float(self.y(tick)) - y for tick, _ in self.y_ticks]
        struck = {side: any(3 < side * other < 17 for other in others) for side in (-1, 1)}
        room = y + 17 < self.height - self.margins.bottom
        below = y - self.margins.top < 16 or (struck[-1] and not struck[1] and room)
        self._above.append(
            f'<text class="note" x="{left + 6:.1f}" y="{y + (13 if below else -5):.1f}">{escape(text)}</text>'
        )

    def rule_x(
        self, value: float, text: str = "", css: str = "rule", between: tuple[float, float] | None = None
    ) -> None:
        """A line up and down; between: the heights from and to which, if not over the whole."""
        x = float(self.x(value))
        top, bottom = between or (self.margins.top, self.height - self.margins.bottom)
        self._drawn.append(f'<path class="{css}" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        if text:
            late = x > self.width * 0.6
            anchor, offset = ("end", -5) if late else ("start", 5)
            self._above.append(self.label(x + offset, top + 11, text, "note", anchor))

    def label(self, x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
        return f'<text class="{css}" text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'

    # The whole --------------------------------------------------------------------------------------------------

    def svg(self, description: str) -> str:
        """The figure; `description` is for those who do not see it."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(description)}">'
            f"{self._axes()}{''.join(self._drawn)}{''.join(self._above)}</svg>"
        )

    def _axes(self) -> str:
        left, right = self.left, self.width - self.margins.right
        top, bottom = self.margins.top, self.height - self.margins.bottom
        parts = []
        for value, text in self.y_ticks:
            y = float(self.y(value))
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            parts.append(self.label(left - self._aside - 8, y + 4, text, anchor="end"))
        for value, text in self.x_ticks:
            x = float(self.x(value))
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom:.1f}v4"/>')
            parts.append(self.label(x, bottom + 17, text, anchor="middle"))
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        if self.labels[0]:
            parts.append(self.label((left + right) / 2, self.height - 7, self.labels[0], "title", "middle"))
        if self.labels[1]:
            middle = (top + bottom) / 2
            parts.append(
                f'<text class="title" text-anchor="middle" transform="translate(13 {middle:.1f}) rotate(-90)">'
                f"{escape(self.labels[1])}</text>"
            )
        return "".join(parts)


def _named_ticks(span: tuple[float, float], about: int) -> list[tuple[float, str]]:
    values = ticks(*span, about) if about else []
    step = values[1] - values[0] if len(values) > 1 else 1.0
    return [(value, tick_text(value, step)) for value in values]


def _opened(ends: tuple[float, float]) -> tuple[float, float]:
    """A range that is not empty."""
    low, high = ends
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def apart(places: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Heights for labels, near where they belong, no two closer than `distance`."""
    order = np.argsort(places, kind="stable")
    found = list(map(float, places))
    for _ in range(60):
        for one, other in pairwise(order.tolist()):
            short = distance - (found[other] - found[one])
            if short > 1e-6:
                found[one] -= short / 2
                found[other] += short / 2
        found = [min(max(place, low), high) for place in found]
    return found
