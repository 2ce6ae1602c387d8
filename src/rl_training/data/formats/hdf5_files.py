"""Opening HDF5 files of strangers: what libhdf5 would never come back from is noticed as it reads.

Texts of any length, and the sources of virtual arrays, lie in global heap collections. libhdf5 walks one from entry to
entry by the sizes that stand there and trusts them: a size of 0 holds it forever. For a text it allocates what the
attribute says of its length, before it looks at the text. It is therefore handed every byte by a reader that looks at
both first.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from rl_training.data.formats.user_blocks import hdf5_begins
from rl_training.errors import DataError

# What h5py raises on files that are damaged or forged.
DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError, OverflowError)

_COLLECTION = b"GCOL\x01"
_HEAD = struct.Struct("<8xQ")  # signature, version, reserved; bytes of the collection, its head included
_ENTRY = struct.Struct("<H6xQ")  # number, references, reserved; bytes that follow, padded to 8 (of entry 0: in all)
_LENGTH_BYTES = 8  # as above, and as libhdf5 writes unless told otherwise
_SMALLEST_COLLECTION = 4096  # libhdf5 reads none that says less
_LARGEST_METADATA = (
    2**20
)  # bytes that libhdf5 reads at once of anything but values; the head of a collection lies in 4096
_LARGEST_ATTRIBUTE = 2**16  # bytes
_TEXT = "env_id"  # the one attribute that is read as text of any length
_NAME = _TEXT.encode() + b"\0"
_ATTRIBUTE = struct.Struct("<BBHHH")  # version, flags; bytes of name, type and shape, which follow, and then the value
_OF_ANY_LENGTH = 9  # the class of a type, in the lower half of its first byte


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """The file to read from. A damaged collection is a `DataError`, whatever became of the call that met it."""
    with _Watched(path) as source:
        try:
            with h5py.File(source, "r") as file:
                if (width := file.id.get_create_plist().get_sizes()[1]) != _LENGTH_BYTES:
                    raise DataError(f"stores lengths in {width} bytes each; files that use {_LENGTH_BYTES} are read")
                _OPEN[_key(file)] = source
                try:
                    yield file
                finally:
                    del _OPEN[_key(file)]
        except DAMAGE as error:
            raise (DataError(source.damage) if source.damage else error) from error
        if source.damage:
            raise DataError(source.damage)


def stored_bytes(member: h5py.Dataset, place: int, size: int) -> bytes:
    """What stands at a place in the file that an array is of, with zeros past its end."""
    return _OPEN[_key(member)].at(place, size)


def _key(member: h5py.Group | h5py.Dataset) -> int:
    return int(h5py.h5o.get_info(member.id).fileno)


def attributes(group: h5py.Group, names: Iterable[str]) -> dict[str, Any]:
    """Those of a file's, or a group's, attributes that are numbers or text; any other, or a large one, is passed over
    unread."""
    return {name: group.attrs[name] for name in names if name in group.attrs and _is_plain(group.attrs.get_id(name))}


def _is_plain(attribute: Any) -> bool:
    if attribute.shape is None:  # holds nothing, of which libhdf5 tells no size either
        return False
    if (text := h5py.check_string_dtype(attribute.dtype)) is not None and text.length is None:
        return bool(attribute.name == _NAME[:-1] and attribute.shape == ())
    is_known = text is not None or attribute.dtype.kind in "biuf"
    return bool(is_known and attribute.get_storage_size() <= _LARGEST_ATTRIBUTE)


class _Watched(io.FileIO):
    """A file that gives no byte of a global heap collection which cannot be walked to its end.

    It begins behind its user block, if it has one: libhdf5 knows such places by the beginning that it finds.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "r")
        self.damage: str | None = None
        self._begins = hdf5_begins(path) or 0
        self._size = os.fstat(self.fileno()).st_size - self._begins
        self.seek(0)
        self._steps_left = self._size // _ENTRY.size  # all that a file can hold; one that has more tells some twice
        self._walked: set[int] = set()

    def seek(self, place: int, whence: int = os.SEEK_SET, /) -> int:
        """Of the places behind the user block."""
        shift = self._begins if whence == os.SEEK_SET else 0
        return super().seek(place + shift, whence) - self._begins

    def tell(self) -> int:
        """The same."""
        return super().tell() - self._begins

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer: with zeros past the end of the file, and where a collection is damaged."""
        start, target = self.tell(), memoryview(buffer).cast("B")
        filled = 0
        while filled < len(target) and (count := super().readinto(target[filled:])):
            filled += count
        target[filled:] = bytes(len(target) - filled)
        if filled <= _LARGEST_METADATA:
            for place in self._found(_COLLECTION, start, target):
                if place not in self._walked:
                    self._walked.add(place)
                    self.damage = self.damage or self._fault(place)
            for place in self._found(_NAME, start, target):
                self.damage = self.damage or self._fault_of_text(place)
        if self.damage:
            target[:] = bytes(len(target))
        return len(target)

    def _found(self, wanted: bytes, start: int, read: memoryview) -> Iterator[int]:
        """Where it stands in what was read, or begins just before it: libhdf5 joins what it reads piece by piece."""
        before = min(start, len(wanted) - 1)
        block = self.at(start - before, before) + read
        place = block.find(wanted)
        while place >= 0:
            yield start - before + place
            place = block.find(wanted, place + 1)

    def _fault(self, place: int) -> str | None:
        """What is wrong with the collection at `place`; one that libhdf5 refuses by itself is let through."""
        (size,) = _HEAD.unpack(self.at(place, _HEAD.size))
        end = place + size
        if size < _SMALLEST_COLLECTION or end > self._size:
            return None
        entry = place + _HEAD.size
        while end - entry >= _ENTRY.size:  # what is smaller is free
            number, held = _ENTRY.unpack(self.at(entry, _ENTRY.size))
            step = _ENTRY.size + (held + 7) // 8 * 8 if number else held
            self._steps_left -= 1
            if step < _ENTRY.size or step > end - entry or self._steps_left < 0:
                return f"damaged: the global heap at byte {place:,}, which holds texts, has an entry of a wrong size"
            entry += step
        return None

    def _fault_of_text(self, name: int) -> str | None:
        """What is wrong with the attribute whose name stands there, if it is one and a text of any length."""
        for head in (name - _ATTRIBUTE.size, name - _ATTRIBUTE.size - 1):  # version 3 tells the encoding of the name
            if head < 0:
                continue
            version, flags, *sizes = _ATTRIBUTE.unpack(self.at(head, _ATTRIBUTE.size))
            if version not in ((1, 2) if head == name - _ATTRIBUTE.size else (3,)) or sizes[0] != len(_NAME):
                continue
            spans = [(size + 7) // 8 * 8 if version == 1 else size for size in sizes]
            kind = self.at(name + spans[0], 1)[0] & 0x0F
            length = int.from_bytes(self.at(name + sum(spans), 4), "little")
            if (kind == _OF_ANY_LENGTH or flags) and length > _LARGEST_ATTRIBUTE:
                return f"{_TEXT}: declares a text of {length:,} bytes; at most {_LARGEST_ATTRIBUTE:,} are read"
        return None

    def at(self, place: int, size: int) -> bytes:
        """What stands there, with zeros past the end."""
        return os.pread(self.fileno(), size, place + self._begins).ljust(size, b"\0")


_OPEN: dict[int, _Watched] = {}  # by what libhdf5 numbers open files with
