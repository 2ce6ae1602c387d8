"""Texts that may quote a stranger's file, with nothing in them that a terminal or a browser would obey."""

from __future__ import annotations

import re

# Control characters but for the line end, and those that turn the direction of writing.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """In one line, whatever is not printable as an escape: `\\x1b`, `\\n`, `\\u202e`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escaped_lines(text: str) -> str:
    """The same of a text of several lines."""
    return "\n".join(map(escaped, text.split("\n")))


def for_page(text: str) -> str:
    """A page with escapes in place of what a browser obeys; what it only does not draw, such as a thin space, stays."""
    return _OBEYED.sub(lambda found: repr(found[0])[1:-1], text)
