"""The lock is of the tested set, every dependency has its reason, and an audit that was not made does not pass."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
LOCK = (REPOSITORY / "requirements/tested.lock").read_text("utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
NOT_LOCKED = {"torch"}  # the lock's first lines say why


@pytest.fixture(scope="module")
def audit() -> Any:
    sys.path.insert(0, str(REPOSITORY / "requirements"))
    try:
        import audit as module

        yield module
    finally:
        sys.path.remove(str(REPOSITORY / "requirements"))


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, in every extra, but for the package's own extras."""
    lines = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    found = [Requirement(line) for line in lines]
    return [one for one in found if canonicalize_name(one.name) != "rl-training"]


def pins(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.M)}


def test_the_lock_satisfies_the_declared_ranges() -> None:
    locked = pins(LOCK)
    assert len(declared()) >= 18
    for requirement in declared():
        name = canonicalize_name(requirement.name)
        if name not in NOT_LOCKED:
            assert requirement.specifier.contains(locked[name]), requirement
    assert not NOT_LOCKED & locked.keys()


def test_the_lock_is_of_the_tested_versions() -> None:
    locked = pins(LOCK)
    constraints = pins((REPOSITORY / "constraints.txt").read_text("utf-8"))
    assert {name: locked[name] for name in constraints if name not in NOT_LOCKED} == {
        name: version for name, version in constraints.items() if name not in NOT_LOCKED
    }


def test_every_line_of_the_lock_is_a_pin_with_hashes() -> None:
    body = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
    entries = re.split(r"\n(?=\S)", "\n".join(body))
    assert len(entries) == len(pins(LOCK)) > 40
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry[:80]
    assert "://" not in LOCK


def test_every_dependency_has_its_reason() -> None:
    page = (REPOSITORY / "docs/dependencies.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", page, flags=re.MULTILINE)
    explained = {canonicalize_name(name) for row in rows for name in re.sub(r" \(.*\)", "", row).split(", ")}
    assert explained - {"package", "---"} == {canonicalize_name(one.name) for one in declared()}


# The audit ----------------------------------------------------------------------------------------------------------


def test_everything_tested_is_asked_about(audit: ModuleType) -> None:
    assert audit.tested().keys() - {"torch"} == pins(LOCK).keys()
    assert audit.tested()["torch"] == pins((REPOSITORY / "constraints.txt").read_text("utf-8"))["torch"]


SOUND = {"name": "One_Thing", "version": "1.0", "vulns": []}
SICK = {"name": "other", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
SKIPPED = {"name": "other", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ([SOUND, {**SICK, "vulns": []}], 0, "audit: 2 of 2 packages checked"),
        ([SOUND, SICK], 1, "other 2.0: CVE-1 (fixed in 2.1)"),
        ([SOUND, SKIPPED], 3, "audit: not checked: other"),
        ([SOUND], 3, "audit: not checked: other"),
        ([], 3, "audit: nothing was checked, the advisory service knows none"),
        ("no network", 3, "audit: nothing was checked, the advisory service gave no answer (no network)"),
    ],
)
def test_what_was_not_checked_does_not_pass(answer: Any, code: int, words: str, audit: ModuleType) -> None:
    found, lines = audit.judge({"one-thing": "1.0", "other": "2.0"}, answer)
    assert found == code
    assert any(line.startswith(words) for line in lines)


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("import sys; sys.exit('no route to host')", "no route to host"),
        ("import sys; sys.exit(4)", "exit code 4"),
        ("import sys; open(sys.argv[-1], 'w').write('{')", "exit code 0"),
        (f"import sys; open(sys.argv[-1], 'w').write({json.dumps(json.dumps({'dependencies': [SOUND]}))})", [SOUND]),
    ],
)
def test_answers_of_the_program(program: str, answer: Any, audit: ModuleType) -> None:
    assert audit.ask({"one-thing": "1.0"}, [sys.executable, "-c", program]) == answer
