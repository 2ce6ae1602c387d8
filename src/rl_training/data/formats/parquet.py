"""Parquet: a file, or a folder of files that belong together, as RLlib and Ray write them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rl_training.data.formats.arrow import check_type, column_values, is_texts
from rl_training.data.formats.cells import Faults
from rl_training.data.formats.folders import (
    blamed_on,
    check_columns,
    files_of,
    joined,
    order_note,
    plan_of,
    rows_by_file,
)
from rl_training.data.formats.labels import labels
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.parquet_footer import Footer, read_footer
from rl_training.data.formats.raw import NAMES, Arrays, Columns, RawData, told_as_json
from rl_training.data.formats.tables import Plan, assemble
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.written import known_alike, with_known
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The arrays of the file, or of all files of a folder one after another; one is open at a time."""
    paths = files_of(path, "parquet")
    footers = [_measured(entry, path) for entry in paths]
    schema = _schema(paths[0], path)
    names, schemas = list(schema.names), [schema]
    for entry in paths[1:]:
        with blamed_on(entry, path):
            schemas.append(_schema(entry, entry))
            check_columns(schemas[-1].names, names, paths[0])
    known, differ = known_alike(paths, [_told(one) for one in schemas], "they")
    if "item" in names and "eps_id" in names and "obs" not in names:
        raise DataError(
            "RLlib's packed episodes (column 'item') cannot be read; record with output_write_episodes=False"
        )
    planned = plan_of(names, paths, columns, choices)
    for entry, own in zip(paths, schemas, strict=True):
        with blamed_on(entry, path):
            for name in sorted(set(planned.columns) & set(names)):
                check_type(name, own.field(name).type)
    check_size(
        sum(footer.size_of(planned.columns) for footer in footers),
        sum(footer.stored_of(planned.columns) for footer in footers),
        rows=sum(footer.rows for footer in footers),
    )
    parts = [_values(entry, path, footer, planned) for entry, footer in zip(paths, footers, strict=True)]
    whole = {
        name: joined(name, [part[name] for part in parts], paths, tells_apart=name in planned.tell_apart)
        for name in planned.columns
    }
    rows = rows_by_file(paths, [len(part[planned.columns[0]]) for part in parts])
    described = "Parquet, RLlib's layout" if planned.rllib else "Parquet"
    raw = assemble(planned, whole.__getitem__, described, files=rows)
    return with_known(replace(raw, notes=(*order_note(paths), *differ, *raw.notes)), known)


def _told(schema: Any) -> dict[str, Any]:
    """What a file of this package tells beside its rows."""
    metadata = schema.metadata or {}
    as_json = {name: told_as_json(metadata.get(name.encode())) for name in ("bounds", NAMES, WORDS)}
    return as_json | {"env_id": metadata.get(b"env_id")}


def _measured(entry: Path, path: Path) -> Footer:
    with _readable(entry, path):
        return read_footer(entry)


def _schema(entry: Path, path: Path) -> Any:
    with _readable(entry, path), pq.ParquetFile(entry) as file:
        return file.schema_arrow


def _values(entry: Path, path: Path, footer: Footer, planned: Plan) -> Arrays:
    """The planned columns of one file, so that a bad cell is told by it. Of text every word is kept once: a few of
    them can stand in every row."""
    with _readable(entry, path), pq.ParquetFile(entry, read_dictionary=sorted(footer.texts)) as file:
        schema = file.schema_arrow
        in_lists = {name for name in planned.columns if name in schema.names and is_texts(schema.field(name).type)}
        table = file.read(columns=[name for name in planned.columns if name not in in_lists])
        stored = set(table.column_names)
        found = {
            name: _texts_in_lists(file, name)
            if name in in_lists
            else column_values(name, table.column(name), tells_apart=name in planned.tell_apart)
            if name in stored
            else np.full(footer.rows, entry.name, object)
            for name in planned.columns
        }
        for name in planned.measured:
            if found[name].dtype.kind == "O" and found[name].ndim == 1:
                planned.points.look(name, found[name].tolist(), planned.choices.missing_words)
        faults = Faults()
        given = {name: faults.reading(planned.values, name, cells) for name, cells in found.items()}
        faults.refuse()
        return {name: labels(name, cells) if name in planned.labels else cells for name, cells in given.items()}


def _texts_in_lists(file: Any, name: str) -> npt.NDArray[Any]:
    """Group by group of the rows: pyarrow joins none of those in which every word is kept once."""
    groups = [file.read_row_group(group, columns=[name]).column(name) for group in range(file.num_row_groups)]
    return np.concatenate([column_values(name, group) for group in groups]) if groups else np.empty(0, object)


@contextlib.contextmanager
def _readable(entry: Path, path: Path) -> Iterator[None]:
    """What pyarrow raises on a damaged file, as one line that names it where it is one of several."""
    with blamed_on(entry, path):
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if "launch worker thread" in reason or isinstance(error, MemoryError):
                raise DataError(f"cannot be read ({reason}); see `ulimit -u` and `ulimit -v`") from error
            raise DataError(f"not a readable Parquet file ({reason})") from error
