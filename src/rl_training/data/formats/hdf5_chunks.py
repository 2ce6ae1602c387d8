"""Packed pieces of HDF5 arrays: libhdf5 unpacks a stream to its end, however much longer than its piece it is."""

from __future__ import annotations

import math
import zlib
from typing import Any

import h5py

from rl_training.errors import DataError

_DEFLATE, _LZF = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF
_MOST_PACKED = 1_032  # bytes that one byte of a deflated stream can stand for
_MOST_BYTES = 256 * 2**20  # that a piece may come to without being looked at
_AT_A_TIME = 2**20
_CHECKSUM = 4  # bytes that a filter before it may have added


def check_chunks(dataset: h5py.Dataset) -> None:
    """Refuse arrays that are packed twice, and streams that unpack to more than their piece holds."""
    name, packers = str(dataset.name).rpartition("/")[2], _packers(dataset)
    if len(packers) > 1:
        raise DataError(f"{name}: is packed {len(packers)} times over, as no program writes it; write it anew")
    if packers != [_DEFLATE] or dataset.id.get_storage_size() * _MOST_PACKED <= _MOST_BYTES:
        return
    whole = math.prod(dataset.chunks) * dataset.dtype.itemsize + _CHECKSUM

    def look(piece: Any) -> None:
        if piece.size * _MOST_PACKED > _MOST_BYTES and not piece.filter_mask:
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
