"""Standard output and error that may be closed, full, or a pipe whose reader has left.

For most commands what they print is what they are for: not getting it out is a failure. For those that train or collect
it is a display, and what they write lies elsewhere: they go on without.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, TextIO

_NAMES = ("stdin", "stdout", "stderr")  # by descriptor


class _Lossy(FileIO):
    """A descriptor that leads nowhere from the first write on that fails, or raises and remembers the error."""

    def __init__(self, descriptor: int, *, goes_on: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.goes_on = goes_on
        self.lost: OSError | None = None
        self.on_loss: Callable[[OSError], None] = lambda _: None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0 if data else 0  # some ask by writing nothing what a stream takes
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
            self.lost = error
            _lead_nowhere(self.fileno())  # what is still buffered must not fail again when the process ends
            if not self.goes_on:
                raise
            self.on_loss(error)
            return len(memoryview(data).cast("B"))


def prepare() -> None:
    """At the start of a command: what was closed takes nothing, and what cannot be said on standard error is not said.

    A closed descriptor would be given to the next file that is opened, and messages would end up in it.
    """
    for descriptor, name in enumerate(_NAMES):
        try:
            os.fstat(descriptor)
        except OSError:
            _lead_nowhere(descriptor, os.O_RDONLY)  # not to be written, as what is closed: `_Lossy` says so
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = _lossy(sys.stdout, goes_on=False), _lossy(sys.stderr, goes_on=True)


def only_a_display() -> None:
    """Have the command go on without standard output where it is lost; why is said, unless its reader has left."""
    raw = _raw(sys.stdout)
    if raw is not None:
        raw.goes_on, raw.on_loss = True, _say_why


def finish() -> None:
    """Get out what is still buffered."""
    sys.stdout.flush()


def is_lost(error: OSError) -> bool:
    """Whether an error is standard output's own, and not some other pipe's or file's."""
    raw = _raw(sys.stdout)
    return raw is not None and raw.lost is error


def _say_why(error: OSError) -> None:
    if error.errno != errno.EPIPE:
        print(f"standard output cannot be written ({error.strerror}): going on without a display", file=sys.stderr)


def _lead_nowhere(descriptor: int, mode: int = os.O_RDWR) -> None:
    nowhere = os.open(os.devnull, mode)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _lossy(stream: TextIO, *, goes_on: bool) -> TextIO:
    """The same stream over such a descriptor; one that is no plain file of the system's is left as it is."""
    if not isinstance(stream, TextIOWrapper) or not isinstance(stream.buffer, BufferedWriter | FileIO):
        return stream
    raw = stream.buffer if isinstance(stream.buffer, FileIO) else stream.buffer.raw
    if not isinstance(raw, FileIO):
        return stream
    stream.flush()
    lossy = _Lossy(raw.fileno(), goes_on=goes_on)
    return TextIOWrapper(
        lossy if stream.write_through else BufferedWriter(lossy),
        encoding=stream.encoding,
        errors="replace",  # a terminal that knows no ± shows a question mark
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _raw(stream: TextIO) -> _Lossy | None:
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw if isinstance(raw, _Lossy) else None
