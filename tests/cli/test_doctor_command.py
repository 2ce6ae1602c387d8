"""`rl-training doctor`: what is found on a machine, what to do about it, and the exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from rl_training.cli import machine_check, requirements
from rl_training.cli.machine_check import Check, examine
from rl_training.cli.requirements import Requirement, allows

CPU = {"device": "cpu", "fault": None}
GPU = {"device": "cuda:0", "fault": None, "name": "NVIDIA X", "free": 2**33, "total": 2**34}
FACTS = {"version": "2.13.0", "cuda_build": "12.8", "hip_build": None, "threads": 1, "devices": [CPU]}


@pytest.fixture
def torch_says(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`torch_says(devices=…)`: a torch of other facts; `torch_says(fault=…)`: one that does not work."""

    def say(compiled: dict[str, Any] | None = None, **changes: Any) -> None:
        facts = {"fault": changes["fault"]} if "fault" in changes else {**FACTS, **changes}
        answers = {"facts": facts, "compile": compiled or {"right": True}}
        monkeypatch.setattr(machine_check, "_ask_torch", answers.__getitem__)

    say()
    return say


def checks(tmp_path: Path, *, quick: bool = True) -> dict[str, Check]:
    return {check.name: check for check in examine(tmp_path / "runs", quick=quick)}


class TestThisMachine:
    def test_is_usable(self, command: Any) -> None:
        code, out, err = command("doctor", "--quick")
        assert (code, err) == (0, "")
        assert out.splitlines()[-1].startswith("usable")
        assert max(map(len, out.splitlines())) <= 100
        assert any(line.startswith("ok       torch") and "a small matrix" in line for line in out.splitlines())

    def test_json_holds_the_same(self, command: Any, torch_says: Any) -> None:
        told = json.loads(command("doctor", "--quick", "--json").out)
        assert told["usable"] is True
        assert {"python", "torch", "gpu", "compiler", "cpu", "environments", "runs folder", "terminal"} <= {
            check["name"] for check in told["checks"]
        }
        assert {check["level"] for check in told["checks"]} <= {"ok", "note", "problem"}
        assert set(told["checks"][0]) == {"name", "level", "found", "advice"}

    def test_nothing_is_left_behind(self, command: Any, torch_says: Any, tmp_path: Path) -> None:
        command("doctor", "--quick")
        assert list(tmp_path.iterdir()) == []


