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


def planned(data_file: Path, tmp_path: Path, **changes: Any) -> list[str]:
    return Trainer(small_config(data_file, tmp_path, **changes)).plan()


def test_a_batch_larger_than_the_data(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One update of it may take minutes: a smaller batch is measured, however long that one would take."""
    monkeypatch.setattr("rl_training.runtime.rehearsal._ENOUGH", 1e-9)  # on the fastest machine, too
    rows = TransitionDataset.load(data_file).n_usable
    plan = planned(data_file, tmp_path, algo_kwargs={"batch_size": 5_000_000, "actor_hidden": [8]}, total_timesteps=1)
    (time,) = (line for line in plan if line.startswith("time: "))
    assert time.endswith(" an update, reckoned from batches of 4,096 rows, as measured here just now)")
    assert (
        f"note: a batch of 5,000,000 rows is drawn from data of {rows:,}: it repeats them and takes long; 256 are"
        " usual (algo_kwargs.batch_size)"
    ) in plan


def test_a_usual_batch_is_not_spoken_of(data_file: Path, tmp_path: Path) -> None:
    few = TransitionDataset.load(data_file).select(range(50))
    plan = Trainer(small_config(None, tmp_path, algo_kwargs={"batch_size": 256}), dataset=few).plan()
    assert not any("a batch of" in line for line in plan)


def test_what_will_be_compiled_is_measured_without(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl_training.runtime.engine.lack_for_compiling", lambda: None)
    plan = planned(data_file, tmp_path, total_timesteps=100_000_000, device="cpu")
    (time,) = (line for line in plan if line.startswith("time: "))
    assert time.startswith("time: about ")
    assert time.endswith(" an update, as measured here just now without compiling, which makes it faster)")
