"""What to do about a configuration that is no YAML: the line that is at fault, and how it was likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rl_training.experiment.yaml_lines import Line, Scanner
from rl_training.validation import escaped
from rl_training.yaml_dialect import NO_BLANK, ODD_BLANKS, read

# What to do about some of the parser's complaints.
_WAYS = {
    r"'\t'": "; indent with blanks, not with tabs",
    "that cannot start any token": (
        "; a text with such a sign stands in quotes, the closing one too: 'abs(Moisture [%] - 4)', ['Moisture [%]']"
    ),
    "got '['": "; names with brackets stand in quotes: ['TI-101 [°C]', PI-205]",
}
_PLAIN = "; each key is followed by a colon and a blank, and stands in its own line"
_KEY = re.compile(r"^([^\s:#\[\]{}'\"][^:#\[\]{}]*):(?=\s|$)\s*(.*)$")
_NEARLY = (  # how a key is written wrongly, and how it is meant
    (re.compile(r"^([^\s:=#,\[\]{}'\"][^:=#,\[\]{}'\"]*)=\s*(\S.*)$"), "{0}: {1}"),
    (re.compile(r"^(\w+):(\S.*)$"), "{0}: {1}"),
    (re.compile(r"^(\w+) +([^\s:]+)$"), "{0}: {1}"),
    (re.compile(r"^(\w+)()$"), "{0}:"),
)


_SIGNS = frozenset("'\"[]{}&*!|>%@`,#?")  # that mean something in a value


class _Fault(NamedTuple):
    line: int
    told: str


def way_out(text: str, complaint: str) -> str:
    """What to append to the parser's complaint about a text; nothing where nothing is known."""
    for sign, told in _WAYS.items():
        if sign in complaint:
            return told
    place = re.match(r"at line (\d+) \((expected|could not find|mapping values|while|found)", complaint)
    if place is None:
        return ""
    lines = text.splitlines()[: int(place[1])]
    if odd := next((line for line, shown in enumerate(lines, 1) if any(sign in shown for sign in ODD_BLANKS)), None):
        return f"; line {odd} holds {NO_BLANK}"
    found = [fault for fault in _faults(text.splitlines()) if fault.line <= int(place[1])]
    if found:
        return f"; {max(found, key=lambda fault: fault.line).told}"  # the nearest to where the parser gave up
    return _PLAIN if "mapping values are not allowed" in complaint else ""


def _faults(lines: Sequence[str]) -> Iterator[_Fault]:
    """What is odd about the lines, down to a quote or a bracket that is not closed: behind it all reads otherwise."""
    scanner = Scanner()
    above: list[Line] = []  # of each indentation that is open, the last line
    for line in scanner.read(lines):
        key = _KEY.match(line.text)
        if line.inside and key is not None and line.indent <= scanner.lines[line.inside].indent:
            break  # a section of its own: the bracket above it was to be closed
        if line.inside or _goes_on(line, above):
            continue
        if key is not None:
            yield from _misplaced(line, above)
            above = [*(other for other in above if other.indent < line.indent), line]
        elif (meant := _meant(line.text)) is not None:
            way = f"write {line.shown} as `{escaped(meant)}`"
            yield _Fault(line.number, way if _reads_alone(meant) else f"{line.shown}: look at its quotes and brackets")
    yield from _not_closed(scanner)


def _not_closed(scanner: Scanner) -> Iterator[_Fault]:
    if scanner.quote is not None:
        line = scanner.lines[scanner.quote.line]
        yield _Fault(line.number, f"a quote in {line.shown} is not closed; write another at the end of the value")
    elif scanner.brackets:
        last = scanner.brackets[-1]
        line = scanner.lines[last.line]
        where = f"before {scanner.stray}" if scanner.stray else "at its end"
        if line.text.endswith((",", last.sign)):
            where = "after its last value"
        yield _Fault(
            line.number, f"the bracket {last.sign} of {line.shown} is not closed; write {last.closing} {where}"
        )


def _goes_on(line: Line, above: Sequence[Line]) -> bool:
    """Whether a line goes on with the text of the key above it."""
    value = _KEY.match(above[-1].text) if above else None
    return value is not None and bool(value[2]) and line.indent > above[-1].indent and not _KEY.match(line.text)


def _misplaced(line: Line, above: Sequence[Line]) -> Iterator[_Fault]:
    """Of a key that is indented as nothing around it is."""
    if not above:
        return
    last = above[-1]
    value = _KEY.match(last.text)
    if line.indent > last.indent and value is not None and value[2]:
        yield _Fault(
            line.number,
            f"{line.shown} is indented by {line.indent}, {last.shown} above it by {last.indent}: what belongs to one"
            f" section is indented alike, and more than its name",
        )
    elif line.indent < last.indent and all(line.indent != other.indent for other in above):
        known = " or ".join(dict.fromkeys(str(other.indent) for other in above))
        told = f"{line.shown} is indented by {line.indent}, the lines above it by {known}; indent it like one of them"
        yield _Fault(line.number, told)


def _meant(text: str) -> str | None:
    matches = ((pattern.match(text), form) for pattern, form in _NEARLY)
    every = (form.format(*map(str.rstrip, found.groups())) for found, form in matches if found is not None)
    return next(every, None)


def _reads_alone(line: str) -> bool:
    """Whether a line that is to be proposed is YAML, one key with a value. Of words alone it is."""
    if not _SIGNS.intersection(line):
        return True
    try:
        value = read(line)
    except ValueError:
        return False
    return isinstance(value, dict) and len(value) == 1
