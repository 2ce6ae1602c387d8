"""`.npz` archives: one plain array per field, written complete or not at all, read without opening a pickle."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import IGNORED_PREFIXES
from rl_training.data.formats.atomic import new_file
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.raw import RawData
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError

TOLD = "metadata/"  # before the names of what is told beside the fields: env_id, action_low, obs_high, …
_TOLD_LIMIT = 1 << 20  # bytes of one of them


def write(target: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays by name: complete under `target` or not there at all."""
    with new_file(target) as temporary, temporary.open("xb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(path: Path) -> RawData:
    """Every array by name; of the side information, the environment's name and bounds."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if _is_field(member) or _is_told(member)]
            check_size(sum(member.file_size for member in members))
            arrays = {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
            told = {name.removeprefix(TOLD): arrays.pop(name) for name in list(arrays) if name.startswith(TOLD)}
            env_id = told_env_id(told.get("env_id"))
            return RawData(arrays, "NumPy archive (.npz)", env_id, bounds=SpaceBounds.read(told))
    except FileNotFoundError as error:
        raise DataError("no such file") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        EOFError,
        KeyError,
        RuntimeError,
        MemoryError,
        OverflowError,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"not a readable .npz file ({reason})") from error


def _is_field(member: zipfile.ZipInfo) -> bool:
    return not member.filename.startswith(IGNORED_PREFIXES)


def _is_told(member: zipfile.ZipInfo) -> bool:
    name = member.filename.removeprefix(TOLD).removesuffix(".npy")
    known = name == "env_id" or name in SpaceBounds.__dataclass_fields__
    return known and member.filename == f"{TOLD}{name}.npy" and member.file_size <= _TOLD_LIMIT


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as file:
        _check_header(file, member)
    with archive.open(member) as file:
        values: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return values


def _check_header(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Hold the array's own header to the size the archive declares: numpy allocates what the header says."""
    if member.comment:  # none is ever written; a damaged length here would swallow the entries that follow
        raise DataError(f"{member.filename}: damaged (an unexpected comment in the archive)")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{member.filename}: compression {member.compress_type} is not one numpy writes")
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{member.filename}: npy version {version} is not supported")
    shape, _, dtype = readers[version](file)
    if dtype.itemsize == 0:
        raise DataError(f"{member.filename}: its items have no size")
    if dtype.hasobject:
        raise DataError(f"{member.filename}: holds Python objects; give plain numbers")
    count = 1
    for length in shape:  # Python integers: a forged shape must not wrap around
        count *= length
    if count * dtype.itemsize != member.file_size - file.tell():
        raise DataError(f"{member.filename}: damaged (its header and its size do not agree)")
