"""File formats. A module per format turns a file or a folder into plain arrays by name, recognised by its content.

A format's module is imported when such a file is read: not everyone needs HDF5, and Parquet needs a package more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import is_zipfile

import numpy as np

from rl_training.data.fields import BORDERS_LOST, END_REASONS, EPISODE_IDS
from rl_training.data.formats.csv_text import GZIP, is_text, unpacked_start
from rl_training.data.formats.folders import kind_in
from rl_training.data.formats.frames import read_table
from rl_training.data.formats.nearby import near_names
from rl_training.data.formats.not_data import DAMAGED_WORKBOOK, WORKBOOK, is_workbook, told_apart
from rl_training.data.formats.places import MINARI_PREFIX
from rl_training.data.formats.raw import Arrays, Columns, RawData
from rl_training.data.formats.siblings import alike_beside
from rl_training.data.formats.user_blocks import SIGNATURE, hdf5_begins
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.written import provenance_in
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError
from rl_training.paths import is_there
from rl_training.reading_choices import AS_IT_STANDS, TableChoices
from rl_training.validation import printable

__all__ = ["MINARI_PREFIX", "Arrays", "Columns", "RawData", "is_there", "read", "read_table", "recognise"]

# By the first bytes of a file.
_SIGNATURES = {
    "npz": (b"PK\x03\x04", "NumPy archive (.npz)"),
    "hdf5": (SIGNATURE, "HDF5"),
    "parquet": (b"PAR1", "Parquet"),
}
# What else a log may be, and what to do about it.
_STRANGERS = {
    GZIP: "what is compressed with gzip here is no CSV; unpack it first",
    b"BZh": "it is compressed with bzip2; unpack it first",
    b"\xfd7zXZ": "it is compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd; unpack it first",
    b"\x93NUMPY": "it is a single NumPy array; np.savez puts all of them into one archive",
    b"\xd0\xcf\x11\xe0": "it is an Excel workbook; save its sheet as CSV (UTF-8)",
    b"\x80": "it looks like a Python pickle, which could run code and is never opened; write arrays with np.savez",
    b"ARROW1": "it is an Arrow (Feather) file; write it as Parquet",
    b"PK\x05\x06": "it is an empty archive",
    b"MATLAB ": "it is a file of MATLAB; write its table as CSV (writetable)",
    b"CDF": "it is netCDF of the classic kind; write it as netCDF-4, or as CSV",
    b"{": "it is JSON; write it as CSV or Parquet",
    b"[": "it is JSON; write it as CSV or Parquet",
    b"<": "it begins with <, as HTML and XML do; write it as CSV, with a header that begins with a letter",
}
_TABLES = ("csv", "parquet")
_NO_ENDS = ("nothing else tells where episodes end", f"(or {EPISODE_IDS})")  # in what is said where nothing tells them
_OF_SHEETS = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".ods")  # endings of what a spreadsheet may have saved
_LEAST_COLUMNS = 4  # of a log: obs, actions, rewards and ends
# By what lies in a folder, the first that fits.
_FOLDERS: dict[str, tuple[Callable[[Path], bool], str]] = {
    "columns": (lambda folder: (folder / "schema.json").is_file(), "a column directory"),
    "minari": (lambda folder: _is_minari(folder), "a Minari dataset"),
    "parquet": (lambda folder: kind_in(folder) == "parquet", "Parquet files"),
    "csv": (lambda folder: kind_in(folder) == "csv", "CSV files"),
}


def recognise(path: Path) -> str:
    """The format of a file or folder, by its content: the name of the module here that reads it."""
    try:
        if (instead := told_apart(path)) is not None and path.exists():
            raise DataError(instead)
        if path.is_dir():
            return _recognise_folder(path)
        if path.exists() and not path.is_file():
            raise DataError("is not a file that can be read from its beginning (a pipe or a device)")
        with path.open("rb") as file:
            start = file.read(4096)
        has_user_block = bool(hdf5_begins(path))
    except FileNotFoundError as error:
        if path.is_symlink():
            raise DataError(f"is a link to {str(path.readlink())!r}, and nothing is there") from error
        raise DataError(f"no such file{near_names(path)}") from error
    except (OSError, ValueError) as error:  # a ValueError: a name that no file can have
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for name, (signature, _) in _SIGNATURES.items():
        if start.startswith(signature) or (name == "hdf5" and has_user_block):
            if name == "npz" and has_user_block and not is_zipfile(path):
                continue
            if name == "npz" and not _is_array(start) and is_workbook(path):
                raise DataError(WORKBOOK)
            if name == "npz" and path.suffix.lower() in _OF_SHEETS and not is_zipfile(path):
                raise DataError(DAMAGED_WORKBOOK)
            return "minari" if path.name == "main_data.hdf5" and _is_minari(path.parent) else name
    if is_text(unpacked_start(start) if start.startswith(GZIP) else start):
        return "csv"
    known = ", ".join(title for _, title in _SIGNATURES.values())
    described = next((what for sign, what in _STRANGERS.items() if start.startswith(sign)), None)
    described = described or _without_separators(start) or _with_nul(start) or f"it begins with {start[:8]!r}"
    raise DataError(f"not a dataset in a format this version reads ({known}, CSV): {described}")


def _is_array(start: bytes) -> bool:
    """Whether the first member of an archive is one of NumPy's, as it is called there."""
    length = int.from_bytes(start[26:28], "little")
    return start[30 : 30 + length].endswith(b".npy")


