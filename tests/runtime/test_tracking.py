"""Trackers receive every step once, whatever happens to the run, and nothing that happens to them reaches training."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.runtime import tracking
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.tracking import TrackedRun, Tracker, Tracking
from rl_training.runtime.trainer import train
from small_runs import StopAt, digest, script_scores, small_config, small_values


class Odd(BaseException):
    """What no handler of errors knows."""


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError


class Recorder(Tracker):
    """Keeps what it is told; `store` outlives it, as a server would."""

    name = "recorder"

    def __init__(self, store: dict[str, Any] | None = None) -> None:
        self.store = {} if store is None else store
        self.store.setdefault("steps", {})
        self.store.setdefault("order", [])
        self.store.setdefault("runs", [])

    def start(self, run: TrackedRun) -> str | None:
        self.store["runs"].append(run)
        return run.run_id or "id-1"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.store["order"].append(step)
        self.store["steps"].setdefault(step, {}).update(values)

    def finish(self, status: str) -> None:
        self.store["status"] = status


class Remembering(Recorder):
    """Knows what it has."""

    def last_step(self) -> int | None:
        return max(self.store["order"], default=-1)


def watched(config: TrainConfig, *trackers: Tracker, **options: Any) -> Any:
    return train(config, callbacks=[*options.pop("callbacks", ()), Tracking(trackers)], **options)


def steps_in(run: RunDirectory) -> list[int]:
    return [record["step"] for record in run.records("metrics")]


class TestWhatIsTold:
    def test_one_seed(self, data_file: Path, tmp_path: Path) -> None:
        recorder = Recorder()
        result = watched(small_config(data_file, tmp_path), recorder)
        (run,) = recorder.store["runs"]
        assert (run.name, run.folder, run.step, run.run_id) == ("run", tmp_path / "run", 0, None)
        assert run.config["algo_kwargs"]["batch_size"] == 8
        assert recorder.store["order"] == [10, 20]
        record = result.run.records("metrics")[0]
        values = recorder.store["steps"][10]
        assert values["actor/loss"] == record["actor/loss"][0]
        assert values["progress/updates"] == 10
        assert values["progress/steps_per_second"] > 0
        assert not any(name.startswith("seed-") or name.endswith("_std") for name in values)
        assert recorder.store["status"] == "finished"
        assert result.run.describe()["tracking"] == {"recorder": {"id": "id-1", "step": 20}}

    def test_several_seeds_and_their_evaluation(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {10: [-5.0, -7.0], 20: [-8.0, -8.0]})
        recorder = Recorder()
        result = watched(small_config(data_file, tmp_path, seed=[4, 2], eval_interval=10), recorder)
        assert recorder.store["order"] == [10, 20]  # metrics and evaluation of a step come together
        values, losses = recorder.store["steps"][10], result.run.records("metrics")[0]["actor/loss"]
        assert [values["seed-4/actor/loss"], values["seed-2/actor/loss"]] == losses
        assert values["actor/loss"] == fmean(losses)
        assert values["actor/loss_std"] == pstdev(losses)
        assert (values["evaluation/return_mean"], values["evaluation/return_mean_std"]) == (-6.0, 1.0)
        assert (values["seed-4/evaluation/return_mean"], values["seed-2/evaluation/return_mean"]) == (-5.0, -7.0)

    def test_the_status_of_a_run_that_fails(self, data_file: Path, tmp_path: Path) -> None:
        class Breaks(StopAt):
            def on_progress(self, loop: Any) -> None:
                if loop.progress.steps == self.step:
                    raise RuntimeError("broken")

        recorder = Recorder()
        with pytest.raises(RuntimeError, match="broken"):
            watched(small_config(data_file, tmp_path), recorder, callbacks=[Breaks(15)])
        assert recorder.store["status"] == "failed"
        assert recorder.store["order"] == [10]

    def test_a_run_inside_an_exception_handler_has_not_failed(self, data_file: Path, tmp_path: Path) -> None:
        recorder = Recorder()
        try:
            raise ValueError
        except ValueError:
            watched(small_config(data_file, tmp_path), recorder)
        assert recorder.store["status"] == "finished"


class TestResuming:
    @pytest.mark.parametrize("kind", [Recorder, Remembering])
    @pytest.mark.parametrize("step", [3, 15, 20])
    def test_no_step_is_missing_or_there_twice(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Recorder], step: int
    ) -> None:
        script_scores(monkeypatch, {10: -1.0, 20: -2.0, 30: -3.0})
        first = kind()
        config = small_config(data_file, tmp_path, total_timesteps=30, log_interval=5, eval_interval=10)
        run = watched(config, first, callbacks=[StopAt(step)]).run
        assert first.store["status"] == "interrupted"
        second = kind(first.store)
        manager.resume(run.path, callbacks=[Tracking([second])])
        assert second.store["order"] == steps_in(run) == [5, 10, 15, 20, 25, 30]
        assert [second.store["steps"][s]["evaluation/return_mean"] for s in (10, 20, 30)] == [-1.0, -2.0, -3.0]
        assert [run.run_id for run in second.store["runs"]] == [None, "id-1"]
        assert second.store["runs"][1].step == step

    def test_after_a_kill_what_it_has_is_not_sent_again(self, data_file: Path, tmp_path: Path) -> None:
        """The tracker is ahead of the checkpoint; or behind it, having lost what it had not yet written."""
        config = small_config(data_file, tmp_path, total_timesteps=40, log_interval=5, checkpoint_interval=20)
        recorder = Remembering()
        run = watched(config, recorder, callbacks=[StopAt(20)]).run
        run.note(tracking={"recorder": {"id": "id-1"}})
        ahead = Remembering({"order": [5, 10, 15, 20, 25, 30]})
        manager.resume(run.path, callbacks=[Tracking([ahead])])
        assert ahead.store["order"] == [5, 10, 15, 20, 25, 30, 35, 40]
        behind = Remembering({"order": [5]})
        manager.resume(run.path, total_timesteps=45, callbacks=[Tracking([behind])])
        assert behind.store["order"] == [5, 10, 15, 20, 25, 30, 35, 40, 45]
        assert behind.store["steps"][10]["actor/loss"] == run.records("metrics")[1]["actor/loss"][0]

    def test_a_finished_run_that_goes_on(self, data_file: Path, tmp_path: Path) -> None:
        recorder = Recorder()
        run = watched(small_config(data_file, tmp_path), recorder).run
        manager.resume(run.path, total_timesteps=40, callbacks=[Tracking([Recorder(recorder.store)])])
        assert recorder.store["order"] == [10, 20, 30, 40]


class TestFaults:
    @pytest.mark.parametrize("where", ["start", "last_step", "log", "finish"])
    def test_training_goes_on(
        self, data_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
    ) -> None:
        def fail(*_: Any) -> None:
            raise OSError("network\n is down")

        recorder, sound = Recorder(), Recorder()
        setattr(recorder, where, fail)
        with caplog.at_level(logging.WARNING, "rl_training"):
            result = watched(small_config(data_file, tmp_path, total_timesteps=50), recorder, sound)
        assert result.status == "finished"
        told = [record.getMessage() for record in caplog.records]
        assert told == ["warning: tracking with recorder ended (OSError: network is down); training goes on without it"]
        noted = result.run.describe()["tracking"]
        assert noted["recorder"]["failed"] == "OSError: network is down"
        assert noted["recorder-2"] == {"id": "id-1", "step": 50}
        assert sound.store["order"] == steps_in(result.run)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Odd(), SpeechlessError()])
    @pytest.mark.parametrize("where", ["start", "log", "finish"])
    def test_whatever_it_raises(
        self, data_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: BaseException, where: str
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        recorder = Recorder()
        setattr(recorder, where, fail)
        recorder.let_go = fail  # type: ignore[method-assign]
        result = watched(small_config(data_file, tmp_path), recorder)
        train(small_config(data_file, tmp_path, name="alone"))
        assert result.status == "finished"
        assert caplog.text.count("warning: tracking with recorder ended") == 1
        assert digest(result.checkpoint.tensors) == digest(RunDirectory.open(tmp_path / "alone").load().tensors)

    @pytest.mark.parametrize(
        ("where", "answer"),
        [("start", object()), ("start", "x" * 10**6), ("address", {3: {4}}), ("last_step", "none"), ("start", 7)],
    )
    def test_answers_that_are_none(
        self, data_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str, answer: Any
    ) -> None:
        recorder = Recorder()
        setattr(recorder, where, lambda *_: answer)
        run = watched(small_config(data_file, tmp_path), recorder).run
        assert caplog.text.count("warning: tracking with recorder ended (TypeError: ") == 1
        assert (run.path / "run.json").stat().st_size < 10_000
        assert run.load().progress["steps"] == 20

    def test_where_no_thread_can_be_started(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse(_: Any) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(tracking._Courier, "start", refuse)
        assert watched(small_config(data_file, tmp_path), Recorder()).status == "finished"
        assert caplog.text.count("tracking with recorder ended (can't start new thread)") == 1

    def test_what_one_does_to_its_values_the_next_does_not_see(self, data_file: Path, tmp_path: Path) -> None:
        spoils, sound = Recorder(), Recorder()
        spoils.log = lambda step, values: values.clear()  # type: ignore[attr-defined, method-assign]
        watched(small_config(data_file, tmp_path), spoils, sound)
        assert all(values["actor/loss"] for values in sound.store["steps"].values())

    def test_one_that_hangs_is_left_behind(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(tracking, "FINISH_SECONDS", 0.1)
        release = threading.Event()
        recorder = Recorder()
        recorder.log = lambda step, values: (release.wait(20), None)[1]  # type: ignore[method-assign]
        result = watched(small_config(data_file, tmp_path), recorder)
        release.set()
        assert result.status == "finished"
        assert "did not take the end of the run in time" in caplog.text

    def test_one_that_does_not_keep_up(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(tracking, "_WAITING", 2)
        release = threading.Event()
        recorder = Recorder()
        recorder.start = lambda run: (release.wait(20), None)[1]  # type: ignore[method-assign]
        result = watched(small_config(data_file, tmp_path, log_interval=1), recorder)
        release.set()
        assert result.status == "finished"
        assert caplog.text.count("does not keep up") == 1

    def test_the_checkpoint_is_the_same_with_and_without(self, data_file: Path, tmp_path: Path) -> None:
        watched(small_config(data_file, tmp_path), Recorder())
        train(small_config(data_file, tmp_path, name="alone"))
        one, other = (tmp_path / name / "checkpoints" / "step-20" for name in ("run", "alone"))
        assert (one / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == (tmp_path / "alone/metrics.jsonl").read_bytes()


class TestConfiguration:
    @pytest.mark.parametrize(
        "given", ["wandb", ["wandb"], [{"tracker": "wandb"}], ({"tracker": "wandb", "project": None},)]
    )
    def test_short_forms(self, tmp_path: Path, given: Any) -> None:
        config = small_config(None, tmp_path, tracking=given)
        assert config.to_plain()["tracking"] == [{"tracker": "wandb", "project": None}]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (["wandb", "wandb"], "tracking: must name each tracker once"),
            (
                ["wanb"],
                "tracking.0.tracker: must be 'tensorboard', 'wandb', 'mlflow' or 'trackio', got 'wanb'"
                "; did you mean 'wandb'?",
            ),
            ([{"tracker": "mlflow", "projekt": "x"}], "tracking.0.projekt: no such option; did you mean 'project'?"),
            ([3], "tracking.0: "),
            (True, "tracking: must not be true"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, given: Any, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            TrainConfig.parse(small_values(None, tmp_path, tracking=given))
        assert str(caught.value).startswith(message)

    def test_who_watches_does_not_make_it_another_run(self, data_file: Path, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard", reason="the extra tracking is not installed")
        config = small_config(data_file, tmp_path, name=None, total_timesteps=20)
        run = train(config, callbacks=[StopAt(5)]).run
        watching = TrainConfig.parse({**config.to_plain(), "tracking": ["tensorboard"]})
        assert manager.start_or_resume(watching).run.path == run.path
        assert (run.path / "tensorboard").is_dir()
        assert run.config().tracking[0].tracker == "tensorboard"
        assert not any("edited" in notice for notice in run.describe().get("notices", []))

    def test_run_json_holds_only_what_json_knows(self, data_file: Path, tmp_path: Path) -> None:
        run = watched(small_config(data_file, tmp_path), Recorder()).run
        assert json.loads((run.path / "run.json").read_text())["tracking"]["recorder"]["step"] == 20
