"""The commands that use a trained policy."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.cli.declared_missing import missing_words_of, refuse_marks
from rl_training.cli.observed_columns import (
    as_option,
    by_number,
    by_their_names,
    computed,
    computed_from,
    dates_of,
    in_lines,
    in_their_order,
    refuse_missing,
    require_all,
)
from rl_training.cli.reading_options import split_at_commas
from rl_training.cli.telling import tell
from rl_training.data.column_names import require_named
from rl_training.data.formats import csv_text, npz
from rl_training.data.formats.cells import (
    BadCellsError,
    is_missing_word,
    marks_with_points,
    number_said,
    numbers,
    numbers_of_words,
    with_points,
)
from rl_training.data.formats.csv_files import named_alike
from rl_training.data.formats.currencies import Currencies
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import first_of, listed, suggest
from rl_training.data.formats.raw import NAMES, RawData, told_as_json
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import as_number, float_of, key_of, with_told
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.paths import in_shell
from rl_training.validation import printable, shown
from rl_training.wording import NO_VALUE, amount, readable

_QUOTED_VALUE = re.compile(r'(?<![^,])(\s*[^",=]+=\s*)"((?:[^"]|"")*)"')  # NAME="a, b"
_OF_FILES = (".csv", ".tsv", ".npy", ".npz", ".json")


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
        observations, notes = _read_observations(file, known, missing_words_of(policy) if policy else ())
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
    if any(not re.fullmatch(r"column_\d+", column.name) for column in spaces.action_columns):
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
        is_file = Path(text).suffix in _OF_FILES
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


_Read: TypeAlias = tuple[Any, list[str]]  # observations by row, and notes on them
_BYTES_PER_BYTE_OF_TEXT = 10  # a digit and a comma become a Python number
# What numpy and json raise on files that are damaged or forged. A RecursionError is a RuntimeError.
_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, MemoryError, OverflowError)


def _read_observations(path: Path, columns: Sequence[NamedColumn] = (), missing: Sequence[str] = ()) -> _Read:
    """Observations by row from a file, recognised by its suffix; `columns` that the policy sees. missing: words that
    stood for a missing value in training."""
    try:
        if path.exists() and not path.is_file():
            raise DataError("is not a file")
        match path.suffix:
            case ".json":
                rows = json.loads(_text(path))
            case ".csv" | ".tsv":
                check_size(_BYTES_PER_BYTE_OF_TEXT * path.stat().st_size)
                return _read_csv(path, columns, missing)
            case ".npy":
                # Mapped, not read: a forged header is then held to the size of the file, and nothing is allocated.
                return np.load(path, mmap_mode="r", allow_pickle=False), []
            case ".npz":
                return _read_npz(path, columns)
            case _:
                raise DataError("must end in .npy, .npz, .csv or .json")
    except DataError as error:
        raise DataError(f"--obs-file {path}: {error}") from None
    except OSError as error:
        raise DataError(f"--obs-file {path}: cannot be read ({error.strerror or error})") from None
    except _DAMAGE as error:
        raise DataError(f"--obs-file {path}: holds no observations ({error})") from None
    _require_numbers(rows)
    return rows, []


def _text(path: Path) -> str:
    check_size(_BYTES_PER_BYTE_OF_TEXT * path.stat().st_size)
    return path.read_text("utf-8")


def _require_numbers(value: Any) -> None:
    """JSON also holds text, null and objects, of which numpy would make numbers where it can."""
    several = isinstance(value, list) and any(isinstance(row, list) for row in value)
    for number, row in enumerate(value if several else [value]):
        for entry in row if isinstance(row, list) else [row]:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise DataError(f"obs: row {number}: values must be numbers, got {shown(entry)}")


def _read_npz(path: Path, known: Sequence[NamedColumn]) -> _Read:
    """Its observations, if they are the policy's own by what the file tells of them."""
    observations = npz.read_array(path, "obs")
    told: list[Any] = []
    for name in (NAMES, WORDS):
        try:
            told.append(told_as_json(npz.read_array(path, f"{npz.TOLD}{name}")))
        except DataError:  # of another program, or without
            told.append(None)
    raw = with_told(RawData({"obs": observations}, "npz"), *told)
    names = list(raw.names_of("obs", len(known)) or ())
    try:
        return observations, list(require_named(names, raw.words, known, str(path)))
    except DataError as error:  # which is told with the file's name anyway
        raise DataError(str(error).removeprefix(f"{path}: ")) from None


