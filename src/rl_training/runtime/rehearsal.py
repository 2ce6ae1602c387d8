"""What a training will record and how long it will take, found out before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from copy import copy
from typing import NamedTuple

import numpy as np

from rl_training.algorithms.base import Learner
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.engine import Engine
from rl_training.runtime.sources import Source
from rl_training.wording import amount

_ROWS = 1_000
_WARM, _ENOUGH = 10, 1.0  # updates that are slower than those after them, seconds to measure for
_LARGE = 4_096  # rows of a batch from where on a smaller one is tried first, as a single update may take minutes
_NOW = "as measured here just now"


def first_rows(dataset: TransitionDataset) -> TransitionDataset:
    """Enough of a dataset to rehearse with, however large it is: from the first row that can be learned from."""
    start = 0 if dataset.has_next_obs is None else int(np.argmax(dataset.has_next_obs))
    return dataset.select(np.arange(start, min(start + _ROWS, len(dataset))))


def rehearsed_metrics(learner: Learner, source_for: Callable[[Learner], Source]) -> set[str]:
    """The names of what training records, learned from an update of each kind of a twin."""
    twin = type(learner)(learner.obs_dim, learner.act_dim, learner.params, seeds=learner.seeds, device=learner.device)
    with closing(source_for(twin)) as source:
        rehearsal = Engine(twin, source)
        for first in {twin.phase(update): update for update in reversed(range(twin.period))}.values():
            rehearsal.run(first, 1)
    return set(rehearsal.metric_names)


class Pace(NamedTuple):
    """Seconds that an update takes, and how that was found out."""

    seconds: float
    how: str


def pace_of(learner: Learner, source: Source, *, compiled: bool = False) -> Pace:
    """What an update takes, found out in a second or two; the learner and the source are used up.

    compiled: updates will be faster than those measured here, as compiling them to find out would take a minute."""
    rows, limit = learner.params.batch_size, 2 * _ENOUGH
    end = " without compiling, which makes it faster" if compiled else ""
    if rows > _LARGE:
        fewer = copy(learner)
        fewer.params = learner.params.model_copy(update={"batch_size": _LARGE})
        reckoned = _seconds_per_update(fewer, source) * rows / _LARGE
        if reckoned > limit:
            source.close()
            return Pace(reckoned, f"reckoned from batches of {amount(_LARGE, 'row')}, {_NOW}{end}")
    return Pace(seconds_per_update(learner, source), f"{_NOW}{end}")


def seconds_per_update(learner: Learner, source: Source) -> float:
    """As measured here and now, by a single update where that takes long; the learner and the source are used up."""
    with closing(source):
        return _seconds_per_update(learner, source)


def _seconds_per_update(learner: Learner, source: Source) -> float:
    engine = Engine(learner, source)
    clock = [time.perf_counter()]
    while clock[-1] - clock[0] < _ENOUGH:
        source.advance(1)
        engine.run(len(clock) - 1, 1)
        clock.append(time.perf_counter())
    done = len(clock) - 1
    warm = min(_WARM, done // 2)
    return (clock[-1] - clock[warm]) / (done - warm)
