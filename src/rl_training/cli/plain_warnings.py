"""What libraries warn of while a command runs, in one line as everything else it says."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rl_training.cli.telling import tell
from rl_training.wording import WARNING

# Of numpy's arithmetic: which numbers are too large is told where they are checked, with their place.
_OF_ARITHMETIC = re.compile(r"(overflow|underflow|invalid value|divide by zero) encountered in ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # gymnasium's


@contextmanager
def told_plainly() -> Iterator[None]:
    """Without Python's file names and lines of code; as Python does where it was asked (`-W`, PYTHONWARNINGS)."""
    if sys.warnoptions:
        yield
        return
    with warnings.catch_warnings():
        warnings.showwarning = _show
        yield


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = _COLOUR.sub("", " ".join(str(message).split()))
    if not (issubclass(category, RuntimeWarning) and _OF_ARITHMETIC.match(text)):
        tell(f"{WARNING}{text.removeprefix('WARN: ')}", err=True)
