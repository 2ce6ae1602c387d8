"""A full disk at every call that needs room, one after another; a folder that may not be written; a lock."""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml

from rl_training.cli.main import main
from rl_training.errors import CheckpointError
from rl_training.experiment import manager
from rl_training.run_places import is_locked
from rl_training.runtime import run_directory, run_lock
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_ending import marking
from rl_training.runtime.trainer import train
from small_runs import digest, small_config, small_values


class Disk:
    """Counts the calls that need room in `folder`; from number `full` on each fails, a write after half its bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, code: int = errno.ENOSPC) -> None:
        self.folder, self.code = str(folder), code
        self.calls, self.full = 0, 10**9
        for name in ("fsync", "mkdir", "rename", "replace", "chmod"):
            monkeypatch.setattr(os, name, self._guarded(getattr(os, name)))
        plain = io.open

        def open_file(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            opened = plain(file, mode, *arguments, **options)
            if set(mode) & set("wax+") and self._is_mine(file):
                try:
                    self._spend()
                except OSError:
                    opened.close()
                    raise
                write = opened.write

                def write_half(data: Any) -> Any:
                    try:
                        self._spend()
                    except OSError:
                        write(data[: len(data) // 2])
                        opened.flush()
                        raise
                    return write(data)

                opened = _Writing(opened, write_half)
            return opened

        monkeypatch.setattr(io, "open", open_file)
        monkeypatch.setattr(builtins, "open", open_file)
        spend = self._spend

        class Lock(run_lock.Held):
            def __init__(self, run: Path) -> None:
                spend()
                super().__init__(run)

            def write(self, data: Any) -> int:
                try:
                    spend()
                except OSError:
                    super().write(data[: len(data) // 2])
                    raise
                return super().write(data)

        monkeypatch.setattr(run_lock, "Held", Lock)

    def _is_mine(self, file: Any) -> bool:
        return isinstance(file, str | Path) and str(file).startswith(self.folder)

    def _spend(self) -> None:
        self.calls += 1
        if self.calls >= self.full:
            raise OSError(self.code, os.strerror(self.code))

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(first, int) or self._is_mine(first):
                self._spend()
            return function(first, *arguments, **options)

        return call


class _Writing:
    """A file whose writes go through `write`."""

    def __init__(self, file: Any, write: Callable[[Any], Any]) -> None:
        self._file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *details: Any) -> None:
        self._file.close()


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rl-training", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("code", "stride", "is_another"), [(errno.ENOSPC, 1, False), (errno.EROFS, 9, False), (errno.ENOSPC, 3, True)]
)
def test_every_call_in_turn(
    code: int,
    stride: int,
    is_another: bool,
    data_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whichever call fails: not exit code 0, one line, what was saved before still loads and leads to the same end.

    is_another: the run starts from another, and has its start from when it has its name."""
    values = small_values(data_file, tmp_path / "whole", total_timesteps=8, checkpoint_interval=4, log_interval=2)
    config = tmp_path / "config.yaml"
    if is_another:
        values["init_from"] = str(train(small_config(data_file, tmp_path / "first", total_timesteps=4)).run.path)
    config.write_text(yaml.safe_dump(values))
    with monkeypatch.context() as patched:
        disk = Disk(patched, tmp_path / "whole")
        assert command(patched, "train", "-c", str(config), "-q") == 0
    whole = RunDirectory.open(tmp_path / "whole" / "run")
    assert disk.calls > 40
    newest: set[int] = set()
    for full in range(1, disk.calls + 1, stride):
        runs = tmp_path / f"full-{full}"
        with monkeypatch.context() as patched:
            failing = Disk(patched, runs, code)
            failing.full = full
            capsys.readouterr()
            assert command(patched, "train", "-c", str(config), "-q", "--runs-dir", str(runs)) == 2, full
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1, said
        assert os.strerror(code) in said[0]
        assert code != errno.ENOSPC or f"free space on the disk of {runs}" in said[0]
        assert ".tmp-" not in said[0]
        left = [path for path in runs.glob("*") if path.name != "run"] if runs.exists() else []
        assert left == [], "an unfinished folder was left"
        if (runs / "run").exists():
            run = RunDirectory.open(runs / "run")
            assert run.steps() or not is_another
            newest.add(max((run.load(step).progress["steps"] for step in run.steps()), default=0))
            with suppress(manager.FinishedError):  # where only the last sync of run.json failed
                manager.resume(runs / "run")
            assert run.describe()["status"] == "finished"
            assert digest(run.load().tensors) == digest(whole.load().tensors)
            assert run.records("metrics") == whole.records("metrics")
            assert not list(run.path.rglob("*.tmp-*"))
    assert newest >= {0, 4, 8}


