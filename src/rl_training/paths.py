"""Paths in the words of a user."""

from __future__ import annotations

import os
from pathlib import Path

_LONGEST_NAME = 255  # bytes; what every common file system takes


def user_path(text: str | Path) -> Path:
    """The path with ~ for the home folder; ValueError with the reason where no file could ever be there."""
    if "\0" in str(text):
        raise ValueError("must not contain a null character")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {Path(text).parts[0]}") from None
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
        raise ValueError(f"has a name of more than {_LONGEST_NAME} bytes in it")
    return path
