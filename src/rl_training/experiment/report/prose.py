"""Sentences on the page: what is typed on a command line stays in one piece where a line ends."""

from __future__ import annotations

import re

_LONGEST = 32  # characters kept in one piece: more would not fit a narrow screen
_OPTION = r"--?[a-z][\w-]*"
_TYPED = re.compile(rf"(?<![\w/.-])(?:{_OPTION}|rl-training)(?![\w/])")
_IN_A_BLOCK = re.compile(rf"(?<=\s){_OPTION}(?=\s|$)")
_TAGS = re.compile(r"(<[^>]*>)")
_CLOSED = ("svg", "pre", "code", "b")  # what is inside is drawn, a block of its own, or a name


def code_in_prose(html: str) -> str:
    """HTML whose texts are escaped, with `text` as code, and options and commands that no line end breaks."""
    made, inside = [], ""
    for part in _TAGS.split(html):
        if part.startswith("<"):
            name = part.strip("</>").split(maxsplit=1)[0] if part.strip("</>") else ""
            if not inside and name in _CLOSED and not part.startswith("</"):
                inside = name
            elif part == f"</{inside}>":
                inside = ""
            made.append(part)
        else:
            block = _unbroken(part, _IN_A_BLOCK) if inside == "pre" else part
            made.append(block if inside else _marked(part))
    return "".join(made)


def _marked(text: str) -> str:
    coded = re.sub(r"`([^`<>]+)`", lambda found: f"<code>{_unbroken(found[1])}</code>", text)
    parts = re.split(r"(<code>.*?</code>)", coded)
    return "".join(part if part.startswith("<code>") else _unbroken(part) for part in parts)


def _unbroken(text: str, typed: re.Pattern[str] = _TYPED) -> str:
    return typed.sub(lambda found: _piece(found[0]), text)


def _piece(text: str) -> str:
    return f'<span class="piece">{text}</span>' if len(text) <= _LONGEST else text
