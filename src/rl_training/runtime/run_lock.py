"""One process trains a run at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from rl_training.errors import CheckpointError
from rl_training.paths import in_shell, open_plain, resolved
from rl_training.run_places import CHECKPOINTS, DESCRIPTION, LOCK
from rl_training.runtime.checkpoint import reason

_GLANCES, _GLANCE_SECONDS = 4, 0.05  # a list of runs that looks at the lock holds it for an instant


class Held:
    """The locked file, the folder it was locked in, and who is at work under it: the call that took it, until it ends,
    and its threads that write, though the call was cut off before."""

    def __init__(self, file: FileIO, folder: os.stat_result) -> None:
        self.file, self.folder = file, folder
        self.place = os.fstat(file.fileno())
        self.is_in_session = True  # the call that took it has not ended
        self.is_free = threading.Event()
        self.counting = threading.Lock()
        self._owner, self._holders = threading.current_thread(), 1

    def join(self) -> bool:
        """Have this thread write under it; false in the one that took it, which does so anyway."""
        if threading.current_thread() is self._owner:
            return False
        with self.counting:
            if not self._holders:  # another may have the lock by now
                raise CheckpointError(f"{self.file.name}: the call that trained this run has ended; nothing is written")
            self._holders += 1
        return True

    def end_session(self) -> None:
        """The call that took it ends."""
        self.is_in_session = False
        self.leave()

    def leave(self) -> None:
        """Be done; the last one lets the lock go."""
        with self.counting:
            self._holders -= 1
            if self._holders:
                return
        _HELD.discard(self)
        self.file.close()
        self.is_free.set()


_HELD: set[Held] = set()  # what this process has locked


@contextmanager
def held(run: Path) -> Iterator[Held]:
    """Hold the lock of a run, which the system takes from a process that dies; refused where another holds it."""
    _require_own_checkpoints(run)
    try:
        # Without a buffer: nothing is left to be written, and to fail, as it is closed.
        file = open(run / LOCK, "ab+", buffering=0, opener=open_plain)  # noqa: SIM115
    except OSError as error:
        raise CheckpointError(f"{run / LOCK}: cannot be written ({reason(error, run)})") from error
    try:
        _await_writers(file)
        _lock(file, run)
        held = Held(file, run.stat())
    except BaseException:
        file.close()
        raise
    _HELD.add(held)
    try:
        yield held
    finally:
        held.end_session()


@contextmanager
def shared(held: Held | None) -> Iterator[None]:
    """Write to the end under the lock, if there is one, though the call that took it may end before; refused where it
    has ended."""
    has_joined = held is not None and held.join()
    try:
        yield
    finally:
        if held is not None and has_joined:
            held.leave()


def _await_writers(file: FileIO) -> None:
    """Let this process end what it still writes for a call that was cut off: who goes on then has that checkpoint."""
    place = os.fstat(file.fileno())
    for held in list(_HELD):
        if not held.is_in_session and os.path.samestat(held.place, place):
            held.is_free.wait()


def _require_own_checkpoints(run: Path) -> None:
    """Refuse where a link leads to those of another run, which would lose them; one to another disk does not matter."""
    place = resolved(run / CHECKPOINTS)
    if place.parent != resolved(run) and os.path.lexists(place.parent / DESCRIPTION):
        raise CheckpointError(
            f"{run / CHECKPOINTS}: is a link to those of another run, {place.parent}, which would be lost; put a copy"
            f" of them in its place (`cp -r`), or go on with {in_shell(place.parent)}"
        )


def require_held(held: Held, run: Path) -> None:
    """Refuse to write where the folder that was locked no longer lies: another run may have its name by now."""
    if held.file.closed:
        raise OSError(errno.EBADF, "only the process that holds the lock writes there, no child of it")
    if not os.path.samestat(held.folder, run.stat()):
        raise OSError(errno.ESTALE, "another run lies there by now; what was saved is where this one was moved to")
    with suppress(FileNotFoundError):  # one that somebody has removed keeps nobody from writing
        if not os.path.samestat(os.fstat(held.file.fileno()), (run / LOCK).stat()):
            raise OSError(errno.EBUSY, f"{LOCK} was removed, and another process trains this run by now")


def _lock(file: FileIO, run: Path) -> None:
    try:
        _lock_soon(file)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(200).decode("utf-8", "replace").strip()
        known = f" ({holder})" if holder and holder.isprintable() else ""
        by = f"another process{known}"
        if holder == _own_name():
            by = "this very process, by a call that has not ended"
        shared = os.fstat(file.fileno()).st_nlink > 1  # as `cp -al` makes copies, which then have one lock between them
        or_copy = ", or a copy of it that shares its files by hard links is" if shared else ""
        raise CheckpointError(f"{run}: is being trained by {by}{or_copy}") from None
    except OSError as error:
        raise CheckpointError(f"{run / LOCK}: cannot be locked ({error.strerror})") from error
    try:  # for the message above; the lock itself needs no room on the disk
        file.truncate(0)
        file.write(f"{_own_name()}\n".encode("utf-8", "replace"))
    except OSError as error:
        raise CheckpointError(f"{run / LOCK}: cannot be written ({reason(error, run)})") from error


def _own_name() -> str:
    return f"process {os.getpid()} on {platform.node()}"


def _lock_soon(file: FileIO) -> None:
    for _ in range(_GLANCES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(_GLANCE_SECONDS)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _let_go() -> None:
    """A child of this process would keep the lock after the death of its parent."""
    for held in _HELD:
        held.file.close()
        held.counting = threading.Lock()  # a thread that the child does not have may hold the other
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go)
