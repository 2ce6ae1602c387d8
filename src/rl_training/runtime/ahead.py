"""Updates that a device does while the host is busy with an evaluation of the weights before them.

The run itself stays where it is: its records, checkpoints and evaluations come in the same order and hold the same
numbers as without. Should anything happen before the run has come to these updates (a member is stopped, a signal, the
end), the learner is set back and what is wanted of them is done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.runtime.stored_tensors import restore

if TYPE_CHECKING:
    from rl_training.runtime.engine import Engine

MetricState = tuple[Mapping[str, Tensor], Mapping[str, int]]


class WorkAhead:
    """Updates `first` up to `limit`, begun block by block; `held` is the learner's state and the metrics before them.

    mark_every: updates between two records, at which metrics are taken.
    """

    def __init__(
        self, engine: Engine, first: int, limit: int, mark_every: int, held: Mapping[str, Tensor], metrics: MetricState
    ) -> None:
        self.engine, self.first, self.limit, self.mark_every = engine, first, limit, mark_every
        self.end = first  # updates that have been begun
        self._held, self._held_metrics = held, metrics
        self._taken: list[int] = []
        self._marks: deque[tuple[int, MetricState, Tensor]] = deque()
        self._busy_until: torch.cuda.Event | None = None

    def go_on(self, block: int) -> None:
        """Begin another block, unless the device is still busy with the last one."""
        if self.end >= self.limit or (self._busy_until is not None and not self._busy_until.query()):
            return
        mark = (self.end // self.mark_every + 1) * self.mark_every
        stop = min(self.end + block, mark, self.limit)
        self.engine.begin(self.end, stop - self.end)
        self.end = stop
        if stop == mark:
            sums, counts = self.engine.metric_state()
            state = ({name: value.clone() for name, value in sums.items()}, dict(counts))
            self._marks.append((mark, state, self.engine.learner.finite_rows()))
            self.engine.clear_metrics()
        if self.engine.learner.device.type == "cuda":
            self._busy_until = torch.cuda.Event()
            self._busy_until.record()

    def take_mark(self) -> tuple[MetricState, Tensor] | None:
        """Sums and counts at the next record, if these updates go as far, and the learner's `finite_rows`."""
        if not self._marks:
            return None
        mark, state, finite = self._marks.popleft()
        self._taken.append(mark)
        return state, finite

    def undo(self, update: int) -> None:
        """Have the learner, and the metrics not taken yet, be those of `update`."""
        if update == self.end and not self._marks:
            return
        restore(self.engine.learner.state(), self._held)
        self.engine.restore_metrics(*self._held_metrics)
        at = self.first
        for mark in self._taken:
            self.engine.begin(at, mark - at)
            self.engine.clear_metrics()
            at = mark
        self.engine.begin(at, update - at)
