"""One process trains a run at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import FileIO
from pathlib import Path

from rl_training.errors import CheckpointError
from rl_training.paths import in_shell, open_plain, resolved
from rl_training.run_places import CHECKPOINTS, DESCRIPTION, LOCK
from rl_training.runtime.checkpoint import reason

_GLANCES, _GLANCE_SECONDS = 4, 0.05  # a list of runs that looks at the lock holds it for an instant
_PATIENCE_SECONDS = 3.0  # what is waited for longer is told of
_NO_CHILD = "only the process that holds the lock writes there, no child of it"


class Held(FileIO):
    """The locked file. The system keeps the lock until the last descriptor of it is closed: the call's own, and one of
    each thread that writes, though the call was cut off before. Nothing has to count them, and as a context this is
    closed without a line of Python, between which a signal could come."""

    def __init__(self, run: Path) -> None:
        self.folder = run.stat()  # that it was locked in
        super().__init__(run / LOCK, "a+", opener=open_plain)
        self.place = os.fstat(self.fileno())
        self.is_of_parent = False  # this process is a child of the one that holds it
        self._owner = threading.current_thread()
        self._shares: dict[threading.Thread, FileIO] = {}

    @property
    def is_in_session(self) -> bool:
        """Whether the call that took it has not ended."""
        return not self.closed

    @property
    def is_free(self) -> bool:
        """Whether nobody in this process is at work under it."""
        return self.closed and all(share.closed for share in list(self._shares.values()))

    def share(self) -> FileIO | None:
        """What keeps the lock for this thread until it is closed; none where something does so anyway."""
        me = threading.current_thread()
        if me is self._owner or ((mine := self._shares.get(me)) is not None and not mine.closed):
            return None
        with _SHARING:
            try:
                share = FileIO(os.dup(self.fileno()))
            except (ValueError, OSError) as error:
                if isinstance(error, OSError) and not self.closed:
                    raise CheckpointError(f"{self.name}: cannot be locked ({error.strerror})") from error
            else:
                if not self.closed:  # until here, so that what was copied was its own
                    open_ones = {thread: share for thread, share in self._shares.items() if not share.closed}
                    self._shares = {**open_ones, me: share}
                    return share
                share.close()
        raise CheckpointError(f"{self.name}: the call that trained this run has ended; nothing is written")

    def let_go(self) -> None:
        """In a child of this process, which would keep the lock after the death of its parent."""
        self.is_of_parent = not self.is_free
        for file in (self, *self._shares.values()):
            file.close()


_HELD: set[Held] = set()  # what this process has locked
_SHARING = threading.Lock()  # no child is made meanwhile: it would have a descriptor that nobody has written down


def held(run: Path) -> Held:
    """Take the lock of a run, which the system takes from a process that dies; refused where another holds it."""
    _require_own_checkpoints(run)
    _HELD.difference_update([held for held in _HELD if held.is_free])
    try:
        # Without a buffer: nothing is left to be written, and to fail, as it is closed.
        held = Held(run)
    except OSError as error:
        raise CheckpointError(f"{run / LOCK}: cannot be written ({reason(error, run)})") from error
    try:
        _await_writers(held)
        _lock(held, run)
        require_held(held, run)
    except OSError as error:
        held.close()
        raise CheckpointError(f"{run / LOCK}: cannot be locked ({reason(error, run)})") from error
    except BaseException:
        held.close()
        raise
    _HELD.add(held)
    return held


@contextmanager
def shared(held: Held | None) -> Iterator[None]:
    """Write to the end under the lock, if there is one, though the call that took it may end before; refused where it
    has ended, and in a child of the process."""
    if held is not None and held.is_of_parent:
        raise CheckpointError(f"{held.name}: {_NO_CHILD}")
    with (held and held.share()) or nullcontext():
        yield


def _await_writers(mine: Held) -> None:
    """Let this process end what it still writes for a call that was cut off: who goes on then has that checkpoint."""
    began, is_told = time.monotonic(), False
    for held in list(_HELD):
        while not (held.is_in_session or held.is_free) and os.path.samestat(held.place, mine.place):
            time.sleep(_GLANCE_SECONDS)
            if not is_told and time.monotonic() > began + _PATIENCE_SECONDS:
                is_told = True
                warnings.warn(f"{mine.name}: waiting for what a call that was cut off still writes", stacklevel=2)


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
    if held.is_of_parent:
        raise OSError(errno.EBADF, _NO_CHILD)
    if held.is_free:  # nobody trains it any more
        return
    if not os.path.samestat(held.folder, run.stat()):
        raise OSError(errno.ESTALE, "another run lies there by now; what was saved is where this one was moved to")
    with suppress(FileNotFoundError):  # one that somebody has removed keeps nobody from writing
        if not os.path.samestat(held.place, (run / LOCK).stat()):
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
    _SHARING.release()
    for held in _HELD:
        held.let_go()
    _HELD.clear()


os.register_at_fork(before=_SHARING.acquire, after_in_parent=_SHARING.release, after_in_child=_let_go)
