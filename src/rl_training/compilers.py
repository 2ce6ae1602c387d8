"""What there is for `torch.compile`: a C++ compiler, and files that may be open at once."""

from __future__ import annotations

import os
import shutil
import sys

# Twice what was seen on a CPU: this process had up to 32 open while it compiled, the linker 27. With 14 torch fails for
# want of them; with 20 it sometimes does, and was reported to wait for ever.
LEAST_OPEN_FILES = 64


def find_compiler() -> str | None:
    """The path of the compiler that torch would use, if there is one."""
    names = (os.environ.get("CXX"), "g++", "clang++")
    found = (shutil.which(name) for name in names if name)
    return next((path for path in found if path), None) if sys.platform.startswith("linux") else None


def lack_of_files() -> str | None:
    """In words, where a process may have too few files open to compile; none where it may have enough."""
    if not sys.platform.startswith("linux"):
        return None
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or most >= LEAST_OPEN_FILES:
        return None
    return f"{LEAST_OPEN_FILES} open files (`ulimit -n` allows {most} here; raise it)"
