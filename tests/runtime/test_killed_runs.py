"""SIGKILL at random moments, while training and while saving: nothing is unloadable, at most one save is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent


def kill(data: Path, folder: Path, times: int) -> dict[str, Any]:
    paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, str(TESTS / "killed_runs.py"), str(data), str(folder), str(times)],
        capture_output=True,
        text=True,
        timeout=1_800,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize("times", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_killed_run_is_sound_and_ends_as_if_never_killed(times: int, data_file: Path, tmp_path: Path) -> None:
    facts = kill(data_file, tmp_path, times)
    assert facts["wrong"] == []
    assert facts["exact"]
    assert facts["trained"] > 20  # kills came while it trained
    assert facts["while writing"] > times // 20  # and while it wrote
