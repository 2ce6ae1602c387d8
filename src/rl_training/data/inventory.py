"""What data there are on this disk: files and folders that can be trained on, and Minari's local datasets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rl_training.data.formats import MINARI_PREFIX, recognise
from rl_training.data.formats.folders import files_of, stem_of
from rl_training.data.formats.names import natural
from rl_training.data.formats.peek import Peek, peek
from rl_training.data.formats.tables import plan
from rl_training.errors import DataError
from rl_training.run_places import DESCRIPTION

_SUFFIXES = (".npz", ".hdf5", ".h5", ".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_DEEPEST = 1  # folders below the one that is looked into
_MOST = 10_000  # entries that are looked at
_NAMES_ITSELF = ("minari", "columns")  # formats that have their fields under fixed names


@dataclass(frozen=True)
class Found:
    """One dataset. rows, episodes: none where they are not told cheaply. missing: why it cannot be trained on as it
    is. fault: why it cannot be read."""

    source: str
    format: str
    rows: int | None = None
    episodes: int | None = None
    env_id: str | None = None
    bytes: int | None = None
    missing: str | None = None
    fault: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def take_stock(folder: Path) -> list[Found]:
    """The data in a folder and one deeper, then Minari's on this machine."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    here = [_look(path, str(path)) for path in _candidates(folder)]
    return [*here, *_local_minari()]


def _candidates(folder: Path, depth: int = 0) -> list[Path]:
    found: list[Path] = []
    try:
        entries = list(islice(folder.iterdir(), _MOST))
    except OSError:
        return []
    for path in sorted(entries, key=lambda entry: natural(entry.name)):
        if path.name.startswith((".", "_")):
            continue
        if path.is_file() and path.name.lower().endswith(_SUFFIXES):
            found.append(path)
        elif path.is_dir() and not (path / DESCRIPTION).exists():
            if _is_dataset(path):
                found.append(path)
            elif depth < _DEEPEST:
                found += _candidates(path, depth + 1)
    return found


def _is_dataset(folder: Path) -> bool:
    """A folder that is one dataset; several files of a table are one only if they say so by their names, and a CSV
    file alone is named itself: what stands beside it counts."""
    try:
        kind = recognise(folder)
        if kind not in ("parquet", "csv"):
            return True
        names = [stem_of(path.name) for path in files_of(folder, kind)]
    except (DataError, OSError):
        return False
    return len({name.rstrip("0123456789-_") for name in names}) == 1 and (kind == "parquet" or len(names) > 1)


def _look(path: Path, source: str) -> Found:
    try:
        size = sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size
        first = peek(path)
    except (DataError, OSError) as error:
        return Found(source, "unreadable", fault=" ".join(str(error).split()))
    return Found(source, first.format, first.rows, first.episodes, first.env_id, size, _missing(first))


def _missing(first: Peek) -> str | None:
    """What the reader would say of the names of its columns."""
    if first.kind in _NAMES_ITSELF:
        return None
    try:
        plan(list(first.columns))
    except DataError as error:
        return str(error).partition(";")[0]
    return None


def _local_minari() -> list[Found]:
    from rl_training.data.formats import minari

    try:
        ids = minari.local_ids()
    except (OSError, RuntimeError):  # no home folder
        return []
    return [_look(minari.local_root() / name, f"{MINARI_PREFIX}{name}") for name in ids]
