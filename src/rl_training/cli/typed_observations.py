"""Observations as they are typed behind `--obs`: numbers in their order, or `speed=1,door=open`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from rl_training.cli.observation_files import SUFFIXES
from rl_training.cli.observed_columns import as_option, computed, computed_from
from rl_training.cli.reading_options import joined, split_at_commas
from rl_training.data.formats.cells import is_missing_word, number_said
from rl_training.data.formats.names import listed, suggest
from rl_training.data.formats.signs import number_before_unit
from rl_training.data.formats.words import as_number, float_of, key_of
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.validation import shown
from rl_training.wording import NO_VALUE

_DASHES = frozenset("\u2212\u2013\u2012")  # what documents have in the place of a minus
_QUOTED_NAME = re.compile(r'(?<![^,])(\s*)"((?:[^"]|"")*)"\s*=\s*(?:"((?:[^"]|"")*)"|([^",]*))')  # "a, b"=VALUE
_QUOTED_VALUE = re.compile(r'(?<![^,])(\s*[^",=]+=\s*)"((?:[^"]|"")*)"')  # NAME="a, b"


def typed(text: str, columns: Sequence[NamedColumn]) -> list[float]:
    """The numbers of an observation, given by name or in their order."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":  # quoted twice
        text = text[1:-1]
    return _by_name(text, columns) if "=" in text else _numbers(text, columns)


def _numbers(text: str, columns: Sequence[NamedColumn] = ()) -> list[float]:
    """In the order of the columns, whose words stand for their numbers."""
    try:
        parts = _parts(text.strip("[] ").rstrip(", "), columns)
        words = [column.words for column in columns] if len(columns) == len(parts) else [() for _ in parts]
        return [_number(part, known) for part, known in zip(parts, words, strict=True)]
    except ValueError:
        raise DataError(f"--obs {text}: must be numbers separated by commas{_hint(text, columns)}") from None


def _hint(text: str, columns: Sequence[NamedColumn]) -> str:
    """What was most likely meant by a text that is no list of numbers."""
    if Path(text).suffix in SUFFIXES:
        return f"; for observations in a file: --obs-file {shlex.quote(text)}"
    if text.startswith("{") and (named := _of_json(text)):
        return f", or by name: --obs {shlex.quote(joined(named))}"
    if dashes := _DASHES.intersection(text):
        plain = "".join("-" if sign in dashes else sign for sign in text)
        return f"; a minus is typed as -: --obs {plain}"
    if ";" in text:
        return f"; write decimals with a point: --obs {text.replace(',', '.').replace(';', ',')}"
    parts = split_at_commas(text)
    if lacking := [part for part in parts if is_missing_word(part) or not re.search(r"\w", part)]:
        return f"; {shown(lacking[0])} is none: a policy needs a number for each, such as the last one measured"
    if with_unit := [part for part in parts if number_before_unit(part)]:
        alone = ",".join(number_before_unit(part) or part for part in parts)
        return f"; {shown(with_unit[0])} has a unit: give the number alone, in the unit of the data: --obs {alone}"
    return f", or by name, such as {as_option(columns)}" if columns else ""


def _of_json(text: str) -> list[str]:
    """`NAME=VALUE` of each entry of an object; nothing where it is none."""
    try:
        given = json.loads(text)
    except ValueError:  # a RecursionError is one of brackets by the thousand, which no command line has
        return []
    return [f"{name}={value}" for name, value in given.items()] if isinstance(given, dict) else []


def _number(text: str, words: Sequence[tuple[str, float]]) -> float:
    """By the column's own words, `open`, where it has any, else by those of any column, `yes`."""
    own = {key_of(word): number for word, number in words}
    return own[key_of(text)] if key_of(text) in own else float_of(text) if own else number_said(text)


def _parts(text: str, columns: Sequence[NamedColumn]) -> list[str]:
    """Between commas and blanks; where there are commas, a blank may be one of a word."""
    if "," not in text:
        return [text] if len(columns) == 1 and columns[0].words else text.split()
    parts = split_at_commas(text) or [text]  # which is no number, with a quote that is not closed
    return [piece for part in parts for piece in (part.split() if _are_numbers(part) else [part])]


def _are_numbers(part: str) -> bool:
    pieces = part.split()
    return bool(pieces) and all(as_number(piece) is not None for piece in pieces)


def _by_name(text: str, columns: Sequence[NamedColumn]) -> list[float]:
    """`speed=1,door=open`, in whatever order; a word with a comma is put in double quotes, with its name or without."""
    known = {column.name: column for column in columns}
    names = list(known)
    if not names:
        raise DataError(f"--obs {text}: this policy knows no names of columns; give numbers alone, in their order")
    given: dict[str, float] = {}
    advice, dates = as_option(columns), {column.time for column in columns if column.time}
    typed: dict[str, str] = {}
    parts = split_at_commas(_QUOTED_VALUE.sub(r'"\1\2"', _QUOTED_NAME.sub(r'\1"\2=\3\4"', text)))
    if not parts:
        raise DataError(f"--obs {text}: cannot be split at its commas; double quotes must be closed")
    if nameless := [part for part in parts if "=" not in part]:
        if as_number(nameless[0]) is not None:
            raise DataError(f"--obs {text}: {shown(nameless[0])} has no name; write decimals with a point: {advice}")
        quoted = 'a word with a comma goes in double quotes, NAME="a, b"'
        raise DataError(f"--obs {text}: {shown(nameless[0])} is not NAME=VALUE; {quoted}")
    for part in parts:
        name, _, value = (piece.strip() for piece in part.rpartition("="))
        if name in dates and name not in names:
            typed[name] = value
            continue
        if "=" in name and name not in names:
            raise DataError(f"--obs {text}: values are separated by commas: {advice}")
        if name not in names:
            raise DataError(f"--obs {text}: no column {name!r}{suggest(name, [*names, *sorted(dates)])}")
        if name in given:
            raise DataError(f"--obs {text}: column {name!r} is given twice")
        typed[name] = value
        try:
            given[name] = _number(value or "nan", known[name].words)
        except ValueError:
            allowed = f", or one of {listed(word for word, _ in known[name].words)}" if known[name].words else ""
            alone = number_before_unit(value)
            way = "" if allowed else f"; {NO_VALUE}"
            way = f"; give it without its unit, {joined([f'{name}={alone}'])}" if alone else way
            must = f"column {name!r} must be one number{allowed}, got {shown(value)}{way}"
            raise DataError(f"--obs {text}: {must}") from None
    for column in columns:
        if column.time in typed and column.time not in names and column.name not in given:
            try:
                given[column.name] = float(computed(column.name, column.time, [typed[column.time]])[0])
            except DataError as error:
                raise DataError(f"--obs {text}: {error}") from None
    if missing := [name for name in names if name not in given]:
        way = computed_from(columns, typed) or f": {as_option(columns, typed)}"
        raise DataError(f"--obs {text}: lacks {listed(missing)}; expected {listed(names)}{way}")
    return [given[name] for name in names]
