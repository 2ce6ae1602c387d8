"""Checkpoints are written beside training: what they hold, what waits for them, and what is heard of their faults."""

from __future__ import annotations

import shutil
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rl_training.errors import CheckpointError, ConfigError, DivergenceError
from rl_training.experiment import manager
from rl_training.run_places import is_locked
from rl_training.runtime import checkpoint_folder, checkpoint_writer, run_directory, run_lock
from rl_training.runtime import loop as the_loop
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.checkpoint_writer import CheckpointWriter
from rl_training.runtime.loop import Loop
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import train
from small_runs import Poison, digest, files_under, one_update_at_a_time, small_config

Keep = Callable[[RunDirectory, Checkpoint], Path]


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writer, "INSTANT_SECONDS", 0.0)


def slow_disk(monkeypatch: pytest.MonkeyPatch, wait: Callable[[int], object]) -> None:
    """Every checkpoint waits, on its way to the disk, for what `wait` waits for at its step."""
    plain: Keep = RunDirectory.keep

    def keep(self: RunDirectory, checkpoint: Checkpoint) -> Path:
        wait(checkpoint.progress["steps"])
        return plain(self, checkpoint)

    monkeypatch.setattr(RunDirectory, "keep", keep)


class Watches(Callback):
    """Calls a function with every step, and remembers at which step which checkpoint was told of."""

    def __init__(self, see: Callable[[int], object] = lambda step: None) -> None:
        self.see = see
        self.told: dict[int, int] = {}

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        self.see(loop.progress.steps)

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        self.told[int(path.name[5:])] = loop.progress.steps