def test_a_run_that_may_not_be_written_can_be_used(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(small_config(data_file, tmp_path)).run
    disk = Disk(monkeypatch, tmp_path, errno.EROFS)
    disk.full = 1
    assert manager.load_policy(run.path).predict([0.0, 0.0, 0.0]).shape == (1,)
    with pytest.raises(CheckpointError, match=r"\.lock: cannot be written \(Read-only file system\)"):
        manager.resume(run.path, total_timesteps=30)


# The lock -----------------------------------------------------------------------------------------------------------

HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from rl_training.runtime import run_lock
with run_lock.held(Path(sys.argv[1])):
    if os.fork() == 0:
        os.close(1)
        time.sleep(20)  # a child that outlives its parent
        os._exit(0)
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


def in_a_child(do: Callable[[], object], seconds: float = 20.0) -> int:
    """The exit code of a forked child that does this: 0 where nothing is raised, -9 where it hangs."""
    child = os.fork()
    if not child:
        try:
            do()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


def test_a_child_writes_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with pytest.raises(OSError, match="only the process that holds the lock"):
            run_lock.require_held(held, tmp_path)
        with pytest.raises(CheckpointError, match="only the process that holds the lock"), run_lock.shared(held):
            pass

    with run_lock.held(tmp_path) as held:
        assert in_a_child(write) == 0
    assert in_a_child(lambda: run_lock.require_held(held, tmp_path)) == 0  # nobody trains it any more


def test_a_child_made_while_run_json_is_written_does_not_wait_for_it(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes it is none of the child's; nor does it keep the lock for the child."""
    run = train(small_config(data_file, tmp_path)).run
    began, go = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        began.set()
        assert go.wait(20)

    def end() -> None:
        with pytest.raises(SystemExit), marking(run):
            sys.exit()

    with run.lock():
        run.note(status="running")
        monkeypatch.setattr(run_directory, "sync", slow)
        writer = threading.Thread(target=lambda: run.note(noted=True))
        writer.start()
        assert began.wait(20)
        try:
            assert in_a_child(end, 5.0) == 0
        finally:
            go.set()
            writer.join()
    assert run.describe()["status"] == "running"


class TestAnInterruptAsTheCallEnds:
    """Ctrl-C may come at any line of Python."""

    @pytest.fixture
    def run(self, data_file: Path, tmp_path: Path) -> RunDirectory:
        return train(small_config(data_file, tmp_path)).run

    def test_the_lock_is_let_go_of(self, run: RunDirectory) -> None:
        kept: list[BaseException] = []  # as a notebook keeps the last error, and all that was at work then
        count = 0
        while self.ends_by(run, count, kept):
            assert not is_locked(run.path), f"event {count}"
            with RunDirectory.open(run.path).lock():
                count += 1
        assert not is_locked(run.path)

    def ends_by(self, run: RunDirectory, count: int, kept: list[BaseException]) -> bool:
        """Whether an interrupt at event `count` after the last line under the lock was raised."""
        seen = -1

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal seen
            seen += 1
            if seen == count:
                raise KeyboardInterrupt
            return trace

        try:
            with run.lock():
                sys.settrace(trace)
            sys.settrace(None)
        except KeyboardInterrupt as error:
            kept.append(error)
        finally:
            sys.settrace(None)
        return seen >= count


def test_a_living_process_holds_the_lock_and_a_dead_one_does_not(data_file: Path, tmp_path: Path) -> None:
    run = train(small_config(data_file, tmp_path)).run
    source = Path(__file__).resolve().parent.parent.parent / "src"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run.path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    ) as holder:
        assert holder.stdout is not None
        number = int(holder.stdout.readline())
        for attempt in (lambda: manager.resume(run.path, total_timesteps=30), lambda: run.lock().__enter__()):
            with pytest.raises(CheckpointError, match=rf"is being trained by another process \(process {number} on "):
                attempt()
        holder.kill()
        holder.wait()
    assert manager.resume(run.path, total_timesteps=30).progress.steps == 30


def test_two_objects_in_one_process_exclude_each_other(data_file: Path, tmp_path: Path) -> None:
    run = train(small_config(data_file, tmp_path)).run
    with run.lock():
        with run.lock():  # the same owner, who resumes and then trains
            pass
        with pytest.raises(CheckpointError, match="by this very process, by a call"), run_lock.held(run.path):
            pass
    with run_lock.held(run.path):
        pass


def test_no_room_for_the_name_in_the_lock(tmp_path: Path) -> None:
    """Said once: closing the file does not fail again on what could not be written."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with (
            pytest.raises(CheckpointError, match=r"\.lock: cannot be written \(File too large"),
            run_lock.held(tmp_path),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@pytest.mark.parametrize(
    ("holder", "told"),
    [(b"\xff\x80 x", r" \(\ufffd\ufffd x\)"), (b"\xff\x1b[2J", ""), ("\x9b2J".encode(), ""), (b"", "")],
)
def test_whatever_the_holder_has_written(holder: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(holder)
    with (tmp_path / ".lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match=rf"is being trained by another process{told}$"):
            run_lock.held(tmp_path).__enter__()
