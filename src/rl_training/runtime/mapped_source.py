"""Training from a dataset larger than memory: the rows of coming updates are asked for while others are learned from.

Which rows an update draws is known beforehand, as it is a function of the seeds and the update's number. So nothing is
shuffled, cached or approximated: the batches are those of a dataset in memory.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

import torch

from rl_training.algorithms.base import Learner
from rl_training.data.batch import PackedTransitions
from rl_training.data.formats.limits import free_memory
from rl_training.data.mapped import MappedTransitions, packed_bytes
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError
from rl_training.runtime.sources import BATCH_STREAM, OfflineSource, Turn

_AHEAD = 64  # updates asked for beyond the present turn, at least


class MappedSource(OfflineSource):
    """Draws from a file, and has the system read ahead."""

    is_capturable = False

    def __init__(self, transitions: MappedTransitions, learner: Learner) -> None:
        super().__init__(transitions)
        self._mapped = transitions
        self._learner = learner
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._pending: Future[None] | None = None
        self._asked = 0  # updates whose rows have been asked for

    def advance(self, limit: int) -> Turn:
        turn = super().advance(limit)
        at = int(self._learner.clock)
        if self._pending is not None:
            self._pending.result()
        first = max(at, self._asked)
        self._asked = at + turn.updates + max(turn.updates, _AHEAD)
        self._pending = self._reader.submit(self._ask, first, self._asked)
        return turn

    def _ask(self, first: int, end: int) -> None:
        """In small groups: the first are needed first."""
        learner, size = self._learner, self._learner.params.batch_size
        with torch.no_grad():
            for start in range(first, end, 8):
                updates = range(start, min(start + 8, end))
                self._mapped.ask_for(self._mapped.indices(learner.keys, BATCH_STREAM, u, size) for u in updates)

    def close(self) -> None:
        self._reader.shutdown(cancel_futures=True)
        self._mapped.close()


def offline_source(
    dataset: TransitionDataset, transforms: Transforms, learner: Learner, memory: Literal["auto", "ram", "mapped"]
) -> OfflineSource:
    """Draws from memory or from disk, as asked for; `auto` is from disk if the data would fill half of what is free."""
    mapped = memory == "mapped"
    if memory == "auto":
        mapped = dataset.folder is not None and packed_bytes(dataset) > free_memory() // 2
    if not mapped:
        return OfflineSource(PackedTransitions.from_dataset(dataset, transforms, learner.device))
    if learner.device.type != "cpu":
        raise ConfigError("data_memory: data on disk are trained from on the CPU; a GPU needs them in its own memory")
    return MappedSource(MappedTransitions.of_folder(dataset, transforms), learner)
