"""Standard output and error that are closed, full, or read by nobody: no traceback, and no run is lost for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rl_training.cli import main as command_line
from small_runs import small_values

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")


def say(*arguments: Any, closed: tuple[int, ...] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, some descriptors closed from the start."""

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    command = [sys.executable, "-m", "rl_training", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, preexec_fn=close, check=False, **streams)


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_cannot_be_printed_is_a_failure_of_one_line(unbuffered: str) -> None:
    with FULL.open("w") as full:
        done = say("algos", stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: standard output: cannot be written (No space left on device)")


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_what_is_closed_is_not_printed(closed: tuple[int, ...]) -> None:
    done = say("algos", closed=closed)
    assert done.returncode == (2 if 1 in closed else 0)  # what a command is for is lost
    told = "error: standard output: cannot be written (Bad file descriptor)\n"
    assert done.stderr == (told if closed == (1,) else "")
    assert bool(done.stdout) == (1 not in closed)


@needs_full
def test_a_mistake_that_cannot_be_told_has_its_exit_code() -> None:
    with FULL.open("w") as full:
        assert say("nonsense", stderr=full).returncode == 2
    assert say("nonsense", closed=(2,)).returncode == 2


@pytest.fixture
def settings(data_file: Path, tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(json.dumps(small_values(data_file, tmp_path)))
    return path


def finished(run: Path) -> bool:
    return json.loads((run / "run.json").read_text())["status"] == "finished"


@needs_full
def test_a_run_goes_on_where_its_display_cannot_be_written(settings: Path) -> None:
    with FULL.open("w") as full:
        done = say("train", "-c", settings, "-v", stdout=full)
    told = "standard output cannot be written (No space left on device): going on without a display\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert finished(settings.with_name("run"))


def test_a_run_goes_on_where_the_reader_of_its_display_leaves(settings: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = say("train", "-c", settings, "-v", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert finished(settings.with_name("run"))


def test_another_pipe_that_breaks_is_not_taken_for_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(**_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(command_line, "app", breaks)
    with pytest.raises(BrokenPipeError):
        command_line.main()
