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
from rl_training.data.formats.folders import check_told
from rl_training.data.formats.limits import check_file
from rl_training.data.formats.raw import NAMES, RawData
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import with_told
from rl_training.data.provenance import KEY, Provenance, digest_of
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError

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
    return path.with_name(f"{path.name}-metadata.json")


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


def with_known(raw: RawData, paths: Sequence[Path]) -> RawData:
    """The rows of CSV files with what is known of them, where columns of observations and actions are read as they were
    written. Of several files, what is known of all of them alike; files that call their columns otherwise than one
    another are refused."""
    as_written = (
        name == f"{field}_{place}"
        for field in ("obs", "actions")
        for place, (name, _) in enumerate(raw.columns.get(field, ()))
    )
    known, notes = _known_alike(paths) if all(as_written) else ({}, ())
    bounds = known.get("bounds")
    return replace(
        with_told(replace(raw, notes=(*raw.notes, *notes)), known.get(NAMES), known.get(WORDS)),
        env_id=told_env_id(known.get("env_id")),
        bounds=SpaceBounds.read(bounds) if isinstance(bounds, dict) else None,
    )


def names_beside(path: Path) -> dict[str, Any]:
    """What the values of fields are called, `{"obs": ["speed", …]}`, by the file beside a CSV file."""
    names = _beside(path).get(NAMES)
    return names if isinstance(names, dict) else {}


def _known_alike(paths: Sequence[Path]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is known of all these files alike, and a note on what is not."""
    found = [_beside(path) for path in paths]
    check_told(paths, found, "as the files beside them tell")
    apart = [name for name in ("env_id", "bounds") if any(known.get(name) != found[0].get(name) for known in found)]
    notes = (f"the files beside them tell different things of {' and '.join(apart)}: not used",) if apart else ()
    return {name: value for name, value in found[0].items() if name not in apart}, notes


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
    about = _ours(beside(path))
    return {} if about is None or about.get("sha256") != digest_of(path) else about


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
