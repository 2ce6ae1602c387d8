"""`.npz` archives: one plain array per field, written complete or not at all, read without opening a pickle."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import BORDERS_LOST, DISCRETE_ACTIONS, FIELD_OF, PARTS, are_parts
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import check_names, listed
from rl_training.data.formats.raw import NAMES, Arrays, Columns, RawData, told_as_json
from rl_training.data.formats.tables import assemble, left_aside, plan
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import with_told
from rl_training.data.provenance import KEY
from rl_training.data.space_bounds import SpaceBounds, told_env_id, unsound_bounds
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices
from rl_training.validation import shortened

_DESCRIBED = "NumPy archive (.npz)"
TOLD = "metadata/"  # before the names of what is told beside the fields: env_id, action_low, obs_high, …
_TOLD_LIMIT = 1 << 20  # bytes of one of them
MOST_TOLD = _TOLD_LIMIT // 4 - 256  # characters: each takes four bytes, and a header stands before them


def write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays by name into a new file."""
    with path.open("xb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """Every array by name, or those that `columns` map to fields; of the side information, what is told of the
    environment, and of the names of values."""
    with _readable(), zipfile.ZipFile(path) as archive:
        held = members(archive)
        told = _arrays(archive, {name: member for name, member in held.items() if _is_told(name, member)})
        fields = {name: member for name, member in held.items() if name not in told}
        raw = _by_name(archive, fields) if columns is None else _by_mapping(archive, fields, columns, choices)
        about = {name.removeprefix(TOLD): values for name, values in told.items()}
        if columns is None:
            raw = with_told(raw, *(told_as_json(about.get(name)) for name in (NAMES, WORDS)))
        notes = (*raw.notes, *unsound_bounds(about))
        return replace(raw, env_id=told_env_id(about.get("env_id")), bounds=SpaceBounds.read(about), notes=notes)


def read_array(path: Path, name: str) -> npt.NDArray[Any]:
    """One array of an archive, under the same limits."""
    with _readable(), zipfile.ZipFile(path) as archive:
        held = members(archive)
        if name not in held:
            raise DataError(f"has no array {name!r}; it holds {listed(held)}")
        return _arrays(archive, {name: held[name]})[name]


def read_alone(path: Path) -> npt.NDArray[Any]:
    """The array of a `.npy` file, its header held to the size of the file; mapped, so that nothing is allocated."""
    with path.open("rb") as file, _readable(".npy"):
        _header(file, "", path.stat().st_size)
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


@contextmanager
def _readable(suffix: str = ".npz") -> Iterator[None]:
    """What zipfile and numpy raise on a damaged or forged file, as one line."""
    try:
        yield
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
        reason = shortened(" ".join(str(error).split()), 200) or type(error).__name__
        raise DataError(f"not a readable {suffix} file ({reason})") from error


def _by_name(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> RawData:
    wanted = {name: member for name, member in members.items() if name in (*FIELD_OF, BORDERS_LOST, DISCRETE_ACTIONS)}
    if not are_parts(members):
        wanted.pop(PARTS, None)
    arrays = _arrays(archive, wanted)
    notes, hints = left_aside(members, wanted, {FIELD_OF[name] for name in wanted if name in FIELD_OF})
    return RawData(arrays, _DESCRIBED, notes=tuple(notes), hints=hints)


def _by_mapping(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], columns: Columns, choices: TableChoices
) -> RawData:
    planned = plan([name for name in members if name != BORDERS_LOST], columns, choices)
    needed = {*planned.columns, BORDERS_LOST}
    wanted = _arrays(archive, {name: member for name, member in members.items() if name in needed})
    raw = assemble(planned, wanted.__getitem__, _DESCRIBED)
    raw.arrays.update({name: wanted[name] for name in (BORDERS_LOST,) if name in wanted})
    return raw


def members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of the archive by name."""
    members = archive.infolist()
    if not any(member.filename.endswith(".npy") for member in members):
        held = listed(m.filename for m in members)
        raise DataError(f"a ZIP archive without arrays (.npy): it holds {held}; unpack it, and give what is inside")
    names = [member.filename.removesuffix(".npy") for member in members]
    check_names(names)
    for member in members:
        archive.open(member).close()  # its name stands there again: a damaged one must not pass for a field not used
    return dict(zip(names, members, strict=True))


def _arrays(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> Arrays:
    check_size(sum(m.file_size for m in members.values()), sum(m.compress_size for m in members.values()))
    arrays: Arrays = {}
    for name, member in members.items():
        with archive.open(member) as file:
            check_header(file, member)
        with archive.open(member) as file:
            arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
        if arrays[name].dtype.kind == "U" and not _is_text(arrays[name]):
            raise DataError(f"{member.filename}: damaged (its text holds what is no character)")
    return arrays


def _is_text(values: npt.NDArray[Any]) -> bool:
    """Whether every character is one: numpy takes any 32 bits, and Python fails on them when they are looked at."""
    codes = np.ascontiguousarray(values).reshape(-1).view(f"{values.dtype.byteorder}u4")
    return not codes.size or int(codes.max()) < 0x110000


def _is_told(name: str, member: zipfile.ZipInfo) -> bool:
    """Whether a member is something to know of the environment, of a size that can be."""
    known = {f"{TOLD}{word}" for word in ("env_id", KEY, NAMES, WORDS, *SpaceBounds.__dataclass_fields__)}
    return name in known and member.filename.endswith(".npy") and member.file_size <= _TOLD_LIMIT


def check_header(file: IO[bytes], member: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of an array, its own header held to the size that the archive
    declares: numpy allocates what the header says."""
    if member.comment:  # none is ever written; a damaged length here would swallow the entries that follow
        raise DataError(f"{member.filename}: damaged (an unexpected comment in the archive)")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{member.filename}: compression {member.compress_type} is not one numpy writes")
    return _header(file, f"{member.filename}: ", member.file_size)


def _header(file: IO[bytes], of: str, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{of}npy version {version} is not supported")
    shape, in_columns, dtype = readers[version](file)
    if dtype.itemsize == 0:
        raise DataError(f"{of}its items have no size")
    if dtype.hasobject:
        raise DataError(f"{of}holds Python objects; give plain numbers")
    count = 1
    for length in shape:  # Python integers: a forged shape must not wrap around
        count *= length
    if count * dtype.itemsize != size - file.tell():
        raise DataError(f"{of}damaged (its header and its size do not agree)")
    return shape, in_columns, dtype
