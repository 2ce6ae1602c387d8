"""Parquet: a file, or a folder of files that belong together, as RLlib and Ray write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl_training.data.formats.arrow import column_values
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import Plan, assemble, natural, plan
from rl_training.errors import DataError

_ITEM_SIZES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes; of every other type 8


def files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder in the natural order of their names."""
    if not path.is_dir():
        return [path]
    found = [entry for entry in path.iterdir() if entry.suffix == ".parquet" and not entry.name.startswith((".", "_"))]
    return sorted(found, key=lambda entry: natural(entry.name))


def read(path: Path, columns: Columns | None = None) -> RawData:
    """The arrays of the file, or of all files of a folder one after another."""
    paths = files_of(path)
    opened = [_open(entry, path) for entry in paths]
    try:
        schema = opened[0].schema_arrow
        names = list(schema.names)
        for entry, file in zip(paths, opened, strict=True):
            if file.schema_arrow.names != names:
                raise DataError(f"{entry.name}: has other columns than {paths[0].name}; convert them one by one")
        if "item" in names and "eps_id" in names and "obs" not in names:
            raise DataError(
                "RLlib's packed episodes (column 'item') cannot be read; record with output_write_episodes=False"
            )
        planned = plan(names, columns)
        check_size(sum(_size(file.metadata, planned) for file in opened))
        parts = [_columns(entry, file, planned, path) for entry, file in zip(paths, opened, strict=True)]
    finally:
        for file in opened:
            file.close()
    arrays, notes = assemble(
        planned,
        lambda name: column_values(name, pa.chunked_array([chunk for part in parts for chunk in part[name].chunks])),
    )
    if len(paths) > 1:
        notes = (f"{len(paths)} files, in the order of their names", *notes)
    layout = "Parquet, RLlib's layout" if planned.rllib else "Parquet"
    env_id = (schema.metadata or {}).get(b"env_id")
    return RawData(arrays, layout, None if env_id is None else env_id.decode("utf-8", "replace"), notes)


def _open(entry: Path, path: Path) -> Any:
    try:
        return pq.ParquetFile(entry, memory_map=False)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise _damaged(entry, path, error) from error


def _columns(entry: Path, file: Any, planned: Plan, path: Path) -> Any:
    try:
        table = file.read(columns=planned.columns)
        return {name: table.column(name) for name in planned.columns}
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise _damaged(entry, path, error) from error


def _damaged(entry: Path, path: Path, error: BaseException) -> DataError:
    reason = " ".join(str(error).split()) or type(error).__name__
    where = "" if entry == path else f"{entry.name}: "
    return DataError(f"{where}not a readable Parquet file ({reason})")


def _size(metadata: Any, planned: Plan) -> int:
    """Bytes the planned columns take unpacked, as the file declares: of its pages, or of so many values, the larger.

    Repeated values are packed into next to nothing, so the pages alone do not tell.
    """
    wanted = set(planned.columns)
    total = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for index in range(rows.num_columns):
            chunk = rows.column(index)
            path = chunk.path_in_schema
            if path in wanted or path.split(".")[0] in wanted:
                count = max(chunk.num_values, rows.num_rows)
                total += max(chunk.total_uncompressed_size, count * _ITEM_SIZES.get(chunk.physical_type, 8))
    return total
