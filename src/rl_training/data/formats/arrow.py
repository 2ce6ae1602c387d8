"""Arrow tables: their columns as numpy arrays, lists and tensors as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rl_training.data.checks import one_per_row
from rl_training.data.formats.cells import ragged
from rl_training.data.formats.limits import LONGEST_TEXT
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import assemble, plan
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices
from rl_training.validation import shortened

_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of a duration in a second, in which files may differ


def read(table: Any, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The arrays of a table, or of anything that hands over Arrow data."""
    try:
        whole = table if isinstance(table, pa.Table) else pa.table(table)
        planned = plan(whole.column_names, columns, choices)
        for name in planned.columns:
            check_type(name, whole.schema.field(name).type)

        def cells_of(name: str) -> npt.NDArray[Any]:
            return column_values(name, whole.column(name), tells_apart=name in planned.tell_apart)

        return assemble(planned, cells_of, "Arrow table")
    except pa.ArrowException as error:
        raise DataError(f"not a readable Arrow table ({' '.join(str(error).split())})") from error


def check_type(name: str, kind: Any) -> None:
    """Refuse a column that holds neither numbers, lists of numbers nor text, before it is read."""
    types, inner = pa.types, kind
    while True:
        if isinstance(inner, pa.BaseExtensionType):
            inner = inner.storage_type
        elif types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
            inner = inner.value_type
            if types.is_dictionary(inner) or not (types.is_nested(inner) or _is_number(inner) or _is_text(inner)):
                raise DataError(f"column {name!r}: holds lists of {inner}; give lists of numbers")
        else:
            break
    inner = inner.value_type if types.is_dictionary(inner) else inner
    if not (_is_text(inner) or types.is_temporal(inner) or _is_number(inner)):
        is_bytes = types.is_binary(inner) or types.is_large_binary(inner) or types.is_fixed_size_binary(inner)
        way = "write it as text (a cast to string)" if is_bytes else "give numbers or lists of numbers"
        raise DataError(f"column {name!r}: Arrow type {shortened(str(kind))} is not supported; {way}")


def is_texts(kind: Any) -> bool:
    """Whether it is one of lists of texts."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    inner = kind.value_type
    return _is_text(inner.value_type if pa.types.is_dictionary(inner) else inner)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    types = pa.types
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return bool(plain or types.is_decimal(kind) or types.is_null(kind))


def column_values(name: str, column: Any, *, tells_apart: bool = False) -> npt.NDArray[Any]:
    """`[N]` numbers or text, also of lists of one, or `[N, …]` of lists and tensors; nothing is NaN, in text None.

    tells_apart: it tells rows apart, and so keeps every digit.
    """
    if tells_apart and pa.types.is_dictionary(column.type) and pa.types.is_decimal(column.type.value_type):
        column = column.cast(column.type.value_type)
    if tells_apart and pa.types.is_decimal(column.type):
        scale, column = column.type.scale, column.cast(pa.large_string())
        column = pc.utf8_rtrim(pc.utf8_rtrim(column, "0"), ".") if scale > 0 else column
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) > 1 and not pa.types.is_dictionary(column.type):
        chunks = [pa.concat_arrays(chunks)]
    parts = [_values(name, chunk) for chunk in chunks or [pa.array([], column.type)]]
    return np.asarray(one_per_row(parts[0] if len(parts) == 1 else np.concatenate(parts)))


def _values(name: str, array: Any) -> npt.NDArray[Any]:
    kind = array.type
    if isinstance(kind, pa.FixedShapeTensorType):
        if array.null_count:
            raise _empty(name, array)
        return np.asarray(_filled(array).to_numpy_ndarray())
    if isinstance(kind, pa.BaseExtensionType):
        return _values(name, array.storage)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, array)
    if pa.types.is_duration(kind):
        ticks = array.cast(pa.int64()).cast(pa.float64(), safe=False)
        return np.asarray(ticks.to_numpy(zero_copy_only=False)) / _TICKS[kind.unit]
    if pa.types.is_dictionary(kind):
        return _spread(_values(name, array.dictionary), array.indices)
    if _is_number(kind):
        exact = array.null_count == 0 and not pa.types.is_decimal(kind)
        plain = array if exact else array.cast(pa.float64(), safe=False)
        return np.asarray(plain.to_numpy(zero_copy_only=False))
    text = array.cast(pa.large_string())
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if longest > LONGEST_TEXT:
        raise DataError(f"column {name!r}: holds a text of {longest:,} bytes; at most {LONGEST_TEXT} are read")
    return np.array(text.to_pylist(), dtype=object)


def _filled(array: Any) -> Any:
    """Tensors with NaN for values that are missing: whatever lies in their place would be read as numbers."""
    values, kind = array.storage.flatten(), array.type
    if not values.null_count:
        return array
    known = pc.fill_null(values.cast(pa.float64(), safe=False), np.nan)
    rows = pa.FixedSizeListArray.from_arrays(known, array.storage.type.list_size)
    like = pa.fixed_shape_tensor(pa.float64(), kind.shape, kind.dim_names, kind.permutation)
    return pa.ExtensionArray.from_storage(like, rows)


def _spread(words: npt.NDArray[Any], indices: Any) -> npt.NDArray[Any]:
    """The word of each row; words are shared, not copied, however often they occur."""
    missing = np.array([np.nan]) if words.dtype.kind != "O" else np.array([None])
    if indices.null_count:
        words = np.concatenate([words, missing])
    return np.asarray(words[indices.cast(pa.int64()).fill_null(len(words) - 1).to_numpy(zero_copy_only=False)])


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
    if inner.dtype.kind == "O" and width != 1:
        raise DataError(f"column {name!r}: holds lists of texts; give lists of numbers, or one text per row")
    return inner.reshape(len(array), width, *inner.shape[1:])


def _empty(name: str, array: Any) -> DataError:
    row = int(np.argmax(np.asarray(array.is_null().to_numpy(zero_copy_only=False))))
    return DataError(f"column {name!r}: row {row} is empty")
