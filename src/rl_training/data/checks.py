"""Checks every dataset passes when it is made; a fault is a `DataError` naming the field, the episode and the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError
from rl_training.wording import amount

FloatArray: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IndexArray: TypeAlias = npt.NDArray[np.int64]

MATRIX_FIELDS = ("obs", "actions", "next_obs", "next_actions")
VECTOR_FIELDS = ("rewards", "returns_to_go")
INDEX_FIELDS = ("part_ids",)
FLAG_FIELDS = ("terminations", "truncations", "has_next_obs")

_BLOCK = 1 << 16  # rows looked at once, so that a check needs little memory of its own
BOUND_TOLERANCE = 1e-5  # of a dimension's range: float32 rounding and rescaling leave actions this far outside


def convert_fields(raw: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """C-contiguous arrays of the right dtype and rank: matrices `[N, K]` f32, vectors `[N]` f32, flags `[N]` bool.

    `[N]` matrices gain a column axis and `[N, 1]` vectors and flags lose theirs. Fields that are None are left out.
    """
    fields: dict[str, npt.NDArray[Any]] = {}
    flags: dict[str, npt.NDArray[Any]] = {}
    for name, value in raw.items():
        if value is None:
            continue
        array = _as_numbers(name, value)
        if name in MATRIX_FIELDS:
            fields[name] = _as_float32(_as_matrix(name, array))
        elif name in INDEX_FIELDS:
            fields[name] = np.ascontiguousarray(_as_vector(name, array), dtype=np.int64)
        elif name in FLAG_FIELDS:
            flags[name] = _as_vector(name, array)
        else:
            fields[name] = _as_float32(_as_vector(name, array))
    check_flag_values(flags)
    return fields | {name: np.ascontiguousarray(values, dtype=np.bool_) for name, values in flags.items()}


def _as_numbers(name: str, value: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name}: not a rectangular array of numbers ({' '.join(str(error).split())})") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: dtype {array.dtype} is not supported; give booleans, integers or floats")
    return array


def _as_matrix(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2:
        raise DataError(f"{name}: shape {array.shape}; expected [rows, columns] (flat vectors only)")
    return array


def _as_vector(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name}: shape {array.shape}; expected [rows] or [rows, 1]")
    return array


def _as_float32(array: npt.NDArray[Any]) -> FloatArray:
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused with its row
        return np.ascontiguousarray(array, dtype=np.float32)


def check_flag_values(flags: Mapping[str, npt.NDArray[Any]]) -> None:
    """Refuse flags `[N]` that are neither 0 nor 1."""
    for name, values in flags.items():
        wrong = np.flatnonzero((values != 0) & (values != 1)) if values.dtype != np.bool_ else np.empty(0, np.int64)
        if wrong.size:
            row = int(wrong[0])
            ends = np.zeros(row + 1, dtype=np.bool_)
            for other in flags.values():
                ends[: len(other)] |= other[: row + 1] == 1
            where = describe_row(row, ends)
            raise DataError(f"{name}: {values[row]:g} at {where}; flags must be 0 or 1 (or booleans)")


def check_transitions(fields: Mapping[str, npt.NDArray[Any]]) -> None:
    """Check converted fields (see `convert_fields`) against each other: rows, widths, finite values."""
    rows = len(fields["obs"])
    if rows == 0:
        raise DataError("obs: 0 rows; a dataset needs at least one transition")
    for name, values in fields.items():
        if len(values) != rows:
            raise DataError(
                f"{name}: {amount(len(values), 'row')}, but obs has {rows}; all fields must have the same length"
            )
        if values.ndim == 2 and values.shape[1] == 0:
            raise DataError(f"{name}: 0 columns; at least one is needed")
    _check_same_width(fields, "next_obs", "obs")
    if "next_actions" in fields:
        _check_same_width(fields, "next_actions", "actions")
    for name in (*MATRIX_FIELDS, *VECTOR_FIELDS):
        if name in fields:
            _check_finite(name, fields[name], fields["terminations"] | fields["truncations"])


def _check_same_width(fields: Mapping[str, npt.NDArray[Any]], name: str, reference: str) -> None:
    width, expected = fields[name].shape[1], fields[reference].shape[1]
    if width != expected:
        raise DataError(f"{name}: {amount(width, 'column')}, but {reference} has {expected}; they must be the same")


def _check_finite(name: str, values: FloatArray, ends: BoolArray) -> None:
    for first in range(0, len(values), _BLOCK):
        finite = np.isfinite(values[first : first + _BLOCK])
        if not finite.all():
            break
    else:
        return
    within = [int(i) for i in np.unravel_index(int(np.argmin(finite)), finite.shape)]
    place = (within[0] + first, *within[1:])
    value = values[place]
    kind = "NaN" if np.isnan(value) else "Inf" if value > 0 else "-Inf"
    where = describe_row(int(place[0]), ends, column=int(place[1]) if values.ndim == 2 else None)
    raise DataError(f"{name}: {kind} at {where}; all values must be finite (in float32)")


def check_action_bounds(actions: FloatArray, low: npt.ArrayLike, high: npt.ArrayLike, ends: BoolArray) -> None:
    """Refuse actions `[N, A]` outside `[low, high]` (each a scalar or `[A]`) by more than rounding."""
    least = _bound("action_low", low, actions.shape[1])
    most = _bound("action_high", high, actions.shape[1])
    for column in np.flatnonzero(~(least < most)).tolist():
        raise DataError(f"action_low {least[column]:g} must be below action_high {most[column]:g} in column {column}")
    slack = BOUND_TOLERANCE * (most - least)
    # Extremes per column first: two reductions, no mask of the size of the data.
    if (actions.min(axis=0) >= least - slack).all() and (actions.max(axis=0) <= most + slack).all():
        return
    outside = (actions < least - slack) | (actions > most + slack)
    row, column = divmod(int(np.argmax(outside)), outside.shape[1])
    where = describe_row(row, ends, column=column)
    bounds = f"[{least[column]:g}, {most[column]:g}]"
    raise DataError(f"actions: {actions[row, column]:g} at {where} is outside the bounds {bounds}")


def _bound(name: str, bound: npt.ArrayLike, width: int) -> npt.NDArray[np.float64]:
    values = np.asarray(bound, dtype=np.float64)
    if values.shape not in ((), (1,), (width,)):
        raise DataError(f"{name}: shape {values.shape}, but actions have {amount(width, 'column')}")
    return np.broadcast_to(values, (width,))


def describe_row(row: int, ends: BoolArray, column: int | None = None) -> str:
    """`row 1203 (episode 6, step 3)`, all counted from 0; `ends` marks the last row of each episode."""
    earlier = np.flatnonzero(ends[:row])
    step = row - (int(earlier[-1]) + 1 if earlier.size else 0)
    place = f"row {row}" if column is None else f"row {row}, column {column}"
    return f"{place} (episode {earlier.size}, step {step})"
