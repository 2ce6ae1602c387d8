"""The table of why the episodes of the data ended."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.data.doctor.wording import alike
from rl_training.experiment.costs import Shown
from rl_training.experiment.report.readings import EndedSo
from rl_training.experiment.report.tables import Cell, table
from rl_training.validation import printable

_MOST = 12


def reasons_table(found: Sequence[EndedSo], shown: Shown) -> str:
    """As the page shows it; empty where nothing was counted."""
    if not found:
        return ""
    some, total = found[:_MOST], sum(one.episodes for one in found)
    noun, means = f"mean {shown.named}", alike(*(shown.number(one.mean_return) for one in some))
    rows = [
        (
            None,
            [
                Cell.of(printable(one.reason)),
                Cell.of(one.meaning),
                Cell.number(one.episodes, f"{one.episodes:,} ({one.episodes / total:.0%})"),
                Cell.number(shown.number(one.mean_return), mean),
                Cell.number(one.mean_length, f"{one.mean_length:,.1f}"),
            ],
        )
        for one, mean in zip(some, means, strict=True)
    ]
    heads = ["reason", "read as", "episodes", noun, "mean steps"]
    caption = "Why the recorded episodes ended, and what they came to."
    caption += f" {len(found) - _MOST} rarer reasons are left out." if len(found) > _MOST else ""
    return table(heads, rows, css="cards", numbers=heads[2:], caption=caption)
