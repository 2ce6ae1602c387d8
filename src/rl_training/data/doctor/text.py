"""A report as lines of text, for a terminal or a file."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rl_training.data.doctor.facts_in_words import fact_lines
from rl_training.data.doctor.findings import LEVELS, Distribution, Finding, Report
from rl_training.data.doctor.wording import number, sentence

_LABEL = 14
_HEADINGS = {"error": "Errors", "warning": "Warnings", "note": "Notes"}
_GAP = 4
_FEW = 5


class Line(NamedTuple):
    """One line and what it is: title, heading, error, warning, note, faint or plain."""

    text: str
    kind: str = "plain"


def report_lines(report: Report, title: str, width: int, bar: str = "█") -> list[Line]:
    """The whole report; no line is wider than `width` unless a word is."""
    lines = [Line(title, "title"), *labelled(fact_lines(report.facts), width)]
    lines += _histograms(report, width, bar)
    lines += [line for level in LEVELS for line in finding_lines(report.at(level), width)]
    kind = "error" if not report.ok else "warning" if report.at("warning") else "good"
    return [*lines, Line(""), *(Line(text, kind) for text in _wrap(f"verdict: {report.verdict()}", width, "", "  "))]


def finding_lines(findings: Sequence[Finding], width: int) -> list[Line]:
    """Findings of one level under their heading."""
    if not findings:
        return []
    level = findings[0].level
    heading = Line(f"{_HEADINGS[level]} ({len(findings)})", level)
    return [Line(""), heading, *(line for finding in findings for line in _finding(finding, width))]


def labelled(pairs: list[tuple[str, str]], width: int) -> list[Line]:
    """A label and its text on each line, the text wrapped beside the label."""
    lines: list[Line] = []
    for label, text in pairs:
        wrapped = textwrap.wrap(text, max(20, width - _LABEL - 2), break_long_words=False) or [""]
        lines.append(Line(f"  {label:<{_LABEL}}{wrapped[0]}"))
        lines += [Line(" " * (_LABEL + 2) + rest) for rest in wrapped[1:]]
    return lines


def note_lines(notes: Sequence[str], width: int) -> list[Line]:
    """What was recognised and assumed when the data were read."""
    if not notes:
        return []
    heading = Line(f"{_HEADINGS['note']} ({len(notes)})", "note")
    return [Line(""), heading, *(Line(text) for note in notes for text in _wrap(sentence(note), width, "  • ", "    "))]


def transform_lines(transforms: Mapping[str, Any], width: int) -> list[Line]:
    """Fitted transforms: what is subtracted, divided by and multiplied with before a network sees the data."""
    mean, divisor = transforms["obs_mean"], transforms["obs_std"]
    low, high = transforms["action_low"], transforms["action_high"]
    bounds = [f"[{number(a)}, {number(b)}]" for a, b in zip(low, high, strict=True)]
    pairs = [
        ("observations", "as they are" if mean is None else "minus the mean, divided by the deviation:"),
        *([] if mean is None else [("  mean", _numbers(mean)), ("  deviation", _numbers(divisor))]),
        ("rewards", f"times {number(transforms['reward_scale'])}, plus {number(transforms['reward_shift'])}"),
        ("actions", f"from {_numbers(sorted(set(bounds), key=bounds.index))} to [-1, 1]"),
    ]
    return labelled(pairs, width)


def _numbers(values: Sequence[Any], most: int = 40) -> str:
    words = [value if isinstance(value, str) else number(value) for value in values]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _finding(finding: Finding, width: int) -> list[Line]:
    where = str(finding.place)
    many = finding.count is not None and finding.count > 1
    what = f"{finding.field} [{finding.code}]: {finding.what}" + (
        f" {'First at' if many else 'At'} {where}." if where else ""
    )
    lines = [Line(text) for text in _wrap(what, width, "  • ", "    ")]
    if finding.advice:
        lines += [Line(text, "faint") for text in _wrap(finding.advice, width, "    → ", "      ")]
    return lines


def _wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(20, width),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,  # an option stays whole
    )


def _histograms(report: Report, width: int, bar: str) -> list[Line]:
    """Returns and lengths side by side where there is room."""
    facts = report.facts.in_own_sign()
    named = {"Costs" if facts.costs else "Returns": facts.returns, "Lengths": facts.lengths}
    drawn = [(name, values) for name, values in named.items() if values is not None]
    drawn = [(f"{name} (episodes)", d) for name, d in drawn if worth_drawing(d)]
    if not drawn:
        return []
    side_by_side = len(drawn) == 2 and width >= 80
    each = (width - 2 - _GAP) // 2 if side_by_side else min(width - 2, 60)
    blocks = [[name, *_bars(values, each, bar)] for name, values in drawn]
    if not side_by_side:
        return [Line(f"  {text}" if text else "", "faint") for block in blocks for text in ["", *block]]
    height = max(map(len, blocks))
    left, right = ([*block, *[""] * (height - len(block))] for block in blocks)
    rows = [f"  {one:<{each}}{' ' * _GAP}{other}".rstrip() for one, other in zip(left, right, strict=True)]
    return [Line(""), *(Line(row, "faint") for row in rows)]


def worth_drawing(values: Distribution) -> bool:
    """Whether a histogram says more than the numbers beside it."""
    return len(values.counts) > 1 and sum(values.counts) >= _FEW


def _bars(values: Distribution, width: int, bar: str) -> list[str]:
    """One line per bin: its range, a bar, its count."""
    ranges = bin_names(values)
    edge, count_width = max(map(len, ranges)), len(f"{max(values.counts):,}")
    room = max(5, width - edge - count_width - 4)
    lines = []
    for name, count in zip(ranges, values.counts, strict=True):
        drawn = bar * (max(1, round(room * count / max(values.counts))) if count else 0)
        lines.append(f"{name:>{edge}}  {drawn:<{room}} {count:>{count_width},}".rstrip())
    return lines


def bin_names(values: Distribution) -> list[str]:
    """`391 – 583` for each bin of a histogram; whole numbers name the first and the last one inside."""
    low, high = values.edges[:-1], values.edges[1:]
    if values.whole:
        pairs = [(f"{a:,.0f}", f"{min(b - 1, values.max):,.0f}") for a, b in zip(low, high, strict=True)]
    else:
        pairs = [(_edge(a, values), _edge(b, values)) for a, b in zip(low, high, strict=True)]
    first, second = (max(len(pair[i]) for pair in pairs) for i in (0, 1))
    return [a.rjust(first) if a == b else f"{a:>{first}} – {b:>{second}}" for a, b in pairs]


def _edge(value: float, values: Distribution) -> str:
    """An edge with the digits that tell it from its neighbours."""
    span = values.max - values.min
    if span >= 50 and abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.2f}" if 0.1 < span < 1e3 and abs(value) < 1e6 else number(value)
