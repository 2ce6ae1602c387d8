"""Observations in JSON whose values stand by name, `{"speed": 1, "door": "open"}`: an object, or a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl_training.cli.observed_columns import computed, dates_of, require_all
from rl_training.data.formats.names import listed
from rl_training.data.formats.words import key_of
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.wording import NO_VALUE


def by_names(value: Any, columns: Sequence[NamedColumn]) -> list[list[float]] | None:
    """A row of numbers for each object, in the order of the columns; none where the values are not given by name.
    As in a CSV file, columns that the policy does not see may be among them."""
    rows = value if isinstance(value, list) else [value]
    if not any(isinstance(row, Mapping) for row in rows):
        return None
    if not columns:
        raise DataError("holds values by name, and this policy knows no names; give lists of numbers, in their order")
    if (other := next((place for place, row in enumerate(rows) if not isinstance(row, Mapping)), None)) is not None:
        raise DataError(f"row {other}: must be an object as the others are, got {shown(rows[other])}")
    return [_row(number, row, columns) for number, row in enumerate(rows)]


def _row(number: int, given: Mapping[str, Any], columns: Sequence[NamedColumn]) -> list[float]:
    try:
        require_all(columns, list(given))
        return [_value(given, column) for column in columns]
    except DataError as error:
        raise DataError(f"row {number}: {error}") from None


def _value(given: Mapping[str, Any], column: NamedColumn) -> float:
    if (dates := dates_of(column, given)) is not None:
        return float(computed(column.name, dates, [str(given[dates])])[0])
    value = given[column.name]
    words = {key_of(word): number for word, number in column.words}
    if isinstance(value, str) and key_of(value) in words:
        return words[key_of(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    allowed = f", or one of {listed(word for word, _ in column.words)}" if words else ""
    told = f"null; {NO_VALUE}" if value is None else shown(value)
    raise DataError(f"column {column.name!r} must be one number{allowed}, got {told}")
