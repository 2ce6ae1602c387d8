"""Counts as a person writes them."""

from __future__ import annotations


def amount(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    ending = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {ending}"
