"""Being asked to stop: by a person at the keyboard, or by a machine that wants its processor back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Stoppable(Protocol):
    """What can be asked to end at the next opportunity."""

    def stop(self, reason: str, status: str) -> None: ...


@contextmanager
def graceful_signals(loop: Stoppable) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after the present update, with a checkpoint; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = 0

    def request_stop(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        if asked > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        loop.stop(f"{signal.Signals(number).name} received", status="interrupted")

    previous = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
