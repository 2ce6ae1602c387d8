"""Messages of the library in the words of the command line: what they propose for a configuration becomes options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rl_training import yaml_dialect
from rl_training.cli.reading_options import joined, quoted, words_entries

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


_AS_OPTIONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\bcolumns: \{(\w+): …\}", r"--columns \1=…"),
    (rf"\bcolumns: (\{{\w+: (?:{_TEXT}|{_LIST})\}})", _in_shell(_columns)),
    (r"\bdones_are: (terminations|truncations|ends)\b(?!,)", r"--dones-are \1"),
    (r"\bdones_are\b", "--dones-are"),
    (r"(?<!-)\bmax_episode_steps\b", "--max-episode-steps"),
    (r"\brewards_are: (costs|rewards)\b", r"--rewards-are \1"),
    (r"\brewards_at: next\b", "--rewards-at next"),
    (r"(?<!\.)\bend_reasons: \{…: (\w+)\}", r"--end-reasons …=\1"),
    (rf"(?<!\.)\bend_reasons: ({_MEANINGS})", _in_shell(_reasons)),
    (r"(?<![.=])\bend_reasons\b", "--end-reasons"),
    (r"(?<!-)\baction_(low|high)\b", r"--action-\1"),
    (r"\bat_termination: (-?[\d.e+]+)", r"--at-termination=\1"),
    (r"\bmissing: (drop|hold)\b", r"--missing \1"),
    (r"\bduplicates: drop\b", "--duplicates drop"),
    (r"\bepisode_each: (hour|day|week|month)\b(?!:)", r"--episode-each \1"),
    (r"(?<!-)\bepisode_each\b", "--episode-each"),
    (r"\bobserve_time: \[([a-z, ]+)\]", lambda found: f"--observe-time {found[1].replace(' ', '')}"),
    (r"(?<!-)\bobserve_time\b", "--observe-time"),
    (r"\blast_rows_are: (termination|truncation)\b", r"--last-rows-are \1"),
    (r"(?<!-)\blast_rows_are\b", "--last-rows-are"),
    (rf"\bmissing_words: ({_LIST})", _in_shell(_missing)),
    (rf"(?<!_)\bwords: ({_NUMBERS})", _in_shell(_words)),
    (r"\bdownload: true\b", "--download"),
)


def in_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    for pattern, replacement in _AS_OPTIONS:
        message = re.sub(pattern, replacement, message)
    return message
