"""Parquet: a file, or a folder of files that belong together, as RLlib and Ray write them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl_training.data.formats.arrow import column_values
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.parquet_footer import unpacked_size
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.formats.tables import assemble, natural, plan
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError


def files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder in the natural order of their names."""
    if not path.is_dir():
        return [path]
    found = [entry for entry in path.iterdir() if entry.suffix == ".parquet" and not entry.name.startswith((".", "_"))]
    return sorted(found, key=lambda entry: natural(entry.name))


def read(path: Path, columns: Columns | None = None) -> RawData:
    """The arrays of the file, or of all files of a folder one after another."""
    paths = files_of(path)
    with contextlib.ExitStack() as stack:
        opened = {entry: stack.enter_context(_open(entry, path)) for entry in paths}
        with _blamed_on(path, path):
            schema = opened[paths[0]].schema_arrow
            names = list(schema.names)
            other = next((entry for entry, file in opened.items() if file.schema_arrow.names != names), None)
        if other is not None:
            raise DataError(f"{other.name}: has other columns than {paths[0].name}; convert them one by one")
        if "item" in names and "eps_id" in names and "obs" not in names:
            raise DataError(
                "RLlib's packed episodes (column 'item') cannot be read; record with output_write_episodes=False"
            )
        planned = plan(names, columns)
        check_size(sum(unpacked_size(entry, planned.columns) for entry in paths))
        parts = []
        for entry, file in opened.items():
            with _blamed_on(entry, path):
                parts.append(file.read(columns=planned.columns))
    with _blamed_on(path, path):
        whole = {
            name: pa.chunked_array([c for part in parts for c in part.column(name).chunks]) for name in planned.columns
        }
        arrays, notes = assemble(planned, lambda name: column_values(name, whole[name]))
    if len(paths) > 1:
        notes = (f"{len(paths)} files, in the order of their names", *notes)
    layout = "Parquet, RLlib's layout" if planned.rllib else "Parquet"
    told = schema.metadata or {}
    env_id = told_env_id(told.get(b"env_id", b"").decode("utf-8", "replace"))
    return RawData(arrays, layout, env_id, notes, bounds=_bounds(told.get(b"bounds", b"")))


def _bounds(text: bytes) -> SpaceBounds | None:
    """What the writer put there as JSON; anything else is another program's."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return SpaceBounds.read(told) if isinstance(told, dict) else None


def _open(entry: Path, path: Path) -> Any:
    with _blamed_on(entry, path):
        return pq.ParquetFile(entry)


@contextlib.contextmanager
def _blamed_on(entry: Path, path: Path) -> Iterator[None]:
    """What pyarrow raises on a damaged file, as one line that names it where it is one of several."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        where = "" if entry == path else f"{entry.name}: "
        raise DataError(f"{where}not a readable Parquet file ({reason})") from error
