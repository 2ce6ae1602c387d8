"""What a run says of how it ended, where it did not come to its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rl_training.errors import CheckpointError, DivergenceError
from rl_training.runtime.run_directory import RunDirectory

_CUT_OFF_SECONDS = 1.0  # what a run that was cut off waits for a slow disk to take how it ended
_BRIEFLY_SECONDS = 0.1  # the same where its last write, which has been waited for, is what keeps it from it


@contextmanager
def marking(run: RunDirectory) -> Iterator[None]:
    """Have run.json say how the run ended; a refused resume ends nothing."""
    try:
        yield
    except KeyboardInterrupt as error:
        _mark_soon(run, error)
        raise
    except BaseException as error:
        _mark(run, error)
        raise


def _mark(run: RunDirectory, error: BaseException) -> None:
    with suppress(CheckpointError):  # a full disk must not hide what went wrong
        if run.describe().get("status") == "running":
            run.note(**how_it_ended(error))


def _mark_soon(run: RunDirectory, error: BaseException) -> None:
    """The same beside a call that is to end at once; where the process ends before it is done, the run is one that was
    killed."""
    seconds = _BRIEFLY_SECONDS if run.is_noting else _CUT_OFF_SECONDS
    thread = threading.Thread(target=_mark, args=(run, error), name="run marker", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system has no room for another
        _mark(run, error)
    else:
        thread.join(seconds)


def how_it_ended(error: BaseException) -> dict[str, str]:
    """The status of a run that an error ended, and the reason."""
    if isinstance(error, KeyboardInterrupt):
        return {"status": "interrupted", "reason": str(error) or "cut off"}
    if isinstance(error, DivergenceError):
        return {"status": "diverged", "reason": str(error)}
    return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
