"""Observations that Python hands to a policy, made float32; what has names of columns is taken by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from rl_training.data.checks import masked_cells
from rl_training.data.column_names import are_names
from rl_training.data.formats.limits import free_memory
from rl_training.data.formats.names import doubled, listed, suggest
from rl_training.data.own_labels import require_same_rows
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.validation import kind_of, printable, shown
from rl_training.wording import NO_VALUE

_COPIES = 32  # bytes at once for each value observed: as given, as float32, normalised, and in the first layer
_ALWAYS_FINE = 2**20  # values, for which nobody asks how much memory is free
_LEVELS = 2  # of lists: rows, and the values of each
_ARRAYS = ("__array__", "__array_interface__", "__array_struct__")  # what numpy takes as a whole
_TABLES = ("column_names", "columns", "iloc")  # what has names for its columns, or is a row of such
_NAMING = (*_TABLES, "_asdict", "keys")
Observed: TypeAlias = npt.ArrayLike | Mapping[str, npt.ArrayLike]


def observations(obs: Observed, width: int, columns: Sequence[NamedColumn]) -> npt.NDArray[np.float32]:
    """One or several observations as float32, or one line saying what is wrong with them. What has names is taken by
    those of `columns`."""
    names = [column.name for column in columns]
    try:
        given: Any = _in_lists(obs, _LEVELS)  # before anything else goes through them: a list may even hold itself
    except _TooDeepError:
        raise DataError(f"obs: lists inside lists inside lists; {_expected(width, columns)}") from None
    if are_names(names):
        given = _by_name(given, names)
    told = given
    try:
        masked, given = masked_cells(given), np.asarray(given)
        if given.dtype.kind not in "biuf":
            raise TypeError
        if given.size > _ALWAYS_FINE and _COPIES * given.size > free_memory():
            raise DataError(
                f"obs: has shape {given.shape}, more than the free memory is enough for; give fewer at a time"
            )
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
            rows: npt.NDArray[np.float32] = given.astype(np.float32, copy=False)
    except DataError:
        raise
    except Exception:  # whatever the object itself raises; of a tensor with a gradient, that it would be lost
        _refuse_words(given, width, columns)
        raise DataError(
            f"obs: must be numbers, one row per observation, got {_kind(told)}; {_expected(width, columns)}"
        ) from None
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        raise DataError(f"obs: has shape {rows.shape}; {_expected(width, columns)}")
    faulty = {"masked": masked, "not finite": None if np.isfinite(rows).all() else ~np.isfinite(rows)}
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


def _refuse_words(given: Any, width: int, columns: Sequence[NamedColumn]) -> None:
    """Name the first cell that is no number, not even as text, where cells are told apart."""
    if not columns or not isinstance(given, np.ndarray) or given.dtype.kind not in "OUST":
        return
    if given.ndim not in (1, 2) or given.shape[-1] != width:
        return
    for row, cells in enumerate(np.atleast_2d(given)):
        for place, cell in enumerate(cells):
            if not _is_number(cell):
                name = printable(columns[place].name)
                where = f" in row {row}" if given.ndim == 2 else ""
                is_missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")  # pandas' own
                what = f"no number{where}; {NO_VALUE}" if is_missing else f"{kind_of(cell)}{where} is not a number"
                raise DataError(f"obs: {name}: {what}")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except OverflowError:
        return True
    except Exception:  # whatever the object itself raises
        return False
    return True


class _TooDeepError(Exception):
    """Lists inside each other beyond what observations are."""


def _in_lists(value: Any, levels: int) -> Any:
    """What numpy goes through entry by entry as plain lists, so many levels deep; tuples with names keep them."""
    if not _has_entries(type(value)):
        return value
    if levels == 0:
        raise _TooDeepError
    try:
        entries = _entries(value)
    except Exception:  # whatever the object itself raises; numpy tells what it is
        return value
    if any(map(_has_entries, set(map(type, entries)))):
        entries = [_in_lists(entry, levels - 1) for entry in entries]
    return value if hasattr(value, "_asdict") else entries


def _has_entries(kind: type) -> bool:
    """Whether numpy takes objects of a type for their entries, one by one: lists, deques, and whatever is like them."""
    if issubclass(kind, list | tuple):
        return True
    is_sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    is_whole = issubclass(kind, str | bytes | bytearray | memoryview) or any(hasattr(kind, name) for name in _ARRAYS)
    return is_sequence and not is_whole and not _may_be_named(kind)


def _entries(value: Any) -> list[Any]:
    """What it holds, as numpy goes through it."""
    if isinstance(value, tuple):
        return list(tuple.__iter__(value))
    return list(list.__iter__(value)) if isinstance(value, list) else list(islice(iter(value), len(value)))


def _may_be_named(kind: type) -> bool:
    """Whether objects of a type may have names for their values."""
    return issubclass(kind, Mapping) or any(hasattr(kind, name) for name in _NAMING)


def _by_name(obs: Any, names: Sequence[str]) -> Any:
    """The columns of a table, a row of one, or a mapping, in the order of the policy's `names`, or a list of such rows;
    what has no names of its own stays as it is."""
    if not isinstance(obs, list):
        return _row_by_name(obs, names)
    if not any(map(_may_be_named, set(map(type, obs)))):
        return obs
    taken = [row if isinstance(row, list) else _row_by_name(row, names) for row in obs]
    nameless = [place for place, (row, own) in enumerate(zip(obs, taken, strict=True)) if row is own]
    if nameless and len(nameless) < len(obs):  # all: Series whose index only counts
        raise DataError(f"obs: row {nameless[0]} has no names of columns, and others have; give all with them, or none")
    return taken


def _row_by_name(obs: Any, names: Sequence[str]) -> Any:
    """A table, a row or a mapping by name; what has no names of its own stays as it is."""
    seen = f"the policy sees {listed(names)}"
    try:
        obs = _as_mapping(obs, names)
        labels = list(obs) if isinstance(obs, Mapping) else _labels(obs, names)
        given = None if labels is None else list(map(str, labels))
    except Exception:  # whatever the object itself raises
        raise DataError(f"obs: its names cannot be told; {seen}") from None
    if labels is None or given is None:
        return obs
    held = set(given)
    if lacking := [name for name in names if name not in held]:
        raise DataError(f"obs: lacks {listed(lacking)}; {seen}{suggest(lacking[0], given)}")
    if isinstance(obs, Mapping) and (strange := [name for name in given if name not in names]):
        raise DataError(f"obs: no column {shown(strange[0])}; {seen}")
    if (twice := doubled(name for name in given if name in names)) is not None:
        raise DataError(f"obs: two columns are named {shown(twice)}; leave in the one that the policy sees")
    label_of = dict(zip(given, labels, strict=True))
    try:
        parts = {name: _in_lists(obs[label_of[name]], 1) for name in names}
        require_same_rows(parts, "obs: ", "give pandas.DataFrame(obs), where rows are put together by it, or arrays")
        is_masked = any(isinstance(part, np.ma.MaskedArray) for part in parts.values())
        return (np.ma.stack if is_masked else np.stack)(_alike([*map(np.asanyarray, parts.values())]), axis=-1)
    except DataError:
        raise
    except Exception:  # of different lengths, or whatever the object itself raises
        raise DataError(f"obs: must have as many numbers for each name; {seen}") from None


def _alike(parts: Sequence[npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
    """Columns that can be put together without a number becoming text, or a date a number."""
    if all(part.dtype.kind in "biuf" for part in parts):
        return parts
    return [(part.astype(str) if part.dtype.kind in "mM" else part).astype(object) for part in parts]


def _as_mapping(obs: Any, names: Sequence[str]) -> Any:
    """Of a named tuple, or of a row of a database, its values by name; anything else as it is."""
    if isinstance(obs, tuple) and hasattr(obs, "_asdict"):
        own = obs._asdict()
        is_counted = "Index" in own and "Index" not in names  # as `DataFrame.itertuples` puts it before the columns
        return {name: value for name, value in own.items() if name != "Index"} if is_counted else own
    is_row = hasattr(obs, "keys") and not isinstance(obs, Mapping) and not any(hasattr(obs, name) for name in _TABLES)
    return {name: obs[name] for name in obs.keys()} if is_row else obs  # noqa: SIM118  (it may go through its values)


def _labels(obs: Any, names: Sequence[str]) -> list[Any] | None:
    """The labels of a table's columns, or of the values of one row of it; none of what is no table, or counts them."""
    try:
        told = next((getattr(obs, name) for name in ("column_names", "columns") if hasattr(obs, name)), None)
        if told is None and hasattr(obs, "iloc"):  # a row of a DataFrame
            told = obs.index
        given = [] if told is None else list(told)
    except Exception:  # whatever the object itself raises
        return None
    texts = list(map(str, given))
    if not set(names) <= set(texts) and not any(isinstance(label, str | tuple) for label in given):
        return None
    return given if are_names(texts) else None
