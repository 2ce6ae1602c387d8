"""The one loop: budgets, the order of events, what is logged, what is kept, what stops it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import Trainer, train
from small_runs import Diary, StopAt, digest, one_update_at_a_time, script_scores, small_config

pytestmark = pytest.mark.usefixtures("saved_at_once")


class TestBudget:
    def test_updates(self, data_file: Path, tmp_path: Path) -> None:
        assert train(small_config(data_file, tmp_path, total_timesteps=7)).progress.updates == 7

    def test_epochs_are_passes_over_the_data_rounded_up(self, data_file: Path, tmp_path: Path) -> None:
        # 2,000 transitions in batches of 600 are 3.33 batches, so an epoch is 4 updates.
        config = small_config(
            data_file, tmp_path, total_timesteps=None, n_epochs=3, log_interval=4, algo_kwargs={"batch_size": 600}
        )
        result = train(config)
        assert result.progress.updates == 12
        assert result.progress.epoch == 3.0
        assert [r["epoch"] for r in result.run.records("metrics")] == [1.0, 2.0, 3.0]

    @pytest.mark.parametrize(("updates", "epochs", "expected"), [(5, 1, 5), (300, 1, 250)])
    def test_the_smaller_of_both(
        self, updates: int, epochs: int, expected: int, data_file: Path, tmp_path: Path
    ) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=updates, n_epochs=epochs, log_interval=50)
        assert train(config).progress.updates == expected


class TestOrder:
    def test_record_then_evaluation_then_checkpoint(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {6: 1.0, 12: 0.0, 14: 0.5})
        diary = Diary()
        config = small_config(
            data_file, tmp_path, total_timesteps=14, log_interval=4, eval_interval=6, checkpoint_interval=3
        )
        train(config, callbacks=[diary])
        assert list(dict.fromkeys(diary.events)) == [
            ("start", 0),
            ("checkpoint", 3),
            ("metrics", 4),
            ("evaluation", 6),
            ("checkpoint", 6),
            ("metrics", 8),
            ("checkpoint", 9),
            ("metrics", 12),
            ("evaluation", 12),
            ("checkpoint", 12),
            ("metrics", 14),
            ("evaluation", 14),
            ("checkpoint", 14),
            ("end", 14),
        ]

    def test_every_checkpoint_is_announced_once(self, data_file: Path, tmp_path: Path) -> None:
        diary = Diary()
        train(small_config(data_file, tmp_path, checkpoint_interval=10), callbacks=[diary])
        assert [at for event, at in diary.events if event == "checkpoint"] == [10, 20]

    def test_no_eval_interval_evaluates_once_at_the_end(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        evaluator = script_scores(monkeypatch, {20: 3.0})
        result = train(small_config(data_file, tmp_path, checkpoint_interval=5))
        assert evaluator.asked == [20, -1]  # -1: closed
        assert [r["step"] for r in result.run.records("evaluations")] == [20]

    def test_callbacks_in_the_order_given_and_stop_ends_the_run(self, data_file: Path, tmp_path: Path) -> None:
        events: list[object] = []
        callbacks = [Diary("a", events), StopAt(3, status="finished"), Diary("b", events)]
        result = train(small_config(data_file, tmp_path, log_interval=2), callbacks=callbacks)
        assert events == [
            ("a", "start", 0), ("b", "start", 0), ("a", "metrics", 2), ("b", "metrics", 2),
            ("a", "checkpoint", 3), ("b", "checkpoint", 3), ("a", "end", 3), ("b", "end", 3),
        ]  # fmt: skip
        assert (result.status, result.reason, result.progress.updates) == ("finished", "asked to", 3)
        facts = result.run.describe()
        assert (facts["status"], facts["reason"], facts["step"]) == ("finished", "asked to", 3)

    def test_the_first_reason_to_stop_counts(self, data_file: Path, tmp_path: Path) -> None:
        callbacks = [StopAt(3, status="interrupted"), StopAt(3, status="finished")]
        assert train(small_config(data_file, tmp_path), callbacks=callbacks).status == "interrupted"

    def test_callbacks_end_even_when_the_run_fails(self, data_file: Path, tmp_path: Path) -> None:
        class Fails(Callback):
            def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
                raise RuntimeError("broken")

        diary = Diary()
        with pytest.raises(RuntimeError, match="broken"):
            train(small_config(data_file, tmp_path), callbacks=[diary, Fails()])
        assert diary.events[-1] == ("end", 10)


class TestRecords:
    def test_a_record_is_the_mean_over_its_interval(self, data_file: Path, tmp_path: Path) -> None:
        """TD3+BC's actor steps on every second update only: its mean is over the updates that have it."""
        config = small_config(data_file, tmp_path, algo="td3_bc", total_timesteps=13, log_interval=5, seed=[3, 4])
        by_hand = Trainer(config.model_copy(update={"name": "by-hand"})).prepare().engine
        values: list[dict[str, list[float]]] = []
        for update in range(13):
            by_hand.run(update, 1)
            values.append(by_hand.take_metrics())
        assert ["actor/loss" in record for record in values] == [False, True] * 6 + [False]

        records = train(config).run.records("metrics")
        assert [r["step"] for r in records] == [5, 10, 13]
        for record, span in zip(records, (values[:5], values[5:10], values[10:]), strict=True):
            for name in ("critic/loss", "critic/q_data", "actor/loss", "actor/bc_loss"):
                present = [value[name] for value in span if name in value]
                np.testing.assert_allclose(record[name], np.mean(present, axis=0), rtol=1e-12, err_msg=name)

    def test_timing_is_kept_apart_so_that_records_repeat(self, data_file: Path, tmp_path: Path) -> None:
        runs = [train(small_config(data_file, tmp_path, name=name)).run for name in ("a", "b")]
        first, second = ((run.path / "metrics.jsonl").read_bytes() for run in runs)
        assert first == second
        assert [r["step"] for r in runs[0].records("timing")] == [10, 20]
        assert all(r["steps_per_second"] > 0 for r in runs[0].records("timing"))


