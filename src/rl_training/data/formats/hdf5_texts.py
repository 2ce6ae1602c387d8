"""Arrays of text in HDF5 files, as those that say why episodes ended."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.data.formats.hdf5_lengths import check_lengths
from rl_training.data.formats.labels import decoded
from rl_training.errors import DataError

_LONGEST = 256  # characters of a text
_MOST_BYTES = 4  # of a character
_LARGEST_CHUNK = 2**16  # entries that are only unpacked together
_AT_ONCE = 100  # rows, where every one may hold a long text; what was unpacked of those is kept between two looks


def is_text(member: Any) -> bool:
    """Whether a member of a file is a plain array, `[N]` or `[N, 1]`, of texts in this very file, of a size that can be
    read."""
    return (
        isinstance(member, h5py.Dataset)
        and h5py.check_string_dtype(member.dtype) is not None
        and not (member.is_virtual or member.external)
        and (member.ndim == 1 or (member.ndim == 2 and member.shape[1] == 1 and (member.chunks or (0, 1))[1] == 1))
        and member.dtype.itemsize <= _LONGEST
        and (member.chunks or (0,))[0] <= _LARGEST_CHUNK
    )


def texts_in(array: h5py.Dataset, said: str, rows: int | None = None) -> npt.NDArray[Any]:
    """The texts of its first rows, or of all; each is kept once."""
    words: dict[str, str] = {}
    found: list[str] = []
    stop = len(array) if rows is None else min(rows, len(array))
    of_one_length = h5py.check_string_dtype(array.dtype).length is not None
    if not of_one_length:
        check_lengths(array, said, stop, _MOST_BYTES * _LONGEST)
    at_once = max(_AT_ONCE, (array.chunks or (0,))[0]) if of_one_length else _AT_ONCE
    for start in range(0, stop, at_once):
        for text in map(decoded, array[start : min(start + at_once, stop)].reshape(-1).tolist()):
            if len(text) > _LONGEST:
                raise DataError(f"{said}: holds a text of {len(text):,} characters; at most {_LONGEST} are read")
            found.append(words.setdefault(text, text))
    return np.array(found, dtype=object)