class TestTorch:
    def test_that_does_not_work_is_a_problem(self, command: Any, torch_says: Any) -> None:
        torch_says(fault="ImportError: libcudart.so.12")
        code, out, _ = command("doctor", "--quick")
        assert code == 1
        assert "problem  torch          does not work: ImportError: libcudart.so.12" in out
        assert out.splitlines()[-1] == "not usable: 1 problem: torch"

    def test_a_process_that_dies_is_told_by_its_last_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine_check.torch_probe, "__file__", "/nowhere/probe.py")
        assert "No such file" in machine_check._ask_torch("facts")["fault"]

    def test_a_busy_machine(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "getloadavg", lambda: (999.0, 0.0, 0.0), raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
        torch_says(threads=2)
        found = checks(tmp_path)["cpu"]
        assert found.level == "note"
        assert "the machine is busy (load 999.0 on " in (found.advice or "")

    def test_gpu(self, torch_says: Any, tmp_path: Path) -> None:
        torch_says(devices=[CPU, GPU])
        found = checks(tmp_path)["gpu"]
        assert (found.level, found.found) == ("ok", "NVIDIA X, 8.0 of 16.0 GiB free; a small matrix product works")

    def test_gpu_that_fails(self, torch_says: Any, tmp_path: Path) -> None:
        torch_says(devices=[CPU, {**GPU, "fault": "no kernel image is available"}])
        found = checks(tmp_path)["gpu"]
        assert (found.level, found.found) == ("problem", "cuda:0: no kernel image is available")
        assert "device: cpu" in found.advice

    def test_a_driver_without_a_cuda_build(
        self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine_check.shutil, "which", lambda name: f"/bin/{name}")
        torch_says(cuda_build=None)
        found = checks(tmp_path)["gpu"]
        assert found.level == "note"
        assert "CUDA" in found.advice


class TestCompiler:
    def test_none(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        found = checks(tmp_path)["compiler"]
        assert found.level == "note"
        assert "eager mode" in found.found
        assert "g++" in found.advice

    def test_one_that_fails(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rl_training.compilers.find_compiler", lambda: "/bin/g++")
        torch_says(compiled={"fault": "omp.h: not found"})
        found = checks(tmp_path, quick=False)["compiler"]
        assert (found.level, found.found) == ("note", "/bin/g++, but torch.compile does not work: omp.h: not found")
        assert "engine: eager" in found.advice

    def test_too_few_open_files(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not tried: torch was reported to hang."""
        monkeypatch.setattr("rl_training.compilers.find_compiler", lambda: "/bin/g++")
        monkeypatch.setattr("resource.getrlimit", lambda kind: (20, 4096))
        torch_says(compiled={"right": True})
        found = checks(tmp_path, quick=False)["compiler"]
        lacks = "compiling needs 64 open files (`ulimit -n` allows 20 here; raise it)"
        assert (found.level, found.advice) == ("note", "ulimit -n 1024")
        assert found.found == f"/bin/g++, but {lacks}: runs train in eager mode, which gives the same results"

    @pytest.mark.slow
    def test_the_probe_compiles(self) -> None:
        answer = machine_check._ask_torch("compile")
        assert answer == {"right": True} or "fault" in answer


class TestFolders:
    def test_no_write_access(self, command: Any, torch_says: Any) -> None:
        code, out, _ = command("doctor", "--quick", "--runs-dir", "/proc/runs")
        assert code == 1
        assert "problem  runs folder    /proc/runs cannot be written to" in out
        assert "--runs-dir" in out

    def test_a_full_disk(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = machine_check.shutil.disk_usage(tmp_path)
        monkeypatch.setattr(machine_check.shutil, "disk_usage", lambda place: usage._replace(free=2**20))
        assert checks(tmp_path)["runs folder"].level == "problem"


class TestExtras:
    def test_are_read_from_the_metadata(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = [
            "numpy>=2.0",
            "gymnasium[mujoco]>=1.0; extra == 'mujoco'",
            'no-such-package<3,>=2; extra == "export"',
            "rl-training[mujoco]; extra == 'all'",
            "pytest; extra == 'dev'",
        ]
        monkeypatch.setattr(requirements.metadata, "requires", lambda name: lines)
        found = requirements.own_requirements()
        assert found == {
            "": [Requirement("numpy", ">=2.0")],
            "mujoco": [Requirement("gymnasium", ">=1.0")],
            "export": [Requirement("no-such-package", "<3,>=2")],
        }

    def test_one_that_is_missing_says_what_to_install(
        self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requirements.metadata, "requires", lambda name: ["no-such>=2; extra == 'minari'"])
        found = checks(tmp_path)["minari"]
        assert found == Check(
            "minari",
            "note",
            "no-such is not installed (minari downloads Minari datasets)",
            "pip install 'rl-training[minari]'",
        )

    def test_a_package_that_is_too_old(self, torch_says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requirements.metadata, "requires", lambda name: ["numpy>=99"])
        found = checks(tmp_path)["packages"]
        assert found.level == "problem"
        assert "is here, >=99 is needed" in found.found

    @pytest.mark.parametrize(
        ("versions", "found", "allowed"),
        [
            (">=2.0", "2.0.0+cpu", True),
            (">=2.10,<3", "2.9.1", False),
            ("<3,>=2.10", "2.13.0", True),
            ("<3", "3.0", False),
            ("", "0.1", True),
            (">3", "3.0.0", False),
        ],
    )
    def test_versions(self, versions: str, found: str, allowed: bool) -> None:
        assert allows(versions, found) is allowed


class TestBrowser:
    """Playwright drives the system's Chromium: without one it is of no use."""

    @pytest.fixture(autouse=True)
    def _extra(self, torch_says: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """numpy in place of playwright, and a PATH with nothing but what a test puts there."""
        monkeypatch.setattr(requirements.metadata, "requires", lambda name: ["numpy>=1; extra == 'browser'"])
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(machine_check, "_compiler", lambda quick: Check("compiler", "ok", ""))

    def found(self, tmp_path: Path, script: str | None, *, quick: bool = False) -> tuple[str, str]:
        if script is not None:
            (tmp_path / "chromium-browser").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "chromium-browser").chmod(0o755)
        check = checks(tmp_path, quick=quick)["browser"]
        assert (check.level == "note") is bool(check.advice)
        return check.level, check.found.partition(numpy.__version__)[2].replace(f"{tmp_path}/", "")

    def test_none_on_this_machine(self, tmp_path: Path) -> None:
        told = ", but no browser: none of chromium, chromium-browser, google-chrome is on the PATH"
        assert self.found(tmp_path, None) == ("note", told)

    def test_one_that_starts(self, tmp_path: Path) -> None:
        assert self.found(tmp_path, "echo Chromium 131.0") == ("ok", "; Chromium 131.0 (chromium-browser)")

    def test_a_quick_look(self, tmp_path: Path) -> None:
        told = ("ok", "; chromium-browser, which was not started")
        assert self.found(tmp_path, "exit 1", quick=True) == told

    @pytest.mark.parametrize(
        ("script", "told"),
        [
            ("echo requires the snap >&2; exit 10", "requires the snap"),
            ("exit 3", "it stopped with exit code 3"),
            ("exit 0", "it stopped with exit code 0"),
            ("while :; do :; done", "no answer within 1 seconds"),
        ],
    )
    def test_one_that_does_not_start(
        self, script: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine_check, "_BROWSER_PATIENCE", 1.0)
        assert self.found(tmp_path, script) == ("note", f", but chromium-browser does not start: {told}")

    def test_one_that_is_no_program(self, tmp_path: Path) -> None:
        (tmp_path / "chromium").write_bytes(b"\x00\x01")
        (tmp_path / "chromium").chmod(0o755)
        level, told = self.found(tmp_path, None)
        assert level == "note"
        assert told.startswith(", but chromium does not start: ")
