"""Messages of the library in the words of the command line: what they propose for a configuration becomes options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rl_training import yaml_dialect
from rl_training.cli.reading_options import joined, quoted, words_entries
from rl_training.option_words import NAMED_ALONE, QUOTED

# A value in a line of YAML, as `yaml_dialect.inline` writes one: with quotes around it wherever it needs them.
_QUOTED = r"\'(?:[^\']|\'\')*\'|\"(?:\\.|[^\"\\])*\""
_PLAIN = r"[^\[\]{}…,\'\":](?:[^\[\]{}…,:]|:(?! ))*"
_TEXT = rf"(?:{_QUOTED}|{_PLAIN})"
_LIST = rf"\[(?:{_TEXT}(?:, {_TEXT})*)?\]"
_MEANINGS = rf"\{{{_TEXT}: \w+(?:, {_TEXT}: \w+)*\}}"
_NUMBERS = rf"\{{{_TEXT}: \{{{_TEXT}: (?:{_TEXT}|…)(?:, {_TEXT}: (?:{_TEXT}|…))*\}}\}}"


def _columns(given: Mapping[str, str | Sequence[str]]) -> list[str]:
    words = []
    for field, names in given.items():
        several = [names] if isinstance(names, str) else list(map(str, names))
        text = ",".join(quoted(name) if set(name) & set(',"') else name for name in several)
        words += ["--columns", f"{field}={text}"]
    return words


def _reasons(given: Mapping[str, str]) -> list[str]:
    return [word for text, meaning in given.items() for word in ("--end-reasons", f"{text}={meaning}")]


def _missing(given: Sequence[str]) -> list[str]:
    return ["--missing-words", joined(map(str, given))]


def _words(given: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [word for entry in words_entries(given) for word in ("--words", entry)]


def _in_shell(options: Callable[[Any], Sequence[str]]) -> Callable[[re.Match[str]], str]:
    """The YAML that a pattern has found as options, as a shell takes them; left as it is where it is none, or where it
    holds what no line can show."""

    def written(found: re.Match[str]) -> str:
        try:
            line = shlex.join(options(yaml_dialect.read(found[1])))
        except (ValueError, AttributeError):
            return found[0]
        return line if line.isprintable() else found[0]

    return written


_Replacement: TypeAlias = str | Callable[[re.Match[str]], str]
# No part of a path, of another name (`columns.end_reasons`) or of an option, and no key of what no pattern knows.
_START, _END = r"(?<![\w./=-])", r"(?![\w/=-]|\.\w|: [\[{])"
_WITH_VALUES: tuple[tuple[str, _Replacement], ...] = (
    (r"columns: \{(\w+): …\}", r"--columns \1=…"),
    (rf"columns: (\{{\w+: (?:{_TEXT}|{_LIST})\}})", _in_shell(_columns)),
    (r"dones_are: (terminations|truncations|ends)\b(?!,)", r"--dones-are \1"),
    (r"rewards_are: (costs|rewards)\b", r"--rewards-are \1"),
    (r"rewards_at: next\b", "--rewards-at next"),
    (r"end_reasons: \{…: (\w+)\}", r"--end-reasons …=\1"),
    (rf"end_reasons: ({_MEANINGS})", _in_shell(_reasons)),
    (r"at_termination: (-?[\d.e+]+)", r"--at-termination=\1"),
    (r"missing: (drop|hold)\b", r"--missing \1"),
    (r"duplicates: drop\b", "--duplicates drop"),
    (r"episode_each: (hour|day|week|month)\b(?!:)", r"--episode-each \1"),
    (r"observe_time: \[([a-z, ]+)\]", lambda found: f"--observe-time {found[1].replace(' ', '')}"),
    (r"last_rows_are: (termination|truncation)\b", r"--last-rows-are \1"),
    (rf"missing_words: ({_LIST})", _in_shell(_missing)),
    (rf"words: ({_NUMBERS})", _in_shell(_words)),
    (r"download: true\b", "--download"),
)
# Users' own names and texts, commands, and lists of such.
_LEFT_ALONE = (*QUOTED, r"\[[^\[\]]*\]", r"\{[^{}]*\}")
_AS_OPTIONS = [
    *((re.compile(_START + pattern), replacement) for pattern, replacement in _WITH_VALUES),
    *((re.compile(_START + name + _END), f"--{name.replace('_', '-')}") for name in NAMED_ALONE),
    *((re.compile(pattern), r"\g<0>") for pattern in _LEFT_ALONE),
]
_EITHER = re.compile("|".join(f"(?P<of_{place}>{pattern.pattern})" for place, (pattern, _) in enumerate(_AS_OPTIONS)))


def in_options(message: str) -> str:
    """A message of the library in the words of the command line: gone through once, from the left, so that what stands
    in quotes, or has become an option, is not looked into."""
    return _EITHER.sub(_translated, message)


def _translated(found: re.Match[str]) -> str:
    pattern, replacement = _AS_OPTIONS[int(str(found.lastgroup).removeprefix("of_"))]
    alone = pattern.match(found.string, found.start())
    if alone is None:  # never, as it has matched there
        return found[0]
    return alone.expand(replacement) if isinstance(replacement, str) else replacement(alone)
