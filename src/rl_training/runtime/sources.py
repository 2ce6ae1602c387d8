"""Where batches come from.

The loop lets a source act (`advance`) and is told how many updates that pays for; the engine asks it for the batch of
each update (`batch`). An offline source has nothing to do: a step of the run's budget is an update. An online one steps
its environments, and a step of the budget is a step of the environment.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from rl_training import streams
from rl_training.data.batch import Batch, PackedTransitions

_BATCH_STREAM = streams.stream_id("batch")


class Turn(NamedTuple):
    """What a source did: steps of the budget taken, and updates to run before its next turn."""

    steps: int
    updates: int


class Source(Protocol):
    """What the loop and the engine need from any origin of transitions."""

    def advance(self, limit: int) -> Turn:
        """Make experience ready, taking at most `limit` steps."""
        ...

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        """The batch of update `clock`, a pure function of the members' keys and the update's number."""
        ...


class OfflineSource:
    """Uniform draws, with replacement, from a fixed dataset."""

    def __init__(self, transitions: PackedTransitions) -> None:
        self.transitions = transitions

    def advance(self, limit: int) -> Turn:
        return Turn(limit, limit)

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        return self.transitions.gather(streams.integers(keys, _BATCH_STREAM, clock, size, len(self.transitions)))
