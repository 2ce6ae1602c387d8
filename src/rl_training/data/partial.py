"""The folder of an unfinished recording: its settings, and finished episodes in blocks of whole ones.

settings.json          what is recorded, and the command that continues it
episodes-N.npz         a block of episodes, of which N is the first
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.data.collection import Done
from rl_training.data.episodes import Trajectory, join
from rl_training.data.formats.atomic import sync, temporary_name
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.paths import in_shell, open_plain, read_plain_file

SETTINGS = "settings.json"
# A block is written when it holds so many rows, or when so much work would be lost.
_BLOCK_ROWS = 100_000
_BLOCK_SECONDS = 30.0


class PartialFolder:
    """Finished episodes of a recording, on disk and about to be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = Done()  # what lies on disk
        self._pending: list[Trajectory] = []
        self._pending_rows = 0
        self._written = time.monotonic()

    @classmethod
    @contextmanager
    def opened(cls, path: Path, settings: Mapping[str, Any], *, command: str, resume: bool) -> Iterator[PartialFolder]:
        """A new folder, or the one of before, which must be of the same settings; locked against other processes."""
        if not resume:
            _create(path, {"settings": dict(settings), "command": command})
        folder = cls(path)
        with _lock(path):
            if resume:
                folder._require_settings(settings)
                folder.done = folder._count()
            yield folder

    @staticmethod
    def ways_on(path: Path) -> str:
        """The commands that continue what was begun there, and that discard it."""
        command = _read(path)["command"]
        return f"continue it with {f'`{command}`' if command else '--resume'}, or {_discard(path)}"

    def _require_settings(self, settings: Mapping[str, Any]) -> None:
        before = _read(self.path)["settings"]
        changed = [name for name in settings if before.get(name) != settings[name]]
        if changed:
            was, now = (", ".join(f"{name} {values.get(name)}" for name in changed) for values in (before, settings))
            raise DataError(f"{self.path}: was begun with {was}, not {now}; use the same, or {_discard(self.path)}")

    # Writing ----------------------------------------------------------------------------------------------------

    def add(self, trajectory: Trajectory) -> None:
        """Keep the next episode; it is on disk when its block is full, old enough or flushed."""
        self._pending.append(trajectory)
        self._pending_rows += len(trajectory)
        if self._pending_rows >= _BLOCK_ROWS or time.monotonic() - self._written >= _BLOCK_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is not on disk yet. Doing so again after being interrupted in it writes the same block."""
        if self._pending:
            block = join(self._pending)
            block.save(self._block(self.done.episodes))
            self.done = Done(self.done.episodes + len(self._pending), self.done.rows + len(block))
            self._pending, self._pending_rows = [], 0
        self._written = time.monotonic()

    def _block(self, first: int) -> Path:
        return self.path / f"episodes-{first:09}.npz"

    # Reading ----------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[TransitionDataset]:
        """Every block in order; one that is missing, damaged or of another kind than the first is named."""
        first, kind = 0, ""
        for path in sorted(self.path.glob("episodes-*.npz")):
            if path != self._block(first):
                raise DataError(f"{self.path}: {self._block(first).name} is missing; {_discard(self.path)}")
            if path.is_symlink():
                raise DataError(f"{self.path}: {path.name} is a link, and none is followed; {_discard(self.path)}")
            block = TransitionDataset.load(path)
            own = _kind(block)
            if own != (kind := kind or own):
                raise DataError(
                    f"{self.path}: {path.name} holds {own}, the blocks before it {kind}; {_discard(self.path)}"
                )
            if not (block.terminations[-1] or block.truncations[-1]):
                raise DataError(f"{self.path}: {path.name} ends inside an episode; {_discard(self.path)}")
            first += block.n_episodes
            yield block

    def _count(self) -> Done:
        done = Done()
        for block in self._blocks():
            done = Done(done.episodes + block.n_episodes, done.rows + len(block))
        return done

    def merge(self) -> TransitionDataset:
        """All that was recorded, as one."""
        blocks = [block.to_dict() for block in self._blocks()]
        arrays: dict[str, Any] = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        return TransitionDataset(**arrays)

    def remove(self) -> None:
        """Everything is in the file now."""
        gone = temporary_name(self.path)
        self.path.rename(gone)  # first: a removal cut short must not look like a recording
        shutil.rmtree(gone, ignore_errors=True)

    def remove_if_empty(self) -> None:
        """Remove a folder that holds no episode."""
        if not self.done.episodes and not self._pending:
            self.remove()


def _kind(block: TransitionDataset) -> str:
    """What blocks of one recording have in common."""
    shapes = ((name, *values.shape[1:]) for name, values in block.to_dict().items())
    return ", ".join(" ".join(map(str, shape)) for shape in shapes)


def _create(path: Path, contents: Mapping[str, Any]) -> None:
    """Complete under its name or not there at all."""
    temporary = temporary_name(path)
    try:
        temporary.mkdir()
        (temporary / SETTINGS).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
        sync(temporary / SETTINGS)
        temporary.rename(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _read(path: Path) -> dict[str, Any]:
    """What `_create` wrote."""
    try:
        contents = json.loads(read_plain_file(path / SETTINGS))
        return {"settings": dict(contents["settings"]), "command": str(contents["command"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{path}: {SETTINGS} cannot be read; {_discard(path)}") from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keep other processes out; the lock dies with the process that holds it."""
    import fcntl  # not on every system

    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path / SETTINGS, "rb", opener=open_plain))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), (path / SETTINGS).stat()):  # another's, made since
                raise BlockingIOError
        except BlockingIOError:
            raise DataError(f"{path}: is being written by another process") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error.strerror or error}); {_discard(path)}") from None
        yield


def _discard(path: Path) -> str:
    return f"discard it with `rm -r {in_shell(path)}`"
