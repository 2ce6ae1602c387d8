"""Each tracker for real where its package is installed, and held to its protocol by a recording stand-in where not."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trackers import TRACKERS, make_tracker, sections
from rl_training.runtime.tracking import TrackedRun
from rl_training.runtime.trainer import train
from rl_training.tracker_names import TrackerName
from small_runs import StopAt, script_scores, small_config

SCORES = {10: [-5.0, -7.0], 20: [-8.0, -8.0], 30: [-1.0, -3.0]}
STEPS = [10, 20, 30]


def cut_and_resumed(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str) -> RunDirectory:
    """A run of two seeds that was stopped between two records, and went on to its end."""
    script_scores(monkeypatch, SCORES)
    monkeypatch.chdir(tmp_path)
    config = small_config(data_file, tmp_path, total_timesteps=30, seed=[4, 2], eval_interval=10, tracking=tracker)
    run = train(config, callbacks=[StopAt(15)]).run
    manager.resume(run.path)
    assert "failed" not in run.describe()["tracking"][tracker]
    return run


def test_every_name_has_its_tracker() -> None:
    assert tuple(TRACKERS) == TrackerName.__args__


@pytest.mark.parametrize("name", TRACKERS)
def test_an_absent_package_is_one_line(
    name: str, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name, *(loaded for loaded in sys.modules if loaded.startswith((f"{name}.", "torch.utils.tensorb")))]:
        monkeypatch.setitem(sys.modules, module, None)
    package = "'rl-training[tracking]'" if name == "tensorboard" else name
    with pytest.raises(ConfigError) as caught:
        train(small_config(data_file, tmp_path, tracking=name))
    assert str(caught.value) == f"tracking: {name} is not installed; pip install {package}"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name() -> None:
    for find in (make_tracker, lambda name: sections([name])):
        with pytest.raises(ConfigError, match=r"tracking: no tracker 'wanb'; did you mean 'wandb'\?"):
            find("wanb")


# TensorBoard --------------------------------------------------------------------------------------------------------


def read_events(run: RunDirectory) -> Any:
    pytest.importorskip("tensorboard", reason="the extra tracking is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return events


class TestTensorBoard:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("tensorboard", reason="the extra tracking is not installed")

    def test_a_resumed_run(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = threading.excepthook
        run = cut_and_resumed(data_file, tmp_path, monkeypatch, "tensorboard")
        assert threading.excepthook is before
        events, records = read_events(run), run.records("metrics")
        losses = [(event.step, event.value) for event in events.Scalars("seed-2/actor/loss")]
        assert losses == [(record["step"], pytest.approx(record["actor/loss"][1])) for record in records]
        scores = [(event.step, event.value) for event in events.Scalars("evaluation/return_mean")]
        assert scores == [(10, -6.0), (20, -8.0), (30, -2.0)]
        times = [event.wall_time for event in events.Scalars("actor/loss")]
        assert times == sorted(times)
        text = {
            tag: events.Tensors(f"{tag}/text_summary")[0].tensor_proto.string_val[0] for tag in ("config", "status")
        }
        assert b"batch_size: 8" in text["config"]
        assert text["status"] == b"finished"
        assert len(list((run.path / "tensorboard").iterdir())) == 1
        assert b"algo_kwargs.batch_size" in events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content

    def test_one_that_fails_leaves_no_hook(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise OSError("no space left")

        before = threading.excepthook
        monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.add_scalar", full)
        run = train(small_config(data_file, tmp_path, tracking="tensorboard")).run
        assert run.describe()["tracking"]["tensorboard"]["failed"] == "OSError: no space left"
        assert threading.excepthook is before

    @pytest.mark.parametrize("method", ["add_scalar", "add_text", "close"])
    def test_one_that_hangs_leaves_none(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        release = threading.Event()
        before = threading.excepthook
        monkeypatch.setattr("rl_training.runtime.tracking.FINISH_SECONDS", 0.1)
        monkeypatch.setattr(f"torch.utils.tensorboard.SummaryWriter.{method}", lambda *_, **__: release.wait(20))
        run = train(small_config(data_file, tmp_path, tracking="tensorboard")).run
        assert threading.excepthook is before
        release.set()
        assert run.describe()["tracking"]["tensorboard"]["failed"] == "did not take the end of the run in time"

    def test_a_working_folder_that_changes(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Elsewhere(Callback):
            def on_metrics(self, loop: Any, metrics: Any) -> None:
                monkeypatch.chdir(tmp_path / "elsewhere")

        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        config = small_config(data_file, Path("runs"), total_timesteps=30, tracking="tensorboard")
        run = train(config, callbacks=[Elsewhere()]).run
        assert [event.step for event in read_events(run).Scalars("actor/loss")] == STEPS
        assert list((tmp_path / "elsewhere").iterdir()) == []
        assert run.describe()["tracking"]["tensorboard"]["address"] == str(tmp_path / "runs" / "run" / "tensorboard")

    def test_asked_for_late_it_has_everything(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path)).run
        manager.resume(run.path, total_timesteps=40, tracking=sections(["tensorboard"]))
        assert [event.step for event in read_events(run).Scalars("actor/loss")] == [10, 20, 30, 40]
        manager.resume(run.path, total_timesteps=50)  # and stays
        assert [event.step for event in read_events(run).Scalars("actor/loss")] == [10, 20, 30, 40, 50]


def test_a_link_in_the_place_of_its_folder_is_not_followed(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("tensorboard", reason="the extra tracking is not installed")
    stand_in(monkeypatch, "wandb", init=None, Settings=dict, api=SimpleNamespace(api_key="known"))
    run = train(small_config(data_file, tmp_path / "runs")).run
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.out.tfevents.1.mine").write_text("precious")
    for steps, name in enumerate(("tensorboard", "wandb", ".wandb"), start=4):
        link = run.path / name
        link.symlink_to(elsewhere, target_is_directory=True)
        caplog.clear()
        tracker = name.lstrip(".")
        manager.resume(run.path, total_timesteps=10 * steps, tracking=sections([tracker]))
        said = f"CheckpointError: run/{name} is a link, and none is followed; remove it"
        warning = f"warning: tracking with {tracker} ended ({said}); training goes on without it"
        assert warning in caplog.messages
        assert run.describe()["step"] == 10 * steps
        assert [file.read_text() for file in elsewhere.iterdir()] == ["precious"]
        if tracker == "wandb":
            link.unlink()


# The others, for real -----------------------------------------------------------------------------------------------


def test_mlflow_for_real(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    store = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run = cut_and_resumed(data_file, tmp_path, monkeypatch, "mlflow")
    client = mlflow.MlflowClient(store)
    found = client.get_run(run.describe()["tracking"]["mlflow"]["id"])
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    assert found.data.params["algo_kwargs.batch_size"] == "8"
    for name in ("actor/loss", "seed-4/actor/loss", "evaluation/return_mean"):
        assert [one.step for one in client.get_metric_history(found.info.run_id, name)] == STEPS
    assert found.data.metrics["evaluation/return_mean"] == -2.0


def test_trackio_for_real(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    cut_and_resumed(data_file, tmp_path, monkeypatch, "trackio")
    rows = trackio.SQLiteStorage.get_logs("rl-training", "run")
    assert [row["step"] for row in rows] == STEPS
    assert [row["evaluation/return_mean"] for row in rows] == [-6.0, -8.0, -2.0]


def test_wandb_for_real(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = cut_and_resumed(data_file, tmp_path, monkeypatch, "wandb")
    name = run.describe()["tracking"]["wandb"]["id"]
    assert len(list((run.path / "wandb").glob(f"offline-run-*-{name}/run-{name}.wandb"))) == 2


# The others, by their protocols -------------------------------------------------------------------------------------


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(contents)
    monkeypatch.setitem(sys.modules, name, module)


class FakeWandbRun:
    """Online: the server knows the steps of the run with this id."""

    offline = disabled = False

    def __init__(self, steps: list[int], **options: Any) -> None:
        self.options, self.steps = options, steps
        self.id = options["id"] or "abc"
        self.url = f"https://wandb.ai/{self.id}"
        self.starting_step = steps[-1] + 1 if steps else 0
        self.summary: dict[str, Any] = {}
        self.rows: list[dict[str, float]] = []
        self.exit_code: int | None = None

    def log(self, values: dict[str, float], step: int, commit: bool) -> None:
        assert commit
        assert not self.steps or step > self.steps[-1]
        self.steps.append(step)
        self.rows.append(values)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_wandb_by_its_protocol(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    steps: list[int] = []
    runs: list[FakeWandbRun] = []

    def init(**options: Any) -> FakeWandbRun:
        runs.append(FakeWandbRun(steps, **options))
        return runs[-1]

    stand_in(monkeypatch, "wandb", init=init, Settings=dict, api=SimpleNamespace(api_key="known"))
    run = cut_and_resumed(data_file, tmp_path, monkeypatch, "wandb")
    assert steps == STEPS
    first, second = runs
    assert [(one.options["id"], one.options["resume"]) for one in runs] == [(None, None), ("abc", "allow")]
    assert (first.options["project"], first.options["name"]) == ("mine", "run")
    assert first.options["settings"] == {"silent": True, "console": "off"}
    assert first.options["config"]["algo_kwargs"]["batch_size"] == 8
    assert (first.summary["status"], first.exit_code) == ("interrupted", 1)
    assert (second.summary["status"], second.exit_code) == ("finished", 0)
    assert second.rows[-1]["seed-2/evaluation/return_mean"] == -3.0
    assert run.describe()["tracking"]["wandb"]["address"] == "https://wandb.ai/abc"


def test_wandb_without_a_key_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    stand_in(monkeypatch, "wandb", api=SimpleNamespace(api_key=None))
    with pytest.raises(ConfigError, match="tracking: wandb has no API key; `wandb login`, or WANDB_MODE=offline"):
        make_tracker("wandb")


class FakeMlflow:
    """A server, and the client that speaks to it."""

    tracking_uri = "https://mlflow"

    def __init__(self) -> None:
        self.metrics: list[Any] = []
        self.params: dict[str, str] = {}
        self.statuses: list[str] = []
        self.tags: list[tuple[str, str]] = []
        self.experiments: list[str] = []

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str) -> str:
        self.experiments.append(name)
        return "7"

    def create_run(self, experiment: str, run_name: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}-{run_name}"))

    def update_run(self, run_id: str, status: str) -> None:
        self.statuses.append(status)

    def get_metric_history(self, run_id: str, name: str) -> list[Any]:
        return [metric for metric in self.metrics if metric.name == name]

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        assert run_id == "7-run"
        assert len(params) <= 100
        self.metrics += metrics
        self.params |= dict(params)
        self.tags += tags

    def set_terminated(self, run_id: str, status: str) -> None:
        self.statuses.append(status)


def test_mlflow_by_its_protocol(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeMlflow()

    def metric(name: str, value: float, milliseconds: int, step: int) -> Any:
        assert milliseconds > 1.6e12
        return SimpleNamespace(name=name, value=value, step=step)

    def pair(key: str, value: str) -> tuple[str, str]:
        return key, value

    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    stand_in(monkeypatch, "mlflow", MlflowClient=lambda uri: server, get_tracking_uri=lambda: "https://mlflow")
    stand_in(monkeypatch, "mlflow.entities", Metric=metric, Param=pair, RunTag=pair)
    cut_and_resumed(data_file, tmp_path, monkeypatch, "mlflow")
    assert [one.step for one in server.get_metric_history("", "seed-4/actor/loss")] == STEPS
    assert [one.value for one in server.get_metric_history("", "evaluation/return_mean")] == [-6.0, -8.0, -2.0]
    assert server.params["algo_kwargs.batch_size"] == "8"
    assert server.statuses == ["KILLED", "RUNNING", "FINISHED"]
    assert server.tags == [("status", "interrupted"), ("status", "finished")]
    assert server.experiments == ["rl-training"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mlruns", "{0}/mlruns"),
        ("file:./mlruns", "file:{0}/mlruns"),
        ("file:///data/mlruns", "file:///data/mlruns"),
        ("file://localhost/data/mlruns", "file://localhost/data/mlruns"),
        ("sqlite:///mlflow.db", "sqlite:///{0}/mlflow.db"),
        ("sqlite:////data/mlflow.db", "sqlite:////data/mlflow.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("https://server:5000/a", "https://server:5000/a"),
        ("databricks", "databricks"),
        ("postgresql://me@server/runs", "postgresql://me@server/runs"),
    ],
)
def test_where_mlflow_writes_does_not_move(
    given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled when the tracker is made, while the working folder is the one that the user means."""
    asked: list[str] = []
    stand_in(monkeypatch, "mlflow", MlflowClient=asked.append, get_tracking_uri=lambda: given)
    stand_in(monkeypatch, "mlflow.entities", Metric=None, Param=None, RunTag=None)
    monkeypatch.chdir(tmp_path)
    tracker = make_tracker("mlflow")
    monkeypatch.chdir("/")
    with pytest.raises(AttributeError):  # of no client
        tracker.start(TrackedRun("run", tmp_path, {}))
    assert asked == [meant.format(tmp_path)]


def test_where_trackio_writes_does_not_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "trackio")
    monkeypatch.setenv("TRACKIO_DIR", "board")
    monkeypatch.chdir(tmp_path)
    make_tracker("trackio")
    assert os.environ["TRACKIO_DIR"] == str(tmp_path / "board")


def test_trackio_by_its_protocol(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    calls: list[dict[str, Any]] = []

    def init(**options: Any) -> Any:
        calls.append(options)
        return SimpleNamespace(
            name=options["name"], log=lambda values, step: steps.append(step), finish=lambda: calls.append({})
        )

    storage = SimpleNamespace(get_max_step_for_run=lambda project, name: max(steps, default=None))
    stand_in(monkeypatch, "trackio", init=init, SQLiteStorage=storage)
    for variable in ("TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(variable, raising=False)
    cut_and_resumed(data_file, tmp_path, monkeypatch, "trackio")
    assert steps == STEPS
    assert [(call["resume"], call["name"]) for call in calls[::2]] == [("never", "run"), ("allow", "run")]
    assert len(calls) == 4
