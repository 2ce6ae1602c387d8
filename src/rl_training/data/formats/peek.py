"""A first look at a file: its columns or arrays, how many rows there are, and the first of them. Cheap at any size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import one_per_row
from rl_training.data.fields import EPISODE_ENDS, FIELD_OF
from rl_training.data.formats import csv_text, recognise
from rl_training.data.formats.csv_files import common_notes, doubled_notes, layouts_of, mend, readable
from rl_training.data.formats.csv_misfits import about_header, last_lines, some_rows, why_misfit
from rl_training.data.formats.folders import TITLES, blamed_on, files_of, some_of
from rl_training.data.formats.looks import Extent, Look, damage_told, is_end, left_out
from rl_training.errors import DataError
from rl_training.wording import amount

_COUNTED = 2**31  # bytes of a text whose lines are counted
_BLOCK = 2**22
_MOST_TEXTS = 20  # arrays of text in an HDF5 file that are looked at
_FEWEST = 3  # lines of another width: fewer may be mistakes of their own
_MOST_FLAGS = 10**7  # rows of a table whose flags are counted


@dataclass(frozen=True)
class Peek:
    """columns: the first rows of each, `[K]` or, of more than one value, `[K, W]`; numbers, or text as objects. A
    format that names its own fields (Minari, column directories) has none. rows, episodes: none where they are not told
    cheaply."""

    kind: str
    format: str
    rows: int | None
    episodes: int | None = None
    env_id: str | None = None
    columns: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    has_names: bool = True  # columns go by names of their own, not by position
    notes: tuple[str, ...] = ()  # on how the text was understood
    files: int = 1  # that were looked into
    units: dict[str, str] = field(default_factory=dict)  # of columns, where a line below the header tells them

    def looked_at(self, rows: int, unit: str = "row") -> str:
        """So many rows, or what else there is one of in each, in words."""
        return f"the first {amount(rows, unit)}" if self.files == 1 else f"{amount(rows, unit)} of {self.files} files"


def peek(path: Path, sample: int = 0, *, ends: bool = True) -> Peek:
    """Look at a file or folder; `sample` is the number of rows to read. What cannot be read is a `DataError`.

    ends: read all rows of what marks ends of episodes, to count them.
    """
    kind = recognise(path)
    with damage_told():
        return _LOOKS[kind](path, Look(sample, ends))


def _npz(path: Path, look: Look) -> Peek:
    import zipfile

    from rl_training.data.formats import npz

    arrays: dict[str, Extent] = {}
    unread: dict[str, int] = {}
    with zipfile.ZipFile(path) as archive:
        members = npz.members(archive)
        for name, member in members.items():
            if name.startswith(npz.TOLD) or not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                shape, in_columns, dtype = npz.check_header(file, member)
            if shape:
                arrays[name] = Extent(shape, dtype)
            if in_columns and len(shape) > 1:
                unread[name] = 0
        wanted = unread | look.rows_of({name: array for name, array in arrays.items() if name not in unread})
        columns = {name: left_out(name, array) for name, array in arrays.items()}
        for name, count in wanted.items():
            with archive.open(members[name]) as file:
                npz.check_header(file, members[name])
                content = file.read(count * arrays[name].row_bytes)
            columns[name] = np.frombuffer(content, dtype=arrays[name].dtype).reshape(count, *arrays[name].shape[1:])
    rows = _common(arrays)
    columns = {name: one_per_row(values) for name, values in columns.items()}
    return Peek("npz", TITLES["npz"], rows, _episodes(columns, rows), columns=columns)


def _hdf5(path: Path, look: Look) -> Peek:
    from rl_training.data.formats import d3rlpy_episodes, hdf5
    from rl_training.data.formats.hdf5_files import attributes, opened
    from rl_training.data.space_bounds import told_env_id

    held: dict[str, Any] = {}
    texts: dict[str, npt.NDArray[Any]] = {}
    unread: list[str] = []
    with opened(path) as file:
        if d3rlpy_episodes.is_layout(file):
            return _of_episodes(file, look)
        found = hdf5.names(file)
        if not any(FIELD_OF.get(name) == "actions" for name in found):
            hdf5.refuse_groups(found)
        for name in found:
            with suppress(DataError):  # links, what is neither numbers nor text: side information
                try:
                    cells = hdf5.texts_of(file, name, look.sample) if len(texts) < _MOST_TEXTS else None
                except DataError as error:
                    unread += [f"{error}; it is passed over"] if hdf5.holds_texts(file, name) else []
                    continue
                if cells is not None:
                    texts[name] = cells
                else:
                    held[name] = hdf5.array_in(file, name)
        held = {name: array for name, array in held.items() if array.ndim}
        columns = _hdf5_rows(held, look) | texts
        env_id = told_env_id(attributes(file, ["env_id"]).get("env_id"))
        rows = _common(held)
    seen = Peek("hdf5", TITLES["hdf5"], rows, _episodes(columns, rows), env_id=env_id, columns=columns)
    return replace(seen, notes=tuple(unread[:_MOST_TEXTS]))


def _hdf5_rows(held: Mapping[str, Any], look: Look) -> dict[str, npt.NDArray[Any]]:
    """The first rows of each; what has several names is read once."""
    from rl_training.data.formats.hdf5 import address, check_sizes, is_flag

    first: dict[tuple[int, bool], str] = {}
    same = {name: first.setdefault((address(array), is_end(name)), name) for name, array in held.items()}
    arrays = {name: Extent(held[name].shape, held[name].dtype, held[name].chunks) for name in first.values()}
    columns = {name: left_out(name, array) for name, array in arrays.items()}
    wanted = look.rows_of(arrays)
    unread = [name for name in arrays if name in FIELD_OF and name not in wanted]
    flags = (held[name] for name in unread if is_flag(name))
    check_sizes((held[name] for name in unread), flags)  # as whoever reads it would
    columns |= {name: np.asarray(held[name][:count]) for name, count in wanted.items()}
    return {name: one_per_row(columns[same[name]]) for name in held}


def _of_episodes(file: Any, look: Look) -> Peek:
    """The layout of d3rlpy 2, under the names that it is read with."""
    from rl_training.data.formats import d3rlpy_episodes, hdf5

    episodes = d3rlpy_episodes.count(file)
    first = {name: hdf5.array_in(file, f"{name}_0") for name in d3rlpy_episodes.FIELDS if f"{name}_0" in file}
    columns = _hdf5_rows({name: array for name, array in first.items() if array.ndim}, look)
    rows = sum(hdf5.array_in(file, f"rewards_{i}").size for i in range(episodes))
    return Peek("hdf5", TITLES["hdf5"], rows, episodes, columns=columns | {EPISODE_ENDS: np.zeros(look.sample)})


def _parquet(path: Path, look: Look) -> Peek:
    from rl_training.data.formats.parquet_footer import read_footer
    from rl_training.data.formats.parquet_look import cells_of_some, flags_of

    files = files_of(path, "parquet")
    footers = [read_footer(entry) for entry in files]  # refuses what is forged before pyarrow believes it
    rows = sum(footer.rows for footer in footers)
    columns, looked_into = cells_of_some(files, look)
    # Counted by the flags of a file with both kinds, as this package writes it: two columns read by themselves.
    names = [name for name in columns if is_end(name)]
    has_both = {FIELD_OF[name] for name in names} == {"terminations", "truncations"}
    flags = flags_of(files, footers, names) if look.ends and has_both and rows <= _MOST_FLAGS else {}
    return Peek("parquet", TITLES["parquet"], rows, _episodes(flags, rows), columns=columns, files=looked_into)


def _csv(path: Path, look: Look) -> Peek:
    files = files_of(path, "csv")
    some = some_of(files)
    layouts = layouts_of(some, path)
    first = layouts[0]
    doubled, lines, each = [], [], -(-look.sample // len(some))
    for entry, layout in zip(some, layouts, strict=True):
        with readable(entry, path), closing(csv_text.rows(entry, layout)) as table:
            rows = list(islice(table, each))
        own = [row for _, row in rows if len(row) == len(layout.names)]
        with readable(entry, path):
            apart = _of_other_widths(layout, rows)
            notes = [*layout.notes, *apart, *(last_lines(entry, layout) if len(rows) >= each and not apart else ())]
        doubled.append([*notes, *_doubled(layout, own)])
        order = _places(first.names, layout.names)
        lines += own if order is None else [[row[place] for place in order] for row in own]
    columns: dict[str, npt.NDArray[Any]] = {}
    for position, name in enumerate(first.names):
        cells = [row[position] for row in lines]
        plain = [cell.replace(",", ".", 1) for cell in cells] if first.decimal_commas else cells
        columns[name] = _looked_at(name, plain, cells)
    title = TITLES["csv"] + (" without a header line" if not first.has_names else "")
    told = tuple(common_notes(doubled, some))
    rows_of_all = _lines(path, files, {layout.lines_above for layout in layouts})
    found = Peek("csv", title, rows_of_all, columns=columns, has_names=first.has_names, notes=told, files=len(some))
    return replace(found, units=first.unit_of or {})


def _places(wanted: list[str], names: list[str]) -> list[int] | None:
    """Where the wanted names stand; none where they are in this order."""
    at = {name: place for place, name in reversed(list(enumerate(names)))}  # the first, of one that comes twice
    return None if wanted == names else [at[name] for name in wanted]


def _of_other_widths(layout: csv_text.Layout, rows: Sequence[tuple[int, list[str]]]) -> list[str]:
    """A note on lines that lack cells, or have too many: reading the whole file refuses them."""
    found = [(line, len(row)) for line, row in rows if len(row) != len(layout.names)]
    if not found:
        return []
    line, width = found[0]
    place = next(place for place, (number, _) in enumerate(rows) if number == line)
    none_fits = len(found) >= max(_FEWEST, len(rows) - 1)  # a line of units may
    told = why_misfit(layout, line, rows[place][1], some_rows(iter(rows[place + 1 :])))
    if told is None:
        more = f", and {amount(len(found) - 1, 'other line')} do not fit either" if len(found) > 1 else ""
        has = f"line {line} has {amount(width, 'value')}, but the header names {amount(len(layout.names), 'column')}"
        told = f"{has}{more}{about_header(layout, line, rows[place][1]) or mend(width, len(layout.names))}"
        told += "" if none_fits else ", before the whole is read"
    if none_fits:
        raise DataError(told)
    return [told]


def _doubled(layout: csv_text.Layout, lines: list[list[str]]) -> list[str]:
    """Notes on names that stand for several columns."""
    how = {}
    for name in layout.doubled:
        places = layout.places[name]
        same = all(row[place].strip() == row[places[0]].strip() for row in lines for place in places)
        how[name] = "hold the same, and one is read" if same else "differ: give each its own name before one is used"
    return doubled_notes(layout, how)


def _looked_at(name: str, cells: list[str], given: list[str]) -> npt.NDArray[Any]:
    """Numbers where the cells are, those that are missing NaN; else the text as it was given."""
    from rl_training.data.formats.cells import is_missing_word, numbers
    from rl_training.data.formats.signs import Signs

    known = ["" if is_missing_word(cell) else cell for cell in cells]
    try:
        return (
            numbers(name, np.array(known, dtype=object), signs=Signs()) if any(known) else np.array(given, dtype=object)
        )
    except DataError:
        return np.array(given, dtype=object)


def _lines(path: Path, files: Sequence[Path], above: Collection[int]) -> int | None:
    """Lines below the headers; none where counting them would take long, or headers are of several heights (above)."""
    if len(above) > 1 or sum(entry.stat().st_size for entry in files) > _COUNTED:
        return None
    total = read = 0
    for entry in files:
        count, last = 0, b"\n"
        with blamed_on(entry, path), csv_text.open_bytes(entry) as file:
            while block := file.read(_BLOCK):
                count += block.count(b"\n")
                read += len(block)
                last = block[-1:]
                if read > _COUNTED:
                    return None
        total += max(0, count - sum(above) + (last != b"\n"))
    return total


def _minari(path: Path, look: Look) -> Peek:
    from rl_training.data.formats import minari

    metadata = minari.metadata_of(path)
    counts = [value if isinstance(value := metadata.get(f"total_{of}"), int) else None for of in ("steps", "episodes")]
    return Peek("minari", "Minari", counts[0], counts[1], env_id=minari.env_id_in(metadata))


def _columns(path: Path, look: Look) -> Peek:
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


def _common(arrays: Mapping[str, Any]) -> int | None:
    """The number of rows that most arrays have."""
    counts = [int(array.shape[0]) for array in arrays.values()]
    return max(set(counts), key=lambda count: (counts.count(count), count)) if counts else None


def _episodes(columns: Mapping[str, npt.NDArray[Any]], rows: int | None) -> int | None:
    """Ends that are marked, and the end of the data."""
    flags = [values for name, values in columns.items() if is_end(name)]
    if not rows or not flags or any(values.shape != (rows,) or values.dtype.kind not in "biuf" for values in flags):
        return None
    ends = np.any([values != 0 for values in flags], axis=0)
    return int(ends[:-1].sum()) + 1


_LOOKS = {"npz": _npz, "hdf5": _hdf5, "parquet": _parquet, "csv": _csv, "minari": _minari, "columns": _columns}
