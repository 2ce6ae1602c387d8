"""Training from a dataset larger than memory: the rows of coming updates are read while others are learned from.

Which rows an update draws is known beforehand, as it is a function of the seeds and the update's number. So nothing is
shuffled or approximated: the batches are those of a dataset in memory. Updates come in blocks; while one is learned
from, a thread gathers the rows of the next and has the system read those of the one after it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

import torch
from torch import Tensor

from rl_training.algorithms.base import Learner
from rl_training.data.batch import Batch, PackedTransitions, unpack
from rl_training.data.formats import columns
from rl_training.data.formats.limits import free_memory
from rl_training.data.mapped import MappedTransitions, packed_bytes
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.sources import BATCH_STREAM, OfflineSource, Turn

STAGED_UPDATES = 32  # updates whose rows are gathered at once


class MappedSource(OfflineSource):
    """Draws from a file; two blocks of batches are in memory, one in use and one being filled."""

    is_capturable = False
    is_idle = False

    def __init__(self, transitions: MappedTransitions, learner: Learner) -> None:
        super().__init__(transitions)
        self._mapped = transitions
        self._learner = learner
        self._blocks: dict[int, Future[None]] = {}
        width = transitions.rows.shape[1]
        self._staged = torch.empty(2 * STAGED_UPDATES, learner.members, learner.params.batch_size, width)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")

    def advance(self, limit: int) -> Turn:
        """At most to the end of a block, whose rows are there when this returns."""
        at = int(self._learner.clock)
        block = at // STAGED_UPDATES
        if self._blocks and block not in self._blocks:  # not where it was expected: what is staged is of no use
            for pending in self._blocks.values():
                pending.result()
            self._blocks = {}
        for wanted in (block, block + 1):
            if wanted not in self._blocks:
                self._blocks[wanted] = self._reader.submit(self._stage, wanted)
        self._blocks[block].result()
        self._blocks = {number: done for number, done in self._blocks.items() if number >= block}
        count = min(limit, (block + 1) * STAGED_UPDATES - at)
        return Turn(count, count)

    def _stage(self, block: int) -> None:
        """Ask for the rows of the block after this one, then gather this one's."""
        self._mapped.ask_for(self._indices(block + 1))
        place = block % 2 * STAGED_UPDATES
        self._mapped.read(self._indices(block), self._staged[place : place + STAGED_UPDATES].flatten(0, 1))

    def _indices(self, block: int) -> Tensor:
        """`[updates · M, B]`: the rows of every update of a block."""
        keys = self._learner.keys
        updates = torch.arange(block * STAGED_UPDATES, (block + 1) * STAGED_UPDATES).repeat_interleave(len(keys))
        return self._mapped.indices(keys.repeat(STAGED_UPDATES), BATCH_STREAM, updates, self._learner.params.batch_size)

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        rows = self._staged.index_select(0, (clock % (2 * STAGED_UPDATES)).view(1)).squeeze(0)
        return unpack(rows, self._mapped.widths)

    def close(self) -> None:
        self._reader.shutdown(cancel_futures=True)
        self._mapped.close()


def trains_from_disk(
    dataset: TransitionDataset, device: torch.device, memory: Literal["auto", "ram", "mapped"]
) -> bool:
    """Whether rows are read as they are needed; refuses where that is asked for and cannot be.

    `auto` is from disk if the data would fill half of what is free.
    """
    if memory == "ram" or (memory == "auto" and dataset.folder is None):
        return False
    if memory == "auto" and packed_bytes(dataset) <= free_memory() // 2:
        return False
    if device.type != "cpu":
        why = "data on disk are trained from on the CPU; a GPU needs them in its own memory"
        size = f"{packed_bytes(dataset) / 1e9:.3g} GB"
        raise ConfigError(f"data_memory: {memory}: {why} (data_memory: ram, which takes {size} there and here)")
    if dataset.folder is None:
        raise DataError(
            "data_memory: mapped: only a column directory can be trained from disk, and only as it is, not mixed or"
            " selected from; see `rl-training data convert`, or use auto or ram"
        )
    return True


def verify_folder(dataset: TransitionDataset, *, from_disk: bool) -> None:
    """Refuse a damaged column directory, also where rows of it were packed before the damage.

    from_disk: and one whose packed rows could not be written."""
    if dataset.folder is not None:
        if from_disk:
            columns.packed_folder(dataset.folder)
        columns.verify(dataset.folder)


def offline_source(
    dataset: TransitionDataset, transforms: Transforms, learner: Learner, memory: Literal["auto", "ram", "mapped"]
) -> OfflineSource:
    """Draws from memory or from disk; see `trains_from_disk`."""
    if not trains_from_disk(dataset, learner.device, memory):
        return OfflineSource(PackedTransitions.from_dataset(dataset, transforms, learner.device))
    transitions = MappedTransitions.of_folder(dataset, transforms)
    try:
        return MappedSource(transitions, learner)
    except BaseException:
        transitions.close()
        raise
