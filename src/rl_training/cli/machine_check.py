"""`rl-training doctor`: whether this machine can train, and what to do where it cannot."""

from __future__ import annotations

import json
import locale
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rl_training import __version__
from rl_training.cli import torch_probe
from rl_training.cli.requirements import DISTRIBUTION, Requirement, allows, needed_python, own_requirements
from rl_training.cli.telling import tell
from rl_training.runtime.machine_load import busy_notice
from rl_training.wording import amount, cores_and_threads

Level = Literal["ok", "note", "problem"]
_PATIENCE = {"facts": 120.0, "compile": 300.0}  # seconds for torch to answer
_BROWSER_PATIENCE = 20.0  # seconds for a browser to say its version
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_LITTLE_DISK, _NO_DISK = 2 * 2**30, 100 * 2**20  # bytes
_LABEL, _WIDEST = 14, 100
# What an extra is for; which there are, and what they bring, is in the package's metadata.
_PURPOSES = {
    "minari": "downloads Minari datasets",
    "mujoco": "runs MuJoCo's environments (Hopper-v5 and others)",
    "parquet": "reads and writes Parquet, reads CSV faster",
    "report": "draws learning curves",
    "docs": "builds the documentation",
    "tracking": "writes TensorBoard logs",
    "export": "exports policies to ONNX",
    "hub": "uploads policies to the Hugging Face hub",
    "browser": "tests the report's page in Chromium",
    "video": "films episodes",
}


@dataclass(frozen=True)
class Check:
    """What was looked at, how it stands, what was found, and what to do about it."""

    name: str
    level: Level
    found: str
    advice: str = ""


def doctor(runs_dir: str, *, quick: bool, as_json: bool) -> int:
    """Print every check; 0 if training is possible, 1 if not."""
    checks = []
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, _WIDEST))
    for check in examine(Path(runs_dir).expanduser(), quick=quick):
        checks.append(check)
        if not as_json:
            tell("\n".join(_lines(check, width)))
    problems = [check for check in checks if check.level == "problem"]
    if as_json:
        told = {"version": __version__, "usable": not problems, "checks": [asdict(check) for check in checks]}
        tell(json.dumps(told, indent=1))
    elif problems:
        tell(f"not usable: {amount(len(problems), 'problem')}: {', '.join(p.name for p in problems)}")
    else:
        notes = sum(check.level == "note" for check in checks)
        tell("usable" + (f"; {amount(notes, 'note')} above on what would add to it" if notes else ""))
    return 1 if problems else 0


def _lines(check: Check, width: int) -> list[str]:
    start = f"{check.level:<8} {check.name:<{_LABEL}} "
    inner = " " * len(start)
    lines = textwrap.wrap(check.found, width, initial_indent=start, subsequent_indent=inner, break_long_words=False)
    if check.advice:
        lines += textwrap.wrap(
            check.advice, width, initial_indent=f"{inner}-> ", subsequent_indent=f"{inner}   ", break_long_words=False
        )
    return lines


def examine(runs_dir: Path, *, quick: bool) -> Iterator[Check]:
    """One check after another, as each takes its time."""
    yield _python()
    needs = own_requirements()
    yield _dependencies(needs)
    facts = _ask_torch("facts")
    yield _torch(facts)
    yield _gpu(facts)
    yield _compiler(quick=quick or "fault" in facts)
    yield _threads(facts)
    yield _environments(quick=quick)
    for extra, packages in (needs or {}).items():
        if extra:
            check = _extra(extra, packages)
            yield _with_browser(check, quick=quick) if extra == "browser" and check.level == "ok" else check
    yield _runs_folder(runs_dir)
    yield _terminal()


def _python() -> Check:
    found, needed = platform.python_version(), needed_python() or ""
    where = f"{found} ({sys.executable})"
    if allows(needed, found):
        return Check("python", "ok", where)
    return Check("python", "problem", f"{where}; {needed} is needed", "make an environment with a newer Python")


