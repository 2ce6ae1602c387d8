"""Ctrl-C and SIGTERM: a checkpoint, an exit code of its own, and a resume that ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.loop import Loop
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

training._display = lambda console, quiet: [Sender()]
main.app(sys.argv[3:])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_command_with_a_checkpoint(
    number: signal.Signals, code: int, data_file: Path, tmp_path: Path
) -> None:
    values = small_values(data_file, tmp_path, algo="td3_bc", total_timesteps=30, log_interval=8)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    arguments = [sys.executable, "-c", COMMAND, "13", str(int(number)), "train", "-c", str(tmp_path / "config.yaml")]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
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


def test_a_second_ctrl_c_ends_the_run_at_once(data_file: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(small_config(data_file, tmp_path), callbacks=[Sends(3, signal.SIGINT, signal.SIGINT)])
    assert manager.describe(tmp_path / "run")["status"] == "failed"


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
