"""Where batches come from.

The loop asks a source how many updates may follow before the source must act again (`advance`), and the engine asks
it for the batch of an update (`batch`). An offline source never needs to act; an online one steps its environments
in `advance` and tells how many updates that experience pays for.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from rl_training import streams
from rl_training.data.batch import Batch, PackedTransitions

_BATCH_STREAM = streams.stream_id("batch")


class Source(Protocol):
    """What the loop and the engine need from any origin of transitions."""

    def advance(self, limit: int) -> int:
        """Make experience ready; how many updates, at most `limit`, to run before the next call."""
        ...

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        """The batch of update `clock`, a pure function of the members' keys and the update's number."""
        ...


class OfflineSource:
    """Uniform draws, with replacement, from a fixed dataset."""

    def __init__(self, transitions: PackedTransitions) -> None:
        self.transitions = transitions

    def advance(self, limit: int) -> int:
        return limit

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        return self.transitions.gather(streams.integers(keys, _BATCH_STREAM, clock, size, len(self.transitions)))
