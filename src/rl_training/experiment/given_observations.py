"""Observations that Python hands to a policy, made float32; what has names of columns is taken by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from rl_training.data.checks import masked_cells
from rl_training.data.column_names import are_names
from rl_training.data.formats.limits import free_memory
from rl_training.data.formats.names import doubled, listed, suggest
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.validation import kind_of, printable, shown
from rl_training.wording import NO_VALUE

_COPIES = 32  # bytes at once for each value observed: as given, as float32, normalised, and in the first layer
_ALWAYS_FINE = 2**20  # values, for which nobody asks how much memory is free
Observed: TypeAlias = npt.ArrayLike | Mapping[str, npt.ArrayLike]


def observations(obs: Observed, width: int, columns: Sequence[NamedColumn]) -> npt.NDArray[np.float32]:
    """One or several observations as float32, or one line saying what is wrong with them. What has names is taken by
    those of `columns`."""
    names = [column.name for column in columns]
    if are_names(names):
        obs = _by_name(obs, names)
    if _is_deeper_than(obs, 2):
        raise DataError(f"obs: lists inside lists inside lists; {_expected(width, columns)}")
    try:
        given = np.asarray(obs)
        if given.dtype.kind not in "biuf":
            raise TypeError
        if given.size > _ALWAYS_FINE and _COPIES * given.size > free_memory():
            raise DataError(
                f"obs: has shape {given.shape}, more than the free memory is enough for; give fewer at a time"
            )
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
            rows = given.astype(np.float32, copy=False)
    except DataError:
        raise
    except Exception:  # whatever the object itself raises; of a tensor with a gradient, that it would be lost
        raise DataError(
            f"obs: must be numbers, one row per observation, got {_kind(obs)}; {_expected(width, columns)}"
        ) from None
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        raise DataError(f"obs: has shape {rows.shape}; {_expected(width, columns)}")
    faulty = {"masked": masked_cells(obs), "not finite": None if np.isfinite(rows).all() else ~np.isfinite(rows)}
    for what, cells in faulty.items():
        if cells is not None:
            row, column = np.argwhere(np.atleast_2d(cells))[0]
            named = f" ({printable(columns[column].name)})" if columns else ""
            value = np.atleast_2d(rows)[row, column]
            way = f"; {NO_VALUE}" if np.isnan(value) else " (in float32)" if np.isinf(value) else ""
            raise DataError(f"obs: value {column}{named} of row {row} is {what}{way}")
    return rows


def _expected(width: int, columns: Sequence[NamedColumn]) -> str:
    names = f": {listed([column.name for column in columns])}" if columns else ""
    return f"expected ({width},) or (batch, {width}){names}"


def _kind(obs: Any) -> str:
    """What was given in place of observations, in words."""
    if isinstance(obs, Tensor):
        return "a tensor that NumPy does not take; give obs.detach().float().cpu().numpy()"
    if isinstance(obs, np.ndarray):  # of a row of a table with words, or of lists of other lengths, among others
        way = "; give obs.astype('float32') where all are numbers" if obs.dtype.kind == "O" else ""
        return f"an array of {obs.dtype}{way}"
    return kind_of(obs)


def _is_deeper_than(value: Any, levels: int) -> bool:
    """Whether lists hold lists beyond so many levels; a list may even hold itself, and numpy would not come back."""
    if not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_is_deeper_than(entry, levels - 1) for entry in _entries(value))


def _entries(value: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """What it holds, as numpy goes through it."""
    return tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)


def _by_name(obs: Any, names: Sequence[str]) -> Any:
    """The columns of a table, a row of one, or a mapping, in the order of the policy's `names`, or a list of such rows;
    what has no names of its own stays as it is."""
    if isinstance(obs, tuple) and hasattr(obs, "_asdict"):  # of `DataFrame.itertuples`, among others
        obs = obs._asdict()
    if isinstance(obs, list | tuple) and any(map(_may_be_named, set(map(type, _entries(obs))))):
        return _rows_by_name(list(_entries(obs)), names)
    is_mapping = isinstance(obs, Mapping)
    seen = f"the policy sees {listed(names)}"
    try:
        given = list(obs) if is_mapping else _titles(obs)
    except Exception:  # whatever the object itself raises
        raise DataError(f"obs: its names cannot be told; {seen}") from None
    if given is None:
        return obs
    held = set(given)
    if lacking := [name for name in names if name not in held]:
        raise DataError(f"obs: lacks {listed(lacking)}; {seen}{suggest(lacking[0], list(map(str, given)))}")
    if is_mapping and (strange := [name for name in given if name not in names]):
        raise DataError(f"obs: no column {shown(strange[0])}; {seen}")
    if (twice := doubled(name for name in given if name in names)) is not None:
        raise DataError(f"obs: two columns are named {shown(twice)}; leave in the one that the policy sees")
    try:
        parts = [obs[name] for name in names]
        if any(_is_deeper_than(part, 1) for part in parts):
            raise TypeError
        _require_same_rows(parts, names)
        is_masked = any(isinstance(part, np.ma.MaskedArray) for part in parts)
        return (np.ma.stack if is_masked else np.stack)([np.asanyarray(part) for part in parts], axis=-1)
    except DataError:
        raise
    except Exception:  # of different lengths, or whatever the object itself raises
        raise DataError(f"obs: must have as many numbers for each name; {seen}") from None


def _may_be_named(kind: type) -> bool:
    """Whether objects of a type may have names for their values."""
    return issubclass(kind, Mapping) or any(
        hasattr(kind, name) for name in ("column_names", "columns", "iloc", "_asdict")
    )


def _rows_by_name(rows: Sequence[Any], names: Sequence[str]) -> Any:
    """Several rows, each by its own names: as numpy takes a list of them, these would be lost."""
    taken = [_by_name(row, names) for row in rows]
    nameless = [place for place, (row, own) in enumerate(zip(rows, taken, strict=True)) if row is own]
    if len(nameless) == len(rows):  # Series whose index only counts
        return rows
    if nameless:
        raise DataError(f"obs: row {nameless[0]} has no names of columns, and others have; give all with them, or none")
    return taken


def _require_same_rows(parts: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse Series of which a row means another in each, as their indexes say."""
    indexed = [(name, part.index) for name, part in zip(names, parts, strict=True) if hasattr(part, "iloc")]
    if strange := [name for name, index in indexed if not index.equals(indexed[0][1])]:
        other = printable(indexed[0][0])
        raise DataError(
            f"obs: {printable(strange[0])} has another index than {other}; give pandas.DataFrame(obs), where rows are"
            " put together by it, or arrays"
        )


def _titles(obs: Any) -> list[str] | None:
    """The names of a table's columns, or of the values of one row of it; none of what is no table, or counts them."""
    try:
        told = next((getattr(obs, name) for name in ("column_names", "columns") if hasattr(obs, name)), None)
        if told is None and hasattr(obs, "iloc"):  # a row of a DataFrame
            told = obs.index
        given = [] if told is None else list(told)
    except Exception:  # whatever the object itself raises
        return None
    return given if all(isinstance(name, str) for name in given) and are_names(given) else None
