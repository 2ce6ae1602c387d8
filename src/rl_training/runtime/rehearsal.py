"""What a training will record, found out before it starts."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from rl_training.algorithms.base import Learner
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.runtime.engine import Engine
from rl_training.runtime.mapped_source import offline_source

_ROWS = 1_000


def rehearsed_metrics(learner: Learner, dataset: TransitionDataset, transforms: Transforms) -> tuple[str, ...]:
    """The names of what training records, learned from an update of each kind of a twin; nothing is written for it."""
    twin = type(learner)(learner.obs_dim, learner.act_dim, learner.params, seeds=learner.seeds, device=learner.device)
    with closing(offline_source(first_rows(dataset), transforms, twin, "ram")) as source:
        rehearsal = Engine(twin, source)
        for first in {twin.phase(update): update for update in reversed(range(twin.period))}.values():
            rehearsal.run(first, 1)
    return tuple(rehearsal.metric_names)


def first_rows(dataset: TransitionDataset) -> TransitionDataset:
    """Enough of a dataset to rehearse with, however large it is: from the first row that can be learned from."""
    start = 0 if dataset.has_next_obs is None else int(np.argmax(dataset.has_next_obs))
    return dataset.select(np.arange(start, min(start + _ROWS, len(dataset))))
