"""Parquet: a file, or a folder of files that belong together, as RLlib and Ray write them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rl_training.data.fields import EPISODE_IDS, FILE_NAME
from rl_training.data.formats.arrow import check_type, column_values
from rl_training.data.formats.cells import labels
from rl_training.data.formats.limits import check_file, check_size
from rl_training.data.formats.names import natural
from rl_training.data.formats.parquet_footer import Footer, read_footer
from rl_training.data.formats.raw import NAMES, Arrays, Columns, RawData
from rl_training.data.formats.tables import Plan, assemble, plan
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices


def files_of(path: Path) -> list[Path]:
    """The file itself, or the Parquet files of a folder in the natural order of their names."""
    if not path.is_dir():
        return [path]
    found = [entry for entry in path.iterdir() if entry.suffix == ".parquet" and not entry.name.startswith((".", "_"))]
    if not found:
        raise DataError("its Parquet files are all hidden ones (. or _ before the name)")
    for entry in found:
        check_file(entry)
    return sorted(found, key=lambda entry: natural(entry.name))


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The arrays of the file, or of all files of a folder one after another; one is open at a time."""
    paths = files_of(path)
    footers = [_measured(entry, path) for entry in paths]
    schema = _schema(paths[0], path)
    names = list(schema.names)
    for entry in paths[1:]:
        if _schema(entry, path).names != names:
            raise DataError(f"{entry.name}: has other columns than {paths[0].name}; convert them one by one")
    if "item" in names and "eps_id" in names and "obs" not in names:
        raise DataError(
            "RLlib's packed episodes (column 'item') cannot be read; record with output_write_episodes=False"
        )
    planned = plan(with_file_name(names, paths, columns), columns, choices)
    for name in set(planned.columns) & set(names):
        check_type(name, schema.field(name).type)
    check_size(sum(footer.size_of(planned.columns) for footer in footers))
    parts = [_values(entry, path, footer, planned) for entry, footer in zip(paths, footers, strict=True)]
    whole = {name: _joined(name, [part[name] for part in parts], paths) for name in planned.columns}
    raw = assemble(planned, whole.__getitem__, "Parquet, RLlib's layout" if planned.rllib else "Parquet")
    if len(paths) > 1:
        notes = (f"{len(paths)} files, in the order of their names", *raw.notes)
        rows = [len(part[planned.columns[0]]) for part in parts]
        raw = replace(raw, notes=notes, files=list(zip((entry.name for entry in paths), rows, strict=True)))
    told = schema.metadata or {}
    env_id = told_env_id(told.get(b"env_id", b"").decode("utf-8", "replace"))
    raw = raw.with_names(_told(told.get(NAMES.encode(), b"")))
    return replace(raw, env_id=env_id, bounds=_bounds(_told(told.get(b"bounds", b""))))


def with_file_name(names: Sequence[str], paths: Sequence[Path], columns: Columns | None) -> list[str]:
    """With the column of names of files where a mapping asks for it and there are several: each may be an episode."""
    asked = len(paths) > 1 and FILE_NAME not in names and (columns or {}).get(EPISODE_IDS) in (FILE_NAME, [FILE_NAME])
    return [*names, *([FILE_NAME] if asked else [])]


def _told(text: bytes) -> Any:
    """What the writer put there as JSON; anything else is another program's."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bounds(told: Any) -> SpaceBounds | None:
    return SpaceBounds.read(told) if isinstance(told, dict) else None


def _measured(entry: Path, path: Path) -> Footer:
    with _blamed_on(entry, path):
        return read_footer(entry)


def _schema(entry: Path, path: Path) -> Any:
    with _blamed_on(entry, path), pq.ParquetFile(entry) as file:
        return file.schema_arrow


def _values(entry: Path, path: Path, footer: Footer, planned: Plan) -> Arrays:
    """The planned columns of one file, so that a bad cell is told by it. Of text every word is kept once: a few of
    them can stand in every row."""
    with _blamed_on(entry, path), pq.ParquetFile(entry, read_dictionary=sorted(footer.texts)) as file:
        table = file.read(columns=planned.columns)
        stored = set(table.column_names)
        found = {
            name: column_values(name, table.column(name)) if name in stored else np.full(len(table), entry.name, object)
            for name in planned.columns
        }
        given = {name: planned.values(name, cells) for name, cells in found.items()}
        return {name: labels(name, cells) if name in planned.labels else cells for name, cells in given.items()}


def _joined(name: str, parts: list[npt.NDArray[Any]], paths: list[Path]) -> npt.NDArray[Any]:
    """The values of all files; one without rows says nothing about the width of lists."""
    filled = [(part, path) for part, path in zip(parts, paths, strict=True) if len(part)]
    if not filled:
        return parts[0]
    first, path_of_first = filled[0]
    for part, path in filled:
        if part.shape[1:] != first.shape[1:]:
            shapes = f"{list(part.shape[1:])} in {path.name}, but {list(first.shape[1:])} in {path_of_first.name}"
            raise DataError(f"column {name!r}: a row has shape {shapes}; all must agree")
    return first if len(filled) == 1 else np.concatenate([part for part, _ in filled])


@contextlib.contextmanager
def _blamed_on(entry: Path, path: Path) -> Iterator[None]:
    """What pyarrow raises on a damaged file, as one line that names it where it is one of several."""
    where = "" if entry == path else f"{entry.name}: "
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}{error}") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{where}not a readable Parquet file ({reason})") from error
