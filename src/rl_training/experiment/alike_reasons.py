"""Sentences that differ in their numbers alone, said once."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def frame(text: str) -> tuple[str, ...]:
    """What stands between the numbers."""
    return tuple(_NUMBER.split(text))


def with_spans(same: Sequence[str]) -> str:
    """One sentence for several of the same frame, with the span of each number: `± 16.7 to 127.9`."""
    spans = []
    for found in zip(*map(_NUMBER.findall, same), strict=True):
        ends = sorted(set(found), key=lambda text: float(text.replace(",", "")))
        spans.append(ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}")
    return "".join(part + span for part, span in zip(frame(same[0]), [*spans, ""], strict=True))
