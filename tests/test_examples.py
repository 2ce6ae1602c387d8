"""The example scripts and the documentation build, run as a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_cql_reference(tmp_path: Path) -> None:
    said = run(
        "examples/cql_pendulum_reference.py", "--updates", "20", "--episodes", "1", "--runs-dir", str(tmp_path / "runs")
    )
    assert "return over 1 episodes: -" in said
    assert f"the same action from {tmp_path}" in said


@pytest.mark.parametrize("algo", ["td3_bc", "sac"])
def test_any_algorithm(algo: str, tmp_path: Path) -> None:
    said = run(
        "examples/pendulum.py",
        algo,
        "--seeds",
        "0",
        "7",
        "--steps",
        "20",
        "--episodes",
        "1",
        "--runs-dir",
        str(tmp_path),
    )
    assert "seed 0: -" in said
    assert "seed 7: -" in said


def test_finetune(tmp_path: Path) -> None:
    said = run("examples/finetune.py", "--offline", "20", "--online", "20", "--runs-dir", str(tmp_path))
    assert [line.split()[0] for line in said.splitlines()] == ["offline", "online"]


def test_documentation_is_built(tmp_path: Path) -> None:
    assert f"pages in {tmp_path}" in run("docs/build.py", "--output", str(tmp_path))
    assert "offline_batch_ratio" in (tmp_path / "algorithms" / "rlpd.html").read_text("utf-8")
