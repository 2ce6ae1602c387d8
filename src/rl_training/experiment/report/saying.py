"""What is said of runs: every line once, after the names of those it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rl_training.data.doctor.wording import listed
from rl_training.experiment.report.contents import RunContents

PLAIN = "plain"  # what is no warning
MOST_NAMES = 8  # of runs in a line


def said(runs: Sequence[RunContents], lines: Sequence[Sequence[str]], css: str = "") -> str:
    """What is said of each run, every line once, after the names of the runs it holds for."""
    parts = []
    for line, those in by_line(runs, lines).items():
        mark = f' data-run="{those[0].number}"' if len(those) == 1 else ""
        parts.append(
            f'<p class="callout small {css}"{mark}><b>{escape(names_of_runs(those, len(runs)))}</b>: {escape(line)}</p>'
        )
    return "".join(parts)


def by_line(runs: Sequence[RunContents], lines: Sequence[Sequence[str]]) -> dict[str, list[RunContents]]:
    """Every line once, with the runs it holds for."""
    of: dict[str, list[RunContents]] = {}
    for run, own in zip(runs, lines, strict=True):
        for line in dict.fromkeys(own):
            of.setdefault(line, []).append(run)
    return of


def names_of_runs(those: Sequence[RunContents], of_all: int) -> str:
    """`a, b and c`, or how many they all are."""
    if len(those) == of_all > 2:
        return f"All {of_all} runs"
    names = [run.label for run in those]
    return listed(names if len(names) <= MOST_NAMES else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"])
