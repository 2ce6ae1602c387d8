"""Where batches come from.

The loop lets a source act (`advance`) and is told how many updates that pays for; the engine asks it for the batch of
each update (`batch`). An offline source has nothing to do: a step of the run's budget is an update. An online one steps
its environments, and a step of the budget is a step of the environment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from torch import Tensor

from rl_training import streams
from rl_training.data.batch import Batch, PackedTransitions

BATCH_STREAM = streams.stream_id("batch")


class Turn(NamedTuple):
    """What a source did: steps of the budget taken, and updates to run before its next turn."""

    steps: int
    updates: int


class Source(Protocol):
    """What the loop and the engine need from any origin of transitions."""

    @property
    def is_capturable(self) -> bool:
        """Whether `batch` does the same device work every time, so that it can be replayed from a CUDA graph."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether `advance` does nothing but count, so that updates may be begun before their turn."""
        ...

    @property
    def largest_reward(self) -> float:
        """The largest |reward|, transformed, that was collected so far; 0 where nothing is."""
        ...

    @property
    def suspicion(self) -> str:
        """What in the experience may have made a member diverge; empty where nothing is odd."""
        ...

    @property
    def spoilt_members(self) -> Collection[int]:
        """Members whose experience holds what is not finite: whatever is learned from it will not be, either."""
        ...

    def advance(self, limit: int) -> Turn:
        """Make experience ready, taking at most `limit` steps."""
        ...

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        """The batch of update `clock`, a function of the members' keys, the update's number and the data alone."""
        ...

    def take_metrics(self) -> dict[str, list[float]]:
        """What the source has to report since last asked, one value per member."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything a checkpoint needs to bring the source back."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        ...

    def close(self) -> None:
        """Let go of environments and files."""
        ...


class OfflineSource:
    """Draws with replacement from a fixed dataset: uniform, or by the shares of a mixture."""

    is_capturable = True
    is_idle = True
    largest_reward = 0.0
    suspicion = ""
    spoilt_members: Collection[int] = ()

    def __init__(self, transitions: PackedTransitions) -> None:
        self.transitions = transitions

    def advance(self, limit: int) -> Turn:
        return Turn(limit, limit)

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        return self.transitions.gather(self.transitions.indices(keys, BATCH_STREAM, clock, size))

    def take_metrics(self) -> dict[str, list[float]]:
        return {}

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """A fixed dataset has no state."""

    def close(self) -> None:
        """Nothing is held open."""
