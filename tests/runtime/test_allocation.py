"""Memory that updates free is kept for the next ones."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CHURN = """
import resource, torch
from rl_training.runtime.allocation import keep_freed_memory
keep_freed_memory()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def churn(): [torch.ones(2**22 - 2**12 * i) for i in range(4)]  # sixteen megabytes each
churn()
before = faults()
for _ in range(20): churn()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_large_buffers_are_not_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", CHURN], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40_000  # pages; 327,680 if each of the eighty buffers were new


def test_elsewhere_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_training.runtime import allocation

    def no_library(name: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(allocation.ctypes, "CDLL", no_library)
    allocation.keep_freed_memory()