def _with_nul(start: bytes) -> str | None:
    """What is said of a table with zero bytes in it, as a logger leaves behind that loses its power."""
    line = start.partition(b"\0")[0].count(b"\n") + 1
    if line == 1 or SIGNATURE in start or not is_text(start.replace(b"\0", b"")):
        return None
    return f"line {line} holds zero bytes, as of a recorder that lost its power; remove them: tr -d '\\000' < OLD > NEW"


def _without_separators(start: bytes) -> str | None:
    if not start:
        return "it is empty; write it anew"
    first = start.splitlines()[0]
    if any(separator in first for separator in b",;\t|"):
        return None
    words = first.split()
    if len(words) < _LEAST_COLUMNS or not start.isascii() or not all(word.decode().isprintable() for word in words):
        return None
    return "it is text without commas, semicolons, tabs or bars (|) between its columns; write it with one of them"


def _recognise_folder(folder: Path) -> str:
    for name, (fits, _) in _FOLDERS.items():
        if fits(folder):
            return name
    known = ", ".join(title for _, title in _FOLDERS.values())
    held = sorted(entry.name for entry in folder.iterdir())
    said = f"not a folder this version reads ({known}): it holds {', '.join(held[:5]) or 'nothing'}"
    files = [name for name in held if name.lower().endswith((".npz", ".hdf5", ".h5"))]
    if files:
        said += "; join the files into one, with the name of its file in each row (episode_ids) where each is an"
        said += " episode, or name each as a part of a mixture (dataset: {source: mixture, parts: …})"
    if partitions := [name for name in held if "=" in name and (folder / name).is_dir()]:
        key = printable(partitions[0].partition("=")[0])
        said += f"; partitions in folders are not read: write them as files in one folder, with {key} as a column"
    raise DataError(said)


def _is_minari(folder: Path) -> bool:
    """Whether a folder is a Minari dataset, or the `data` folder of one."""
    own = (folder / "metadata.json").is_file() and (folder / "main_data.hdf5").is_file()
    return own or (folder / "data" / "metadata.json").is_file()


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The arrays of a file or folder. `columns` says which columns, or arrays of other names, hold which field,
    `choices` what is said of a table's cells and rows."""
    name = recognise(path)
    told = provenance_in(path, name)
    try:
        if name not in _TABLES:
            _require_table(name, columns, choices)
        if columns is not None and name == "columns":
            raise DataError("columns: a column directory holds the fields by their own names; leave them out")
        raw = replace(_read(path, name, columns, choices), provenance=told)
        return raw if raw.time_columns or told is None else replace(raw, time_columns=told.time_columns())
    except DataError as error:
        if any(sign in str(error) for sign in _NO_ENDS) and (beside := alike_beside(path)) is not None:
            raise DataError(f"{error}; {beside}") from error
        applied = "" if told is None else ", ".join(map(printable, told.options))
        if told is None or told.source is None or not applied or (columns is None and choices == AS_IT_STANDS):
            raise
        made = f"was written here from {printable(told.source)} with its options applied"
        raise DataError(f"{error}; {path.name} {made}: use `dataset: {path.name}` (without {applied})") from error


def _read(path: Path, name: str, columns: Columns | None, choices: TableChoices) -> RawData:
    match name:
        case "npz":
            from rl_training.data.formats import npz

            return npz.read(path, columns, choices)
        case "columns":
            from rl_training.data.formats.columns import notes_on, open_verified

            mapped, schema = open_verified(path)
            lost = {} if schema["whole_episodes"] else {BORDERS_LOST: np.array(True)}
            return RawData(
                {**mapped, **lost},
                "column directory",
                env_id=told_env_id(schema.get("env_id")),
                notes=notes_on(schema),
                bounds=SpaceBounds.read(schema.get("bounds") or {}),
            )
        case "hdf5":
            from rl_training.data.formats import hdf5

            return hdf5.read(path, columns, choices)
        case "minari":
            from rl_training.data.formats import minari

            return minari.read(path, columns)
        case "parquet":
            return _parquet(path, columns, choices)
        case _:
            from rl_training.data.formats import csv

            return csv.read(path, columns, choices)


_ARRAYS = ("npz", "hdf5")
_DATES = "a table's column of dates (CSV, Parquet)"
_HOLDERS = {
    END_REASONS: "a column that columns names (CSV, Parquet, HDF5, .npz)",
    "missing_words": "a table's column (CSV, Parquet)",
    WORDS: "a table's column (CSV, Parquet)",
    "episode_each": _DATES,
    "observe_time": _DATES,
}


def _require_table(name: str, columns: Columns | None, choices: TableChoices) -> None:
    """Refuse what can only be said of a table."""
    given = {
        END_REASONS: not (columns and name in _ARRAYS)
        and (choices.end_reasons is not None or END_REASONS in (columns or {})),
        "missing_words": bool(choices.missing_words),
        WORDS: bool(choices.words),
        "episode_each": choices.episode_each is not None,
        "observe_time": bool(choices.observe_time),
    }
    for key in (key for key, said in given.items() if said):
        raise DataError(f"{key}: is for the text of {_HOLDERS[key]}; leave it out here")
    if choices.duplicates != "refuse" and (columns is None or name not in _ARRAYS):
        raise DataError("duplicates: is for rows with a step column (columns: {step: …}); leave it out here")


def _parquet(path: Path, columns: Columns | None, choices: TableChoices) -> RawData:
    try:
        from rl_training.data.formats import parquet
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise DataError("reading Parquet needs pyarrow: pip install 'rl-training[parquet]'") from None
    return parquet.read(path, columns, choices)
