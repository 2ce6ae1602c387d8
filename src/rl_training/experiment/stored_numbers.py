"""Numbers from files that may hold anything."""

from __future__ import annotations

from typing import Any, overload

_LARGEST = 1e100  # whose square is still a number


@overload
def as_number(value: Any, otherwise: float) -> float: ...
@overload
def as_number(value: Any, otherwise: None) -> float | None: ...
def as_number(value: Any, otherwise: float | None) -> float | None:
    """A number that can be reckoned with; anything else that a file may hold is `otherwise`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return float(value) if abs(value) < _LARGEST else otherwise  # false for NaN, too
