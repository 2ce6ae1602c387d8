"""Which C++ compiler there is for `torch.compile`."""

from __future__ import annotations

import os
import shutil
import sys


def find_compiler() -> str | None:
    """The path of the compiler that torch would use, if there is one."""
    names = (os.environ.get("CXX"), "g++", "clang++")
    found = (shutil.which(name) for name in names if name)
    return next((path for path in found if path), None) if sys.platform.startswith("linux") else None
