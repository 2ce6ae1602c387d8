"""Memory on the command line: said by a dry run, and refused before anything is written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from rl_training.runtime import memory

SEEDS = [f"--seed={seed}" for seed in range(512)]


def test_a_dry_run_says_what_is_needed_and_what_is_free(command: Any) -> None:
    code, out, _ = command("train", "--config", "td3_bc/pendulum", "--dry-run")
    assert code == 0
    assert re.search(r"^# memory: about [0-9]+ MiB of [0-9.]+ GiB free$", out, re.MULTILINE)


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_what_does_not_fit_is_one_line(dry_run: list[str], mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 200 * 2**20)
    line = mistake("train", "--config", "td3_bc/pendulum", *SEEDS, *dry_run)
    need = r"error: seed: 512 members need about [0-9.]+ [GM]iB of memory on cpu, where 200 MiB are free; "
    assert re.fullmatch(need + "about [0-9]+ would fit", line)


def test_too_little_memory_to_load_the_libraries_is_one_line() -> None:
    command = f"ulimit -v 300000; {shlex.quote(sys.executable)} -m rl_training config show cql/pendulum"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"error: out of memory while libraries are loaded \(.*\); see `ulimit -v`.*\n", ended.stderr)
