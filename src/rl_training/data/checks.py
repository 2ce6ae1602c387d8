"""Checks every dataset passes when it is made; a fault is a `DataError` naming the field, the episode and the row."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.own_labels import bound_by_name
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.wording import amount

FloatArray: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IndexArray: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]

MATRIX_FIELDS = ("obs", "actions", "next_obs", "next_actions")
VECTOR_FIELDS = ("rewards", "returns_to_go")
INDEX_FIELDS = ("part_ids",)
FLAG_FIELDS = ("terminations", "truncations", "has_next_obs")

_BLOCK = 1 << 16  # rows looked at once, so that a check needs little memory of its own
_WIDE = 512  # columns of a row that numpy reduces at full speed
BOUND_TOLERANCE = 1e-5  # of a dimension's range: float32 rounding and rescaling leave actions this far outside


FLAG_RULE = "flags must be 0 or 1 (or booleans)"


class FaultyValueError(DataError):
    """A value that is refused, with its place in the arrays; a file may have it elsewhere. ends: the last rows of
    episodes, `[N]`; none where it is in doubt which they are."""

    def __init__(
        self,
        field: str,
        what: str,
        row: int,
        column: int | None,
        ends: BoolArray | None,
        rule: str,
        *,
        joint: str = "; ",
    ) -> None:
        self.field, self.what, self.row, self.column, self.rule = field, what, row, column, joint + rule
        self.step = "" if ends is None else _describe_step(row, ends)
        super().__init__(self.told(f"row {row}", column))

    def told(self, row: str, column: int | str | None) -> str:
        """The complaint, with the place in words."""
        place = row if column is None else f"{row}, column {column}"
        step = f" ({self.step})" if self.step else ""
        return f"{self.field}: {self.what} at {place}{step}{self.rule}"


def convert_fields(raw: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """C-contiguous arrays of the right dtype and rank: matrices `[N, K]` f32, vectors `[N]` f32, flags `[N]` bool.

    `[N]` matrices gain a column axis and `[N, 1]` vectors and flags lose theirs. Fields that are None are left out.
    """
    fields: dict[str, npt.NDArray[Any]] = {}
    flags: dict[str, npt.NDArray[Any]] = {}
    for name, value in raw.items():
        if value is None:
            continue
        array = as_numbers(name, value)
        if name in MATRIX_FIELDS:
            fields[name] = _as_float32(_as_matrix(name, array))
        elif name in INDEX_FIELDS:
            fields[name] = _as_index(name, as_vector(name, array))
        elif name in FLAG_FIELDS:
            flags[name] = as_vector(name, array)
        else:
            fields[name] = _as_float32(as_vector(name, array))
    check_flag_values(flags)
    return fields | {name: np.ascontiguousarray(values, dtype=np.bool_) for name, values in flags.items()}


def as_array(name: str, value: Any) -> npt.NDArray[Any]:
    """The value as an array; what has rows of different lengths, or values that are masked, is refused."""
    if (masked := masked_cells(value)) is not None:
        row, *column = np.argwhere(masked)[0].tolist() or [0]
        place = f"row {row}" + "".join(f", column {number}" for number in column)
        raise DataError(f"{name}: masked at {place}; fill it in, or leave the row out")
    try:
        return np.asarray(detached(value))
    except Exception as error:  # whatever the object itself raises
        raise DataError(f"{name}: not a rectangular array of numbers ({' '.join(str(error).split())})") from error


def detached(value: Any) -> Any:
    """A torch tensor, or a list of them, as numpy takes it: without its gradient, and with conjugates and signs that
    torch only notes carried out. Anything else as it is; torch is not loaded for it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_conj().resolve_neg()
    several = isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor)
    return [detached(row) for row in value] if several else value


