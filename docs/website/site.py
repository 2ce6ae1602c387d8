"""Writes the site: every page, the index that the search reads, styles and scripts."""

from __future__ import annotations

import html
import json
import posixpath
import re
import shutil
from pathlib import Path
from string import Template

from pygments.formatters.html import HtmlFormatter

import rl_training
from rl_training.experiment.registry import entries
from website.command_reference import commands_page
from website.links import DOCS, REPOSITORY, Links
from website.navigation import FROM_ROOT, Entry, SiteError, navigation, title
from website.python_reference import python_page
from website.reference import algorithm_index, algorithm_page, configuration_page
from website.rendering import FenceError, Rendered, render

ASSETS = Path(__file__).resolve().parent / "assets"
STYLES = {"light": "friendly", "dark": "nord-darker"}


def written_pages() -> dict[str, str]:
    """The pages that people wrote, by their place in docs/ (or the repository's root)."""
    found = {page.relative_to(DOCS).as_posix(): page.read_text("utf-8") for page in sorted(DOCS.rglob("*.md"))}
    return found | {name: (REPOSITORY / name).read_text("utf-8") for name in FROM_ROOT}


def generated_pages() -> dict[str, str]:
    """The pages made from the source."""
    made = {f"algorithms/{e.name}.md": algorithm_page(e.name) for e in entries()}
    made["algorithms/index.md"] = algorithm_index()
    return made | {"configuration.md": configuration_page(), "commands.md": commands_page(), "python.md": python_page()}


def all_pages() -> dict[str, str]:
    """Every page of the site as Markdown."""
    return written_pages() | generated_pages()


def build(site: Path, pages: dict[str, str] | None = None) -> list[Entry]:
    """Write the whole site; what is broken is a `SiteError` that lists every fault."""
    pages = all_pages() if pages is None else pages
    entries_ = navigation(pages)
    site.mkdir(parents=True, exist_ok=True)
    rendered, links, faults = {}, {}, []
    for entry in entries_:
        links[entry.page] = Links(entry.page, pages, site)
        try:
            rendered[entry.page] = render(pages[entry.page], links[entry.page].link, links[entry.page].image)
        except FenceError as error:
            faults.append(f"{entry.page}: {error}")
    faults += [fault for one in links.values() for fault in one.faults]
    faults += missing_anchors(links, rendered)
    if faults:
        raise SiteError("\n".join(faults))
    for position, entry in enumerate(entries_):
        target = site / entry.address
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(whole_page(entries_, position, rendered[entry.page], pages[entry.page]), "utf-8")
    write_assets(site)
    (site / "search_index.js").write_text(search_index(entries_, rendered), "utf-8")
    return entries_


def missing_anchors(links: dict[str, Links], rendered: dict[str, Rendered]) -> list[str]:
    """Links to headings that no page has."""
    known = {page: {anchor for _, anchor, _ in one.headings} for page, one in rendered.items()}
    return [
        f"{page}: there is no heading #{anchor} in {target}"
        for page, one in links.items()
        for target, anchor in one.anchors
        if anchor not in known.get(target, ())
    ]


def whole_page(entries_: list[Entry], position: int, page: Rendered, text: str) -> str:
    """One page with everything around it."""
    entry = entries_[position]
    root = posixpath.relpath(".", posixpath.dirname(entry.address) or ".") + "/"
    template = Template((ASSETS / "page.html").read_text("utf-8"))
    name = title(entry.page, text)
    return template.substitute(
        title=html.escape(name if entry.page == "index.md" else f"{name} · rl_training"),
        version=rl_training.__version__,
        root="" if root == "./" else root,
        navigation=menu(entries_, entry, root),
        contents=contents(page),
        body=page.body,
        steps=steps(entries_, position, root),
    )


def menu(entries_: list[Entry], here: Entry, root: str) -> str:
    """All pages by section; a section folds, and the one the reader is in is open."""
    lines = []
    for section in dict.fromkeys(entry.section for entry in entries_):
        unfolded = " open" if section in (here.section, "Start", "Tutorials") else ""
        lines.append(f"<details{unfolded}><summary>{section}</summary><ul>")
        for entry in (one for one in entries_ if one.section == section):
            current = ' aria-current="page"' if entry == here else ""
            lines.append(f'<li><a href="{root}{entry.address}"{current}>{html.escape(entry.title)}</a></li>')
        lines.append("</ul></details>")
    return "\n".join(lines)


def contents(page: Rendered) -> str:
    """The headings of a page, where there is more than one."""
    headings = [heading for heading in page.headings if heading[0] in (2, 3)]
    if len(headings) < 2:
        return ""
    items = (f'<li class="level-{n}"><a href="#{anchor}">{html.escape(text)}</a></li>' for n, anchor, text in headings)
    return f'<details class="contents" open><summary>On this page</summary><ul>{"".join(items)}</ul></details>'


def steps(entries_: list[Entry], position: int, root: str) -> str:
    """The pages before and after this one."""
    around = []
    for offset, relation, word in ((-1, "prev", "Previous"), (1, "next", "Next")):
        if 0 <= position + offset < len(entries_):
            other = entries_[position + offset]
            around.append(
                f'<a rel="{relation}" class="{relation}" href="{root}{other.address}"><small>{word}</small>'
                f"{html.escape(other.title)}</a>"
            )
    return "".join(around)


def search_index(entries_: list[Entry], rendered: dict[str, Rendered]) -> str:
    """A script, not JSON: a page opened from a file may load the one, not the other."""
    rows = []
    for entry in entries_:
        page = rendered[entry.page]
        for level, anchor, text in page.headings:
            words = re.sub(r"\s+", " ", page.words.get(anchor, "")).strip()
            place = entry.address if level == 1 else f"{entry.address}#{anchor}"
            rows.append([place, entry.title, text, words])
    return f"window.SEARCH_INDEX = {json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n"


def write_assets(site: Path) -> None:
    """Styles and scripts; the colours of code come from Pygments, one set for light and one for dark."""
    colours = {mode: HtmlFormatter(style=style).get_style_defs(".code") for mode, style in STYLES.items()}
    light, dark = (
        "\n".join(line for line in colours[mode].splitlines() if line.startswith(".code .")) for mode in STYLES
    )
    dark_rules = "\n".join(f':root[data-theme="dark"] {line}' for line in dark.splitlines())
    auto = "\n".join(f':root:not([data-theme="light"]) {line}' for line in dark.splitlines())
    style = (ASSETS / "site.css").read_text("utf-8")
    chosen = f"{light}\n{dark_rules}\n@media (prefers-color-scheme: dark) {{\n{auto}\n}}"
    (site / "site.css").write_text(f"{style}\n@media screen {{\n{chosen}\n}}\n", "utf-8")
    shutil.copyfile(ASSETS / "site.js", site / "site.js")
