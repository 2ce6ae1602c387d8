"""Renaming in one step of the system, where it has such: two names exchanged, or a name taken only if it is free."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100  # AT_FDCWD of Linux: relative paths start where the process stands
_NO_REPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE, RENAME_EXCHANGE of linux/fs.h
# Of a kernel or file system without them; overlayfs says EXDEV of a folder that lies in a lower layer.
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """Swap what lies under two names, both of them there at any time; False where the system cannot."""
    return _renamed(one, other, _EXCHANGE)


def take_free_name(path: Path, target: Path) -> None:
    """Rename a file or folder; FileExistsError, with the target's name, where there is something by now."""
    try:
        if _renamed(path, target, _NO_REPLACE):
            return
        if path.is_dir():
            _require_free(target)
            path.rename(target)  # which itself refuses all but an empty folder
            return
        try:
            os.link(path, target)
        except OSError as error:
            if isinstance(error, FileExistsError) or error.errno not in _NOT_HERE:
                raise
            _require_free(target)
            path.rename(target)
        else:
            path.unlink()
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        raise


def _require_free(target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _renamed(one: Path, other: Path, flag: int) -> bool:
    """Whether Linux did it; False where it, or the file system, does not know this way."""
    call = _renameat2()
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


@cache
def _renameat2() -> Any:
    """The function of the C library, or None: of another system, or of a library before glibc 2.28."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call