def unmasked(value: Any) -> Any:
    """The value with NaN, or None among texts, wherever a `numpy.ma` array, or one in a list, is masked."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        cells: npt.NDArray[Any]
        nothing: Any
        if value.dtype.kind in "biuf":
            cells, nothing = np.array(value.data, dtype=np.float64), np.nan  # missing, as pandas has it
        elif value.dtype.kind in "mM":
            cells, nothing = np.array(value.data), "NaT"
        else:
            cells, nothing = np.array(value.data, dtype=object), None
        cells[np.ma.getmaskarray(value)] = nothing
        return cells
    nested = isinstance(value, list | tuple) and any(isinstance(r, list | tuple | np.ma.MaskedArray) for r in value)
    return [unmasked(row) for row in value] if nested else value


def masked_cells(value: Any) -> BoolArray | None:
    """Which values of a `numpy.ma` array, or of a list of such rows, are masked; None where none is.

    As plain arrays they would be numbers again: whatever lies under the mask.
    """
    if type(value) is np.ndarray:  # as nearly always
        return None
    rows = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        return None
    masks = [np.ma.getmaskarray(np.ma.asanyarray(row)) for row in rows]
    return np.asarray(masks) if isinstance(value, list | tuple) else masks[0]


def check_rows(fields: Mapping[str, npt.NDArray[Any]]) -> None:
    """Refuse a field that has no rows at all, or more or fewer than the observations (or the first field) have; or else
    than all others have, which then agree."""
    for name, values in fields.items():
        if values.ndim == 0:
            raise DataError(f"{name}: a single value; one for every row is expected")
    reference = "obs" if "obs" in fields else next(iter(fields), "")
    others = {name: len(values) for name, values in fields.items() if name != reference}
    if len(others) > 1 and len(set(others.values())) == 1:  # if one is wrong, it is not they
        reference = next(iter(others))
    for name, values in fields.items():
        if (other := transposed_against(name, fields)) is not None:
            raise DataError(
                f"{name}: shape {values.shape} looks transposed, as {other} has {len(fields[other])} rows;"
                f" give {name}.T"
            )
        if (rows := len(values)) != (expected := len(fields[reference])):
            raise DataError(
                f"{name}: {amount(rows, 'row')}, but {reference} has {expected}; all fields must have the same length"
            )


def transposed_against(name: str, fields: Mapping[str, npt.NDArray[Any]]) -> str | None:
    """The field with one value per row that tells `[columns, rows]` from `[rows, columns]`, if one does and none has
    as many as the array has rows already."""
    values = fields[name]
    if name not in MATRIX_FIELDS or values.ndim != 2:
        return None
    vectors = [other for other in ("rewards", *FLAG_FIELDS) if other in fields and fields[other].ndim == 1]
    if any(len(fields[other]) == len(values) for other in vectors):
        return None
    return next((other for other in vectors if len(fields[other]) == values.shape[1]), None)


def as_numbers(name: str, value: Any) -> npt.NDArray[Any]:
    """The value as an array of booleans, integers or floats."""
    array = as_array(name, value)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: dtype {array.dtype} is not supported; give booleans, integers or floats")
    return array


def _as_matrix(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2:
        raise DataError(f"{name}: shape {array.shape}; expected [rows, columns] (flat vectors only)")
    return array


def one_per_row(values: Any) -> Any:
    """`[N]` of an array `[N, 1]`, as columns of Keras, d3rlpy and others are; anything else as it is."""
    is_column = isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1
    return values[:, 0] if is_column else values


def as_vector(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`[N]` of `[N]` or `[N, 1]`."""
    flat: npt.NDArray[Any] = one_per_row(array)
    if flat.ndim != 1:
        raise DataError(f"{name}: shape {array.shape}; expected [rows] or [rows, 1]")
    return flat


def _as_index(name: str, array: npt.NDArray[Any]) -> IndexArray:
    if array.dtype.kind == "f" and not ((array == np.floor(array)) & (np.abs(array) < 2**53)).all():
        raise DataError(f"{name}: must be whole numbers")
    return np.ascontiguousarray(array, dtype=np.int64)


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
            what = no_flag(values[row])
            raise FaultyValueError(name, what, row, None, ends, FLAG_RULE)


def no_flag(value: Any) -> str:
    """A number that is neither 0 nor 1 in words, with all its digits where it nearly is."""
    text = f"{value:g}"
    return str(value) if text in ("0", "1", "-0") else text


def check_transitions(fields: Mapping[str, npt.NDArray[Any]]) -> None:
    """Check converted fields (see `convert_fields`) against each other: rows, widths, finite values."""
    rows = len(fields["obs"])
    if rows == 0:
        raise DataError("obs: 0 rows; a dataset needs at least one transition")
    check_rows(fields)
    for name, values in fields.items():
        if values.ndim == 2 and values.shape[1] == 0:
            raise DataError(f"{name}: 0 columns; at least one is needed")
    _check_same_width(fields, "next_obs", "obs")
    if "next_actions" in fields:
        _check_same_width(fields, "next_actions", "actions")
    for name in (*MATRIX_FIELDS, *VECTOR_FIELDS):
        if name in fields and (name == "obs" or fields[name] is not fields["obs"]):
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
    column = int(place[1]) if values.ndim == 2 else None
    raise FaultyValueError(name, kind, place[0], column, ends, "all values must be finite (in float32)")


def require_order(low: npt.ArrayLike, high: npt.ArrayLike) -> None:
    """Refuse bounds of actions (each a scalar or `[A]`) that leave nothing between them."""
    ends = np.atleast_1d(np.asarray(low, dtype=np.float64)), np.atleast_1d(np.asarray(high, dtype=np.float64))
    if 1 not in map(len, ends) and len(ends[0]) != len(ends[1]):
        few, many = sorted(map(len, ends))
        way = ", decimals with a point (0.5, not 0,5)" if many == 2 * few else ""
        raise DataError(
            f"action_low has {len(ends[0])} numbers and action_high {len(ends[1])}; give one for each action{way}"
        )
    least, most = np.broadcast_arrays(*ends)
    for column in np.flatnonzero(~(least < most)).tolist():
        where = f" in column {column}" if len(least) > 1 else ""
        raise DataError(f"action_low {least[column]:g} must be below action_high {most[column]:g}{where}")


