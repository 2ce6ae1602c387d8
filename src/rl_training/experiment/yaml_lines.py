"""The lines of a YAML text that may be none, each read once: what stands in quotes, in brackets, in a block of text or
behind a comment sign is no key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rl_training.validation import escaped

_REST = {  # of what stands in quotes, with the closing one
    "'": re.compile(r"(?:[^']|'')*+'"),
    '"': re.compile(r'(?:[^"\\]|\\.)*+"'),
}
_CLOSING = {"[": "]", "{": "}"}
_ITEMS = re.compile(r"(?:- +)*")
_BLOCK = re.compile(r"[|>][-+0-9]{0,2}")
_BEHIND_A_VALUE = (",", "]", "}", ":", "#")


class Line(NamedTuple):
    number: int  # from 1
    indent: int  # of its key, where it is the first of an item
    text: str  # without its comment and the dashes of items, what stands in quotes left out
    inside: int = 0  # the line with the innermost bracket that is open where it begins

    @property
    def shown(self) -> str:
        return f"line {self.number} `{escaped(self.text)}`"


class Opened(NamedTuple):
    """A quote or a bracket, and its line."""

    sign: str
    line: int

    @property
    def closing(self) -> str:
        return _CLOSING.get(self.sign, self.sign)


def _is_block(text: str) -> bool:
    """Whether a line ends with the sign before a block of text: `notes: |`, `- >-`."""
    before, _, last = text.rpartition(" ")
    return _BLOCK.fullmatch(last) is not None and (not before or before.rstrip().endswith((":", "-")))


class Scanner:
    """brackets: those that are open. quote: the one that is. stray: a bracket that closes none of them. lines: by
    number, those that were read."""

    def __init__(self) -> None:
        self.brackets: list[Opened] = []
        self.quote: Opened | None = None
        self.stray = ""
        self.lines: dict[int, Line] = {}

    def read(self, lines: Sequence[str]) -> Iterator[Line]:
        """The lines that say something, down to a bracket or quote that is closed where it cannot be."""
        block: int | None = None  # the indentation of the line that a block of text belongs to
        for number, line in enumerate(lines, 1):
            indent = len(line) - len(line.lstrip())
            if block is not None and (indent > block or not line.strip()):
                continue
            block = None
            inside = self.brackets[-1].line if self.brackets else 0
            at = 0 if self.quote is None else self._behind_the_quote(line)
            if at is None:
                continue
            if self.quote is not None:  # closed amid other text: it was to be closed in its own line
                return
            text = self._text(number, line, at).strip()
            items = 0 if inside else len(_ITEMS.match(text)[0])  # type: ignore[index]  # matches nothing, too
            if text[items:]:
                self.lines[number] = found = Line(number, indent + items, text[items:], inside)
                yield found
                block = found.indent if not inside and _is_block(found.text) else None
            if self.stray:
                return

    def _behind_the_quote(self, line: str) -> int | None:
        """Where a line goes on behind the quote that it closes; none if it closes none. The quote stays open where what
        follows cannot follow a value."""
        assert self.quote is not None
        rest = _REST[self.quote.sign].match(line)
        if rest is None:
            return None
        behind = line[rest.end() :].lstrip()
        if not behind or behind.startswith(_BEHIND_A_VALUE):
            self.quote = None
        return rest.end()

    def _text(self, number: int, line: str, at: int) -> str:
        """What a line says from a place on, and what it opens and closes."""
        kept: list[str] = []
        may_begin = at == 0  # whether a value may: only then quotes and, outside of brackets, brackets are signs
        while at < len(line):
            sign = line[at]
            if may_begin and sign in _REST:
                rest = _REST[sign].match(line, at + 1)
                if rest is None:
                    self.quote = Opened(sign, number)
                    return "".join([*kept, line[at:]])
                kept.append("…")
                at, may_begin = rest.end(), False
                continue
            if sign == "#" and (at == 0 or line[at - 1].isspace()):
                break
            may_begin = self._bracket(sign, number, may_begin) or self._begins(line, at, may_begin)
            kept.append(sign)
            if self.stray:
                break
            at += 1
        return "".join(kept)

    def _bracket(self, sign: str, number: int, may_begin: bool) -> bool:
        """Count it, if it is one; whether a value may begin behind it."""
        if sign in _CLOSING and (self.brackets or may_begin):
            self.brackets.append(Opened(sign, number))
            return True
        if self.brackets and sign in _CLOSING.values():
            if self.brackets[-1].closing == sign:
                self.brackets.pop()
            else:
                self.stray = sign
        return False

    def _begins(self, line: str, at: int, may_begin: bool) -> bool:
        """Whether a value may begin behind what is no bracket."""
        sign, behind = line[at], line[at + 1 : at + 2]
        if sign.isspace():
            return may_begin
        if self.brackets:
            return sign in ",:"
        return (sign == ":" or (sign == "-" and may_begin)) and (not behind or behind.isspace())