def _dependencies(needs: dict[str, list[Requirement]] | None) -> Check:
    if needs is None:
        found = f"{DISTRIBUTION} runs from its source; what it needs is not known"
        return Check("packages", "note", found, "pip install . (in the folder with pyproject.toml)")
    own = needs.get("", [])
    faults = [fault for need in own if (fault := need.fault)]
    if faults:
        return Check("packages", "problem", "; ".join(faults), f"pip install --upgrade {DISTRIBUTION}")
    return Check("packages", "ok", ", ".join(f"{need.name} {need.installed}" for need in own if need.name != "torch"))


def _ask_torch(question: Literal["facts", "compile"]) -> dict[str, Any]:
    """What torch says of itself, or `fault`: why it could not."""
    command = [sys.executable, "-P", torch_probe.__file__, *(["compile"] if question == "compile" else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE[question], errors="replace")
    except subprocess.TimeoutExpired:
        return {"fault": f"no answer within {_PATIENCE[question]:.0f} seconds"}
    except OSError as error:
        return {"fault": f"{sys.executable} cannot be started ({error.strerror})"}
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return {"fault": said[-1][:300] if said else f"it stopped without a word (exit code {done.returncode})"}


def _torch(facts: dict[str, Any]) -> Check:
    if "fault" in facts:
        return Check("torch", "problem", f"does not work: {facts['fault']}", "pip install --force-reinstall torch")
    build = f"CUDA {facts['cuda_build']}" if facts["cuda_build"] else "ROCm" if facts["hip_build"] else "the CPU only"
    wrong = facts["devices"][0]["fault"]
    found = f"{facts['version']}, built for {build}"
    if wrong:
        advice = "pip install --force-reinstall torch"
        return Check("torch", "problem", f"{found}; a small matrix product on the CPU fails: {wrong}", advice)
    return Check("torch", "ok", f"{found}; a small matrix product works")


def _gpu(facts: dict[str, Any]) -> Check:
    devices = facts.get("devices", [])[1:]
    faults = [f"{device['device']}: {device['fault']}" for device in devices if device["fault"]]
    if faults:
        advice = "set device: cpu in configurations, or update the driver"
        return Check("gpu", "problem", "; ".join(faults), advice)
    if devices:
        found = (f"{d['name']}, {d['free'] / 2**30:.1f} of {d['total'] / 2**30:.1f} GiB free" for d in devices)
        return Check("gpu", "ok", "; ".join(found) + "; a small matrix product works")
    if not (shutil.which("nvidia-smi") or Path("/proc/driver/nvidia").exists()):
        return Check("gpu", "note", "none: training runs on the CPU")
    if facts.get("cuda_build"):
        advice = "compare the driver's version (nvidia-smi) with torch's CUDA; look at CUDA_VISIBLE_DEVICES"
        return Check("gpu", "note", "torch sees none, although there is an NVIDIA driver", advice)
    advice = "install a build of torch with CUDA: https://pytorch.org/get-started/locally"
    return Check("gpu", "note", "not used: there is an NVIDIA driver, but this torch is for the CPU only", advice)


def _compiler(*, quick: bool) -> Check:
    from rl_training.compilers import find_compiler, lack_of_files

    eager = "runs train in eager mode, which gives the same results"
    compiler = find_compiler()
    if compiler is None:
        advice = "for long runs install g++ (Debian, Ubuntu: apt install g++) or clang++"
        return Check("compiler", "note", f"no C++ compiler on this machine: {eager}", advice)
    if lack := lack_of_files():
        return Check("compiler", "note", f"{compiler}, but compiling needs {lack}: {eager}", "ulimit -n 1024")
    if quick:
        return Check("compiler", "ok", f"{compiler}; torch.compile was not tried")
    answer = _ask_torch("compile")
    if answer.get("right"):
        return Check("compiler", "ok", f"{compiler}; torch.compile works")
    reason = answer.get("fault", "it computes something else than eager mode")
    advice = f"set engine: eager in configurations ({eager}), or mend the compiler"
    return Check("compiler", "note", f"{compiler}, but torch.compile does not work: {reason}", advice)


def _threads(facts: dict[str, Any]) -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = facts.get("threads")
    if threads is None:
        return Check("cpu", "note", cores_and_threads(cores, None))
    found = cores_and_threads(cores, threads)
    if threads > cores:
        return Check("cpu", "note", found, f"set threads: {cores} in configurations: more than cores slow it down")
    told = os.environ.get("OMP_NUM_THREADS")
    if busy := busy_notice(threads):
        return Check("cpu", "note", found, busy[0])
    return Check("cpu", "ok", found + (f" (OMP_NUM_THREADS={told})" if told else ""))


def _environments(*, quick: bool) -> Check:
    from rl_training.errors import EnvironmentUnsupportedError

    advice = "pip install --upgrade gymnasium; training from files works without"
    try:
        import gymnasium

        if not quick:
            from rl_training.environments import read_spaces

            read_spaces("Pendulum-v1")
    except (ImportError, EnvironmentUnsupportedError) as error:
        return Check("environments", "note", f"gymnasium does not work: {error}", advice)
    return Check("environments", "ok", f"gymnasium {gymnasium.__version__}" + ("" if quick else ", Pendulum-v1 opens"))


def _extra(extra: str, packages: list[Requirement]) -> Check:
    faults = [fault for package in packages if (fault := package.fault)]
    purpose = _PURPOSES.get(extra)
    if not faults:
        return Check(extra, "ok", ", ".join(f"{package.name} {package.installed}" for package in packages))
    found = "; ".join(faults) + (f" ({extra} {purpose})" if purpose else "")
    return Check(extra, "note", found, f"pip install '{DISTRIBUTION}[{extra}]'")


def find_chromium() -> str | None:
    """The system's Chromium, which is what playwright drives here."""
    return next((program for name in _CHROMIUM if (program := shutil.which(name))), None)


def _with_browser(packages: Check, *, quick: bool) -> Check:
    """Playwright alone opens no page: whether there is a browser, and whether it starts."""
    program, advice = find_chromium(), "install Chromium (Debian: apt install chromium)"
    if program is None:
        found = f"{packages.found}, but no browser: none of {', '.join(_CHROMIUM)} is on the PATH"
        return Check(packages.name, "note", found, advice)
    if quick:
        return Check(packages.name, "ok", f"{packages.found}; {program}, which was not started")
    command, patience = [program, "--version"], _BROWSER_PATIENCE
    options: Any = {"capture_output": True, "text": True, "errors": "replace", "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(command, timeout=patience, check=False, **options)
        said = " ".join(f"{done.stdout} {done.stderr if done.returncode else ''}".split())[:200]
        fault = None if said and not done.returncode else said or f"it stopped with exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        said, fault = "", f"no answer within {patience:.0f} seconds"
    except OSError as error:
        said, fault = "", str(error.strerror or error)
    if fault is not None:
        return Check(packages.name, "note", f"{packages.found}, but {program} does not start: {fault}", advice)
    return Check(packages.name, "ok", f"{packages.found}; {said} ({program})")


def _runs_folder(folder: Path) -> Check:
    name, place = "runs folder", folder.absolute()
    existing = next(parent for parent in (place, *place.parents) if parent.exists())
    elsewhere = "give another with --runs-dir, or runs_dir in configurations"
    try:
        with tempfile.TemporaryDirectory(prefix=".rl-training-", dir=existing):
            free = shutil.disk_usage(existing).free
    except OSError as error:
        return Check(name, "problem", f"{folder} cannot be written to ({error.strerror or error})", elsewhere)
    found = f"{folder} can be written to, {free / 2**30:.1f} GiB free"
    if free < _NO_DISK:
        return Check(name, "problem", found, f"make room on the disk, or {elsewhere}")
    if free < _LITTLE_DISK:
        return Check(name, "note", found, "a run of large networks needs more; keep_checkpoints: 1 keeps fewer")
    return Check(name, "ok", found)


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "unknown").lower()
    kind = f"{shutil.get_terminal_size((80, 24)).columns} columns" if sys.stdout.isatty() else "not a terminal"
    found = f"{encoding}, {kind}, locale {'.'.join(filter(None, locale.getlocale())) or 'C'}"
    if encoding.replace("-", "") != "utf8":
        return Check("terminal", "note", found, "export PYTHONUTF8=1, else signs such as ± may not be shown")
    return Check("terminal", "ok", found)
