"""Steps between which nothing may come: a signal that would end the command waits until they are done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


@contextmanager
def stopping_later() -> Iterator[None]:
    """`STOPPING`, and an alarm that somebody waits for, come when this is over. What is in here should take no time, as
    renaming does."""
    if threading.current_thread() is not threading.main_thread():  # where no signal is handled
        yield
        return
    came: list[int] = []

    def keep(number: int, frame: Any) -> None:
        came.append(number)

    kept: dict[int, Any] = {}
    try:
        for number in (*STOPPING, signal.SIGALRM):
            nobody = (None, signal.SIG_IGN, *([signal.SIG_DFL] if number == signal.SIGALRM else []))
            if (handler := signal.getsignal(number)) not in nobody:
                kept[number] = handler
                signal.signal(number, keep)
        yield
    finally:
        for stopping, handler in reversed(kept.items()):  # SIGINT last: it alone raises by itself
            signal.signal(stopping, handler)
        for stopping in dict.fromkeys(came):
            signal.raise_signal(stopping)
