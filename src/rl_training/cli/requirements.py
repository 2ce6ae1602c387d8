"""What the package needs and what its extras bring, as its own metadata say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

DISTRIBUTION = "rl-training"
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")


@dataclass(frozen=True)
class Requirement:
    """A package that is needed, and in which versions (`>=2.0,<3`)."""

    name: str
    versions: str

    @property
    def installed(self) -> str | None:
        """The version that is here, if any is."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None

    @property
    def fault(self) -> str | None:
        """What is wrong with what is here."""
        found = self.installed
        if found is None:
            return f"{self.name} is not installed"
        return None if allows(self.versions, found) else f"{self.name} {found} is here, {self.versions} is needed"


def requirements(lines: Iterable[str]) -> dict[str, list[Requirement]]:
    """The requirements by extra, those of the package itself under an empty name."""
    found: dict[str, list[Requirement]] = {}
    for line in lines:
        parts = _REQUIREMENT.fullmatch(line)
        if parts is None:
            continue
        extra = _EXTRA.search(parts[3] or "")
        found.setdefault(extra[1] if extra else "", []).append(Requirement(parts[1], parts[2].strip()))
    return found


def own_requirements() -> dict[str, list[Requirement]] | None:
    """Those of this package by extra; none where it is not installed. Extras made of other extras are left out."""
    try:
        found = requirements(metadata.requires(DISTRIBUTION) or ())
    except metadata.PackageNotFoundError:
        return None
    collections = {name for name, needs in found.items() if any(need.name == DISTRIBUTION for need in needs)}
    return {name: needs for name, needs in found.items() if name not in collections and name != "dev"}


def needed_python() -> str | None:
    """`>=3.11`."""
    try:
        return metadata.metadata(DISTRIBUTION)["Requires-Python"]
    except metadata.PackageNotFoundError:
        return None


def allows(versions: str, found: str) -> bool:
    """Whether a version lies between the bounds; other signs than `>=`, `>`, `<=` and `<` bound nothing here."""
    own = _numbers(found)
    for sign, bound in re.findall(r"(>=|<=|>|<)\s*([\d.]+)", versions):
        limit = _numbers(bound)
        least = {">=": own >= limit, ">": own > limit, "<=": own <= limit, "<": own < limit}
        if not least[sign]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """`(2, 10)` of `2.10.0+cpu`."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in release[0].split(".")] if release else [0]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
