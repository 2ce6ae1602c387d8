"""Which pages there are, and in which order they are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Section -> pages, by their place in docs/. `algorithms/*` stands for the page of every algorithm. A page of the root
# of the repository goes by its name there.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "first_steps.md"),
    "Tutorials": ("tutorials/csv.md", "tutorials/minari.md", "tutorials/online.md"),
    "Choosing": ("choosing.md", "conventions.md"),
    "Algorithms": ("algorithms/index.md", "algorithms/*"),
    "Data": (
        "data.md",
        "data/tables.md",
        "data/formats.md",
        "data/checking.md",
        "data/converting.md",
        "data/recording.md",
        "mixing.md",
        "large_data.md",
    ),
    "Reference": (
        "runs.md",
        "tracking.md",
        "report.md",
        "offline_evaluation.md",
        "export.md",
        "configuration.md",
        "commands.md",
        "python.md",
    ),
    "Measured": (
        "benchmarks/offline_scores.md",
        "benchmarks/speed.md",
        "benchmarks/latency.md",
        "performance.md",
        "reliability.md",
        "threat_model.md",
    ),
    "Inside": ("architecture.md", "dependencies.md", "CONTRIBUTING.md", "CHANGELOG.md"),
}
FROM_ROOT = ("CONTRIBUTING.md", "CHANGELOG.md")


class SiteError(Exception):
    """Something that must be mended before the site can be built; one line for each fault."""


@dataclass(frozen=True)
class Entry:
    """One line of the navigation."""

    section: str
    page: str
    title: str

    @property
    def address(self) -> str:
        return address(self.page)


def address(page: str) -> str:
    """Where a page lies in the site."""
    return page.lower().removesuffix(".md") + ".html"


def title(page: str, text: str) -> str:
    """The first heading, without its marks."""
    first = text.lstrip().partition("\n")[0]
    if not first.startswith("# "):
        raise SiteError(f"{page}: must begin with a heading '# …'")
    return first.removeprefix("# ").replace("`", "").strip()


def short(name: str) -> str:
    """`IQL: implicit Q-learning` is `IQL` in the navigation."""
    return name.partition(":")[0]


def navigation(pages: dict[str, str]) -> list[Entry]:
    """Every page once, in reading order; a page that no section names, or that is missing, is an error."""
    listed: list[tuple[str, str]] = []
    for section, names in SECTIONS.items():
        for name in names:
            listed += [(section, page) for page in _matching(name, pages)]
    named = {page for _, page in listed}
    faults = [f"{page}: is in no section of docs/website/navigation.py" for page in pages if page not in named]
    faults += [
        f"{page}: is named in docs/website/navigation.py, but there is no such page" for page in named - {*pages}
    ]
    if faults:
        raise SiteError("\n".join(sorted(faults)))
    return [Entry(section, page, short(title(page, pages[page]))) for section, page in listed]


def _matching(name: str, pages: Iterable[str]) -> list[str]:
    if not name.endswith("/*"):
        return [name]
    folder = name.removesuffix("*")
    return sorted(page for page in pages if page.startswith(folder) and not page.endswith("/index.md"))
