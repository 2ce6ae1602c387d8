"""Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP: a checkpoint, an exit code of their own, a resume as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from rl_training.experiment import manager
from rl_training.postponing import stopping_later
from rl_training.runtime import signals
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.loop import Loop
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from small_runs import StopAt, digest, one_update_at_a_time, script_scores, small_config, small_values

# The command itself, with one callback more: it sends the signal at a chosen update, which no clock could hit.
COMMAND = """
import os, sys
from rl_training.cli import main, training
from rl_training.runtime.callbacks import Callback

class Sender(Callback):
    def on_start(self, loop):
        advance = loop.engine.source.advance
        loop.engine.source.advance = lambda limit: advance(min(1, limit))
    def on_progress(self, loop):
        if loop.progress.updates == int(sys.argv[1]):
            os.kill(os.getpid(), int(sys.argv[2]))

training._display = lambda console, talk: [Sender()]
main.app(sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138), (signal.SIGHUP, 129)],
)
def test_a_signal_ends_the_command_with_a_checkpoint(
    number: signal.Signals, code: int, data_file: Path, tmp_path: Path
) -> None:
    values = small_values(data_file, tmp_path, algo="td3_bc", total_timesteps=30, log_interval=8)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    arguments = [sys.executable, "-c", COMMAND, "13", str(int(number)), "train", "-c", str(tmp_path / "config.yaml")]
    source = Path(__file__).resolve().parent.parent.parent / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120, env=environment)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr == ""
    run = tmp_path / "run"
    assert f"interrupted after 13 updates: {number.name} received" in ended.stdout
    assert f"continue: rl-training resume {run}" in ended.stdout
    facts = manager.describe(run)
    assert (facts["status"], facts["reason"], facts["step"]) == ("interrupted", f"{number.name} received", 13)

    whole = train(small_config(data_file, tmp_path, algo="td3_bc", total_timesteps=30, log_interval=8, name="whole"))
    resumed = manager.resume(run)
    assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
    assert (run / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()
    assert manager.describe(run)["status"] == "finished"


class Sends(Callback):
    """Sends signals to this very process at one update."""

    def __init__(self, update: int, *numbers: signal.Signals) -> None:
        self.update = update
        self.numbers = numbers

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.updates == self.update:
            for number in self.numbers:
                os.kill(os.getpid(), number)


def test_the_handlers_of_before_are_put_back(data_file: Path, tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    result = train(small_config(data_file, tmp_path), callbacks=[Sends(3, signal.SIGTERM)])
    assert (result.status, result.reason) == ("interrupted", "SIGTERM received")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_outlives_its_terminal_goes_on(data_file: Path, tmp_path: Path) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        result = train(small_config(data_file, tmp_path), callbacks=[Sends(3, signal.SIGHUP)])
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert result.status == "finished"


def test_ctrl_c_twice_in_an_instant_still_saves(data_file: Path, tmp_path: Path) -> None:
    """A shell and a wrapper around the program both pass on one Ctrl-C."""
    result = train(small_config(data_file, tmp_path), callbacks=[Sends(3, signal.SIGINT, signal.SIGINT)])
    assert (result.status, result.reason) == ("interrupted", "SIGINT received")
    assert manager.resume(tmp_path / "run").progress.steps == 20


class Hangs(Callback):
    """Sends signals at one update and then does not come back, as a compiler or a simulator may."""

    def __init__(self, update: int, *numbers: signal.Signals) -> None:
        self.update, self.numbers = update, numbers

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.updates == self.update:
            for number in self.numbers:
                os.kill(os.getpid(), number)
            time.sleep(30)


def test_ctrl_c_twice_cuts_off_what_does_not_stop(data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, checkpoint_interval=5)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match="SIGINT received, cut off"):
        train(config, callbacks=[Hangs(7, signal.SIGINT, signal.SIGINT)])
    assert time.monotonic() - began < 10
    facts = manager.describe(tmp_path / "run")
    assert (facts["status"], facts["reason"]) == ("interrupted", "SIGINT received, cut off")
    whole = train(config.model_copy(update={"name": "whole"}))
    resumed = manager.resume(tmp_path / "run")
    assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)


def test_three_presses_wait_for_nothing(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(small_config(data_file, tmp_path), callbacks=[Hangs(3, *[signal.SIGINT] * 3)])
    assert manager.resume(tmp_path / "run").progress.steps == 20  # nothing was saved yet: it starts again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_machine_taken_back_does_not_wait_for_what_hangs(
    number: signal.Signals, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "PREEMPTION_SECONDS", 0.3)
    with pytest.raises(signals.CutOffError) as caught:
        train(small_config(data_file, tmp_path, checkpoint_interval=5), callbacks=[Hangs(7, number)])
    assert caught.value.exit_code == 128 + number
    assert manager.load_policy(tmp_path / "run").checkpoint.progress["steps"] == 5


