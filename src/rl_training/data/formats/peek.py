"""A first look at a file: its columns or arrays, how many rows there are, and the first of them. Cheap at any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_ENDS, FIELD_OF
from rl_training.data.formats import csv_text, recognise
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.names import suggest
from rl_training.data.formats.raw import Columns
from rl_training.errors import DataError
from rl_training.reading_choices import TableChoices

_COUNTED = 2**31  # bytes of a text whose lines are counted
_BLOCK = 2**22
_MOST_KINDS = 200  # of the texts in a column
_MOST_FLAGS = 10**7  # rows of a table whose flags are counted
_LARGEST_SAMPLE = 2**26  # bytes of one array that are looked at
_TITLES = {"npz": "NumPy archive", "hdf5": "HDF5", "parquet": "Parquet", "csv": "CSV"}


@dataclass(frozen=True)
class Peek:
    """columns: the first rows of each, `[K]` or `[K, W]`; numbers, or text as objects. A format that names its own
    fields (Minari, column directories) has none. rows, episodes: none where they are not told cheaply."""

    kind: str
    format: str
    rows: int | None
    episodes: int | None = None
    env_id: str | None = None
    columns: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    has_names: bool = True  # columns go by names of their own, not by position
    notes: tuple[str, ...] = ()  # on how the text was understood


def peek(path: Path, sample: int = 0) -> Peek:
    """Look at a file or folder; `sample` is the number of rows to read. What cannot be read is a `DataError`."""
    kind = recognise(path)
    try:
        return _LOOKS[kind](path, sample)
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8") from error
    except DataError:
        raise
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise DataError("reading Parquet needs pyarrow: pip install 'rl-training[parquet]'") from None
    except Exception as error:  # whatever numpy, h5py, zipfile and pyarrow raise on damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"cannot be read ({reason[:200]})") from error


def _npz(path: Path, sample: int) -> Peek:
    import zipfile

    from rl_training.data.formats import npz

    columns: dict[str, npt.NDArray[Any]] = {}
    rows: dict[str, int] = {}
    with zipfile.ZipFile(path) as archive:
        for name, member in npz.members(archive).items():
            if name.startswith(npz.TOLD) or not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                shape, in_columns, dtype = npz.check_header(file, member)
                if not shape:
                    continue
                rows[name] = shape[0]
                wanted = 0 if in_columns and len(shape) > 1 else shape[0] if _is_end(name) else min(sample, shape[0])
                width = int(np.prod(shape[1:], dtype=object))
                wanted = min(wanted, _LARGEST_SAMPLE // max(1, width * dtype.itemsize))
                content = file.read(wanted * width * dtype.itemsize)
                columns[name] = np.frombuffer(content, dtype=dtype).reshape(wanted, *shape[1:])
    return Peek("npz", _TITLES["npz"], _common(rows), _episodes(columns, _common(rows)), columns=columns)


def _hdf5(path: Path, sample: int) -> Peek:
    from rl_training.data.formats import d3rlpy_episodes, hdf5
    from rl_training.data.formats.hdf5_files import attributes, opened
    from rl_training.data.space_bounds import told_env_id

    columns: dict[str, npt.NDArray[Any]] = {}
    rows: dict[str, int] = {}
    with opened(path) as file:
        if d3rlpy_episodes.is_layout(file):
            return _of_episodes(file, sample)
        found = hdf5.names(file)
        if not any(FIELD_OF.get(name) == "actions" for name in found):
            hdf5.refuse_groups(found)
        for name in found:
            try:
                array = hdf5.array_in(file, name)
            except DataError:  # text, links: side information
                continue
            if array.ndim:
                rows[name] = int(array.shape[0])
                width = int(np.prod(array.shape[1:], dtype=object)) * array.dtype.itemsize
                wanted = rows[name] if _is_end(name) else sample
                columns[name] = np.asarray(array[: min(wanted, _LARGEST_SAMPLE // max(1, width))])
        env_id = told_env_id(attributes(file, ["env_id"]).get("env_id"))
    count = _common(rows)
    return Peek("hdf5", _TITLES["hdf5"], count, _episodes(columns, count), env_id=env_id, columns=columns)


def _of_episodes(file: Any, sample: int) -> Peek:
    """The layout of d3rlpy 2, under the names that it is read with."""
    from rl_training.data.formats import d3rlpy_episodes, hdf5

    episodes = d3rlpy_episodes.count(file)
    first = {name: hdf5.array_in(file, f"{name}_0") for name in d3rlpy_episodes.FIELDS if f"{name}_0" in file}
    columns = {name: np.asarray(array[:sample]) for name, array in first.items() if array.ndim}
    columns["rewards"] = columns["rewards"].reshape(-1)
    rows = sum(hdf5.array_in(file, f"rewards_{i}").size for i in range(episodes))
    return Peek("hdf5", _TITLES["hdf5"], rows, episodes, columns=columns | {EPISODE_ENDS: np.zeros(sample)})


def _parquet(path: Path, sample: int) -> Peek:
    import pyarrow.parquet as pq

    from rl_training.data.formats.arrow import column_values
    from rl_training.data.formats.parquet import files_of
    from rl_training.data.formats.parquet_footer import read_footer

    files = files_of(path)
    for entry in files:
        read_footer(entry)  # refuses what is forged before pyarrow believes it
    rows = sum(pq.read_metadata(entry).num_rows for entry in files)
    columns: dict[str, npt.NDArray[Any]] = {}
    with pq.ParquetFile(files[0]) as file:
        batch = next(file.iter_batches(batch_size=sample), None) if sample else None
        for name in file.schema_arrow.names:
            try:
                columns[name] = np.empty(0) if batch is None else column_values(name, batch.column(name))
            except DataError:  # of no use as a field
                columns[name] = np.empty(0, dtype=object)
    return Peek("parquet", _TITLES["parquet"], rows, _marked_episodes(files, list(columns), rows), columns=columns)


def _marked_episodes(files: list[Path], names: list[str], rows: int) -> int | None:
    """Counted by the flags of a file with both kinds, as this package writes it: two columns read by themselves."""
    import pyarrow.parquet as pq

    flags = [name for name in names if _is_end(name)]
    if {FIELD_OF[name] for name in flags} != {"terminations", "truncations"} or rows > _MOST_FLAGS:
        return None
    try:
        tables = [pq.ParquetFile(entry).read(columns=flags) for entry in files]
        found = {name: np.concatenate([table[name].to_numpy() for table in tables]) for name in flags}
    except Exception:  # whatever pyarrow raises: it is told when the data are read
        return None
    return _episodes(found, rows)


def _csv(path: Path, sample: int) -> Peek:
    layout = csv_text.layout_of(path)
    comma = layout.decimal_commas
    columns: dict[str, npt.NDArray[Any]] = {}
    lines = [row for _, row in islice(csv_text.rows(path, layout), sample) if len(row) == len(layout.names)]
    for position, name in enumerate(layout.names):
        cells = [row[position] for row in lines]
        columns[name] = _looked_at(name, [cell.replace(",", ".", 1) for cell in cells] if comma else cells, cells)
    title = _TITLES["csv"] + (" without a header line" if not layout.has_names else "")
    notes = (*layout.notes, *_doubled(layout, lines))
    return Peek("csv", title, _lines(path, layout), columns=columns, has_names=layout.has_names, notes=notes)


def _doubled(layout: csv_text.Layout, lines: list[list[str]]) -> list[str]:
    """Notes on names that stand for several columns."""
    notes = []
    for name in layout.doubled:
        places = [place for place, other in enumerate(layout.names) if other == name]
        same = all(row[place].strip() == row[places[0]].strip() for row in lines for place in places)
        how = "hold the same, and one is read" if same else "differ: give each its own name before one is used"
        notes.append(f"{layout.named_alike(name)}; they {how}")
    return notes


def _looked_at(name: str, cells: list[str], given: list[str]) -> npt.NDArray[Any]:
    """Numbers where the cells are, those that are missing NaN; else the text as it was given."""
    from rl_training.data.formats.cells import is_missing_word, numbers

    known = ["" if is_missing_word(cell) else cell for cell in cells]
    try:
        return numbers(name, np.array(known, dtype=object)) if any(known) else np.array(given, dtype=object)
    except DataError:
        return np.array(given, dtype=object)


def check_columns(path: Path, columns: Columns | None, choices: TableChoices) -> None:
    """Refuse a mapping that names columns, or arrays, which the file has not: only its header is looked at."""
    kind = recognise(path)
    if kind == "csv":
        from rl_training.data.formats import csv

        csv.planned_columns(csv_text.layout_of(path), columns, choices)
    elif kind == "parquet":
        from rl_training.data.formats.tables import plan

        plan(list(peek(path).columns), columns, choices)
    elif kind in ("npz", "hdf5"):
        names = list(peek(path).columns)
        for field, value in (columns or {}).items():
            for word in [value] if isinstance(value, str) else value:
                if word not in names and "*" not in word:
                    raise DataError(f"columns.{field}: no array {word!r}{suggest(word, names)}")


def texts_of(path: Path, kind: str, column: str) -> Counter[str]:
    """How often each text stands in a column of a whole table; of many kinds of text, the first `_MOST_KINDS`."""
    counts: Counter[str] = Counter()
    for cell in (_csv_cells if kind == "csv" else _parquet_cells)(path, column):
        text = text_of(cell)
        if text in counts or len(counts) < _MOST_KINDS:
            counts[text] += 1
    return counts


def _csv_cells(path: Path, column: str) -> Iterator[Any]:
    layout = csv_text.layout_of(path)
    position = layout.names.index(column)
    for _, row in csv_text.rows(path, layout):
        if len(row) == len(layout.names):
            yield row[position]


def _parquet_cells(path: Path, column: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    from rl_training.data.formats.parquet import files_of

    for entry in files_of(path):
        with pq.ParquetFile(entry) as file:
            for batch in file.iter_batches(columns=[column]):
                yield from batch.column(0).to_pylist()


def _lines(path: Path, layout: csv_text.Layout) -> int | None:
    """Lines below the header; none where counting them would take long."""
    if path.stat().st_size > _COUNTED:
        return None
    count, read, last = 0, 0, b"\n"
    with csv_text.open_bytes(path) as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            read += len(block)
            last = block[-1:]
            if read > _COUNTED:
                return None
    return max(0, count - layout.lines_above + (last != b"\n"))


def _minari(path: Path, sample: int) -> Peek:
    from rl_training.data.formats import minari

    folder = path if path.is_dir() else path.parent
    data = folder / "data" if (folder / "data" / "metadata.json").is_file() else folder
    metadata = minari.read_metadata(data / "metadata.json")
    counts = [value if isinstance(value := metadata.get(f"total_{of}"), int) else None for of in ("steps", "episodes")]
    return Peek("minari", "Minari", counts[0], counts[1], env_id=minari.env_id_in(metadata))


def _columns(path: Path, sample: int) -> Peek:
    from rl_training.data.formats.columns import read_schema
    from rl_training.data.space_bounds import told_env_id

    schema = read_schema(path)
    facts: Mapping[str, Any] = schema["summary"]
    return Peek(
        "columns",
        "column directory",
        int(facts["transitions"]),
        None if facts.get("episodes") is None else int(facts["episodes"]),
        env_id=told_env_id(schema.get("env_id")),
    )


def _common(rows: Mapping[str, int]) -> int | None:
    """The number of rows that most arrays have."""
    counts = list(rows.values())
    return max(set(counts), key=lambda count: (counts.count(count), count)) if counts else None


def _is_end(name: str) -> bool:
    """Whether an array marks ends of episodes: it is small enough to be read whole."""
    return FIELD_OF.get(name) in ("terminations", "truncations", EPISODE_ENDS)


def _episodes(columns: Mapping[str, npt.NDArray[Any]], rows: int | None) -> int | None:
    """Ends that are marked, and the end of the data."""
    flags = [values for name, values in columns.items() if _is_end(name)]
    if not rows or not flags or any(values.shape != (rows,) or values.dtype.kind not in "biuf" for values in flags):
        return None
    ends = np.any([values != 0 for values in flags], axis=0)
    return int(ends[:-1].sum()) + 1


_LOOKS = {"npz": _npz, "hdf5": _hdf5, "parquet": _parquet, "csv": _csv, "minari": _minari, "columns": _columns}
