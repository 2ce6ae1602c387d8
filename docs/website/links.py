"""Where a page's links lead: other pages, anchors, files that are copied, and nowhere else unnoticed."""

from __future__ import annotations

import html
import os
import posixpath
import re
import shutil
from pathlib import Path

from website.navigation import FROM_ROOT, address

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
OUTSIDE = re.compile(r"https?://|mailto:")


class Links:
    """The links of one page: `faults` says which lead nowhere, `anchors` which headings they count on."""

    def __init__(self, page: str, pages: dict[str, str], site: Path) -> None:
        self.page, self.pages, self.site = page, pages, site
        self.faults: list[str] = []
        self.anchors: list[tuple[str, str]] = []

    def link(self, target: str) -> str:
        """The address of a link's target, seen from this page."""
        if OUTSIDE.match(target):
            return target
        path, _, anchor = target.partition("#")
        found = self._page(path) if path else self.page
        if found is None:
            return self._file(path, target)
        if anchor:
            self.anchors.append((found, anchor))
        return (self._relative(address(found)) if path else "") + (f"#{anchor}" if anchor else "")

    def image(self, target: str, text: str) -> str:
        """A drawing becomes part of the page, so that it follows light and dark; any other image is copied."""
        drawing = self._source(target)
        if drawing.suffix == ".svg" and drawing.is_file():
            return f'<div class="drawing">{_body(drawing.read_text("utf-8"))}</div>'
        return f'<img src="{html.escape(self._file(target, target))}" alt="{html.escape(text)}" loading="lazy">'

    def _source(self, path: str) -> Path:
        """The file a path means, from where this page's text lies."""
        own = REPOSITORY if self.page in FROM_ROOT else (DOCS / self.page).parent
        return Path(os.path.normpath(own / path))

    def _page(self, path: str) -> str | None:
        source = self._source(path)
        if source.parent == REPOSITORY and source.name in self.pages:
            return source.name
        name = source.relative_to(DOCS).as_posix() if source.is_relative_to(DOCS) else None
        if name and not name.endswith(".md"):
            name = f"{name}/index.md"
        return name if name in self.pages else None

    def _file(self, path: str, target: str) -> str:
        source = self._source(path)
        if not source.is_file() or not source.is_relative_to(REPOSITORY) or source.suffix == ".md":
            self.faults.append(f"{self.page}: the link {target!r} leads nowhere")
            return target
        within = source.relative_to(DOCS if source.is_relative_to(DOCS) else REPOSITORY).as_posix()
        (self.site / within).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self.site / within)
        return self._relative(within)

    def _relative(self, place: str) -> str:
        return posixpath.relpath(place, posixpath.dirname(address(self.page)) or ".")


def _body(drawing: str) -> str:
    """A drawing without the declaration that only a file of its own needs."""
    return drawing[drawing.index("<svg") :].strip()
