"""Tables that a program holds: pandas, Arrow, and plain mappings of columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import detached, unmasked
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import assemble, plan
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices


def read_table(table: Any, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """A pandas DataFrame, a mapping of columns by name, or anything that speaks Arrow."""
    if isinstance(table, Mapping):
        found = {str(name): _of_column(str(name), values) for name, values in table.items()}
        return assemble(plan(list(found), columns, choices), found.__getitem__, "table of columns")
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return _of_frame(table, columns, choices)
    if hasattr(table, "__arrow_c_stream__"):
        from rl_training.data.formats import arrow

        return arrow.read(table, columns, choices)
    raise DataError(
        f"table: must be a pandas DataFrame, an Arrow table or a mapping of columns, is {type(table).__name__}"
    )


def _of_frame(frame: Any, columns: Columns | None, choices: TableChoices) -> RawData:
    """The columns of a DataFrame, and the levels of its index that have names, as its Parquet files have them."""
    names = [str(name) for name in frame.columns]
    positions = {name: position for position, name in enumerate(names)}
    levels = {str(name): level for level, name in enumerate(frame.index.names) if name is not None}
    apart = {name: level for name, level in levels.items() if name not in positions}
    planned = plan([*names, *apart], columns, choices)

    def column(name: str) -> npt.NDArray[Any]:
        return _of_series(frame.iloc[:, positions[name]] if name in positions else _level(frame, apart[name]))

    return assemble(planned, column, "pandas DataFrame")


def _level(frame: Any, level: int) -> Any:
    return frame.index.get_level_values(level).to_series()


def _of_column(name: str, values: Any) -> npt.NDArray[Any]:
    try:
        return _as_array(detached(values))
    except Exception as error:  # whatever the object itself raises
        raise DataError(f"column {name!r}: cannot be read ({' '.join(str(error).split())})") from error


def _as_array(values: Any) -> npt.NDArray[Any]:
    values = unmasked(values)
    try:
        array = np.asarray(values)
        return array / np.timedelta64(1, "s") if array.dtype.kind == "m" else array  # as files of durations are read
    except ValueError:  # lists of different lengths
        array = np.empty(len(values), dtype=object)
        array[:] = list(values)
        return array


def _of_series(series: Any) -> npt.NDArray[Any]:
    """pandas' nullable numbers become floats, with NaN where a value is missing."""
    array = np.asarray(series.to_numpy())
    if array.dtype.kind == "O" and hasattr(series.dtype, "numpy_dtype") and series.dtype.numpy_dtype.kind in "biuf":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _as_array(array)
