"""Data that a command takes beside those of a run, and reads as the run reads its own: what to say where it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from rl_training.errors import DataError

_LACKS, _NO_COLUMN = "; say which columns hold them", ": no column "


@contextmanager
def read_as_the_runs(option: str, given: str | None) -> Iterator[None]:
    """How data are read is said elsewhere: there is no place for their columns here. given: the option's value."""
    try:
        yield
    except DataError as error:
        fault, advice, _ = str(error).partition(_LACKS)
        if given is None or not (advice or ("columns." in fault and _NO_COLUMN in fault)):
            raise
        convert = f"rl-training data convert {shlex.quote(given)} NEW.npz --columns obs=… --columns actions=…"
        raise DataError(
            f"{fault}; {option} is read as the run's own data are, so bring it into form: {convert}"
        ) from error
