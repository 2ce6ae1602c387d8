"""Ends a process whose main thread no longer comes to Python: a simulator may hang in native code, where no handler of
a signal runs, and then nobody would hear that it is asked to stop.

The system writes the number of every signal into a pipe, which a thread reads. As long as handlers do run, it does
nothing. (Native code that holds Python's own lock stops this thread, too.)
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from rl_training.postponing import STOPPING

GRACE_SECONDS = 1.0  # for what was cut off to end by itself
_LATE_SECONDS = 0.05  # that this thread may hear of a signal later than its handler ran
_WATCHED: set[tuple[int, int]] = set()  # both ends of the pipes that the system writes into


class Handled(Protocol):
    """The handler of signals in the main thread."""

    deadline: float | None
    handled: float  # when it last ran

    def is_saving(self) -> bool: ...


class StuckWatch:
    """From here to `close`, signals that are not handled in time end the process with their exit code.

    patience, impatience: seconds after a signal, and after a second Ctrl-C.
    """

    def __init__(self, request: Handled, patience: float, impatience: float) -> None:
        self._request, self._patience, self._impatience = request, patience, impatience
        self._first = self._presses = 0
        self._heard = 0.0
        self._until: float | None = None
        self._exit: Callable[[int], object] = os._exit
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        _WATCHED.add((self._read, self._write))
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="stuck watch", daemon=True)
        if self._before != -1 or not self._has_started():  # an event loop has signals of its own
            self._let_go()

    def _has_started(self) -> bool:
        try:
            self._thread.start()
        except RuntimeError:  # no room for another thread: handlers alone, then
            return False
        return True

    def close(self) -> None:
        """No process is ended after this."""
        if (self._read, self._write) in _WATCHED:
            self._let_go()

    def _let_go(self) -> None:
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        _WATCHED.discard((self._read, self._write))
        self._is_over = True
        if self._thread.ident is not None:
            with suppress(BlockingIOError):  # full: it is awake
                os.write(self._write, b"\0")  # an end of the pipe may be open in a child, and would not tell
            self._thread.join()
        os.close(self._write)
        os.close(self._read)

    def _watch(self) -> None:
        told = select.poll()  # which takes descriptors of any number, as select does not
        told.register(self._read, select.POLLIN)
        while not self._is_over:
            left = None if self._until is None else max(0, math.ceil(1000 * (self._until - time.monotonic())))
            if told.poll(left):
                self._hear(os.read(self._read, 512))
            elif self._until is not None and time.monotonic() >= self._until:
                self._judge()

    def _hear(self, told: bytes) -> None:
        numbers = [number for number in told if number in STOPPING]
        if not numbers:
            return
        self._heard = now = time.monotonic()
        self._first = self._first or numbers[0]
        self._presses += numbers.count(signal.SIGINT)
        ends = [now + self._impatience] if self._presses > 1 else []
        ends += [now + self._patience] if any(number != signal.SIGINT for number in numbers) else []
        ends += [self._request.deadline] if self._request.deadline is not None else []
        if ends:  # whoever asks again and again does not wait longer
            until = max(min(ends), now) + GRACE_SECONDS
            self._until = until if self._until is None else min(self._until, until)

    def _judge(self) -> None:
        """The time is over: end the process, unless handlers run, or something is being saved that nobody forbids."""
        if self._request.handled >= self._heard - _LATE_SECONDS:
            self._until = None
        elif self._presses < 2 and self._request.is_saving():
            self._until = time.monotonic() + GRACE_SECONDS
        else:
            self._until = None
            self._exit(128 + self._first)


def _forget() -> None:
    """A child would write into its parent's pipe what it alone was sent."""
    if _WATCHED:
        signal.set_wakeup_fd(-1)
    for ends in _WATCHED:
        for end in ends:
            os.close(end)
    _WATCHED.clear()


os.register_at_fork(after_in_child=_forget)
