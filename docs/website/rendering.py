"""Markdown to HTML: headings with anchors, links held to what exists, code in colour, tables that scroll."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

LEXERS = {"bash": "bash", "console": "console", "python": "python", "yaml": "yaml", "signature": "python"}
NOT_RUN = re.compile(r"not run: (.+)")
COMMENT = re.compile(r"^<!--.*?-->\n", flags=re.MULTILINE | re.DOTALL)  # for whoever edits the page
LANGUAGES = {*LEXERS, "text"}


@dataclass
class Rendered:
    """A page's HTML, its headings (level, anchor, text) and, by anchor, the words beneath each for the search."""

    body: str
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)


class FenceError(Exception):
    """A code block that the site does not know how to show."""


def slug(text: str, taken: set[str]) -> str:
    """The anchor that GitHub gives a heading, so that links work there as well."""
    plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    found, number = plain, 0
    while found in taken:
        number += 1
        found = f"{plain}-{number}"
    taken.add(found)
    return found


def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", _fence)
    markdown.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
    markdown.add_render_rule("table_close", lambda *_: "</table></div>")
    markdown.add_render_rule("code_block", _indented)
    return markdown


def render(text: str, link: Callable[[str], str], image: Callable[[str, str], str]) -> Rendered:
    """A page. `link` gives the address of a link's target, `image` the HTML of an image (address, text)."""
    markdown = parser()
    markdown.add_render_rule(
        "image", lambda _, tokens, index, *rest: image(str(tokens[index].attrs["src"]), tokens[index].content)
    )
    tokens = markdown.parse(COMMENT.sub("", text))
    page = Rendered("")
    _number_headings(tokens, page)
    for token in _inside(tokens):
        if token.type == "link_open":
            token.attrs["href"] = link(str(token.attrs["href"]))
    page.body = markdown.renderer.render(tokens, markdown.options, {})
    return page


def _inside(tokens: Sequence[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or ()]


def _text(token: Token) -> str:
    return "".join(c.content if c.type in ("text", "code_inline") else " " for c in token.children or ()).strip()


def _number_headings(tokens: list[Token], page: Rendered) -> None:
    """Give every heading its anchor and a sign to copy it by; gather what stands beneath it."""
    taken: set[str] = set()
    anchor = ""
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            inline = tokens[position + 1]
            text = re.sub(r" +", " ", _text(inline))
            anchor = slug(text, taken)
            token.attrs["id"] = anchor
            page.headings.append((int(token.tag[1]), anchor, text))
            if token.tag != "h1":
                inline.children = [*(inline.children or []), *_permalink(anchor)]
        elif token.type == "inline" and tokens[position - 1].type != "heading_open":
            page.words[anchor] = f"{page.words.get(anchor, '')} {_text(token)}"
        elif token.type == "fence":
            page.words[anchor] = f"{page.words.get(anchor, '')} {token.content}"


def _permalink(anchor: str) -> list[Token]:
    opened = Token("permalink_open", "a", 1, attrs={"class": "anchor", "href": f"#{anchor}", "aria-label": "Link here"})
    sign = Token("text", "", 0, content="#")
    return [opened, sign, Token("permalink_close", "a", -1)]


def _fence(_: Any, tokens: Sequence[Token], index: int, *rest: Any) -> str:
    """A code block with its button; `not run: why` after the language is shown to the reader."""
    language, _, remark = tokens[index].info.strip().partition(" ")
    if language not in LANGUAGES:
        raise FenceError(f"a code block's language must be one of {', '.join(sorted(LANGUAGES))}, got {language!r}")
    code = tokens[index].content
    if language in LEXERS:
        shown = highlight(code, get_lexer_by_name(LEXERS[language]), HtmlFormatter(nowrap=True))
    else:
        shown = html.escape(code)
    reason = NOT_RUN.fullmatch(remark)
    if remark and not reason:
        raise FenceError(f"after a code block's language may stand 'not run: why', got {remark!r}")
    note = f'<p class="not-run">Not run by the tests: {html.escape(reason[1])}.</p>' if reason else ""
    button = "" if language in ("text", "signature") else '<button class="copy" type="button">Copy</button>'
    return f'<div class="code {language}">{button}<pre tabindex="0"><code>{shown}</code></pre></div>{note}\n'


def _indented(*_: Any) -> str:
    raise FenceError("an indented code block; give it a fence and a language")
