"""Early stopping: patience, minimum change, target, either direction, any metric, and across a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training import BC
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment import manager
from rl_training.runtime import checkpoint_writer
from rl_training.runtime.callbacks import Callback, EarlyStopping
from rl_training.runtime.checkpoint_writer import CheckpointWriter
from rl_training.runtime.config import EarlyStoppingConfig, TrainConfig
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import train
from small_runs import StopAt, digest, files_under, script_scores, small_config


@pytest.fixture
def config(data_file: Path, tmp_path: Path) -> Any:
    """`config(patience=2, …)`: evaluated every 4 updates of 40 at most, stopped as the keywords say."""

    def make(total_timesteps: int = 40, name: str = "run", algo: str = "bc", **early_stopping: Any) -> TrainConfig:
        changes = {"total_timesteps": total_timesteps, "name": name, "early_stopping": early_stopping}
        return small_config(data_file, tmp_path, algo=algo, eval_interval=4, log_interval=4, **changes)

    return make


class Killed(Callback):
    def on_start(self, loop: Loop) -> None:
        raise RuntimeError("killed")


def by_evaluation(*scores: float) -> dict[int, float]:
    return {4 * (i + 1): score for i, score in enumerate(scores)}


def test_patience_counts_records_without_improvement(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 2.0, 2.0, 1.5, 9.0))
    result = train(config(patience=2))
    assert (result.status, result.progress.updates) == ("finished", 20)
    assert result.reason == "return_mean has not improved for 2 records"
    assert result.run.describe()["reason"] == result.reason
    assert result.progress.best == {"step": 12, "return_mean": 2.0}


def test_a_change_below_min_delta_is_no_improvement(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(1.0, 2.0, 2.4, 2.1, 9.0))
    assert train(config(patience=2, min_delta=0.5)).progress.updates == 16


def test_small_improvements_add_up(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.4 a record is less than min_delta, but every second record is 0.8 above the last improvement."""
    script_scores(monkeypatch, by_evaluation(*(0.4 * i for i in range(10))))
    assert train(config(patience=2, min_delta=0.5)).progress.updates == 40


def test_target(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(-5.0, -2.0, -1.0, 3.0))
    result = train(config(target=-1.0))
    assert result.progress.updates == 12
    assert result.reason == "return_mean reached -1 (target -1)"


def test_seeds_count_by_their_mean(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, {4: [10.0, 0.0], 8: [6.0, 6.0], 12: [0.0, 0.0]})
    config = small_config(
        data_file, tmp_path, total_timesteps=12, eval_interval=4, seed=[0, 1], early_stopping={"target": 6.0}
    )
    assert train(config).progress.updates == 8


def test_other_fields_of_an_evaluation(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(1.0, 5.0))
    assert train(config(metric="return_min", target=4.0)).progress.updates == 8


def test_mode_min_on_a_training_metric(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(*[0.0] * 10))
    whole = train(config(name="whole", metric="actor/loss", mode="min", target=0.0)).run.records("metrics")
    losses = [record["actor/loss"][0] for record in whole]
    assert len(losses) == 10  # a squared error never reaches the target of that first run
    target = sorted(losses)[4]
    first = next(i for i, loss in enumerate(losses) if loss <= target)
    result = train(config(metric="actor/loss", mode="min", target=target))
    assert result.progress.updates == 4 * (first + 1)


