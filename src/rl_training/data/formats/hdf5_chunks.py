"""The pieces (chunks) of HDF5 arrays. libhdf5 goes through all that an array declares, written or not, and unpacks a
stream to its end, however much longer than its piece it is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.errors import DataError
from rl_training.validation import printable

_DEFLATE, _LZF = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF
_SHUFFLE, _SUM = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32
_AT_A_TIME = 2**20
_MOST_UNWRITTEN = 2**16  # pieces of all arrays together, besides those that the file has room for
_BYTES_OF_ITS_PLACE = 8  # that the file needs for each piece that was written
_PIECES_AT_ONCE = 2**14  # libhdf5 keeps about 4 kB for each that one reading takes
_ADDRESS = 16  # bytes that stand for a text of any length; where it lies, and how long it is, is looked at elsewhere
_CHECKSUM = 4  # bytes of fletcher32's sum


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
    """Refuse arrays that are packed twice, and pieces that unpack to more than they hold, or to less."""
    name, packers = _name(dataset), _packers(dataset)
    if len(packers) > 1:
        raise DataError(f"{name}: is packed {len(packers)} times over, as no program writes it; write it anew")
    if dataset.chunks is None or not dataset.size:
        return
    text = h5py.check_string_dtype(dataset.dtype)
    has_addresses = text is not None and text.length is None
    whole = math.prod(dataset.chunks) * (_ADDRESS if has_addresses else dataset.dtype.itemsize)
    filters = _filters(dataset)

    def look(piece: Any) -> None:
        applied = [code for place, code in enumerate(filters) if not piece.filter_mask >> place & 1]
        length = _length(dataset, piece, applied, whole)
        if length is not None and (length > whole or (length < whole and not has_addresses)):
            than = "more" if length > whole else "less"
            raise DataError(f"{name}: the piece at {piece.chunk_offset} unpacks to {than} than it holds; refused")

    dataset.id.chunk_iter(look)


def _length(dataset: h5py.Dataset, piece: Any, applied: Sequence[int], whole: int) -> int | None:
    """How many bytes a piece unpacks to, at least where that is more than it holds; None where libhdf5 tells by itself.
    Of one that is too short, it gives whatever lay in memory behind it."""
    if set(applied) - {_DEFLATE, _SHUFFLE, _SUM}:
        return None
    if _DEFLATE not in applied:
        return int(piece.size) - _CHECKSUM * applied.count(_SUM)
    place = applied.index(_DEFLATE)
    inside = _CHECKSUM * applied[:place].count(_SUM)
    _, stream = dataset.id.read_direct_chunk(piece.chunk_offset)
    length = _unpacked_length(stream, whole + inside)
    return None if length is None else length - inside


def _packers(dataset: h5py.Dataset) -> list[int]:
    return [code for code in _filters(dataset) if code in (_DEFLATE, _LZF)]


def _filters(dataset: h5py.Dataset) -> list[int]:
    """The codes of what pieces go through, in this order, before they are stored."""
    if dataset.chunks is None:
        return []
    plan = dataset.id.get_create_plist()
    return [plan.get_filter(place)[0] for place in range(plan.get_nfilters())]


def _unpacked_length(stream: bytes, most: int) -> int | None:
    """Of what a stream unpacks to, as far as it matters how much that is beyond the most; None where it is damaged,
    which whoever reads it will say."""
    unpacking, length = zlib.decompressobj(), 0
    try:
        while stream and length <= most:
            length += len(unpacking.decompress(stream, _AT_A_TIME))
            stream = unpacking.unconsumed_tail
    except zlib.error:
        return None
    return length if unpacking.eof or length > most else None
