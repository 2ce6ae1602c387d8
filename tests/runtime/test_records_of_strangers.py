"""Records of a run that may be a stranger's: no link is written through, what is aside stays, odd ones are told of."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment import manager
from rl_training.experiment.manager import load_policy
from rl_training.experiment.shipping.exporting import export_policy
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.records import Records, is_estimate, is_evaluation
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trackers import QUIET_THREAD
from rl_training.runtime.trainer import train
from small_runs import StopAt, small_config

QUICK: dict[str, Any] = {"updates": 10, "repeats": 2}


@pytest.fixture
def run(data_file: Path, tmp_path: Path) -> Path:
    """Interrupted at update 20 of 40, with four records."""
    config = small_config(data_file, tmp_path, total_timesteps=40, log_interval=5, checkpoint_interval=10)
    return train(config, callbacks=[StopAt(20)]).run.path


class TestLinks:
    def test_an_estimate_is_not_written_to_where_one_leads(self, run: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("keep\nno newline")
        (run / "offline_evaluations.jsonl").symlink_to(victim)
        policy = load_policy(run)
        found = policy.evaluate_offline(store=False, **QUICK)
        with pytest.raises(CheckpointError, match=r"\.jsonl: cannot be written \(not a plain file\)"):
            found.store(policy)
        assert victim.read_text() == "keep\nno newline"

    @pytest.mark.parametrize("name", ["timing", "metrics"])
    def test_a_resumed_run_writes_a_file_of_its_own(self, run: Path, tmp_path: Path, name: str) -> None:
        file, victim = run / f"{name}.jsonl", tmp_path / "victim"
        victim.write_bytes(file.read_bytes())
        before = victim.read_bytes()
        file.unlink()
        file.symlink_to(victim)
        manager.resume(run)
        assert victim.read_bytes() == before
        assert not file.is_symlink()
        assert len(file.read_text().splitlines()) == 8

    def test_estimates_are_not_forgotten_where_one_leads(self, run: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        load_policy(run).evaluate_offline(**QUICK)
        (run / "offline_evaluations.jsonl").rename(victim)
        before = victim.read_bytes()
        (run / "offline_evaluations.jsonl").symlink_to(victim)
        (run / "offline_evaluations.jsonl.new").symlink_to(victim)
        with pytest.raises(CheckpointError, match="not a plain file"):
            RunDirectory.open(run).forget("offline_evaluations", lambda record: True)
        assert victim.read_bytes() == before

    @pytest.mark.parametrize("late", [False, True])
    def test_no_pipe_keeps_one_waiting(self, tmp_path: Path, late: bool) -> None:
        os.mkfifo(tmp_path / "metrics.jsonl")
        records = Records(tmp_path / "metrics.jsonl")
        with pytest.raises(OSError, match="not a plain file"):
            (records.append_late if late else records.append)({"step": 1})


def test_what_is_aside_is_not_written_on(run: Path) -> None:
    """A line was taken out, and the others need no mending."""
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:1] + lines[2:]))
    manager.resume(run)
    aside = run / "metrics.jsonl.aside"
    assert aside.read_text().splitlines(keepends=True) == lines[:1] + lines[2:]
    assert not aside.samefile(file)
    assert len(file.read_text().splitlines()) == 7


def test_damaged_lines_are_not_forgotten(run: Path) -> None:
    load_policy(run).evaluate_offline(**QUICK)
    file = run / "offline_evaluations.jsonl"
    with file.open("ab") as damaged:
        damaged.write(b"\xff\xfe not a record\n")
    count, aside = RunDirectory.open(run).forget("offline_evaluations", lambda record: True)
    assert (count, aside) == (1, run / "offline_evaluations.jsonl.aside")
    assert file.read_bytes() == b"\xff\xfe not a record\n"


class TestOddRecords:
    def evaluation(self, **changes: Any) -> dict[str, Any]:
        names = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
        return {"step": 20, "seeds": [0], "episodes": 3, **{name: [1.0] for name in names}, **changes}

    @pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, True, None, "1"])
    def test_returns_that_are_no_numbers(self, run: Path, value: Any) -> None:
        assert is_evaluation(self.evaluation())
        record = self.evaluation(return_mean=[value])
        assert not is_evaluation(record)
        (run / "evaluations.jsonl").write_text(json.dumps(record) + "\n")
        with pytest.raises(CheckpointError, match=r"evaluations\.jsonl: line 1 is damaged"):
            export_policy(load_policy(run), run.parent / "policy.pt2")
        assert not list(run.parent.glob("policy*"))

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("value", 1.0),
            ("value", {}),
            ("value", {"value": "x", "low": None, "high": None}),
            ("improvement", {"value": 1.0, "low": None, "high": None}),
            ("improvement", 7),
            ("not_trusted_because", "text"),
            ("not_trusted_because", None),
            ("not_trusted_because", [3]),
        ],
    )
    def test_estimates_that_no_evaluation_writes(self, run: Path, key: str, value: Any) -> None:
        load_policy(run).evaluate_offline(**QUICK)
        file = run / "offline_evaluations.jsonl"
        record = json.loads(file.read_text())
        assert is_estimate(record)
        record["policies"][0][key] = value
        file.write_text(json.dumps(record) + "\n")
        with pytest.raises(CheckpointError, match="holds what no evaluation writes; remove it"):
            export_policy(load_policy(run), run.parent / "policy.pt2")
        assert not list(run.parent.glob("policy*"))

    @pytest.mark.parametrize("key", ["seeds", "policies", "data", "behaviour", "gamma", "cautions", "level"])
    def test_estimates_that_lack_a_part(self, run: Path, key: str) -> None:
        load_policy(run).evaluate_offline(**QUICK)
        record = json.loads((run / "offline_evaluations.jsonl").read_text())
        assert not is_estimate({name: value for name, value in record.items() if name != key})

    @pytest.mark.parametrize("key", ["foretold_by_the_model", "ends_foretold_by_the_model"])
    def test_estimates_whose_models_foretold_no_number(self, run: Path, key: str) -> None:
        load_policy(run).evaluate_offline(**QUICK)
        record = json.loads((run / "offline_evaluations.jsonl").read_text())
        assert is_estimate(record | {key: None})
        assert not is_estimate(record | {key: [1]})


@pytest.mark.parametrize("threads", [1_025, 20_000, 100_000, 10**12])
def test_threads_that_no_machine_has(threads: int) -> None:
    with pytest.raises(ConfigError, match="threads: must be at least 1 and at most 1024"):
        TrainConfig.parse({"algo": "bc", "total_timesteps": 1, "threads": threads})


def test_observations_that_are_too_large_are_told_from_weights(run: Path) -> None:
    policy = load_policy(run)
    for view in policy.actor.learner.rows().values():
        view *= 1e3  # so that finite observations overflow
    with pytest.raises(CheckpointError, match="no number: the observations are too large"):
        policy.predict(np.full(3, 3e38, dtype=np.float32) * np.array([1, -1, 1], dtype=np.float32))
    next(iter(policy.actor.learner.rows().values()))[:] = math.nan
    with pytest.raises(CheckpointError, match="no number: its weights are not finite"):
        policy.predict(np.zeros(3, dtype=np.float32))


def test_only_tensorboards_own_thread_is_kept_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def tell(failed: Any) -> None:
        told.append(str(failed.exc_value))

    monkeypatch.setattr(threading, "excepthook", tell)

    class Writer(threading.Thread):
        def run(self) -> None:
            raise OSError("no space left")

    theirs = type("_AsyncWriterThread", (Writer,), {"__module__": "tensorboard.summary.writer"})

    def fail(*kinds: type[threading.Thread]) -> int:
        for kind in kinds:
            thread = kind()
            thread.start()
            thread.join()
        return len(told)

    with QUIET_THREAD:
        with QUIET_THREAD:  # a second tracker
            assert fail(Writer, theirs) == 1
        assert fail(Writer, theirs) == 2
    assert threading.excepthook is tell
    assert fail(theirs) == 3


def test_a_hook_that_came_later_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    with QUIET_THREAD:
        later = threading.excepthook = lambda failed: None
    assert threading.excepthook is later
