"""Where data lie: the path that a file's name or `minari:ID` stands for."""

from __future__ import annotations

import os
from pathlib import Path

from rl_training.errors import DataError
from rl_training.paths import NOT_A_PATH, user_path
from rl_training.validation import shortened, shown

MINARI_PREFIX = "minari:"  # before an id, where a dataset is named in one word


def expand(path: str | os.PathLike[str]) -> Path:
    """The path with ~ for the home folder, where there is such a home."""
    try:
        return user_path(text_of(path))
    except ValueError as error:
        raise DataError(f"{shortened(str(path))}: {error}") from None


def text_of(path: str | os.PathLike[str]) -> str:
    """A path that a caller gives, as text; whatever is none is refused."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise DataError(f"path: {NOT_A_PATH}, got {shown(path)}")
    return text


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse a path where nothing lies, in the words of whoever would read it."""
    from rl_training.data.formats.nearby import near_names

    place = expand(path)
    if not os.path.lexists(place):
        raise DataError(f"{path}: no such file{near_names(place)}")


def place_of(source: str) -> Path:
    """The path that a user's words stand for, whether there is something or not."""
    if not source.startswith(MINARI_PREFIX):
        return expand(Path(source))
    from rl_training.data.formats.minari import folder_of

    return folder_of(source.removeprefix(MINARI_PREFIX))


def locate(source: str, *, download: bool = False) -> Path:
    """The path of data that must be there, if they are a Minari dataset; with `download` it is fetched if it is not."""
    if not source.startswith(MINARI_PREFIX):
        return place_of(source)
    from rl_training.data.formats import minari

    return minari.find(source.removeprefix(MINARI_PREFIX), download=download)