def test_a_run_stopped_by_a_training_metric_is_still_evaluated(
    data_file: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    script_scores(monkeypatch, {3: 1.5})
    stopping = {"metric": "actor/loss", "mode": "min", "target": 1e9}
    result = train(small_config(data_file, tmp_path, log_interval=3, early_stopping=stopping))
    assert result.progress.updates == 3
    assert result.run.load("last").progress["last"] == {"step": 3, "return_mean": 1.5}


def test_the_count_goes_on_after_a_resume(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(1.0, 5.0, 4.0, 4.0, 4.0, 9.0, 9.0))
    whole = train(config(patience=3, name="whole"))
    assert whole.progress.updates == 20
    for stop in (2, 8, 13, 16):
        cut = train(config(patience=3, name=f"cut-{stop}"), callbacks=[StopAt(stop)])
        assert cut.progress.updates == stop
        resumed = manager.resume(cut.run.path)
        assert (resumed.progress.updates, resumed.reason) == (20, whole.reason)


def test_unknown_evaluation_field(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(*[0.0] * 10))
    message = "early_stopping.metric: no metric 'retrun_mean'; did you mean 'return_mean'\\?"
    with pytest.raises(ConfigError, match=message):
        train(config(metric="retrun_mean", patience=1))


def test_unknown_training_metric(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(*[0.0] * 10))
    with pytest.raises(ConfigError, match=r"early_stopping.metric: no metric 'actr/loss'; did you mean 'actor/loss'\?"):
        train(config(metric="actr/loss", patience=1))


def test_an_unknown_evaluation_field_is_refused_before_anything_is_written(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_scores(monkeypatch, {20: 0.0})
    stopping = {"metric": "retrun_mean", "patience": 1}
    with pytest.raises(ConfigError, match=r"early_stopping\.metric"):
        train(small_config(data_file, tmp_path / "runs", early_stopping=stopping))
    assert files_under(tmp_path) == {}


def test_a_metric_that_some_intervals_lack(data_file: Path, tmp_path: Path) -> None:
    """TD3+BC's actor steps on every second update, so with a record per update every other one has no actor loss."""
    stopping = {"metric": "actor/loss", "mode": "min", "target": -1e9}
    config = small_config(data_file, tmp_path, algo="td3_bc", log_interval=1, early_stopping=stopping)
    assert train(config).progress.updates == 20


def test_a_return_without_an_environment_is_refused(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="early_stopping"):
        train(small_config(data_file, tmp_path, early_stopping={"patience": 1}))


@pytest.mark.parametrize("metric", ["actor/loss", "return_mean"])
def test_a_signal_just_before_it_changes_nothing(
    metric: str, config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Interrupted at the very step at which the run ends by itself: resumed, it ends there."""
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0))
    settings = {"metric": metric, "mode": "max", "patience": 2, "min_delta": 0.0 if metric == "return_mean" else 1e3}
    whole = train(config(name="whole", **settings))
    end = whole.progress.steps
    assert (whole.status, end) == ("finished", 12)
    cut = train(config(name="cut", **settings), callbacks=[StopAt(end)])
    assert (cut.status, cut.progress.steps) == ("interrupted", end)
    resumed = manager.resume(cut.run.path)
    assert (resumed.status, resumed.reason, resumed.progress.steps) == ("finished", whole.reason, end)
    assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert (resumed.run.path / name).read_bytes() == (whole.run.path / name).read_bytes()


def test_killed_before_it_is_marked_as_finished(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint is there, and run.json still says that it is running."""
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 0.0, *map(float, range(2, 10))))
    whole = train(config(patience=2))
    whole.run.note(status="running", reason=None)
    resumed = manager.resume(whole.run.path)
    assert (resumed.status, resumed.reason, resumed.progress.steps) == ("finished", whole.reason, 12)


class EnoughAt(Callback):
    """Ends the run as it is told of a checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        if int(path.name.removeprefix("step-")) >= self.step:
            loop.stop("enough")


@pytest.mark.parametrize("instant", [10.0, 0.0])
def test_ended_by_a_callback_that_is_told_of_a_checkpoint(
    instant: float, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are evaluated, and the checkpoint says that the run is over, whether the disk is fast or slow."""
    monkeypatch.setattr(checkpoint_writer, "INSTANT_SECONDS", instant)
    script_scores(monkeypatch, dict.fromkeys(range(41), 1.0))
    asked = config(patience=90).model_copy(update={"checkpoint_interval": 6})
    whole = train(asked, callbacks=[EnoughAt(6)])
    end = whole.progress.steps
    assert end == 6 or instant == 0.0
    assert (whole.status, whole.reason, whole.progress.last) == (
        "finished",
        "enough",
        {"step": end, "return_mean": 1.0},
    )
    for told in (whole.run.load("last").progress, whole.run.describe()):
        assert told["last"] == {"step": end, "return_mean": 1.0}
    whole.run.note(status="running", reason=None)  # as if it had been killed before it was marked as finished
    resumed = manager.resume(whole.run.path)
    assert (resumed.status, resumed.reason, resumed.progress.steps) == ("finished", "enough", end)


def test_ended_by_a_callback_that_is_told_of_the_one_before(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is so slow that it is there only as the next one is to be written."""
    monkeypatch.setattr(checkpoint_writer, "INSTANT_SECONDS", 0.0)
    monkeypatch.setattr(CheckpointWriter, "poll", lambda self: None)
    script_scores(monkeypatch, dict.fromkeys(range(41), 1.0))
    asked = config(patience=90).model_copy(update={"checkpoint_interval": 3})
    whole = train(asked, callbacks=[EnoughAt(6)])
    stored = whole.run.load("last").progress
    assert (stored["steps"], stored["ended"], stored["last"]) == (9, "enough", {"step": 9, "return_mean": 1.0})


@pytest.mark.parametrize("budget", [40, 60])
def test_who_asks_for_more_goes_past_it(budget: int, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the process that was told so is killed before it has saved anything."""
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 0.0, *map(float, range(2, 20))))
    run = train(config(patience=2)).run
    with pytest.raises(RuntimeError, match="killed"):
        manager.resume(run.path, total_timesteps=budget, callbacks=[Killed()])
    run.note(status="running", reason=None)
    assert run.steps()[-1] == 12
    resumed = manager.resume(run.path)
    assert (resumed.status, resumed.progress.steps) == ("finished", budget)


def test_an_end_that_it_once_went_past_is_one_again(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run goes back to before it; killed before it is marked as finished, it ends there."""
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 0.0, *map(float, range(2, 20))))
    whole = train(config(patience=2).model_copy(update={"keep_every": 4}))
    assert manager.resume(whole.run.path, which=12).progress.steps == 40
    assert manager.resume(whole.run.path, which=8).progress.steps == 12
    whole.run.note(status="running", reason=None)
    resumed = manager.resume(whole.run.path)
    assert (resumed.status, resumed.reason, resumed.progress.steps) == ("finished", whole.reason, 12)


@pytest.mark.parametrize(
    "state",
    [{}, [1], 7, {"best": "x", "waited": 1}, {"best": None, "waited": None}, {"best": None, "waited": float("inf")},
     {"best": [1], "waited": 1}, {"best": None, "waited": -(10**400)}, {"best": 10**400, "waited": 1}],
)  # fmt: skip
def test_memories_that_are_none(state: Any) -> None:
    early = EarlyStopping(EarlyStoppingConfig(patience=2))
    with pytest.raises(CheckpointError, match=r"progress\.callbacks\.EarlyStopping: .* is not a value it can have"):
        early.restore(state)


def test_another_run_that_begins_with_its_checkpoint_trains(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, by_evaluation(1.0, 0.0, 0.0, *map(float, range(2, 20))))
    run = train(config(patience=2)).run
    agent = BC.load(run.checkpoint_path(12)).learn()
    assert agent.run_dir is not None
    assert manager.load_policy(agent.run_dir).checkpoint.progress["steps"] == 40