def test_saving_is_not_cut_off_by_the_machine(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "PREEMPTION_SECONDS", 0.1)
    plain = RunDirectory.keep

    def slow(self: RunDirectory, checkpoint: Checkpoint) -> Path:
        time.sleep(1.5)
        return plain(self, checkpoint)

    monkeypatch.setattr(RunDirectory, "keep", slow)
    result = train(small_config(data_file, tmp_path), callbacks=[Sends(3, signal.SIGTERM)])
    assert (result.status, result.run.steps()) == ("interrupted", [3])


def test_ten_seconds_are_enough_for_the_deadline() -> None:
    assert signals.PREEMPTION_SECONDS + signals.IMPATIENCE_SECONDS < 10


class SendsInEpisode:
    """An environment's step that sends a signal the n-th time it is called, and takes its time after that."""

    def __init__(self, steps: int, plain: Any) -> None:
        self.left, self.plain = steps, plain

    def __call__(self, env: Any, action: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        if self.left < 0:
            time.sleep(0.05)
        return self.plain(env, action)


@pytest.mark.parametrize(("evaluation", "step"), [(1, 10), (2, 20)])
def test_an_evaluation_is_broken_off_and_made_up_for(
    evaluation: int, step: int, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the last one, when every update is done: it can take minutes, and the machine is gone in ten seconds."""
    changes = {"env_id": "Pendulum-v1", "eval_interval": 10, "evaluation": {"episodes": 2}}
    config = small_config(data_file, tmp_path, **changes)
    whole = train(config.model_copy(update={"name": "whole"}))
    episodes = 200 * 2 * (evaluation - 1)
    step_plain = PendulumEnv.step
    sender = SendsInEpisode(episodes + 150, step_plain)
    monkeypatch.setattr(PendulumEnv, "step", lambda env, action: sender(env, action))
    began = time.monotonic()
    result = train(config)
    assert time.monotonic() - began < 10  # two hundred steps of 50 ms and more were left
    assert (result.status, result.reason, result.progress.steps) == ("interrupted", "SIGUSR1 received", step)
    assert not result.progress.is_evaluated
    monkeypatch.setattr(PendulumEnv, "step", step_plain)
    resumed = manager.resume(result.run.path)
    assert resumed.status == "finished"
    assert manager.describe(result.run.path)["last"] == manager.describe(whole.run.path)["last"]
    assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)
    assert resumed.run.load().progress == whole.run.load().progress
    resumed, whole = (manager.resume(one.run.path, total_timesteps=40) for one in (resumed, whole))
    for kind in ("metrics", "evaluations"):
        assert (resumed.run.path / f"{kind}.jsonl").read_bytes() == (whole.run.path / f"{kind}.jsonl").read_bytes()


def test_an_interrupted_run_is_not_evaluated(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = script_scores(monkeypatch, {20: 0.0})
    train(small_config(data_file, tmp_path), callbacks=[StopAt(7)])
    assert evaluator.asked == [-1]  # -1: closed


class SendsInEvaluation(Callback):
    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_after_the_last_update_leaves_a_finished_run(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`interrupted` prints the command that resumes, which then refuses: there is nothing left to do."""
    script_scores(monkeypatch, {20: 0.0})
    result = train(small_config(data_file, tmp_path), callbacks=[SendsInEvaluation()])
    assert result.progress.updates == 20
    assert result.status == "finished"


def test_one_ctrl_c_after_early_stopping_is_not_two(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_scores(monkeypatch, {5: 1.0})

    class Interrupts(Callback):
        def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    try:
        train(small_config(data_file, tmp_path), callbacks=[StopAt(5, "finished"), Interrupts()])
    except KeyboardInterrupt:
        pytest.fail("the first Ctrl-C threw the evaluated, unsaved policy away")
    assert manager.load_policy(tmp_path / "run").checkpoint.progress["updates"] == 5


class _SignalledAtItsEnd:
    """As the callbacks of weak references in an import: what they raise, Python drops."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_whose_exception_is_lost_ends_the_command_all_the_same() -> None:
    cleared, began = [], time.monotonic()

    def command() -> None:
        with signals.ending_signals() as codes:
            try:
                _SignalledAtItsEnd()
                assert codes == [143]  # and nothing was raised
                while time.monotonic() < began + 10.0:
                    time.sleep(0.01)
            finally:
                time.sleep(0.5)  # clearing away is not cut short
                cleared.append(True)

    with pytest.raises(signals.CutOffError, match="SIGTERM received"):
        command()
    assert cleared
    assert time.monotonic() < began + 5.0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_whose_exception_was_lost_does_not_come_between_steps_that_belong_together() -> None:
    done: list[str] = []

    def command() -> None:
        with signals.ending_signals():
            _SignalledAtItsEnd()
            with stopping_later():
                done.append("first")
                time.sleep(0.5)  # the alarm comes now
                done.append("second")
            done.append("behind")

    with pytest.raises(signals.CutOffError, match="SIGTERM received"):
        command()
    assert done == ["first", "second"]
