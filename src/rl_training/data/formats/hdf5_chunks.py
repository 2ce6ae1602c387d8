"""The pieces (chunks) of HDF5 arrays. libhdf5 goes through all that an array declares, written or not, and unpacks a
stream to its end, however much longer than its piece it is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError
from rl_training.validation import printable

_DEFLATE, _LZF = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF
_MOST_PACKED = 1_032  # bytes that one byte of a deflated stream can stand for
_MOST_BYTES = 256 * 2**20  # that a piece may come to without being looked at
_AT_A_TIME = 2**20
_MOST_UNWRITTEN = 2**16  # pieces of all arrays together, besides those that the file has room for
_BYTES_OF_ITS_PLACE = 8  # that the file needs for each piece that was written
_PIECES_AT_ONCE = 2**14  # libhdf5 keeps about 4 kB for each that one reading takes
_CHECKSUM = 4  # bytes that a filter before it may have added


def check_begun(dataset: h5py.Dataset) -> None:
    """Refuse an array that was declared, and of which nothing was ever written: the file has no place for it, where
    one of zeros has. What has no rows needs none."""
    if dataset.size and dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_NOT_ALLOCATED:
        raise DataError(
            f"{_name(dataset)}: was declared and never written, so that what it holds is made up;"
            " write its values, zeros too, or leave it out"
        )


def check_written(dataset: h5py.Dataset) -> None:
    """Refuse an array of which a part was never written: its values would come from nowhere."""
    whole = _declared(dataset)
    if whole and 0 < (written := dataset.id.get_num_chunks()) < whole:
        raise DataError(
            f"{_name(dataset)}: {written:,} of its {whole:,} chunks were written, and the rest is made up;"
            " write all rows, or make the array smaller"
        )


def check_chunk_count(datasets: Collection[h5py.Dataset]) -> None:
    """Refuse more pieces in all than can have been written: reading goes through every one of them."""
    if (declared := sum(map(_declared, datasets))) <= _MOST_UNWRITTEN:
        return
    stored = max(h5py.h5i.get_file_id(dataset.id).get_filesize() for dataset in datasets)
    if declared > _MOST_UNWRITTEN + stored // _BYTES_OF_ITS_PLACE:
        raise DataError(
            f"declares {declared:,} chunks in a file of {stored:,} bytes: they were never written, or made to mislead;"
            " write it with larger chunks"
        )


def values_in(dataset: h5py.Dataset) -> npt.NDArray[Any]:
    """All values of an array, by so many rows at a time that its pieces are not too many."""
    pieces = _declared(dataset)
    if pieces <= _PIECES_AT_ONCE:
        return np.asarray(dataset[()])
    band, rows = dataset.chunks[0], dataset.shape[0]
    step = band * max(1, _PIECES_AT_ONCE // (pieces // -(-rows // band)))
    values = np.empty(dataset.shape, dataset.dtype)
    for start in range(0, rows, step):
        values[start : start + step] = dataset[start : start + step]
    return values


def _name(dataset: h5py.Dataset) -> str:
    return printable(str(dataset.name).removeprefix("/"))


def _declared(dataset: h5py.Dataset) -> int:
    if dataset.chunks is None:
        return 0
    return math.prod(-(-length // width) for length, width in zip(dataset.shape, dataset.chunks, strict=True))


def check_chunks(dataset: h5py.Dataset) -> None:
    """Refuse arrays that are packed twice, and streams that unpack to more than their piece holds."""
    name, packers = _name(dataset), _packers(dataset)
    if len(packers) > 1:
        raise DataError(f"{name}: is packed {len(packers)} times over, as no program writes it; write it anew")
    if packers != [_DEFLATE] or dataset.id.get_storage_size() * _MOST_PACKED <= _MOST_BYTES:
        return
    whole = math.prod(dataset.chunks) * dataset.dtype.itemsize + _CHECKSUM
    plan = dataset.id.get_create_plist()
    deflated = next(place for place in range(plan.get_nfilters()) if plan.get_filter(place)[0] == _DEFLATE)

    def look(piece: Any) -> None:
        is_packed = not piece.filter_mask >> deflated & 1  # a piece may leave filters out
        if piece.size * _MOST_PACKED > _MOST_BYTES and is_packed:
            _, stream = dataset.id.read_direct_chunk(piece.chunk_offset)
            if _is_longer(stream, whole):
                raise DataError(f"{name}: the piece at {piece.chunk_offset} unpacks to more than it holds; refused")

    dataset.id.chunk_iter(look)


def _packers(dataset: h5py.Dataset) -> list[int]:
    if dataset.chunks is None:
        return []
    plan = dataset.id.get_create_plist()
    return [code for place in range(plan.get_nfilters()) if (code := plan.get_filter(place)[0]) in (_DEFLATE, _LZF)]


def _is_longer(stream: bytes, most: int) -> bool:
    """Whether a stream unpacks to more bytes; not where it is damaged, which whoever reads it will say."""
    unpacking, length = zlib.decompressobj(), 0
    try:
        while stream and length <= most:
            length += len(unpacking.decompress(stream, _AT_A_TIME))
            stream = unpacking.unconsumed_tail
    except zlib.error:
        return False
    return length > most
