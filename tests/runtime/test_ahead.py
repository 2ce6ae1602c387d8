"""A device that works ahead while policies are evaluated changes nothing but the time it takes.

On a CPU nothing is gained by it, but it can be done there all the same, and must give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rl_training.errors import EnvironmentFailedError
from rl_training.experiment import manager
from rl_training.runtime import evaluation
from rl_training.runtime.ahead import WorkAhead
from rl_training.runtime.callbacks import Callback, EarlyStopping
from rl_training.runtime.divergence import DivergenceGuard
from rl_training.runtime.engine import Engine
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import TrainResult, train
from small_runs import digest, small_config

SHORT = {"env_id": "Pendulum-v1", "evaluation": {"episodes": 2, "max_steps": 12}}

pytestmark = pytest.mark.usefixtures("saved_at_once")

LONG = {"total_timesteps": 40, "log_interval": 4, "eval_interval": 10, "checkpoint_interval": 5, "keep_checkpoints": 50}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Lets runs work ahead; the updates that were begun before the run came to them."""
    begun: list[tuple[int, int]] = []
    go_on = WorkAhead.go_on

    def noted(self: WorkAhead, block: int) -> None:
        first = self.end
        go_on(self, 3)
        if self.end > first:
            begun.append((first, self.end))

    monkeypatch.setattr(WorkAhead, "go_on", noted)
    return begun


def let_work_ahead(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    """As on a GPU, where the source allows it."""
    monkeypatch.setattr(Engine, "can_work_ahead", property(lambda self: allowed and self.source.is_idle))


def run_it(
    data_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, works_ahead: bool, **changes: Any
) -> TrainResult:
    let_work_ahead(monkeypatch, works_ahead)
    values = {**SHORT, "algo": "iql", "seed": [0, 1], **LONG, **changes}
    return train(small_config(data_file, folder, **values))


def contents(result: TrainResult) -> dict[str, Any]:
    """All that a run leaves, but for times."""
    run = result.run
    checkpoints = {step: run.load(step) for step in run.steps()}
    return {
        "metrics": run.records("metrics"),
        "evaluations": run.records("evaluations"),
        "checkpoints": {
            step: (digest(one.tensors), digest(one.metric_sums), one.progress) for step, one in checkpoints.items()
        },
        "learner": digest(result.actor.learner.state()),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"log_interval": 10},
        {"log_interval": 7, "checkpoint_interval": 100},
        {"eval_interval": 6, "checkpoint_interval": 4, "log_interval": 3},
        {"algo": "td3_bc", "eval_interval": 9},
    ],
)
def test_everything_is_as_without(
    changes: dict[str, Any],
    ahead: list[tuple[int, int]],
    data_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = run_it(data_file, tmp_path / "plain", monkeypatch, works_ahead=False, **changes)
    assert not ahead
    busy = run_it(data_file, tmp_path / "busy", monkeypatch, works_ahead=True, **changes)
    assert ahead
    assert contents(busy) == contents(plain)


def test_targets_that_are_computed_between_updates_are_waited_for(
    ahead: list[tuple[int, int]], data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = {"td_lambda": 0.95, "critic_updates": 3, "actor_updates": 2}
    results = [
        run_it(data_file, tmp_path / str(on), monkeypatch, works_ahead=on, algo="awr", algo_kwargs=rounds)
        for on in (False, True)
    ]
    assert not ahead
    assert contents(results[0]) == contents(results[1])


def test_it_goes_as_far_as_the_next_thing_that_needs_the_weights(
    ahead: list[tuple[int, int]], data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_it(data_file, tmp_path, monkeypatch, works_ahead=True)
    assert ahead == [(10, 12), (12, 15), (20, 23), (23, 24), (24, 25), (30, 32), (32, 35)]


class StopsAt(Callback):
    """Ends a run at the evaluation of one step, or in a record."""

    looks_at_learner = False

    def __init__(self, step: int, event: str) -> None:
        self.step, self.event = step, event

    def on_evaluation(self, loop: Loop, evaluation: Any) -> None:
        self._stop(loop, "evaluation")

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        self._stop(loop, "metrics")

    def _stop(self, loop: Loop, event: str) -> None:
        if event == self.event and loop.progress.steps == self.step:
            loop.stop("enough")


@pytest.mark.parametrize(("step", "event"), [(20, "evaluation"), (12, "metrics"), (24, "metrics")])
def test_a_run_that_ends_before_is_set_back(
    step: int,
    event: str,
    ahead: list[tuple[int, int]],
    data_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for works_ahead in (False, True):
        let_work_ahead(monkeypatch, works_ahead)
        config = small_config(data_file, tmp_path / str(works_ahead), "iql", seed=[0, 1], **SHORT, **LONG)
        found.append(contents(train(config, callbacks=[StopsAt(step, event)])))
    assert max(end for _, end in ahead) > step
    assert found[0] == found[1]


def test_a_member_that_is_stopped_between_is_stopped_where_it_would_have_been(
    ahead: list[tuple[int, int]], data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Q-value is found absurd in a record to which the device had come before."""

    def first_at_twelve(guard: DivergenceGuard, metrics: Mapping[str, float]) -> str | None:
        return "absurd" if guard.progress.steps == 12 and not guard.progress.divergences else None

    monkeypatch.setattr(DivergenceGuard, "_absurd_value", first_at_twelve)
    found = []
    for works_ahead in (False, True):
        result = run_it(
            data_file,
            tmp_path / str(works_ahead),
            monkeypatch,
            works_ahead=works_ahead,
            divergence={"absurd_q": "stop"},
        )
        found.append((contents(result), result.progress.divergences))
    assert [(finding.seed, finding.step) for finding in found[0][1]] == [(0, 12)]
    assert max(end for _, end in ahead) > 12
    assert found[0] == found[1]


def test_an_environment_that_fails_leaves_the_step_it_failed_at(
    ahead: list[tuple[int, int]], data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = evaluation.EnvironmentEvaluator.evaluate

    def fail(self: Any, actor: Any, step: int) -> Any:
        if step == 20:
            evaluate(self, actor, step)
            raise EnvironmentFailedError("gone")
        return evaluate(self, actor, step)

    monkeypatch.setattr(evaluation.EnvironmentEvaluator, "evaluate", fail)
    with pytest.raises(EnvironmentFailedError):
        run_it(data_file, tmp_path / "busy", monkeypatch, works_ahead=True)
    monkeypatch.setattr(evaluation.EnvironmentEvaluator, "evaluate", evaluate)
    assert max(end for _, end in ahead) > 20
    resumed = manager.resume(tmp_path / "busy" / "run")
    plain = run_it(data_file, tmp_path / "plain", monkeypatch, works_ahead=False)
    found = [contents(result) for result in (resumed, plain)]
    for one in found:
        del one["checkpoints"][20]  # written before the evaluation, which failed
    assert found[0] == found[1]


def test_who_looks_at_the_learner_sees_the_step_he_is_told_of(
    ahead: list[tuple[int, int]], data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks: list[tuple[int, int]] = []

    class Looks(Callback):
        def on_evaluation(self, loop: Loop, evaluation: Any) -> None:
            clocks.append((loop.progress.updates, int(loop.actor.learner.clock)))

    let_work_ahead(monkeypatch, True)
    config = small_config(data_file, tmp_path, "iql", **SHORT, **LONG)
    train(config, callbacks=[Looks()])
    assert clocks == [(10, 10), (20, 20), (30, 30), (40, 40)]
    assert not ahead
    assert not EarlyStopping.looks_at_learner
