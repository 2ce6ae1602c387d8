"""File formats. A module per format turns a file into plain arrays by name; files are recognised by their content.

A format's module is imported when such a file is read: not everyone needs HDF5.
"""

from __future__ import annotations

from pathlib import Path

from rl_training.data.formats.raw import Arrays, Columns, RawData
from rl_training.errors import DataError

__all__ = ["Arrays", "Columns", "RawData", "read", "recognise"]

# By the first bytes of a file.
_SIGNATURES = {"npz": (b"PK\x03\x04", "NumPy archive (.npz)"), "hdf5": (b"\x89HDF\r\n\x1a\n", "HDF5")}


def recognise(path: Path) -> str:
    """The format of a file, by its content: the name of the module here that reads it."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError as error:
        raise DataError("no such file") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error
    for name, (signature, _) in _SIGNATURES.items():
        if start.startswith(signature):
            return name
    known = ", ".join(title for _, title in _SIGNATURES.values())
    described = "it is empty" if not start else f"it begins with {start!r}"
    raise DataError(f"not a dataset in a format this version reads ({known}): {described}")


def read(path: Path, columns: Columns | None = None) -> RawData:
    """The arrays of a file. `columns` says which columns hold which field, in formats that have columns."""
    name = recognise(path)
    if columns is not None:
        raise DataError("columns: this format has named arrays, not columns; leave them out")
    if name == "hdf5":
        from rl_training.data.formats import hdf5

        return hdf5.read(path)
    from rl_training.data.formats import npz

    return npz.read(path)