class TestLastAndBest:
    def test_are_kept_apart(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script_scores(monkeypatch, {4: -3.0, 8: 7.0, 12: 5.0, 16: 6.0, 20: -1.0})
        result = train(small_config(data_file, tmp_path, eval_interval=4, keep_checkpoints=1))
        for facts in (result.run.describe(), result.checkpoint.progress, result.run.load("last").progress):
            assert facts["last"] == {"step": 20, "return_mean": -1.0}
            assert facts["best"] == {"step": 8, "return_mean": 7.0}
        assert result.run.steps() == [8, 20]
        best, last = result.run.load("best"), result.run.load("last")
        assert (best.progress["updates"], last.progress["updates"]) == (8, 20)
        assert digest(best.tensors) != digest(last.tensors)

    def test_an_equal_score_does_not_replace_the_best(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {10: 2.0, 20: 2.0})
        assert train(small_config(data_file, tmp_path, eval_interval=10)).progress.best == {
            "step": 10,
            "return_mean": 2,
        }

    def test_the_best_is_saved_even_between_checkpoints(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {6: 9.0, 12: 1.0, 18: 2.0, 20: 3.0})
        result = train(small_config(data_file, tmp_path, eval_interval=6, checkpoint_interval=10, keep_checkpoints=1))
        assert result.run.steps() == [6, 20]
        assert result.run.load("best").progress["updates"] == 6

    def test_the_best_outlives_a_resume(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script_scores(monkeypatch, {5: 9.0, 10: 1.0, 15: 2.0, 20: 3.0})
        config = small_config(data_file, tmp_path, eval_interval=5, keep_checkpoints=1)
        cut = train(config, callbacks=[StopAt(12)])
        assert manager.resume(cut.run.path).progress.best == {"step": 5, "return_mean": 9.0}
        assert cut.run.steps() == [5, 20]

    def test_the_last_evaluation_is_in_the_last_checkpoint(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run stopped at an update that has a checkpoint already is evaluated after that checkpoint was written."""
        script_scores(monkeypatch, {10: 4.0})
        result = train(small_config(data_file, tmp_path, checkpoint_interval=5), callbacks=[StopAt(10, "finished")])
        assert result.run.describe()["best"] == {"step": 10, "return_mean": 4.0}
        assert result.run.load("last").progress["best"] == {"step": 10, "return_mean": 4.0}


class Remembers(Callback):
    restored: object = None

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def state(self) -> Any:
        return self.memory

    def restore(self, state: Mapping[str, Any]) -> None:
        self.restored = state


def nested(levels: int) -> dict[str, Any]:
    """So many mappings, each in another."""
    return reduce(lambda inner, _: {"a": inner}, range(levels - 1), {})


class TestResume:
    def test_more_stops_than_one(self, data_file: Path, tmp_path: Path) -> None:
        settings = {"algo": "td3_bc", "log_interval": 6, "checkpoint_interval": 4}
        whole = train(small_config(data_file, tmp_path, name="whole", **settings))
        cut = train(small_config(data_file, tmp_path, name="cut", **settings), callbacks=[StopAt(3)])
        for stop in (4, 9):
            assert manager.resume(cut.run.path, callbacks=[StopAt(stop)]).progress.updates == stop
        end = manager.resume(cut.run.path)
        assert digest(end.actor.learner.state()) == digest(whole.actor.learner.state())
        assert (end.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()

    def test_killed_between_checkpoints_records_are_written_once(self, data_file: Path, tmp_path: Path) -> None:
        """What a kill -9 leaves: records after the last checkpoint, the last of them cut short."""

        class Killed(Callback):
            def on_start(self, loop: Loop) -> None:
                one_update_at_a_time(loop)

            def on_progress(self, loop: Loop) -> None:
                if loop.progress.updates == 9:
                    raise KeyboardInterrupt

        settings = {"log_interval": 2, "checkpoint_interval": 6}
        whole = train(small_config(data_file, tmp_path, name="whole", **settings))
        with pytest.raises(KeyboardInterrupt):
            train(small_config(data_file, tmp_path, **settings), callbacks=[Killed()])
        with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
            file.write('{"step": 10, "epo')
        manager.resume(tmp_path / "run")
        first, second = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "run"))
        assert first == second
        assert whole.progress.updates == 20

    def test_a_callback_gets_its_own_memory_back(self, data_file: Path, tmp_path: Path) -> None:
        class Counts(Callback):
            def __init__(self) -> None:
                self.seen = 0

            def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
                self.seen += 1

            def state(self) -> dict[str, int]:
                return {"seen": self.seen}

            def restore(self, state: Mapping[str, int]) -> None:
                self.seen = state["seen"]

        config = small_config(data_file, tmp_path, log_interval=4)
        train(config, callbacks=[Counts(), StopAt(9)])
        again = Counts()
        manager.resume(tmp_path / "run", callbacks=[again])
        assert again.seen == 5

    def test_a_memory_that_is_closed_at_the_end_is_kept_as_it_was_before(self, data_file: Path, tmp_path: Path) -> None:
        class Writes(Remembers):
            def on_end(self, loop: Loop) -> None:
                self.memory = {"not a number": math.nan}

        result = train(small_config(data_file, tmp_path), callbacks=[Writes({"written": 3})])
        assert result.checkpoint.progress == result.run.load("last").progress
        assert result.checkpoint.progress["callbacks"]["Writes"] == {"written": 3}

    @pytest.mark.parametrize(
        ("memory", "again"),
        [
            (Counter(a=2, b=1), {"a": 2, "b": 1}),
            (defaultdict(list, a=[1]), {"a": [1]}),
            ({1: (np.float64(0.5), None)}, {"1": [0.5, None]}),
            ({"a": [{}] * 3}, {"a": [{}] * 3}),
            (nested(100), nested(100)),
        ],
    )
    def test_it_comes_back_plain(self, memory: Any, again: Any, data_file: Path, tmp_path: Path) -> None:
        remembers = Remembers(memory)
        train(small_config(data_file, tmp_path, checkpoint_interval=5), callbacks=[remembers, StopAt(9)])
        manager.resume(tmp_path / "run", callbacks=[remembers])
        assert remembers.restored == again
        assert type(remembers.restored) is dict

    @pytest.mark.parametrize(
        ("memory", "complaint"),
        [
            ({1: 1, "1": 2}, r"two of its keys are '1' as texts"),
            ({"a": [{None: 1, "null": 2}]}, r"two of its keys are 'null' as texts"),
            (nested(101), "it is nested more than 100 levels deep"),
            (nested(2_000), "recursion|nested"),
            ({"a": math.nan}, "not JSON compliant"),
            ({"a": {1}}, "set is not JSON serializable"),
        ],
    )
    def test_what_would_not_come_back_is_refused(
        self, memory: Any, complaint: str, data_file: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigError, match=rf"^callback Remembers: state\(\) must hold plain .*({complaint})"):
            train(small_config(data_file, tmp_path), callbacks=[Remembers(memory)])

    def test_another_callback_does_not_get_it(self, data_file: Path, tmp_path: Path) -> None:
        class Other(Callback):
            restored: object = None

            def restore(self, state: Mapping[str, object]) -> None:
                self.restored = dict(state)

        train(small_config(data_file, tmp_path), callbacks=[Remembers({"mine": "yes"}), StopAt(5)])
        other = Other()
        manager.resume(tmp_path / "run", callbacks=[other])
        assert other.restored in (None, {})


def test_a_missing_dataset_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dataset: is required"):
        train(small_config(None, tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


class Stops(Callback):
    def __init__(self, *how: Any) -> None:
        self.how = how

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        loop.stop(*self.how)


class TestWhatStopsARun:
    @pytest.mark.parametrize("reason", [5, True, None, ("why",), ValueError("why"), b"why", {"why": 1}, object()])
    def test_a_reason_is_a_text(self, data_file: Path, tmp_path: Path, reason: Any) -> None:
        """A checkpoint would keep it, and could not be loaded again."""
        with pytest.raises(ConfigError, match=r"^loop\.stop: reason: must be a text, got "):
            train(small_config(data_file, tmp_path), callbacks=[Stops(reason)])

    @pytest.mark.parametrize("status", ["failed", "running", "", None, 5, ["finished"], np.zeros(2)])
    def test_a_status_is_one_that_a_callback_can_give(self, data_file: Path, tmp_path: Path, status: Any) -> None:
        with pytest.raises(ConfigError, match=r"^loop\.stop: status: must be finished or interrupted, got "):
            train(small_config(data_file, tmp_path), callbacks=[Stops("why", status)])

    def test_a_run_that_was_stopped_can_be_loaded(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path), callbacks=[Stops("why")]).run
        assert run.describe()["reason"] == run.load().progress["ended"] == "why"
