"""Series and DataFrames whose own labels say which value belongs where: never put together by place against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_training.errors import DataError
from rl_training.validation import printable


def require_same_rows(parts: Mapping[str, Any], place: str, way: str) -> None:
    """Refuse Series, by the names of their columns, of which a row means another in each, as their indexes say."""
    indexed = [(name, part.index) for name, part in parts.items() if hasattr(part, "iloc")]
    if strange := [name for name, index in indexed if not index.equals(indexed[0][1])]:
        raise DataError(f"{place}{printable(strange[0])} has another index than {printable(indexed[0][0])}; {way}")
