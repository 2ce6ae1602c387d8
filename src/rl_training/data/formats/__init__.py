"""File formats. A module per format turns a file into plain arrays by name; it is recognised by its first bytes.

A format's module is imported when such a file is read: not everyone needs HDF5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from rl_training.errors import DataError

Arrays = dict[str, npt.NDArray[Any]]

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


def read_arrays(path: Path) -> Arrays:
    """The arrays of a file by name."""
    if recognise(path) == "hdf5":
        from rl_training.data.formats import hdf5

        return hdf5.read(path)
    from rl_training.data.formats import npz

    return npz.read(path)
