"""Asks the advisory database about every package of the tested set, torch included.

    python requirements/audit.py        # in an environment that has pip-audit: `make audit`

Exit codes: 0 nothing is known, 1 something is, 3 it could not be asked, so that nothing is known either way.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
FOUND, NOT_ASKED = 1, 3


def tested() -> dict[str, str]:
    """Every package of the lock and its version; torch's comes from the constraints."""
    versions = dict(PINNED.findall((HERE / "tested.lock").read_text("utf-8")))
    constraints = dict(PINNED.findall((HERE.parent / "constraints.txt").read_text("utf-8")))
    return {**versions, "torch": constraints["torch"]}


def ask(versions: dict[str, str], command: list[str]) -> list[dict[str, Any]] | str:
    """What pip-audit says of each package, or why it could not say anything."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "asked.txt", Path(folder) / "answer.json"
        asked.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        options = ["--no-deps", "--disable-pip", "-r", str(asked), "-f", "json", "-o", str(answer)]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        try:
            packages: list[dict[str, Any]] = json.loads(answer.read_text("utf-8"))["dependencies"]
        except (OSError, ValueError, KeyError):
            return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return packages


def judge(versions: dict[str, str], answer: list[dict[str, Any]] | str) -> tuple[int, list[str]]:
    """The exit code and what to say; a package that was not answered for is not a sound one."""
    if isinstance(answer, str):
        return NOT_ASKED, [f"audit: nothing was checked, the advisory service gave no answer ({answer})"]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}"
        f" (fixed in {', '.join(found['fix_versions']) or 'no version yet'})"
        for package in answer
        for found in package.get("vulns", [])
    ]
    answered = {_plain(package["name"]) for package in answer if "vulns" in package}
    missing = sorted(name for name in versions if _plain(name) not in answered)
    if missing and not answered:
        lines.append(
            "audit: nothing was checked, the advisory service knows none of these packages; ask from elsewhere"
        )
    elif missing:
        lines.append(f"audit: not checked: {', '.join(missing)}")
    known = any(package.get("vulns") for package in answer)
    lines.append(f"audit: {len(answered)} of {len(versions)} packages checked")
    return FOUND if known else NOT_ASKED if missing else 0, lines


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    packages = tested()
    code, said = judge(packages, ask(packages, [sys.executable, "-m", "pip_audit"]))
    print("\n".join(said))
    sys.exit(code)
