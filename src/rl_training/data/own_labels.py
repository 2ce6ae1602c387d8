"""Series and DataFrames whose own labels say which value belongs where: never put together by place against them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from rl_training.data.fields import FIELD_OF, IGNORED_PREFIXES
from rl_training.errors import DataError, ReadingError
from rl_training.validation import printable, shortened

_LATER = {"next_obs": "obs", "next_actions": "actions"}  # whose rows are those of the next step
_WAY = "give a pandas.DataFrame, where rows are put together by it, or arrays"
Table = TypeVar("Table")


def require_same_rows(parts: Mapping[str, Any], place: str = "", way: str = _WAY) -> None:
    """Refuse Series, by the names of their columns, of which a row means another in each, as their indexes say."""
    indexed = [(name, part.index) for name, part in parts.items() if hasattr(part, "iloc")]
    if strange := [name for name, index in indexed if not index.equals(indexed[0][1])]:
        raise DataError(f"{place}{printable(strange[0])} has another index than {printable(indexed[0][0])}; {way}")


def one_index(table: Table) -> Table:
    """The same table; a mapping of Series with rows of their own is refused."""
    if isinstance(table, Mapping):
        require_same_rows({str(name): values for name, values in table.items()})
    return table


def by_own_labels(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Named arrays, DataFrames of next steps with their columns in the order of this step's; what is labelled otherwise
    than the rest is refused."""
    if not isinstance(fields, Mapping):
        raise DataError(
            f"dataset: must be a mapping of arrays by name, is {type(fields).__name__}; from_table takes tables"
        )
    taken = dict(fields)
    key_of = {FIELD_OF[key]: key for key in taken if key in FIELD_OF}
    told = {str(key): values for key, values in taken.items() if not str(key).startswith(IGNORED_PREFIXES)}
    require_same_rows({key: values for key, values in told.items() if FIELD_OF.get(key) not in _LATER})
    for later, now in _LATER.items():
        if later in key_of and now in key_of:
            before, after = taken[key_of[now]], taken[key_of[later]]
            _require_rows_in_order(key_of[later], after, key_of[now], before)
            taken[key_of[later]] = _columns_in_order(key_of[later], after, key_of[now], before)
    return taken


def _require_rows_in_order(name: str, after: Any, other: str, before: Any) -> None:
    """Refuse the same labels of rows in another order; those of next steps may well begin one later."""
    if hasattr(after, "iloc") and hasattr(before, "iloc") and set(after.index) == set(before.index):
        require_same_rows({other: before, name: after})


def _columns_in_order(name: str, after: Any, other: str, before: Any) -> Any:
    own, known = _columns(after), _columns(before)
    if own is None or known is None or own == known:
        return after
    if hasattr(after, "iloc") and len(set(own)) == len(own) == len(known) and set(own) == set(known):
        return after[known]
    if any(one != two and (one in known or two in own) for one, two in zip(own, known, strict=False)):
        raise DataError(f"{name}: columns are {_listed(own)}, and those of {other} {_listed(known)}; give the same")
    return after


def _columns(value: Any) -> list[Hashable] | None:
    """The labels of a DataFrame's columns, or of the first of a list of its rows; none of anything else."""
    if isinstance(value, list | tuple) and value and hasattr(value[0], "iloc") and hasattr(value[0], "index"):
        return list(value[0].index)
    return list(value.columns) if hasattr(value, "iloc") and hasattr(value, "columns") else None


def bounds_by_name(fields: Mapping[str, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds in the order of the columns of actions, where these are a DataFrame."""
    names = next((_columns(values) for key, values in fields.items() if FIELD_OF.get(key) == "actions"), None)
    return bound_by_name("action_low", low, names), bound_by_name("action_high", high, names)


def bound_by_name(name: str, bound: Any, columns: Sequence[Hashable] | None = None) -> Any:
    """A Series of bounds in the order of the columns of actions; one whose labels only count, and what is no Series, as
    it is."""
    if not (hasattr(bound, "iloc") and hasattr(bound, "index")):
        return bound
    labels = list(bound.index)
    if labels == list(range(len(labels))):
        return bound
    if columns is not None and len(set(columns)) == len(labels) == len(columns) and set(columns) == set(labels):
        return bound[list(columns)].to_numpy()
    known = "no columns of actions are named here" if columns is None else f"actions are {_listed(columns)}"
    raise ReadingError(f"{name}: is for {_listed(labels)} by name, and {known}; give a list in the order of actions")


def actions_in(columns: Any) -> list[Hashable] | None:
    """What a mapping of columns names as actions; none where it does not, or is no mapping."""
    given = columns.items() if isinstance(columns, Mapping) else ()
    named = next((names for field, names in given if FIELD_OF.get(field) == "actions"), None)
    return [named] if isinstance(named, str) else list(named) if isinstance(named, list | tuple) else None


def _listed(labels: Sequence[Hashable]) -> str:
    return printable(shortened(", ".join(map(str, labels))))
