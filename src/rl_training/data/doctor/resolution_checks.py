"""Columns whose changes float32 does not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rl_training.data.doctor.findings import Finding, Level, Place
from rl_training.data.doctor.wording import number
from rl_training.data.resolution import CoarseColumn


def check_resolution(coarse: Sequence[CoarseColumn]) -> Iterator[Finding]:
    """One finding for each; an error where nothing of a column is left."""
    for found in coarse:
        lost = found.constant and found.meant
        what = f"Column {found.column} lies about {number(found.size)} and varies by {number(found.deviation)}"
        what += f" (standard deviation), but float32, which is trained in, has steps of {number(found.spacing)} there:"
        what += " nothing of it is left." if found.constant else " most of it is lost."
        advice = "Subtract an offset from the column, such as its mean, when you write the data and where you act."
        level: Level = "error" if lost else "warning"
        yield Finding(level, "values.resolution", found.field, what, advice, place=Place(column=found.column))
