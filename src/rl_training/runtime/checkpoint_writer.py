"""Checkpoints are written by a thread of their own while training goes on, one at a time.

A write that is over in an instant is waited for: then a run that is killed loses no more than one interval. A longer
one (a large replay buffer, a slow disk) goes on beside training, and the next one waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

INSTANT_SECONDS = 0.05


class CheckpointWriter:
    """At most one write at a time; what goes wrong in it is raised by whoever asks next."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._written: Path | None = None
        self._error: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being written."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, write: Callable[[], Path]) -> None:
        """Write beside the caller; what was begun before must have been taken with `finish`."""
        assert self._thread is None, "a checkpoint is being written already"
        # A daemon: a run that is cut off does not wait for a disk, and half a checkpoint has no name.
        self._thread = threading.Thread(target=self._run, args=(write,), name="checkpoint writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system has no room for another: training waits, then
            self._run(write)
        self.wait(INSTANT_SECONDS)

    def _run(self, write: Callable[[], Path]) -> None:
        try:
            self._written = write()
        except BaseException as error:
            self._error = error

    def poll(self) -> Path | None:
        """What has been written since last asked, if it is complete. Raises what went wrong."""
        return None if self.is_busy else self.finish()

    def finish(self) -> Path | None:
        """The same after waiting for it."""
        if self._thread is None:
            return None
        self.wait()
        written, error = self._written, self._error
        self._thread = self._written = self._error = None
        if error is not None:
            raise error
        return written

    def wait(self, seconds: float | None = None) -> None:
        """Let what is being written come to its end, so long at most; what came of it is still to be taken."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(seconds)
