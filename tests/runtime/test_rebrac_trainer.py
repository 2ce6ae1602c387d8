"""ReBRAC's next actions: the data's own, taken from the next row, or none at all, and always said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.trainer import trainer_for
from small_runs import small_config

FROM_THE_NEXT_ROW = (
    "the data have no next_actions: each is taken from the next row of its episode "
    "(the last row of an episode repeats its own)"
)
NONE_AT_ALL = "the data have no next_actions and no whole episodes to take them from: the critics go unpenalised"


def without_next_actions(dataset: TransitionDataset) -> TransitionDataset:
    return replace(dataset, next_actions=None)


@pytest.mark.parametrize("case", ["own", "next row", "sampled"])
def test_where_next_actions_come_from(case: str, dataset: TransitionDataset, tmp_path: Path) -> None:
    dataset = replace(dataset, env_id=None)  # which would be a notice of its own
    bare = without_next_actions(dataset)
    data, expected, notices = {
        "own": (dataset, dataset.next_actions, []),
        "next row": (bare, bare.with_next_actions().next_actions, [FROM_THE_NEXT_ROW]),
        "sampled": (bare.sample(500, np.random.default_rng(0)), None, [NONE_AT_ALL]),
    }[case]
    trainer = trainer_for("rebrac")(small_config(None, tmp_path, "rebrac"), dataset=data)
    loop = trainer.prepare()
    everything = torch.arange(len(data))[None]
    batch = loop.engine.source.transitions.gather(everything)  # type: ignore[attr-defined]
    if expected is None:
        assert batch.next_actions is None
    else:
        unit = loop.actor.transforms.to_unit_actions(expected)
        np.testing.assert_array_equal(batch.next_actions[0].numpy(), unit)
    assert loop.notices == notices
    assert loop.run_directory.describe().get("notices", []) == notices
    loop.engine.run(0, 2)
    distance = loop.engine.take_metrics()["critic/bc_distance"][0]
    assert (distance == 0.0) == (expected is None)
