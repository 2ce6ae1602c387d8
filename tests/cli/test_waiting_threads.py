"""Threads that wait for each other do so briefly: another program may need the core."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rl_training import __main__ as entry


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)


def test_unless_the_user_says_otherwise(unset: None, monkeypatch: pytest.MonkeyPatch) -> None:
    entry._wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "1000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    entry._wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_before_torch_is_loaded() -> None:
    program = "import sys, rl_training.__main__ as entry; entry._wait_briefly = lambda: print('torch' in sys.modules)"
    command = [sys.executable, "-c", f"{program}; sys.argv = ['rl-training', '--version']; entry.main()"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0] == "False"


def test_nor_beside_a_policy(unset: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    entry._wait_briefly()
    assert "GOMP_SPINCOUNT" not in os.environ
