"""What files of this package tell of where they come from, read without their rows.

CSV has no place for it, nor for names, bounds and the environment: it stands in a file beside, by the name that the W3C
gives metadata of a CSV file, and counts as long as the CSV file is the one that was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl_training.data.formats.atomic import sync
from rl_training.data.formats.limits import check_file
from rl_training.data.formats.names import first_of
from rl_training.data.formats.not_data import BESIDE
from rl_training.data.formats.raw import NAMES, RawData
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import contradict, united, with_told
from rl_training.data.formats.words import told as words_told
from rl_training.data.provenance import KEY, Provenance, digest_of
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError
from rl_training.reading_choices import Words
from rl_training.validation import printable
from rl_training.wording import WARNING

_TOLD = ("env_id", "bounds", NAMES, WORDS)
_LARGEST = 2**24  # bytes of a file beside
# What readers raise on damaged files, and where the library behind a format is not installed.
_STRUCTURE = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, AssertionError)
_UNTOLD = (DataError, OSError, EOFError, MemoryError, RuntimeError, ImportError, *_STRUCTURE)


def provenance_in(path: Path, name: str) -> Provenance | None:
    """What a file or folder of the format `name` tells; nothing where it is another program's, or damaged, which is
    said when it is read."""
    try:
        return Provenance.read(_READERS[name](path))
    except _UNTOLD:
        return None


def beside(path: Path) -> Path:
    """The file that tells of a CSV file."""
    return path.with_name(f"{path.name}{BESIDE}")


def write_about(about: Path, written: Path, path: Path, provenance: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """Write what a CSV file has no place for: where its data come from, as JSON, and what is `known` of them (`env_id`,
    `bounds`, `names`, `words`). The note on it; nothing is written where a file of someone else is in its place.

    about: where it is written; its place is beside `path`, to which the file `written` will go.
    """
    place = beside(path)
    words = {"env_id": "the environment", "bounds": "bounds", NAMES: "names of columns", WORDS: "their words"}
    kept = ", ".join(words[name] for name in known)
    if place.exists() and _ours(place) is None:
        what = f"where these data come from ({kept} included)" if kept else "where these data come from"
        return (f"{place.name} is there and not from here, so nothing tells {what}",)
    facts = {"sha256": digest_of(written), KEY: json.loads(provenance), **known}
    told = {"@context": "http://www.w3.org/ns/csvw", "url": path.name, "rl_training": facts}
    about.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    sync(about)
    return (f"CSV has no place for {kept}: kept in {place.name}, leave it beside",) if kept else ()


def with_beside(raw: RawData, paths: Sequence[Path]) -> RawData:
    """The rows of CSV files with what is known of them, where columns of observations and actions are read as they were
    written."""
    as_written = (
        name == f"{field}_{place}"
        for field in ("obs", "actions")
        for place, (name, _) in enumerate(raw.columns.get(field, ()))
    )
    if not all(as_written):
        return raw
    told = [_told_beside(path) for path in paths]
    known, notes = known_alike(paths, [about if is_same else {} for about, is_same in told], "the files beside them")
    changed = [path for path, (about, is_same) in zip(paths, told, strict=True) if about and not is_same]
    return with_known(replace(raw, notes=(*raw.notes, *notes, *_note_on_changed(changed))), known)


def _note_on_changed(changed: Sequence[Path]) -> list[str]:
    """A warning on files that are not those that were written any more."""
    if not changed:
        return []
    has = "has" if len(changed) == 1 else "have"
    named = first_of(printable(path.name) for path in changed)
    lost = f"what {first_of(printable(beside(path).name) for path in changed)} says of names, bounds and origin"
    way = "write it anew from the data it was made of, or say columns, action_low and action_high yourself"
    return [f"{WARNING}{named} {has} been changed since it was written: {lost} is not used; {way}"]


def with_known(raw: RawData, known: Mapping[str, Any]) -> RawData:
    """The rows of a table with what its files tell of it."""
    bounds, names = known.get("bounds"), known.get(NAMES)
    if isinstance(names, dict):  # that obs_0 is one of obs, whoever wrote it has said
        of = ((note, note.partition(" from ")[0].removeprefix("next_")) for note in raw.notes)
        raw = replace(raw, notes=tuple(note for note, field in of if field not in names))
    return replace(
        with_told(raw, names, known.get(WORDS)),
        env_id=told_env_id(known.get("env_id")),
        bounds=SpaceBounds.read(bounds) if isinstance(bounds, dict) else None,
    )


def names_beside(path: Path) -> dict[str, Any]:
    """What the values of fields are called, `{"obs": ["speed", …]}`, by the file beside a CSV file."""
    names = _beside(path).get(NAMES)
    return names if isinstance(names, dict) else {}


def known_alike(
    paths: Sequence[Path], told: Sequence[Mapping[str, Any]], tellers: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What those of the files that tell something tell alike, and a note on what they do not. Refused where values are
    not the same things: other names of columns, or words that stand for other numbers. tellers: who tells it."""
    files = list(zip(paths, told, strict=True))
    tell = {key: [(path, known[key]) for path, known in files if known.get(key)] for key in _TOLD}
    if (other := _otherwise(tell[NAMES])) is not None:
        differ = "from columns of other names or in another order"
        raise _written_apart(tell[NAMES][0][0], other, differ, tellers, "from the same columns")
    words = _words_alike(tell.pop(WORDS), tellers)
    unused = [key for key, several in tell.items() if _otherwise(several) is not None]
    notes = (f"{tellers} tell different things of {' and '.join(unused)}: not used",) if unused else ()
    known = {key: several[0][1] for key, several in tell.items() if several and key not in unused}
    return known | {WORDS: words}, notes


