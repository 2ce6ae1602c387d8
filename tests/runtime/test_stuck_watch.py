"""A process whose main thread hangs in native code is ended all the same."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rl_training.runtime import stuck_watch
from rl_training.runtime.signals import graceful_signals
from rl_training.runtime.stuck_watch import StuckWatch

# A mutex that is locked twice never comes back, and no handler of Python's runs meanwhile.
HANGS = """
import ctypes, os, sys
from rl_training.runtime import signals
signals.PREEMPTION_SECONDS = 0.5
class Loop:
    def stop(self, reason, status): print(reason, flush=True)
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
with signals.graceful_signals(Loop()):
    print("hangs", flush=True)
    libc.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 138), (signal.SIGINT, 130)])
def test_a_main_thread_that_hangs_in_native_code(number: signal.Signals, code: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hangs\n"
    ended = None
    for second in range(
        60
    ):  # a key is pressed until something happens; two presses may be one where the machine is busy
        if ended is None and (number == signal.SIGINT or second == 0):
            process.send_signal(number)
        try:
            ended = process.wait(1.0)
            break
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.stdout.close()
    assert ended == code


def test_many_open_files(tmp_path: Path) -> None:
    """Its pipe has a number that select does not take."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[0] < 1_200:
        pytest.skip("fewer files may be open here")
    (tmp_path / "file").touch()
    with ExitStack() as opened:
        while opened.enter_context((tmp_path / "file").open()).fileno() < 1_050:
            pass
        watch = StuckWatch(Request(), 6.0, 1.0)
        try:
            assert watch._read > 1_024
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.raise_signal(signal.SIGUSR1)
            deadline = time.monotonic() + 20.0
            while not watch._heard and watch._thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.001)
            assert watch._heard
        finally:
            watch.close()
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)


class Request:
    """A handler that may not run."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self.handled = 0.0
        self.saving = False

    def is_saving(self) -> bool:
        return self.saving


def judged(request: Request, *numbers: int) -> tuple[list[int], StuckWatch]:
    """What the watch does when the time is over after these signals."""
    watch = StuckWatch.__new__(StuckWatch)
    codes: list[int] = []
    watch._request, watch._patience, watch._impatience = request, 6.0, 1.0
    watch._first = watch._presses = 0
    watch._heard, watch._until, watch._exit = 0.0, None, codes.append
    watch._hear(bytes(numbers))
    if watch._until is not None:
        watch._judge()
    return codes, watch


def test_one_press_of_a_key_is_waited_for() -> None:
    assert judged(Request(), signal.SIGINT)[0] == []


def test_what_is_no_request_to_stop() -> None:
    assert judged(Request(), signal.SIGCHLD, signal.SIGWINCH)[0] == []


def test_handlers_that_run_are_left_to_it() -> None:
    request = Request()
    request.handled = time.monotonic() + 1.0
    assert judged(request, signal.SIGTERM)[0] == []


def test_what_is_being_saved_is_waited_for_unless_a_key_is_pressed_twice() -> None:
    request = Request()
    request.saving = True
    codes, watch = judged(request, signal.SIGTERM)
    assert codes == []
    assert watch._until is not None
    assert judged(request, signal.SIGINT, signal.SIGINT)[0] == [130]


def test_time_that_is_left() -> None:
    _, watch = judged(Request())
    now = time.monotonic()
    watch._hear(bytes([signal.SIGTERM]))
    assert watch._until is not None
    assert watch._until == pytest.approx(now + 6.0 + stuck_watch.GRACE_SECONDS, abs=0.5)
    watch._request.deadline = now + 2.0
    watch._hear(bytes([signal.SIGUSR1]))
    assert watch._until == pytest.approx(now + 2.0 + stuck_watch.GRACE_SECONDS, abs=0.5)


def test_asking_again_puts_nothing_off() -> None:
    _, watch = judged(Request())
    watch._hear(bytes([signal.SIGTERM]))
    first = watch._until
    watch._hear(bytes([signal.SIGTERM]))
    assert watch._until == first


class Loop:
    def stop(self, reason: str, status: str) -> None:
        pass


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_behind() -> None:
    before, threads = descriptors(), threading.active_count()
    for _ in range(5):
        with graceful_signals(Loop()):
            assert threading.active_count() == threads + 1
    assert (descriptors(), threading.active_count()) == (before, threads)
    assert signal.set_wakeup_fd(-1) == -1


def test_an_event_loop_keeps_its_signals() -> None:
    read, write = os.pipe2(os.O_NONBLOCK)
    before = signal.set_wakeup_fd(write)
    try:
        with graceful_signals(Loop()):
            pass
        assert signal.set_wakeup_fd(write) == write
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = descriptors()
    monkeypatch.setattr(threading.Thread, "start", refused)
    with graceful_signals(Loop()):
        signal.raise_signal(signal.SIGTERM)  # the timer cannot be started either
    assert descriptors() == before


def test_a_child_writes_nothing_into_its_parents_pipe() -> None:
    with graceful_signals(Loop()):
        child = os.fork()
        if child == 0:
            os._exit(0 if signal.set_wakeup_fd(-1) == -1 else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_child_that_lives_on_is_not_waited_for() -> None:
    """It holds an end of the pipe, unless it has closed it."""
    read, write = os.pipe()
    with graceful_signals(Loop()):
        child = os.fork()
        if child == 0:
            os.read(read, 1)  # until the test is over
            os._exit(0)
    os.write(write, b".")
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
