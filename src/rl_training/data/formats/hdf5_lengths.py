"""How long the texts of an array in an HDF5 file are declared to be, from its stored bytes: libhdf5 makes room for what
stands there, up to 4 GiB for each, before it looks at the text."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.data.formats.hdf5_files import stored_bytes
from rl_training.errors import DataError

_LENGTH, _NUMBER = 4, 4  # bytes of each entry, before and behind the address of a heap
_CHECKSUM = 4  # bytes
_AT_ONCE = 2**16  # entries
_LITERALS, _LONGER = 32, 7  # below: one more bytes follow as they are; a copy whose length goes on in the next byte
_WASTED = 1024  # bytes by which packing may enlarge a piece, besides an eighth of it


def check_lengths(array: h5py.Dataset, said: str, rows: int, longest: int) -> None:
    """Refuse texts of any length of which one of the first rows is declared to be of more than so many bytes."""
    width = _LENGTH + h5py.h5i.get_file_id(array.id).get_create_plist().get_sizes()[0] + _NUMBER
    of_entries = np.dtype({"names": ["length"], "formats": ["<u4"], "offsets": [0], "itemsize": width})
    for piece in _pieces(array, said, rows, width):
        lengths: npt.NDArray[np.uint32] = np.frombuffer(piece[: len(piece) // width * width], of_entries)["length"]
        if (found := int(lengths.max(initial=0))) > longest:
            raise DataError(f"{said}: holds a text of {found:,} bytes; at most {longest:,} are read")


def _pieces(array: h5py.Dataset, said: str, rows: int, width: int) -> Iterator[bytes]:
    """The entries of the first rows as they are stored, unpacked; what was never written is passed over."""
    if array.chunks is None:
        place = array.id.get_offset()
        if place is None and array.id.get_create_plist().get_layout() == h5py.h5d.COMPACT:
            raise DataError(
                f"{said}: its texts lie in the head of the array (compact), and are not read; write it anew"
            )
        for start in range(0, rows if place is not None else 0, _AT_ONCE):
            yield stored_bytes(array, place + start * width, min(_AT_ONCE, rows - start) * width)
        return
    for start in range(0, rows, array.chunks[0]):
        piece = array.id.get_chunk_info_by_coord((start, 0)[: array.ndim])
        if piece.byte_offset is not None:
            held = _unpacked(array, said, piece.chunk_offset, piece.size, array.chunks[0] * width)
            yield held[: (rows - start) * width]


def _unpacked(array: h5py.Dataset, said: str, place: tuple[int, ...], size: int, whole: int) -> bytes:
    damaged = DataError(f"{said}: damaged (the piece at {place[0]:,} is not of the size that it has)")
    if size > whole + whole // 8 + _WASTED:
        raise damaged
    held: bytes
    left_out, held = array.id.read_direct_chunk(place)
    plan = array.id.get_create_plist()
    for number in reversed(range(plan.get_nfilters())):
        code, _, values, _ = plan.get_filter(number)
        if not left_out >> number & 1:
            held = _without_filter(held, code, values, said, whole + _CHECKSUM)
    if len(held) < whole:
        raise damaged
    return held[:whole]


def _without_filter(held: bytes, code: int, values: tuple[int, ...], said: str, most: int) -> bytes:
    match code:
        case h5py.h5z.FILTER_DEFLATE:
            try:
                return zlib.decompressobj().decompress(held, most)
            except zlib.error as error:
                raise DataError(f"{said}: damaged ({error})") from error
        case h5py.h5z.FILTER_SHUFFLE if values and values[0]:
            count, width = len(held) // values[0], values[0]
            together = np.frombuffer(held, np.uint8, count * width).reshape(width, count)
            return together.T.tobytes() + held[count * width :]
        case h5py.h5z.FILTER_LZF:
            try:
                return _without_lzf(held, most)
            except IndexError as error:
                raise DataError(f"{said}: damaged (a piece that is packed with lzf ends too early)") from error
        case h5py.h5z.FILTER_FLETCHER32:
            return held[:-_CHECKSUM]
    raise DataError(
        f"{said}: its texts are packed otherwise than with gzip or lzf, and are not read; write them with gzip"
    )


def _without_lzf(held: bytes, most: int) -> bytes:
    """Unpack what LibLZF packed, up to so many bytes. libhdf5 is not asked to: of a stream that is too short, it gives
    whatever lay in memory behind it."""
    out, at = bytearray(), 0
    while at < len(held) and len(out) < most:
        control = held[at]
        if control < _LITERALS:
            out += held[at + 1 : at + 2 + control]
            at += 2 + control
            continue
        length, at = control >> 5, at + 1
        if length == _LONGER:
            length, at = length + held[at], at + 1
        back = ((control & 0x1F) << 8) + held[at] + 1
        length, at = length + 2, at + 1
        if back > len(out):
            raise IndexError
        copied = out[-back:][:length]
        out += copied if back >= length else (copied * (length // back + 1))[:length]
    return bytes(out[:most])
