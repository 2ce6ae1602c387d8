"""Packed transitions in a file instead of memory, for datasets larger than it.

The file holds the very matrix `PackedTransitions` would hold, so training from it gives the same numbers. It lies in
the column directory, is made once for every choice of transforms, and can be deleted at any time. Nothing in it is
taken on trust: whoever opens it has it compared with what the columns give.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl_training.data.batch import PackedTransitions, are_packed, pack_rows, packed_widths
from rl_training.data.direct_reads import DirectReader
from rl_training.data.formats.atomic import new_file
from rl_training.data.formats.columns import packed_folder, verify
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import DataError

_PAGE = mmap.PAGESIZE


def packed_bytes(dataset: TransitionDataset) -> int:
    """Size of the packed matrix."""
    return dataset.n_usable * sum(packed_widths(dataset).values()) * 4


class MappedTransitions(PackedTransitions):
    """Packed rows read from a file as they are needed."""

    def __init__(self, path: Path, dataset: TransitionDataset) -> None:
        """`path`: the packed rows of `dataset`."""
        self._direct: DirectReader | None = None
        self._file = os.open(path, os.O_RDONLY)
        try:
            # Copy-on-write: torch wants memory that could be written to, and nobody writes.
            mapping = mmap.mmap(self._file, 0, access=mmap.ACCESS_COPY)
            mapping.madvise(mmap.MADV_RANDOM)  # reading on around every row would evict what is needed
            rows = np.frombuffer(mapping, dtype=np.float32).reshape(dataset.n_usable, -1)
            packed = PackedTransitions.describe(torch.from_numpy(rows), dataset)
        except BaseException:
            os.close(self._file)
            raise
        super().__init__(packed.rows, packed.widths, packed.parts, packed.exact_shares)
        self._row_bytes = rows.shape[1] * 4
        with contextlib.suppress(OSError):  # not everywhere; then rows come through the map
            self._direct = DirectReader(path, rows.shape[1])

    @classmethod
    def of_folder(cls, dataset: TransitionDataset, transforms: Transforms) -> MappedTransitions:
        """The packed file of a column directory, made if it is not there yet or not what the columns give."""
        assert dataset.folder is not None
        shape = (dataset.n_usable, sum(packed_widths(dataset).values()))
        text = json.dumps([dataset.fingerprint(), transforms.to_json(), packed_widths(dataset)])
        path = packed_folder(dataset.folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.f32"
        if not _is_sound(dataset, transforms, path, shape):
            verify(dataset.folder)
            _write(dataset, transforms, path, shape)
        return cls(path, dataset)

    def read(self, indices: Tensor, out: Tensor) -> None:
        """Fill `out` `[…, width]` with the rows at `indices` `[…]`, without torch's threads."""
        if self._direct is not None:
            try:
                self._direct.read(indices.flatten().numpy(), out.view(-1, out.shape[-1]).numpy())
                return
            except OSError:  # from now on through the map
                with contextlib.suppress(OSError):
                    self._direct.close()
                self._direct = None
        for slot, rows in zip(out.flatten(0, -3), indices.flatten(0, -2), strict=True):  # few enough for one thread
            torch.index_select(self.rows, 0, rows, out=slot)

    def ask_for(self, indices: Tensor) -> None:
        """Have the system read these rows ahead, where they come through the map; returns at once."""
        if self._direct is not None or not hasattr(os, "posix_fadvise"):
            return
        rows = indices.flatten().numpy()
        first = rows * self._row_bytes // _PAGE
        last = ((rows + 1) * self._row_bytes - 1) // _PAGE
        pages = np.unique(np.concatenate((first, last)))
        breaks = np.flatnonzero(np.diff(pages) != 1)
        starts, ends = pages[np.r_[0, breaks + 1]], pages[np.r_[breaks, len(pages) - 1]] + 1
        for start, length in zip((starts * _PAGE).tolist(), ((ends - starts) * _PAGE).tolist(), strict=True):
            os.posix_fadvise(self._file, start, length, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Let go of the file; nothing can be read any more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        self.rows = self.rows.new_empty(0, self.rows.shape[1])  # the map, and a descriptor of its own, end with it


def _is_sound(dataset: TransitionDataset, transforms: Transforms, path: Path, shape: tuple[int, int]) -> bool:
    """Whether the file is the folder's own and holds what the columns give: both are read through."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != shape[0] * shape[1] * 4:
        return False
    return are_packed(dataset, transforms, np.memmap(path, dtype=np.float32, mode="r", shape=shape))


def _write(dataset: TransitionDataset, transforms: Transforms, path: Path, shape: tuple[int, int]) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with new_file(path) as temporary:
            with temporary.open("xb") as file:  # all of it now: a full disk found out later would kill the process
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, shape[0] * shape[1] * 4)
                else:
                    file.truncate(shape[0] * shape[1] * 4)
            rows = np.memmap(temporary, dtype=np.float32, mode="r+", shape=shape)
            pack_rows(dataset, transforms, rows)
            rows.flush()
    except OSError as error:
        raise DataError(f"{path.parent}: the packed rows cannot be written: {error.strerror or error}") from error
