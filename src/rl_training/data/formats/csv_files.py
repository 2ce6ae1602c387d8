"""The layouts of CSV files: of one, or of several that are one table and must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rl_training.data.formats import csv_text, recognise
from rl_training.data.formats.csv_headers import SEPARATORS
from rl_training.data.formats.csv_text import Layout
from rl_training.data.formats.folders import TITLES, blamed_on, check_columns
from rl_training.data.formats.looks import not_utf8
from rl_training.data.formats.names import first_of, listed
from rl_training.errors import DataError
from rl_training.validation import printable, shortened, shown
from rl_training.wording import amount

_MOST_NOTES = 5  # of one kind
_DECIMALS = {",": "a comma", ".": "a point"}


@contextmanager
def readable(entry: Path, path: Path) -> Iterator[None]:
    """What is raised on a file that is no sound text, as one line that names it where it is one of a folder."""
    with blamed_on(entry, path):
        try:
            yield
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise DataError(not_utf8(error)) from error


def layouts_of(paths: Sequence[Path], path: Path) -> list[Layout]:
    """How each file of a folder is laid out, or the one file; refused where they do not belong together."""
    if path.is_dir():
        with readable(path, path):
            sizes = [entry.stat().st_size for entry in paths]
        refuse_empty(paths, sizes, ("is empty", "are empty"))
    layouts: list[Layout] = []
    for entry in paths:
        with readable(entry, path):
            if entry != path and (kind := recognise(entry)) != "csv":
                raise DataError(f"is {TITLES[kind]} by its content, not CSV")
            layouts.append(csv_text.layout_of(entry))
            _check_alike(layouts[-1], layouts[0], paths[0])
    return _with_one_sign(layouts, paths)


def mend(found: int, width: int) -> str:
    """What to do about a line with so many values."""
    return f"; {'complete' if found < width else 'correct'} it, or delete the line"


def refuse_empty(paths: Sequence[Path], sizes: Sequence[int], what: tuple[str, str]) -> None:
    """All files that hold nothing, in one line. what: as it is said of one, and of several."""
    found = [printable(path.name) for path, size in zip(paths, sizes, strict=True) if not size]
    if found:
        raise DataError(f"{first_of(found)}: {what[len(found) > 1]}; remove {'them' if len(found) > 1 else 'it'}")


def _check_alike(layout: Layout, first: Layout, path_of_first: Path) -> None:
    other = printable(path_of_first.name)
    if layout.separator != first.separator:
        separated = f"separates columns by {SEPARATORS[layout.separator]}, and {other} by {SEPARATORS[first.separator]}"
        raise DataError(f"{separated}; write all of them alike")
    if layout.has_names != first.has_names:
        own, others = ("a", "none") if layout.has_names else ("no", "one")
        raise DataError(f"has {own} header line, and {other} has {others}; write all of them alike")
    if not layout.has_names and len(layout.names) != len(first.names):
        raise DataError(f"has {amount(len(layout.names), 'column')}, and {other} {len(first.names)}")
    check_columns(layout.names, first.names, path_of_first)
    if layout.unit_of != first.unit_of and not layout.is_bare:
        told = [f"{name}: {_units(one)}" for name, one in (("it", layout), (other, first))]
        raise DataError(f"has another line of units below its header than {other} ({', '.join(told)})")


def _units(layout: Layout) -> str:
    return "none" if layout.units is None else shown(shortened(layout.units))


def _with_one_sign(layouts: list[Layout], paths: Sequence[Path]) -> list[Layout]:
    """With the sign before decimals that all files share: a file of whole numbers does not show it."""
    first: dict[str, Path] = {}
    for layout, path in zip(layouts, paths, strict=True):
        if layout.decimals is not None:
            first.setdefault(layout.decimals, path)
    if len(first) > 1:
        used = " and ".join(f"{_DECIMALS[sign]} in {printable(path.name)}" for sign, path in first.items())
        raise DataError(f"decimals have {used}; write all of them alike")
    return [replace(layout, decimals=next(iter(first), None)) for layout in layouts]


def described(layouts: Sequence[Layout]) -> str:
    """In words, what all of them are."""
    packed = sum(layout.is_packed for layout in layouts)
    how = "" if not packed else ", packed with gzip" if packed == len(layouts) else ", partly packed with gzip"
    return f"CSV, separated by {SEPARATORS[layouts[0].separator]}{how}"


def named_alike(layout: Layout, name: str) -> str:
    """`two columns are named 'x'`."""
    count = len(layout.places[name])
    return f"{'two' if count == 2 else count} columns are named {shown(name)}"


def doubled_notes(layout: Layout, how: Mapping[str, str]) -> list[str]:
    """Notes on names that stand for several columns, one on each, or on all that are alike where they are many. how:
    what these columns do."""
    alike: dict[str, list[str]] = {}
    for name, told in how.items():
        alike.setdefault(told, []).append(name)
    few = [name for names in alike.values() if len(names) <= _MOST_NOTES for name in names]
    return [
        *(f"{named_alike(layout, name)}; they {how[name]}" for name in few),
        *(
            f"{len(names):,} names stand for several columns each, which {told}: {listed(names)}"
            for told, names in alike.items()
            if len(names) > _MOST_NOTES
        ),
    ]


def common_notes(of_files: Sequence[Sequence[str]], paths: Sequence[Path]) -> list[str]:
    """The notes on all files, each once; one that is not on all of them says on how many."""
    counts = Counter(chain.from_iterable(of_files))
    first: dict[str, str] = {}
    for path, notes in zip(paths, of_files, strict=True):
        for note in notes:
            first.setdefault(note, printable(path.name))
    return [
        note if count == len(paths) else f"{note} ({amount(count, 'file')} of {len(paths)}, first {first[note]})"
        for note, count in counts.items()
    ]