def _read_csv(path: Path, known: Sequence[NamedColumn], missing: Sequence[str]) -> _Read:
    """Rows of numbers; a first row that is not numbers is a header. One that has the policy's columns, among others or
    in another order, is read by name; of a policy without names, `obs_0`, `obs_1`, … by their numbers. Without a
    header, as many columns as the policy sees are just these."""
    layout = by_their_names(path, csv_text.layout_of(path), known)
    notes: list[str] = []
    names = [column.name for column in known]
    words = {column.name: column.words for column in known if column.words}
    titles: Sequence[str] = layout.names
    places: Sequence[int] = range(len(titles))
    are_these = not layout.has_names and len(layout.names) == len(names)
    dates = {column.name: found for column in known if (found := dates_of(column, layout.places)) is not None}
    seen = {name.casefold() for name in (*names, *dates.values())}
    by_name = are_these or bool({name.casefold() for name in layout.names} & seen)
    if by_name and not are_these:
        require_all(known, layout.names)
        if several := [name for name in layout.doubled if name in names]:
            raise DataError(f"{named_alike(layout, several[0])}; leave in the one that the policy sees")
        places = [layout.places[dates.get(name, name)][0] for name in names]
    elif not names and (numbered := by_number(layout)):
        titles, places = numbered, [layout.places[name][0] for name in numbered]
    elif layout.has_names and names:
        notes.append(f"{path} has none of the policy's names: columns are taken in its order, {listed(names)}")
    table = list(csv_text.rows(path, layout, strict=True))
    if not table:
        _refuse_numbers_as_names(layout)
    lines, rows = [line for line, _ in table], [row for _, row in table]
    for number, row in enumerate(rows):
        if len(row) != len(layout.names):
            raise DataError(f"row {number} has {amount(len(row), 'value')}, not {len(layout.names)} as the first line")
    read = []
    for name, place in zip(names if by_name else titles, places, strict=True):
        cells = [row[place] for row in rows]
        if name in dates:
            read.append(computed(name, dates[name], cells))
            continue
        try:
            read.append(_column(name, cells, dict(words.get(name, ())), missing, commas=layout.decimal_commas))
        except BadCellsError as error:
            raise in_lines(error, lines) from None
        refuse_missing(name, read[-1], lines, cells)
    return np.stack(read, axis=1), notes


def _refuse_numbers_as_names(layout: csv_text.Layout) -> None:
    """Of a single line that is taken for names, as `0x1,2,3` or `1,5;2,5`: what in it is no number."""
    strange = [name for name in layout.names if as_number(name) is None]
    if not strange or len(strange) == len(layout.names):
        return
    line = layout.separator.join(layout.names)
    way = f"{shown(strange[0])} is not a number"
    if ";" in line:
        way = f"write decimals with a point: {shown(line.replace(',', '.').replace(';', ','))}"
    raise DataError(f"its only line, {shown(line)}, is taken for names of columns; {way}")


def _column(
    name: str, cells: Sequence[str | None], words: Mapping[str, float], missing: Sequence[str], *, commas: bool
) -> npt.NDArray[Any]:
    """The numbers of a column's cells, NaN where one is missing. commas: that decimals have."""
    if commas:
        cells, missing = with_points(name, cells, among_words=bool(words)), marks_with_points(missing)
    given = np.array(cells, dtype=object)
    if words:
        return numbers_of_words(name, given, {key_of(word): n for word, n in words.items()}, missing=missing)
    return numbers(name, given, missing=missing, currencies=Currencies())
