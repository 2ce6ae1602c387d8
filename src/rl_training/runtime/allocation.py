"""How the C library treats the memory of updates on a CPU."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD: Final = -1  # as glibc's malloc.h numbers its options
_MMAP_THRESHOLD: Final = -3
_KEPT: Final = 512 * 2**20  # of freed memory that stays with the process
_LARGEST_KEPT: Final = 32 * 2**20  # of a buffer that is not given back at once; glibc takes no more


def keep_freed_memory() -> None:
    """Have what one update frees kept for the next, in the whole process.

    Else buffers of megabytes go back to the system and come anew, page by page, up to ten thousand pages an update.
    glibc alone can be told so; elsewhere nothing is done.
    """
    with suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
