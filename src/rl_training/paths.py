"""Paths in the words of a user, and files that may be a stranger's."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path, PurePath
from typing import Any

from rl_training.errors import ConfigError

_LARGEST = 2**22  # bytes; a configuration has some thousand
_NOT_PLAIN = "not a plain file"
_LONGEST_NAME = 255  # bytes; what every common file system takes
NOT_A_PATH = "must be a text or a pathlib.Path"
NO_TEMPORARY_FOLDER = "no folder for temporary files can be written to; make room, or name another: TMPDIR=FOLDER"
_OF_COMPILERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")  # where torch keeps what it has compiled
OF_DATA = (".npz", ".hdf5", ".h5", ".parquet", ".csv", ".tsv", ".gz")  # endings of files that may be datasets
_OF_THE_SYSTEM = (("/", "proc"), ("/", "sys"))
_PLACES = ("path", "init_from", "runs_dir")  # keys of a configuration that name files and folders


def is_there(path: Path) -> bool:
    """Whether a file or folder exists; one whose name is too long for any does not."""
    try:
        return path.exists()
    except OSError:
        return False


def free_names(*names: str) -> list[str]:
    """File names that nothing here has, all with the same number where one of them is taken."""
    ends = ("" if number == 1 else f"-{number}" for number in count(1))
    choices = ([f"{Path(name).stem}{end}{Path(name).suffix}" for name in names] for end in ends)
    return next(own for own in choices if not any(is_there(Path(name)) for name in own))


def folder_fault(folder: Path) -> str | None:
    """Why nothing can be written into a folder, or into one that is yet to be made; folders are made as needed."""
    above = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), Path())
    if not above.is_dir():
        return f"{above} is no folder, so nothing can be written into it; choose another place"
    if resolved(above).parts[:2] in _OF_THE_SYSTEM:  # where access is granted, and nothing can be made
        return f"{above} is the system's own, and no file can be made in it; choose another place"
    return None if os.access(above, os.W_OK | os.X_OK) else f"the folder {above} may not be written to"


def is_text(name: str) -> bool:
    """Whether a name can be written down: Python reads others from a disk with half characters in them."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def user_path(text: str | Path) -> Path:
    """The path with ~ for the home folder; ValueError with the reason where no file could ever be there, TypeError
    where it is no path at all."""
    if not isinstance(text, str | PurePath):
        raise TypeError(NOT_A_PATH)
    if "\0" in str(text):
        raise ValueError("must not contain a null character")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {Path(text).parts[0]}") from None
    if not is_text(str(path)):
        raise ValueError("has a name that is not UTF-8 text; rename it")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
        raise ValueError(f"has a name of more than {_LONGEST_NAME} bytes in it")
    return path


def resolved(path: Path) -> Path:
    """The absolute path with links followed; one of a circle of links as it stands: whoever opens it says so."""
    try:
        return path.resolve()
    except RuntimeError:
        return path.absolute()


def from_here(path: Path) -> Path:
    """As short as a command can name it: what lies above the working folder is nobody else's business."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def leading_to(place: Path, given: Path) -> Path:
    """`given` while it leads to the absolute `place`, as it does until the working folder is changed; then `place`."""
    try:
        return given if given.absolute() == place else place
    except OSError:  # the working folder is gone
        return place


def require_temporary_folder() -> None:
    """Refuse to go on where libraries that need a folder for temporary files would find none."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise ConfigError(NO_TEMPORARY_FOLDER) from None


def variable_naming(place: str) -> str:
    """What to say before a place that cannot be written to: the variable of a compiler that leads there, if any."""
    failed = Path(place).absolute()
    for name in _OF_COMPILERS:
        named = Path(os.environ.get(name, "")).absolute()
        if os.environ.get(name) and (failed.is_relative_to(named) or named.is_relative_to(failed)):
            return f"{name} names no folder that can be written to: "
    return ""


def read_plain_file(path: Path, at_most: int = _LARGEST) -> str:
    """The text of a small file; of a pipe or a device, which may keep one waiting or never end, an OSError, and of a
    file larger than any that people or this package write, too.

    at_most: bytes of the largest."""
    require_plain(path)
    with path.open("rb") as file:
        contents = file.read(at_most + 1)
    if len(contents) > at_most:
        size = f"{path.stat().st_size:,} bytes; at most {at_most:,} are read"
        raise OSError(errno.EFBIG, size, str(path))
    return contents.decode("utf-8")


def require_plain(path: Path) -> None:
    """OSError where there is something that is no plain file: a pipe, a device, a folder, a link to nowhere."""
    if os.path.lexists(path) and not path.is_file():
        raise OSError(errno.EINVAL, _NOT_PLAIN, str(path))


def open_plain(path: str, flags: int) -> int:
    """An `opener` for what is written in folders that may be a stranger's: of a link, a pipe or a device an OSError, as
    what a link leads to would be written over, and others may keep one waiting."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, and a pipe that nobody reads
            raise OSError(errno.EINVAL, _NOT_PLAIN, path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NOT_PLAIN, path)
    return descriptor


def bare_paths(value: Any) -> Any:
    """A configuration, or a part of one, with files by their bare names: where they lay is nobody else's business."""
    if isinstance(value, Mapping):
        return {k: bare_name(v) if k in _PLACES and v else bare_paths(v) for k, v in value.items()}
    return [bare_paths(entry) for entry in value] if isinstance(value, list | tuple) else value


def without_folder(message: str, path: Any) -> str:
    """A message on a file or folder, for a page that is shared: by its name alone."""
    if path is None:
        return message
    bare, folder = message.replace(str(path), bare_name(path)), PurePath(str(path)).parent
    return bare.replace(str(folder), "its folder") if folder.is_absolute() and folder.name else bare


def bare_name(path: Any) -> str:
    """The last part of a path; `minari:ID` as it is."""
    text = str(path)
    return text if text.startswith("minari:") else PurePath(text).name or text


def in_shell(path: Path | str) -> str:
    """As a word of a command that can be pasted: quoted where it must be, and no option where it begins with a dash."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
