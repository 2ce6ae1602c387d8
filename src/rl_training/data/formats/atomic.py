"""Files and folders that are complete under their name or not there at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rl_training.data.formats.nearby import REPLACED
from rl_training.data.formats.renames import exchange, take_free_name
from rl_training.errors import DataError
from rl_training.postponing import stopping_later


def temporary_name(target: Path) -> Path:
    """A name beside the target, hidden and not used by anyone else."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")


def temporary_folder(parent: Path, prefix: str) -> Path:
    """A new folder that nobody else uses, open to those whom the umask lets in, as what is made in it."""
    folder = _fresh(parent, prefix)
    folder.mkdir()
    return folder


def _fresh(parent: Path, prefix: str) -> Path:
    return parent / f"{prefix}{uuid.uuid4().hex[:20]}"


@contextmanager
def workplace(target: Path, *, any_target: bool = False) -> Iterator[Path]:
    """A free name in a hidden folder beside the target, which goes at the end with whatever is in it.

    The folder is locked as long as the process lives; what killed ones left beside the same target is removed.
    any_target: beside others, too, where each has a name of its own and none would come back to remove it.
    """
    with stopping_later():
        _remove_left(target, any_target=any_target)
    while True:
        folder, lock = _fresh(target.parent, f".{target.name}.{_host()}-"), None
        try:
            with stopping_later():
                folder.mkdir()
                lock = _lock_own(folder)
            if lock is None:
                continue
            yield folder / "new"
            return
        finally:
            with stopping_later():
                shutil.rmtree(folder, ignore_errors=True)
                if lock is not None:
                    lock.close()
                _remove_left(target, any_target=any_target)  # what had to stay as long as nothing lay under the name


def _lock_own(folder: Path) -> _Lock | None:
    """The lock on a folder that was just made; none where another process has taken it for a dead one's."""
    try:
        return _Lock(folder)
    except (BlockingIOError, FileNotFoundError):
        return None


def _host() -> str:
    """This machine, in eleven characters that any file's name can hold."""
    own = ""
    with contextlib.suppress(OSError):  # of Linux; machines of one image may all be called the same
        own = Path("/etc/machine-id").read_text("ascii", "replace")
    return hashlib.sha256(f"{platform.node()} {own}".encode()).hexdigest()[:11]


def _remove_left(target: Path, *, any_target: bool) -> None:
    """What no process locks any more was left by one that is dead; on a shared disk, which need not tell of another
    machine's locks, only what this one left. What was being replaced stays while there is nothing in its place."""
    whose = ".+" if any_target else re.escape(target.name)
    name = re.compile(rf"\.({whose})\.{_host()}-[0-9a-f]{{20}}")
    with contextlib.suppress(OSError):
        for found in [match for entry in os.scandir(target.parent) if (match := name.fullmatch(entry.name))]:
            left = target.with_name(found[0])
            with contextlib.suppress(OSError):
                lock = _Lock(left, required=True)
                if os.path.lexists(target.with_name(found[1])) or not os.path.lexists(left / REPLACED):
                    shutil.rmtree(left, ignore_errors=True)
                lock.close()


class _Lock:
    """A folder that is locked until `close`, or until nobody holds this any more, as where a signal came before it;
    BlockingIOError where another process has locked it.

    required: OSError on a disk without locks, too.
    """

    def __init__(self, folder: Path, *, required: bool = False) -> None:
        self.descriptor: int | None = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.stat()  # removed before it was locked: FileNotFoundError
        except OSError as error:
            if required or isinstance(error, BlockingIOError | FileNotFoundError):
                self.close()
                raise

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # the folder could not be opened
            self.close()


@contextmanager
def alone_in(folders: Iterable[Path]) -> Iterator[None]:
    """Have no other process that asks for the same be in here; where the disk has no locks, or a folder may be written
    to but not listed, it may be."""
    with contextlib.ExitStack() as locks:
        for folder in sorted(folders):
            with contextlib.suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def new_file(target: Path, *, replace: bool = True) -> Iterator[Path]:
    """A temporary name to write a file, or to make a folder, under; at the end it takes the target's place.

    replace: put it in the place of what is there, which is removed then; else FileExistsError, whenever that came.
    """
    with workplace(target) as temporary:
        yield temporary
        sync_all(temporary)
        put(temporary, target, replace=replace)


new_folder = new_file  # the same, where it reads better


def put(temporary: Path, target: Path, *, replace: bool) -> None:
    """Give what is complete its name; `replace` as for `new_file`."""
    if not replace or (temporary.is_dir() and not os.path.lexists(target)):
        take_free_name(temporary, target)
    elif temporary.is_dir():
        _replace_folder(temporary, target)
    else:
        temporary.replace(target)
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        sync(target.parent)


def _replace_folder(temporary: Path, target: Path) -> None:
    """In one step where the system can: there is a whole folder under the target's name at any time. Else in two,
    between which the old one lies beside the new one, where `near_names` tells of it."""
    if exchange(temporary, target):
        return
    old = temporary.with_name(REPLACED)
    set_aside(target, old)
    try:
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            old.replace(target)
        raise


def set_aside(path: Path, free: Path) -> None:
    """Rename to a name in a folder of one's own. What the system cannot move away is removed: from a lower layer of
    overlayfs it moves no folder."""
    try:
        path.replace(free)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        remove(path)


def sync_all(path: Path) -> None:
    """A file, or every file in a folder."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            sync(file)


def remove(path: Path) -> None:
    """Whatever lies there now, as far as it can be; a link, not what it leads to."""
    if not path.is_symlink() and path.is_dir():  # in this order: what a link names may be no name at all
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def new_parents(target: Path) -> Iterator[None]:
    """The folders above the target; those that are made for it go again where it does not come to be."""
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{target}: the folder {str(target.parent)!r} cannot be made: {why}") from error
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: somebody else's
            for folder in made:
                folder.rmdir()
        raise


def sync(path: Path) -> None:
    """Have the system write a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
