"""A folder of files that are one table together: which files, in what order, and how messages name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_IDS, FILE_NAME
from rl_training.data.formats.clocks import in_one
from rl_training.data.formats.limits import check_file
from rl_training.data.formats.names import listed, natural
from rl_training.data.formats.raw import Columns
from rl_training.data.formats.tables import Plan, plan
from rl_training.errors import DataError
from rl_training.paths import is_text
from rl_training.reading_choices import TableChoices
from rl_training.validation import printable
from rl_training.wording import WARNING

TITLES = {"npz": "NumPy archive", "hdf5": "HDF5", "parquet": "Parquet", "csv": "CSV"}
_ENDINGS = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "npz": (".npz",),
    "hdf5": (".hdf5", ".h5"),
}
_TABLES = ("parquet", "csv")  # formats whose files may lie in a folder as one dataset
_HIDDEN = (".", "_")
_MOST_FILES = 16  # that are looked into


def kind_in(folder: Path) -> str | None:
    """The format of the files in a folder, by their endings, if they may be one table; of two formats, refused."""
    names = sorted(entry.name for entry in folder.iterdir())
    found: dict[str, str] = {}
    for name in (name for name in names if not name.startswith(_HIDDEN)):
        if (kind := _kind_of(name)) is not None:
            found.setdefault(kind, name)
    table = next((kind for kind in _TABLES if kind in found), None)
    if table is None:
        return next((kind for name in names if (kind := _kind_of(name)) in _TABLES and not found), None)
    if len(found) > 1:
        held = " and ".join(f"{TITLES[kind]} ({printable(name)})" for kind, name in found.items())
        raise DataError(f"holds files of {len(found)} formats, {held}; a folder is one table: keep those of one there")
    return table


def _kind_of(name: str) -> str | None:
    return next((kind for kind, endings in _ENDINGS.items() if name.lower().endswith(endings)), None)


def stem_of(name: str) -> str:
    """A file's name without its ending."""
    endings = (ending for own in _ENDINGS.values() for ending in own if name.lower().endswith(ending))
    return name[: -len(max(endings, key=len, default="")) or None]


def files_of(path: Path, kind: str) -> list[Path]:
    """The file itself, or the files of a folder that have the endings of a format, in the natural order of names."""
    if not path.is_dir():
        return [path]
    found = [entry for entry in path.iterdir() if _kind_of(entry.name) == kind and not entry.name.startswith(_HIDDEN)]
    if not found:
        raise DataError(f"its {TITLES[kind]} files are all hidden ones (. or _ before the name)")
    for entry in found:
        if not is_text(entry.name):
            raise DataError(f"{printable(entry.name)}: has a name that is not UTF-8 text; rename it")
        check_file(entry)
    return sorted(found, key=lambda entry: natural(entry.name))


def some_of(files: Sequence[Path]) -> list[Path]:
    """Those that a first look is taken into: the first, the last and some between them."""
    places = np.linspace(0, len(files) - 1, min(len(files), _MOST_FILES)).round().astype(int)
    return [files[place] for place in places.tolist()]


def check_columns(names: Sequence[str], of_first: Sequence[str], first: Path) -> None:
    """Refuse a file whose columns are not those of the first one; their order may be another."""
    lacks, has = Counter(of_first) - Counter(names), Counter(names) - Counter(of_first)
    differs = [f"{verb} {listed(found)}" for verb, found in (("lacks", lacks), ("has", has)) if found]
    if differs:
        also = " besides" if has else ""
        raise DataError(f"has other columns than {printable(first.name)}: it {' and '.join(differs)}{also}")


def plan_of(names: Sequence[str], paths: Sequence[Path], columns: Columns | None, choices: TableChoices) -> Plan:
    """Which columns become which array; with the name of a row's file among them where a mapping asks for it and there
    are several: each may be an episode."""
    asked = len(paths) > 1 and FILE_NAME not in names and (columns or {}).get(EPISODE_IDS) in (FILE_NAME, [FILE_NAME])
    try:
        return plan([*names, *([FILE_NAME] if asked else [])], columns, choices)
    except DataError as error:
        if len(paths) == 1 and f"no column {FILE_NAME!r}" in str(error):
            raise DataError(f"{error}; {FILE_NAME} tells the files of a folder apart, and here is but one") from None
        if len(paths) == 1 or f"(or {EPISODE_IDS})" not in str(error):
            raise
        said = f"columns: {{{EPISODE_IDS}: {FILE_NAME}}} says so"
        raise DataError(f"{error}; where each file is an episode, {said}") from None


def joined(name: str, parts: list[npt.NDArray[Any]], paths: Sequence[Path], *, tells_apart: bool) -> npt.NDArray[Any]:
    """The values of all files; one without rows says nothing about the width of lists. tells_apart: they tell rows or
    episodes apart."""
    filled = [(part, path) for part, path in zip(parts, paths, strict=True) if len(part)]
    if not filled:
        return parts[0]
    first, path_of_first = filled[0]
    for part, path in filled:
        if part.shape[1:] != first.shape[1:]:
            shapes = f"{list(part.shape[1:])} in {path.name}, but {list(first.shape[1:])} in {path_of_first.name}"
            raise DataError(f"column {name!r}: a row has shape {shapes}; all must agree")
    return first if len(filled) == 1 else in_one(name, [part for part, _ in filled], tells_apart=tells_apart)


def rows_by_file(paths: Sequence[Path], rows: Sequence[int]) -> list[tuple[str, int]]:
    """The name of each file with its rows, where there are several."""
    return list(zip((path.name for path in paths), rows, strict=True)) if len(paths) > 1 else []


def order_note(paths: Sequence[Path]) -> tuple[str, ...]:
    if len(paths) < 2:
        return ()
    stems: dict[str, Path] = {}
    for path in paths:
        if (other := stems.setdefault(stem_of(path.name), path)) != path:
            both = f"{printable(other.name)} and {printable(path.name)}"
            doubt = f"{WARNING}both {both} are read; if one is a copy of the other, its rows count twice: remove it"
            return (f"{len(paths)} files, in the order of their names", doubt)
    return (f"{len(paths)} files, in the order of their names",)


@contextmanager
def blamed_on(entry: Path, path: Path) -> Iterator[None]:
    """A fault of a file is told with its name, where it is one of the folder that was asked for."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error) if entry == path else f"{printable(entry.name)}: {error}") from error
