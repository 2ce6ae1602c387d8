"""The commands that use a trained policy."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.cli.declared_missing import missing_words_of, refuse_marks
from rl_training.cli.observation_files import SUFFIXES, read_observations
from rl_training.cli.observed_columns import (
    as_option,
    computed,
    computed_from,
    in_their_order,
)
from rl_training.cli.reading_options import split_at_commas
from rl_training.cli.telling import tell
from rl_training.data.column_names import are_names
from rl_training.data.formats.cells import is_missing_word, number_said
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import first_of, listed, suggest
from rl_training.data.formats.words import as_number, float_of, key_of
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.paths import in_shell
from rl_training.validation import printable, shown
from rl_training.wording import NO_VALUE, amount, readable

_QUOTED_VALUE = re.compile(r'(?<![^,])(\s*[^",=]+=\s*)"((?:[^"]|"")*)"')  # NAME="a, b"


def predict(run: Path, texts: list[str], file: Path | None, which: str, seed: int | None, *, stochastic: bool) -> None:
    """`rl-training predict`."""
    if bool(texts) == (file is not None):
        raise ConfigError(
            "predict: give observations with --obs 0.1,0.2,… or with --obs-file, one of the two"
            + ("" if texts else _such_as(run, which))
        )
    worded = any("=" in text or re.search(r"[^\W\d_eE]", text) for text in texts)
    named = (file is not None and file.suffix in (".csv", ".tsv", ".npz")) or worded
    policy = load_policy(run, which) if named else None
    known = () if policy is None else policy.checkpoint.spaces.obs_columns
    notes: list[str] = []  # told once nothing is refused any more: a refusal is one line
    if file is None:
        observations: Any = [_by_name(text, known) if "=" in text else _numbers(text, known) for text in texts]
    else:
        observations, notes = read_observations(file, known, missing_words_of(policy) if policy else ())
    policy = policy or load_policy(run, which)
    spaces = policy.checkpoint.spaces
    for text, row in zip(texts, observations, strict=True) if file is None else ():
        if len(row) != spaces.obs_dim:
            called = f": {listed(column.name for column in spaces.obs_columns)}" if spaces.obs_columns else ""
            called += computed_from(spaces.obs_columns, in_their_order(spaces.obs_columns, row))
            raise DataError(f"--obs {text}: {amount(len(row), 'value')}, {spaces.obs_dim} expected{called}")
    rows = _rectangular(observations)
    if not rows.size:
        raise DataError(f"--obs-file {file}: has no rows; each is an observation of {amount(spaces.obs_dim, 'value')}")
    given = [f"--obs {text}" for text in texts] if file is None else [f"--obs-file {file}"]
    refuse_marks(rows, spaces.obs_columns, missing_words_of(policy), given)
    with warnings.catch_warnings(action="ignore"):  # what diverged is told as a note
        actions = policy.predict(rows, deterministic=not stochastic, seed=seed)
    chosen = policy.seed_choice.told if seed is None and policy.seed_choice.evident else []
    tell_stopped(policy)
    for note in (*chosen, *notes, *_about_names(rows, spaces)):
        tell(f"note: {note}", err=True)
    for action in actions:
        # float32 by way of text: 0.3, not 0.30000001192092896
        tell(json.dumps([float(str(value)) for value in action]))


def _such_as(run: Path, which: str) -> str:
    """An observation of this policy, to type."""
    spaces = load_policy(run, which).checkpoint.spaces
    option = as_option(spaces.obs_columns) if spaces.obs_columns else f"--obs {','.join(['0'] * spaces.obs_dim)}"
    return f", such as `rl-training predict {in_shell(run)} {option}`"


def _about_names(observations: Any, spaces: Spaces) -> Iterator[str]:
    """What the numbers printed are, and which of those given were never seen in training."""
    if observations.ndim == 2 and observations.shape[1] == len(spaces.obs_columns):
        outside = []
        for values, column in zip(observations.T, spaces.obs_columns, strict=True):
            rounding = 1e-6 * max(abs(column.low), abs(column.high))  # the data are held as float32
            if (wrong := values[(values < column.low - rounding) | (values > column.high + rounding)]).size:
                given, low, high = _told_apart(float(wrong[0]), column.low, column.high)
                outside.append(f"{printable(column.name)} {given} ({low} to {high})")
        if outside:
            yield f"outside what was seen in training: {first_of(outside)}"
    if are_names(column.name for column in spaces.action_columns):
        yield f"actions are {listed(column.name for column in spaces.action_columns)}"


def _told_apart(value: float, low: float, high: float) -> list[str]:
    """The three in words, with digits enough that the value is seen to lie outside."""
    texts = [readable(number) for number in (value, low, high)]
    given, least, most = map(float, texts)
    return [f"{number:.9g}" for number in (value, low, high)] if least <= given <= most else texts


def tell_stopped(policy: LoadedPolicy) -> None:
    """What diverged in its run, beside a result: once nothing is refused any more, as a refusal is one line."""
    for finding in policy.stopped_seeds.values():
        tell(f"note: {finding}", err=True)


def _numbers(text: str, columns: Sequence[NamedColumn] = ()) -> list[float]:
    """In the order of the columns, whose words stand for their numbers."""
    try:
        parts = _parts(text.strip("[] ").rstrip(", "), columns)
        words = [column.words for column in columns] if len(columns) == len(parts) else [() for _ in parts]
        return [_number(part, known) for part, known in zip(parts, words, strict=True)]
    except ValueError:
        is_file = Path(text).suffix in SUFFIXES
        hint = f"; for observations in a file: --obs-file {shlex.quote(text)}" if is_file else ""
        if ";" in text:
            hint = f"; write decimals with a point: --obs {text.replace(',', '.').replace(';', ',')}"
        elif lacking := [part for part in split_at_commas(text) if is_missing_word(part) or not re.search(r"\w", part)]:
            hint = f"; {shown(lacking[0])} is none: a policy needs a number for each, such as the last one measured"
        elif not hint and columns:
            hint = f", or by name, such as {as_option(columns)}"
        raise DataError(f"--obs {text}: must be numbers separated by commas{hint}") from None


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
    parts = split_at_commas(_QUOTED_VALUE.sub(r'"\1\2"', text))
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
            must = (
                f"column {name!r} must be one number{allowed}, got {shown(value)}{'' if allowed else f'; {NO_VALUE}'}"
            )
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


def _rectangular(rows: Any) -> Any:
    """Rows of equal length as an array."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind not in "iuf":
        raise DataError(f"obs: values must be numbers, not {rows.dtype}")
    if isinstance(rows, np.ndarray):
        check_size(8 * rows.size)
    try:
        with np.errstate(over="ignore"):  # what float64 does not hold becomes infinite, and is refused with its place
            return np.atleast_2d(np.asarray(rows, dtype=np.float64))
    except OverflowError:
        raise DataError("obs: a value is larger than any floating-point number") from None
    except (TypeError, ValueError):
        raise DataError("obs: every observation must have the same number of values") from None
