"""How long a training will take, as measured before it starts."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rl_training.data.formats import columns
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime import rehearsal
from rl_training.runtime.trainer import Trainer
from small_runs import small_config


@pytest.mark.parametrize(
    ("first", "others", "updates", "told"),
    [
        (4.0, 3.0, 1, 4.0),  # of large networks one is enough
        (0.9, 0.5, 2, 0.5),
        (0.5, 0.25, 3, 0.25),
        (0.5, 2**-6, 33, 2**-6),
    ],
)
def test_updates_are_measured_for_a_second(
    first: float, others: float, updates: int, told: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ran, costs = [0.0], [], chain([first], repeat(others))

    class TimedEngine:
        def __init__(self, *_: Any) -> None: ...

        def run(self, update: int, count: int) -> None:
            ran.extend(range(update, update + count))
            now[0] += sum(next(costs) for _ in range(count))

    monkeypatch.setattr(rehearsal, "Engine", TimedEngine)
    monkeypatch.setattr(rehearsal.time, "perf_counter", lambda: now[0])
    source: Any = SimpleNamespace(advance=lambda limit: None, close=lambda: None)
    learner: Any = None
    assert rehearsal.seconds_per_update(learner, source) == pytest.approx(told)
    assert ran == list(range(updates))


@pytest.mark.parametrize(("memory", "is_told"), [("ram", True), ("mapped", False)])
def test_no_time_is_told_of_rows_on_disk(memory: str, is_told: bool, data_file: Path, tmp_path: Path) -> None:
    """Those in memory would be faster."""
    columns.write(TransitionDataset.load(data_file), tmp_path / "log")
    plan = Trainer(small_config(tmp_path / "log", tmp_path / "runs", data_memory=memory)).plan()
    assert any(line.startswith("time: ") for line in plan) == is_told
