"""A long run holds no more memory, files or threads at its end than early on, and can be read throughout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rl_training.runtime.run_directory import RunDirectory

TESTS = Path(__file__).resolve().parent.parent
MIB = 2**20


def soak(data: Path, folder: Path, updates: int, records: int) -> dict[str, Any]:
    """Train in a process of its own and read its records, again and again, while it writes them."""
    paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "soak.py"), str(data), str(folder), str(updates), str(records)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    seen, looks = 0, 0
    try:
        while process.poll() is None:
            time.sleep(0.05)
            if (folder / "run").exists():
                found = recorded(folder / "run", updates // records)
                assert found >= seen
                looks += seen < found < records
                seen = found
    finally:
        process.kill()
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert looks > 10  # at different states of the file
    facts: dict[str, Any] = json.loads(out)
    return facts


def recorded(run: Path, interval: int) -> int:
    """How many metric records there are by now; every file must make sense as it is."""
    directory = RunDirectory.open(run)
    assert directory.describe()["status"] in ("running", "finished")
    counts = {}
    for kind, every in (("metrics", interval), ("timing", interval), ("evaluations", 5 * interval)):
        steps = [record["step"] for record in directory.records(kind)]
        assert steps == [every * number for number in range(1, len(steps) + 1)]
        counts[kind] = len(steps)
    return counts["metrics"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize(("updates", "records"), [(2_000, 100), pytest.param(1_000_000, 1_000, marks=pytest.mark.slow)])
def test_nothing_piles_up(updates: int, records: int, data_file: Path, tmp_path: Path) -> None:
    facts = soak(data_file, tmp_path, updates, records)
    assert recorded(tmp_path / "run", updates // records) == records
    warm_up = records // 4
    early, late = (median(facts["memory"][part]) for part in (slice(warm_up, 2 * warm_up), slice(-warm_up, None)))
    assert late - early < 2 * MIB
    for held in ("files", "threads", "checkpoints"):
        assert max(facts[held][warm_up:]) <= max(facts[held][:warm_up]) + 2, held  # a write may be under way
    assert not [path.name for path in (tmp_path / "run").rglob("*") if ".tmp-" in path.name]