def check_action_bounds(
    actions: FloatArray, low: npt.ArrayLike, high: npt.ArrayLike, ends: BoolArray, *, by_user: bool = False
) -> None:
    """Refuse actions `[N, A]` outside `[low, high]` (each a scalar or `[A]`) by more than rounding. by_user: who reads
    the data has said these bounds, and may say others."""
    least = as_bound("action_low", low, actions.shape[1])
    most = as_bound("action_high", high, actions.shape[1])
    require_order(least, most)
    slack = rounding_slack(least, most)
    # Extremes per column first: two reductions, no mask of the size of the data.
    smallest, largest = column_extremes(actions)
    if (smallest >= least - slack).all() and (largest <= most + slack).all():
        return
    outside = (actions < least - slack) | (actions > most + slack)
    row, column = divmod(int(np.argmax(outside)), outside.shape[1])
    # float32 by way of text: 0.3, not 0.30000001192092896
    found, bottom, top = float(str(actions[row, column])), float(least[column]), float(most[column])
    digits = ".9g" if float(f"{bottom:g}") <= float(f"{found:g}") <= float(f"{top:g}") else "g"
    rule = f"is outside the bounds [{bottom:{digits}}, {top:{digits}}]"
    if by_user:
        reach = " to ".join(f"{float(str(of[column])):g}" for of in (smallest, largest))
        rule += f"; the data reach from {reach} there: give bounds so wide (action_low, action_high), or leave these"
        rule += " episodes out (rows count from 0)"
    raise FaultyValueError("actions", f"{found:{digits}}", row, column, ends, rule, joint=" ")


def column_extremes(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest of each column of `[N, K]`, at least one row; several rows are folded into one, as numpy is
    slow on narrow ones."""
    width = values.shape[1]
    fold = max(1, _WIDE // width)
    whole = len(values) // fold * fold
    if fold == 1 or not whole or not values.flags.c_contiguous:
        return values.min(axis=0), values.max(axis=0)
    folded, rest = values[:whole].reshape(-1, fold * width), values[whole:]
    least = np.concatenate((folded.min(axis=0).reshape(fold, width), rest)).min(axis=0)
    most = np.concatenate((folded.max(axis=0).reshape(fold, width), rest)).max(axis=0)
    return least, most


def rounding_slack(low: Float64Array, high: Float64Array) -> Float64Array:
    """How far outside its bounds `[A]` rounding may leave an action; not at all where there is no bound on a side."""
    with np.errstate(invalid="ignore", over="ignore"):  # of two infinities, or of ±1e308
        return np.nan_to_num(BOUND_TOLERANCE * (high - low), nan=0.0, posinf=0.0)


def inferred_bounds(least: npt.ArrayLike, most: npt.ArrayLike) -> tuple[Float64Array, Float64Array]:
    """Bounds `[A]` of actions that come without an environment, from the extremes of each column.

    Actions that all lie in [-1, 1] (to rounding) get those bounds, the usual convention. Otherwise each column is
    bounded by its extremes, so a policy trained on the data cannot act beyond them.
    """
    low, high = np.asarray(least, dtype=np.float64), np.asarray(most, dtype=np.float64)
    if in_unit_range(low).all() and in_unit_range(high).all():
        return np.full_like(low, -1.0), np.ones_like(high)
    return low, high


def in_unit_range(actions: npt.NDArray[Any]) -> BoolArray:
    """Which entries lie in [-1, 1], to rounding."""
    inside: BoolArray = np.abs(actions) <= 1.0 + 2.0 * BOUND_TOLERANCE
    return inside


def as_bound(name: str, bound: npt.ArrayLike, width: int) -> Float64Array:
    """`[width]` of one number or of as many."""
    given = as_array(name, bound_by_name(name, bound))
    if given.dtype.kind not in "biuf":
        raise DataError(f"{name}: must be a number, or one for each action, got {shown(bound)}")
    with np.errstate(over="ignore"):  # infinite: no bound
        values = given.astype(np.float64)
    if values.shape not in ((), (1,), (width,)):
        raise DataError(f"{name}: shape {values.shape}, but actions have {amount(width, 'column')}")
    return np.broadcast_to(values, (width,))


def _describe_step(row: int, ends: BoolArray) -> str:
    earlier = np.flatnonzero(ends[:row])
    step = row - (int(earlier[-1]) + 1 if earlier.size else 0)
    return f"episode {earlier.size}, step {step}"


def row_indices(rows: npt.ArrayLike, count: int) -> IndexArray:
    """The rows a mask `[count]` or integers `[n]` choose of `count`: at least one."""
    chosen = np.asarray(rows)
    if chosen.dtype == np.bool_ and chosen.shape != (count,):
        raise DataError(f"rows: a mask of shape {chosen.shape}, but the dataset has {count} rows")
    if chosen.ndim != 1 or (chosen.dtype.kind not in "biu" and chosen.size):
        raise DataError(f"rows: give a mask or integers [n], not {chosen.dtype} of shape {chosen.shape}")
    index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
    if not index.size:
        raise DataError("rows: none are selected; a dataset needs at least one transition")
    if index.min() < 0 or index.max() >= count:
        raise DataError(f"rows: indices {index.min()} to {index.max()}; the dataset has 0 to {count - 1}")
    return index