def test_training_goes_on_meanwhile_and_the_checkpoint_is_of_its_own_step(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes the checkpoint of update 5 only when update 9 is done: neither may wait for the other."""
    reached_nine = threading.Event()
    slow_disk(monkeypatch, lambda step: reached_nine.wait(20) if step == 5 else None)
    watches = Watches(lambda step: reached_nine.set() if step == 9 else None)
    began = time.monotonic()
    config = small_config(data_file, tmp_path, checkpoint_interval=5, total_timesteps=10)
    run = train(config, callbacks=[watches]).run
    assert time.monotonic() - began < 15
    assert watches.told[5] in (9, 10)
    exact = train(config.model_copy(update={"name": "short", "total_timesteps": 5})).run
    assert digest(run.load(5).tensors) == digest(exact.load(5).tensors)
    assert run.load(5).progress["steps"] == 5


def test_one_at_a_time(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, most = [], []

    def wait(step: int) -> None:
        writing.append(step)
        most.append(len(writing))
        time.sleep(0.03)
        writing.remove(step)

    slow_disk(monkeypatch, wait)
    result = train(small_config(data_file, tmp_path, checkpoint_interval=1, keep_checkpoints=30))
    assert set(most) == {1}
    assert result.run.steps() == list(range(1, 21))


def test_the_end_waits_for_it(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_disk(monkeypatch, lambda step: time.sleep(0.3))
    watches = Watches()
    result = train(small_config(data_file, tmp_path), callbacks=[watches])
    assert result.run.steps() == [20]
    assert watches.told == {20: 20}
    assert not [thread for thread in threading.enumerate() if thread.name == "checkpoint writer"]


def test_an_error_elsewhere_waits_for_it(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_disk(monkeypatch, lambda step: time.sleep(0.3))

    def fail(step: int) -> None:
        if step == 7:
            raise ValueError("elsewhere")

    with pytest.raises(ValueError, match="elsewhere"):
        train(small_config(data_file, tmp_path, checkpoint_interval=6), callbacks=[Watches(fail)])
    facts = manager.describe(tmp_path / "run")
    assert (facts["status"], facts["step"]) == ("failed", 6)
    assert manager.resume(tmp_path / "run").status == "finished"


def test_a_save_for_every_save_is_refused(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_disk(monkeypatch, lambda step: time.sleep(0.1))
    watches = Watches()
    monkeypatch.setattr(watches, "on_checkpoint", lambda loop, path: loop.save())
    with pytest.raises(ConfigError, match=r"^loop\.save: not in on_checkpoint, which it would call again; save in on_"):
        train(small_config(data_file, tmp_path, checkpoint_interval=5), callbacks=[watches])


def test_a_fault_of_the_thread_ends_the_run(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_later = threading.Event()

    def fail(step: int) -> None:
        if step == 200:
            is_later.wait(20)
            raise CheckpointError("step-200: cannot be written")

    slow_disk(monkeypatch, fail)
    config = small_config(data_file, tmp_path, checkpoint_interval=100, total_timesteps=400, engine="eager")
    seen: list[int] = []

    def see(step: int) -> None:
        seen.append(step)
        if step == 205:
            is_later.set()

    with pytest.raises(CheckpointError, match="step-200: cannot be written"):
        train(config, callbacks=[Watches(see)])
    assert 205 <= seen[-1] < 290  # heard of at once, not at the next save or at the end
    assert manager.load_policy(tmp_path / "run").checkpoint.progress["steps"] == 100


def test_a_member_is_set_back_to_the_checkpoint_that_is_still_being_written(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk must not decide how far: the run could not be repeated."""
    slow_disk(monkeypatch, lambda step: time.sleep(0.5))
    settings = {"seed": [7, 8], "checkpoint_interval": 5, "log_interval": 1, "total_timesteps": 10}
    result = train(small_config(data_file, tmp_path, **settings), callbacks=[poison := Poison(1, 6)])
    assert [finding.now_at for finding in poison.findings] == ["step 5"]
    sound, last = (result.run.load(step).build_learner().rows() for step in (5, 10))
    assert torch.equal(last["model.actor.flat"][1], sound["model.actor.flat"][1])
    assert all(value.isfinite().all() for value in last.values())


def test_a_run_that_diverges_meanwhile_ends_with_it_on_disk(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_disk(monkeypatch, lambda step: time.sleep(0.5))
    with pytest.raises(DivergenceError, match=r"set back to step 5: .*; the last good checkpoint is .*step-5$"):
        train(small_config(data_file, tmp_path, checkpoint_interval=5, log_interval=1), callbacks=[Poison(0, 6)])
    run = RunDirectory.open(tmp_path / "run")
    assert run.describe()["status"] == "diverged"
    assert run.steps() == [5]
    assert all(value.isfinite().all() for value in run.load("latest").tensors.values())


def test_a_run_that_diverges_while_a_write_fails_names_the_one_before(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: int) -> None:
        time.sleep(0.2)
        if step == 10:
            raise CheckpointError("step-10: cannot be written")

    slow_disk(monkeypatch, fail)
    settings = {"checkpoint_interval": 5, "log_interval": 1}
    with pytest.raises(DivergenceError, match=r"set back to step 5: .*; the last good checkpoint is .*step-5$"):
        train(small_config(data_file, tmp_path, **settings), callbacks=[Poison(0, 11)])
    with pytest.raises(CheckpointError, match="step-10: cannot be written"):
        train(small_config(data_file, tmp_path, name="two", seed=[7, 8], **settings), callbacks=[Poison(0, 11)])


def test_a_writer_left_alone_is_waited_for_as_long_as_asked() -> None:
    writer, go = CheckpointWriter(), threading.Event()
    writer.begin(lambda: Path("x") if go.wait(20) else Path("y"))
    assert writer.is_busy
    assert writer.poll() is None
    writer.wait(0.01)
    assert writer.is_busy
    go.set()
    assert writer.finish() == Path("x")
    assert (writer.poll(), writer.is_busy) == (None, False)


class TestCutOffWhileOneIsWritten:
    """A program that lives on, as a notebook does, is told to end at once while a slow disk has a checkpoint."""

    def cut_off(self, data_file: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, threading.Thread]:
        """At update 8, while that of update 5 is written; the run, and the thread that is at it."""
        monkeypatch.setattr(the_loop, "_CUT_OFF_SECONDS", 0.0)

        def cut(step: int) -> None:
            if step == 8:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(small_config(data_file, runs, checkpoint_interval=5), callbacks=[Watches(cut)])
        (writer,) = (thread for thread in threading.enumerate() if thread.name == "checkpoint writer")
        return runs / "run", writer

    @pytest.fixture
    def go(self, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
        """Set, it lets the disk take the checkpoint of update 5."""
        plain, go = checkpoint_folder.save, threading.Event()

        def save(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
            assert step != 5 or go.wait(20)
            return plain(folder, step, checkpoint)

        monkeypatch.setattr(checkpoint_folder, "save", save)
        return go

    def test_others_are_kept_out_until_it_is_there(
        self, go: threading.Event, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, writer = self.cut_off(data_file, tmp_path, monkeypatch)
        assert is_locked(path)
        assert manager.describe(path)["status"] == "interrupted"
        go.set()
        writer.join()
        assert not is_locked(path)
        assert manager.describe(path)["step"] == 5

    def test_the_same_program_waits_for_it_and_goes_on_from_there(
        self, go: threading.Event, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, _ = self.cut_off(data_file, tmp_path / "cut", monkeypatch)
        threading.Timer(0.3, go.set).start()
        began: list[int] = []
        watches = Watches()
        monkeypatch.setattr(watches, "on_start", lambda loop: began.append(loop.progress.steps))
        resumed = manager.resume(path, callbacks=[watches])
        assert began == [5]
        whole = train(small_config(data_file, tmp_path / "whole", checkpoint_interval=5))
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert resumed.run.steps() == whole.run.steps()

    def test_a_long_wait_is_told_of_and_can_be_interrupted(
        self, go: threading.Event, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, writer = self.cut_off(data_file, tmp_path, monkeypatch)
        monkeypatch.setattr(run_lock, "_PATIENCE_SECONDS", 0.0)

        def interrupt(message: str, **_: object) -> None:
            assert message.endswith(".lock: waiting for what a call that was cut off still writes")
            raise KeyboardInterrupt

        monkeypatch.setattr(warnings, "warn", interrupt)
        with pytest.raises(KeyboardInterrupt):
            manager.resume(path)
        go.set()
        writer.join()
        assert not is_locked(path)

    @pytest.mark.parametrize(
        ("another", "told"),
        [
            (False, "was moved or removed since: what was saved"),
            (True, "another run lies there by now; what was saved"),
        ],
    )
    def test_a_folder_that_is_moved_meanwhile(
        self,
        another: bool,
        told: str,
        go: threading.Event,
        data_file: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        path, _ = self.cut_off(data_file, tmp_path, monkeypatch)

        def move() -> None:
            path.rename(tmp_path / "moved")
            if another:
                shutil.copytree(tmp_path / "moved", path)
            go.set()

        threading.Timer(0.3, move).start()
        with pytest.raises(CheckpointError, match=told):
            manager.resume(path)
        assert not is_locked(tmp_path / "moved")

    def test_a_disk_that_takes_run_json_does_not_delay_it(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """How it ended is written behind what is being written, and before anybody goes on."""
        plain, go, began = run_directory.sync, threading.Event(), threading.Event()

        def sync(path: Path) -> None:
            if threading.current_thread().name == "checkpoint writer" and path.name.startswith(".run.json"):
                began.set()
                assert go.wait(20)
            plain(path)

        monkeypatch.setattr(run_directory, "sync", sync)
        monkeypatch.setattr(the_loop, "_CUT_OFF_SECONDS", 0.0)

        def cut(step: int) -> None:
            if step == 8:
                assert began.wait(20)
                cuts.append(time.monotonic())
                raise KeyboardInterrupt

        cuts: list[float] = []
        with pytest.raises(KeyboardInterrupt):
            train(small_config(data_file, tmp_path, checkpoint_interval=5), callbacks=[Watches(cut)])
        assert time.monotonic() - cuts[0] < 5
        assert manager.describe(tmp_path / "run")["status"] == "running"
        writers = [thread for thread in threading.enumerate() if thread.name in ("checkpoint writer", "run marker")]
        go.set()
        for writer in writers:
            writer.join()
        facts = manager.describe(tmp_path / "run")
        assert (facts["status"], facts["step"]) == ("interrupted", 5)
        assert manager.resume(tmp_path / "run").status == "finished"

    def test_what_comes_late_writes_nothing(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thread that had not begun to write when the lock was let go of: another may hold it by now."""
        go = threading.Event()
        slow_disk(monkeypatch, lambda step: step == 5 and go.wait(20))
        path, writer = self.cut_off(data_file, tmp_path, monkeypatch)
        assert not is_locked(path)
        before = files_under(path)
        go.set()
        writer.join()
        assert files_under(path) == before

    def test_nor_does_what_notes(self, data_file: Path, tmp_path: Path) -> None:
        """As the thread of a tracker that hung."""
        run, refused = train(small_config(data_file, tmp_path)).run, []

        def note() -> None:
            with pytest.raises(CheckpointError, match="the call that trained this run has ended") as error:
                run.note(late=True)
            refused.append(error)

        late = threading.Thread(target=note)
        late.start()
        late.join()
        assert refused
        assert "late" not in run.describe()