def _otherwise(told: Sequence[tuple[Path, Any]]) -> Path | None:
    """The first file that does not tell what the first of all does."""
    return next((path for path, value in told if value != told[0][1]), None)


def _words_alike(told: Sequence[tuple[Path, Any]], tellers: str) -> dict[str, dict[str, float]]:
    """All words that files tell, by column."""
    known: dict[str, dict[str, float]] = {}
    tell = [(path, words_told(words)) for path, words in told]
    for path, words in tell:
        if _contradict(words, known):
            first = next(other for other, before in tell if _contradict(words, before))
            differ = "with words that stand for other numbers"
            raise _written_apart(first, path, differ, tellers, "with the same words")
        known |= {column: united([known.get(column, {}), own]) for column, own in words.items()}
    return known


def _contradict(words: Words, others: Words) -> bool:
    return any(contradict(own, others.get(column, {})) for column, own in words.items())


def _written_apart(one: Path, other: Path, differ: str, tellers: str, again: str) -> DataError:
    both = f"{printable(one.name)} and {printable(other.name)}"
    return DataError(f"{both} were written {differ}, as {tellers} tell; write them again {again}")


def _ours(place: Path) -> dict[str, Any] | None:
    try:
        check_file(place)
        told = json.loads(place.read_text("utf-8")) if place.stat().st_size <= _LARGEST else None
    except (DataError, OSError, ValueError, RecursionError):
        return None
    about = told.get("rl_training") if isinstance(told, dict) else None
    return about if isinstance(about, dict) else None


def _beside(path: Path) -> dict[str, Any]:
    """What is told of a CSV file, if it is the one that was written."""
    about, is_same = _told_beside(path)
    return about if is_same else {}


def _told_beside(path: Path) -> tuple[dict[str, Any], bool]:
    """What is told of a CSV file, and whether it is the one that was written."""
    about = _ours(beside(path))
    return ({}, False) if about is None else (about, about.get("sha256") == digest_of(path))


def _csv(path: Path) -> Any:
    return None if path.is_dir() else _beside(path).get(KEY)


def _npz(path: Path) -> Any:
    from rl_training.data.formats import npz

    return npz.read_array(path, f"{npz.TOLD}{KEY}")


def _hdf5(path: Path) -> Any:
    from rl_training.data.formats.hdf5_files import attributes, opened

    with opened(path) as file:
        return attributes(file, [KEY]).get(KEY)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    from rl_training.data.formats.parquet_footer import read_footer

    if path.is_dir():
        return None
    read_footer(path)  # a forged one is refused before pyarrow sees it
    return (pq.read_schema(path).metadata or {}).get(KEY.encode())


def _columns(path: Path) -> Any:
    from rl_training.data.formats.columns import read_schema

    return read_schema(path).get(KEY)


def _minari(path: Path) -> Any:
    from rl_training.data.formats.minari import metadata_of

    return metadata_of(path).get(KEY)


_READERS: dict[str, Callable[[Path], Any]] = {
    "csv": _csv,
    "npz": _npz,
    "hdf5": _hdf5,
    "parquet": _parquet,
    "columns": _columns,
    "minari": _minari,
}
