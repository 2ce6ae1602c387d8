"""Arrow tables: their columns as numpy arrays, lists and tensors as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rl_training.data.formats.cells import ragged
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import assemble, plan
from rl_training.errors import DataError


def read(table: Any, columns: Columns | None = None) -> RawData:
    """The arrays of a table, or of anything that hands over Arrow data."""
    whole = table if isinstance(table, pa.Table) else pa.table(table)
    planned = plan(whole.column_names, columns)
    arrays, notes = assemble(planned, lambda name: column_values(name, whole.column(name)))
    return RawData(arrays, "Arrow table", notes=notes)


def column_values(name: str, column: Any) -> npt.NDArray[Any]:
    """`[N]` numbers or text, or `[N, …]` of lists and tensors; nothing is NaN, in text None."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return _values(name, whole)


def _values(name: str, array: Any) -> npt.NDArray[Any]:
    kind = array.type
    if isinstance(kind, pa.FixedShapeTensorType):
        if array.null_count:
            raise _empty(name, array)
        return np.asarray(array.to_numpy_ndarray())
    if isinstance(kind, pa.BaseExtensionType):
        return _values(name, array.storage)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, array)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = array.cast(pa.float64()) if array.null_count else array
        return np.asarray(plain.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_union(kind) or pa.types.is_binary(kind):
        raise DataError(f"column {name!r}: Arrow type {kind} is not supported; give numbers or lists of numbers")
    text = array.cast(pa.string())
    return np.array(text.to_pylist(), dtype=object)


def _lists(name: str, array: Any) -> npt.NDArray[Any]:
    """Lists of one length as `[N, K]`; a missing or shorter one is named by its row."""
    if array.null_count:
        raise _empty(name, array)
    if pa.types.is_fixed_size_list(array.type):
        width = array.type.list_size
    else:
        lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False))
        width = int(lengths[0]) if len(lengths) else 0
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise ragged(name, row, int(lengths[row]), width)
    inner = _values(name, array.flatten())
    if inner.dtype.kind not in "biuf":
        raise DataError(f"column {name!r}: holds lists of {array.type.value_type}; give lists of numbers")
    return inner.reshape(len(array), width, *inner.shape[1:])


def _empty(name: str, array: Any) -> DataError:
    row = int(np.argmax(np.asarray(array.is_null().to_numpy(zero_copy_only=False))))
    return DataError(f"column {name!r}: row {row} is empty")
