"""The first rows of a Parquet file: of the columns that can be read, and fit into what may be unpacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.arrow import check_type, column_values
from rl_training.data.formats.folders import some_of
from rl_training.data.formats.limits import is_stored
from rl_training.data.formats.looks import Look
from rl_training.data.formats.parquet_footer import Footer, read_footer
from rl_training.errors import DataError

_BATCH = 500  # rows that are unpacked at once
_LARGEST_FLAGS = 2**28  # bytes
_BUFFER = 2**15  # bytes of a column that are read at once, however large it is


def first_cells(path: Path, look: Look) -> dict[str, npt.NDArray[Any]]:
    """Every column by name; of no rows where it is of no use as a field, or too large to be looked at."""
    footer = read_footer(path, look.sample)
    with pq.ParquetFile(path, read_dictionary=sorted(footer.texts), buffer_size=_BUFFER) as file:
        schema = file.schema_arrow
        if not footer.rows:
            return {name: np.empty(0) for name in schema.names}
        fitting, rows = _fitting(footer, [name for name in schema.names if _is_readable(schema, name)], look)
        table = _first_rows(file, footer, fitting, rows, look) if fitting else None
        return {name: _cells(name, table) if name in fitting else _nothing() for name in schema.names}


def cells_of_some(files: Sequence[Path], look: Look) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """Every column by name, of the first rows of some files: the first, the last and some between them; and how many
    files these are."""
    some = some_of(files)
    each = replace(look, sample=-(-look.sample // len(some)))
    parts = [first_cells(entry, each) for entry in some]
    parts = [part for part in parts if any(map(len, part.values()))] or parts[:1]
    return {name: _joined([part.get(name, _nothing()) for part in parts]) for name in parts[0]}, len(some)


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The rows of all files; nothing where they are not of one kind. What has no value in all of a file may be text."""
    if any(part.dtype.kind == "O" for part in parts):
        parts = [np.full(len(part), None) if _is_unknown(part) else part for part in parts]
    kinds = {(part.shape[1:], part.dtype.kind in "biuf") for part in parts}
    return np.concatenate(parts) if len(kinds) == 1 and all(map(len, parts)) else _nothing()


def _is_unknown(part: npt.NDArray[Any]) -> bool:
    return part.ndim == 1 and part.dtype.kind == "f" and bool(np.isnan(part).all())


def _is_readable(schema: Any, name: str) -> bool:
    try:
        check_type(name, schema.field(name).type)
    except DataError:
        return False
    return True


def _fitting(footer: Footer, names: Sequence[str], look: Look) -> tuple[list[str], int]:
    """The columns to read, fields first, then the smallest, and of how many rows.

    Of a column that is stored in about so many bytes, only the rows that are read count; one that is packed into next
    to nothing, or has rows of different sizes, may have all of it in any row."""
    sizes, stored = _by_name(footer.sizes), _by_name(footer.stored)
    fitting, of_each_row = [], 0
    for name in sorted(names, key=lambda name: (name not in FIELD_OF, sizes.get(name, 0))):
        size = sizes.get(name, 0)
        is_even = name not in footer.uneven and is_stored(size, stored.get(name, 0))
        row = -(-size // footer.rows) if is_even else 0
        if (row or size) <= look.left:
            look.left -= row or size
            of_each_row += row
            fitting.append(name)
    return fitting, min(look.sample, 1 + look.left // of_each_row if of_each_row else look.sample)


def _by_name(sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes that asking for a name reads, as `Footer.size_of` has it, of every name at once."""
    found: dict[str, int] = {}
    for path, size in sizes.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            found[name] = found.get(name, 0) + size
    return found


def _first_rows(file: Any, footer: Footer, names: list[str], rows: int, look: Look) -> Any:
    """A table of so many rows, or fewer where those are larger than others."""
    batches: list[Any] = []
    groups = list(range(footer.groups))
    for batch in file.iter_batches(batch_size=min(rows, _BATCH), row_groups=groups, columns=names):
        batches.append(batch)
        look.left -= batch.nbytes
        if look.left < 0 or sum(map(len, batches)) >= rows:
            break
    return pa.Table.from_batches(batches).slice(0, rows) if batches else None


def _cells(name: str, table: Any) -> npt.NDArray[Any]:
    try:
        return np.empty(0) if table is None else column_values(name, table.column(name))
    except (DataError, pa.ArrowException):  # of no use as a field
        return _nothing()


def _nothing() -> npt.NDArray[Any]:
    return np.empty(0, dtype=object)


def flags_of(files: Sequence[Path], footers: Sequence[Footer], names: list[str]) -> dict[str, npt.NDArray[Any]]:
    """All rows of these columns, if they are numbers of a size that flags have."""
    read = {path for footer in footers for path in footer.sizes if path.split(".")[0] in names}
    texts = {path for footer in footers for path in footer.texts}
    if read - set(names) or read & texts or sum(footer.size_of(names) for footer in footers) > _LARGEST_FLAGS:
        return {}
    try:
        tables = [pq.ParquetFile(entry).read(columns=names) for entry in files]
        return {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in names}
    except Exception:  # whatever pyarrow raises: it is told when the data are read
        return {}
