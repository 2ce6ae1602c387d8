"""Arrays of HDF5 files that stand for other values than they hold, as netCDF writes them: packed, or with a number for
what is missing."""

from __future__ import annotations

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.data.formats.hdf5_files import attributes
from rl_training.errors import DataError
from rl_training.validation import shown

_PACKED = {"scale_factor": 1.0, "add_offset": 0.0}  # with what each is where it changes nothing
_MISSING = ("_FillValue", "missing_value")
_UNSIGNED = "_Unsigned"
# What netCDF fills arrays with, of types whose measurements it can hardly be.
_NEVER_WRITTEN = {"f": 9.969209968386869e36, "i4": -(2**31 - 1), "i8": -(2**63 - 2)}


def refuse_packed(field: h5py.Dataset, name: str) -> None:
    """Refuse an array whose numbers become values only by what stands beside it: a factor, an offset, another sign."""
    if _UNSIGNED in field.attrs and field.dtype.kind in "iu":
        raise DataError(f"{name}: is packed as netCDF does ({_UNSIGNED}); write the values in a type that holds them")
    readable = attributes(field, _PACKED)
    told = {
        word: np.asarray(readable.get(word, "a text")).reshape(-1).tolist() for word in _PACKED if word in field.attrs
    }
    if any(value != _PACKED[word] for word, several in told.items() for value in several):
        said = ", ".join(f"{word} {shown(value[0])}" for word, value in told.items() if value)
        way = "write the values, number * scale_factor + add_offset"
        raise DataError(f"{name}: is packed as netCDF does ({said}); {way}")


def with_gaps(values: npt.NDArray[np.generic], field: h5py.Dataset) -> npt.NDArray[np.generic]:
    """With NaN for the numbers that stand for nothing, as is said beside the array."""
    told = [np.asarray(mark).reshape(-1) for mark in attributes(field, _MISSING).values()]
    kind = values.dtype.kind if values.dtype.kind == "f" else values.dtype.str[1:]
    told += [np.array([_NEVER_WRITTEN[kind]])] if kind in _NEVER_WRITTEN else []
    numbers = [_as(values.dtype, mark) for mark in told if mark.dtype.kind in "iuf" and values.dtype.kind in "iuf"]
    if not numbers or not (gaps := np.isin(values, np.concatenate(numbers))).any():
        return values
    return np.where(gaps, np.nan, values)


def _as(dtype: np.dtype[np.generic], marks: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Those of the marks that an array of this type can hold; floats are rounded as its own are."""
    with np.errstate(invalid="ignore", over="ignore"):
        held = marks.astype(dtype)
    return held if dtype.kind == "f" else held[held == marks]
