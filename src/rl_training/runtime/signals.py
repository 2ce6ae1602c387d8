"""Being asked to stop: by a person at the keyboard or a terminal that closes, or by a machine that is taken back.

The first request lets what is running come to a good end. Some things cannot be left half-way and take long (compiling
an update, an environment that hangs): a second Ctrl-C, or six seconds after any other signal, cuts them off; what hangs
in native code, a second later (`stuck_watch.py`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from rl_training.postponing import STOPPING
from rl_training.runtime.stuck_watch import StuckWatch

EXIT_CODES = {number.name: 128 + number for number in STOPPING}
PREEMPTION_SECONDS = 6.0  # a machine that is taken back is often gone ten seconds after it asked, and ending takes some
_LOST_SECONDS = 0.2  # after which an exception that is nowhere to be seen counts as lost
IMPATIENCE_SECONDS = 1.0  # what a second signal leaves for saving; two that come together are often one


class CutOffError(KeyboardInterrupt):
    """What was running was ended in the middle; all that is left of it is what it had saved."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} received, cut off")
        self.exit_code = EXIT_CODES[name]


def end_at_once(number: int, frame: Any) -> None:
    """The handler while nothing has begun that would have to be cleared away."""
    os._exit(128 + number)


def _unheard() -> dict[signal.Signals, Any]:
    """Those of `STOPPING` that nobody but Python or `end_at_once` handles or ignores, and their handlers."""
    ours = (signal.SIG_DFL, signal.default_int_handler, end_at_once)
    return {number: handler for number in STOPPING if (handler := signal.getsignal(number)) in ours}


def end_while_loading() -> None:
    """Until `ending_signals`, `STOPPING` end the process at once and without a traceback, with their exit codes."""
    for number in _unheard():
        signal.signal(number, end_at_once)


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """`STOPPING` end a command by an exception: what it was writing is cleared away behind it.

    Signals often come together, and clearing away is not cut short by another; one that comes later ends the process
    at once. An exception may be lost on its way, as in the callback of a library, where Python drops it: an alarm looks
    after it, and raises it anew.

    Yields a list that is empty until then; it then holds the exit code.
    """
    codes: list[int] = []
    first = 0.0
    if threading.current_thread() is not threading.main_thread():
        yield codes
        return

    def end(number: int, frame: Any) -> None:
        nonlocal first
        if not codes:
            first = time.monotonic()
            codes.append(128 + number)
            if alarmed:
                signal.setitimer(signal.ITIMER_REAL, _LOST_SECONDS, _LOST_SECONDS)
            raise CutOffError(signal.Signals(number).name)
        if time.monotonic() >= first + IMPATIENCE_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def look_after(number: int, frame: Any) -> None:
        if codes and not _is_on_its_way(sys.exception()):
            raise CutOffError(signal.Signals(codes[0] - 128).name)

    heard = _unheard()
    alarmed = signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    if alarmed:
        heard[signal.SIGALRM] = signal.SIG_DFL
    for number in heard:
        signal.signal(number, look_after if number == signal.SIGALRM else end)
    try:
        yield codes
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in heard.items():
            signal.signal(number, handler)


def _is_on_its_way(handled: BaseException | None) -> bool:
    """Whether what is being cleared away behind is `CutOffError`, be it by way of other errors."""
    while handled is not None and not isinstance(handled, CutOffError):
        handled = handled.__context__
    return handled is not None


class Stoppable(Protocol):
    """What can be asked to end at the next opportunity."""

    def stop(self, reason: str, status: str) -> None: ...


@contextmanager
def graceful_signals(loop: Stoppable, is_saving: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """`STOPPING` ask `loop` to stop, and cut it off if it does not (but only Ctrl-C what it saves).

    What goes on after its terminal has closed (`nohup`) has SIGHUP ignored, and so it stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    request = _Request(loop, is_saving)
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [number for number in STOPPING if not (number == signal.SIGHUP and outlives_terminal)]
    previous = {number: signal.signal(number, request) for number in heard}
    watch = StuckWatch(request, PREEMPTION_SECONDS, IMPATIENCE_SECONDS)
    try:
        yield
    finally:
        request.close()
        watch.close()
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set from Python


class _Request:
    """The handler of all these signals."""

    def __init__(self, loop: Stoppable, is_saving: Callable[[], bool]) -> None:
        self.loop = loop
        self.is_saving = is_saving
        self.first = ""  # the signal that counts
        self.presses = 0
        self.deadline: float | None = None
        self.timer: threading.Timer | None = None
        self.is_over = False
        self.handled = 0.0  # when a signal was, last

    def __call__(self, number: int, frame: Any) -> None:
        self.handled = now = time.monotonic()
        if self.is_over:
            return
        if self.deadline is not None and now >= self.deadline:
            self._cut_off(now)
            return
        self.first = self.first or signal.Signals(number).name
        self.loop.stop(f"{self.first} received", status="interrupted")
        self.presses += number == signal.SIGINT
        if self.presses > 2:
            raise CutOffError(self.first)
        if self.presses == 2:
            self._set_deadline(now + IMPATIENCE_SECONDS)
        elif number != signal.SIGINT and self.deadline is None:
            self._set_deadline(now + PREEMPTION_SECONDS)

    def _cut_off(self, now: float) -> None:
        if self.presses < 2 and self.is_saving():
            self._set_deadline(now + IMPATIENCE_SECONDS)
        else:
            raise CutOffError(self.first)

    def _set_deadline(self, deadline: float) -> None:
        """Python runs handlers in the main thread only, so a timer sends it one more signal."""
        if self.timer is not None:
            self.timer.cancel()
        self.deadline = deadline
        main, seconds = threading.main_thread().ident, max(deadline - time.monotonic(), 0.0)
        assert main is not None
        timer = threading.Timer(seconds + 0.01, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.daemon = True
        with suppress(RuntimeError):  # no room for another thread: the loop's next look at its end, then
            timer.start()
            self.timer = timer

    def close(self) -> None:
        """No signal of the timer's comes after this."""
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
