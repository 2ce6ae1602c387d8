"""`rl-training bench`: a table of what this machine does, the same as JSON, and mistakes in one line."""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from rl_training.cli import benchmarking
from small_runs import files_under

SMALL = ("--seconds", 0.05, "--rows", 300, "--width", 8, "--batch-size", 8, "--device", "cpu")
TINY = (*SMALL, "--engine", "eager")


def test_it_measures_and_writes(command: Any, tmp_path: Path) -> None:
    code, out, err = command("bench", "--algo", "bc", "--members", 1, "--members", 2, *TINY, "--output", "figures.json")
    assert code == 0, err
    machine, head, *lines, last = out.splitlines()
    assert f"torch {torch.__version__}" in machine
    for column in ("updates/s", "seed-updates/s", "to compile", "peak memory"):
        assert column in head
    assert [line.split()[:3] for line in lines] == [["bc", "eager", "1"], ["bc", "eager", "2"]]
    assert all(line.endswith(" MiB") for line in lines)
    assert last == "written to figures.json"
    stored = json.loads((tmp_path / "figures.json").read_text())
    assert stored["machine"]["cpu"]
    assert [(row["members"], len(row["rates"])) for row in stored["results"]] == [(1, 3), (2, 3)]


def test_a_busy_machine_is_told_of_first(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(benchmarking, "default_threads", lambda: 2)
    code, _, err = command("bench", "--algo", "bc", *TINY)
    assert code == 0, err
    assert err.startswith("note: the machine is busy (load 99.0 on 2 cores), which slows 2 threads down")


def test_a_compiler_that_fails(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody asked for it, the measuring goes on without; by its name it is a mistake."""
    (tmp_path / "g++").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    auto = command("bench", "--algo", "bc", *SMALL, "--engine", "auto")
    assert auto.code == 0, auto.err
    assert auto.out.splitlines()[-1].split()[:3] == ["bc", "eager", "1"]
    assert "bc compiled, 1 member: warning: compiling failed (" in auto.err
    named = command("bench", "--algo", "bc", *SMALL, "--engine", "compiled")
    assert named.code == 2
    assert "error: bc compiled, 1 member: engine: 'compiled', but compiling failed (" in named.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--algo", "td3bc"), "error: algo: no algorithm 'td3bc'; did you mean 'td3_bc'?"),
        (("--members", 0), "error: members: must be at least 1, got 0"),
        (("--seconds", 0), "error: seconds: must be above 0, got 0"),
        (("--seconds", "inf"), "error: seconds: must be finite, got inf"),
        (("--rows", 10**15), "GiB of memory to be made up, but only "),
        (("--device", "cuda:99"), f"torch sees {torch.cuda.device_count()} CUDA devices"),
        (("--output", "/dev/null/x.json"), "error: --output /dev/null/x.json: /dev/null is no folder, so nothing can"),
    ],
)
def test_mistakes(mistake: Any, arguments: tuple[Any, ...], message: str) -> None:
    assert message in mistake("bench", *arguments)


def test_a_mistake_is_told_before_a_busy_machine(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarking, "busy_notice", lambda *_: ["busy"])
    assert mistake("bench", "--seconds", -1) == "error: seconds: must be above 0, got -1"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_place_is_looked_at_before_anything_is_measured(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarking, "measure", lambda *_, **__: pytest.fail("it was measured"))
    assert mistake("bench", "--output", "/dev/full").startswith("error: --output /dev/full: is a device")
    assert Path("/dev/full").is_char_device()


def test_no_room_for_the_figures(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are printed at least, and those of another time stay."""
    row = {"algo": "bc", "engine": "eager", "members": 1, "rates": [1.0], "memory": 2**20, "cuda_memory": 0}
    monkeypatch.setattr(benchmarking, "measure", lambda *_, **__: [row] * 100)
    (tmp_path / "figures.json").write_text("theirs")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limit[1]))
    try:
        code, out, err = command("bench", "--device", "cpu", "--output", "figures.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (code, err) == (2, "error: --output figures.json: cannot be written (File too large)\n")
    assert out.count("eager") == 100
    assert files_under(tmp_path) == {"figures.json": b"theirs"}


def test_nowhere_for_temporary_files(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["nowhere"])
    assert mistake("bench", *TINY).startswith("error: no folder for temporary files can be written to")


def test_the_table() -> None:
    row = {"algo": "iql", "engine": "compiled", "members": 4, "rates": [90.0, 110.0, 100.0], "preparing": 12.34}
    failed = {"algo": "cql", "engine": "eager", "members": 1, "failure": "out of memory"}
    _, *lines = benchmarking.table([{**row, "memory": 3 * 2**20, "cuda_memory": 0}, failed])
    assert lines[0].split() == ["iql", "compiled", "4", "100.0", "90.0–110.0", "400.0", "12.3", "s", "3", "MiB"]
    assert lines[1].split() == ["cql", "eager", "1", "failed:", "out", "of", "memory"]
