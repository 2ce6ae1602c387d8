"""What data there are on this disk: files and folders that can be trained on, and Minari's local datasets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rl_training.data.dataset_files import dataset_files
from rl_training.data.formats import MINARI_PREFIX, recognise
from rl_training.data.formats.folders import files_of, stem_of
from rl_training.data.formats.names import natural
from rl_training.data.formats.peek import Peek, peek
from rl_training.data.formats.tables import plan
from rl_training.errors import DataError
from rl_training.paths import in_shell
from rl_training.run_places import DESCRIPTION

_SUFFIXES = (".npz", ".hdf5", ".h5", ".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_DEEPEST = 1  # folders below the one that is looked into
_MOST = 10_000  # datasets that are looked at
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
        shell = in_shell(folder)
        ways = (
            f"`rl-training data check {shell}` looks at one, `rl-training init {shell}` writes a configuration for it"
        )
        raise DataError(
            f"{folder}: " + (f"is a file, and this lists folders; {ways}" if folder.is_file() else "no such folder")
        )
    found = list(islice(_candidates(folder), _MOST + 1))
    here = [_look(path, str(path)) for path in found[:_MOST]]
    if len(found) > _MOST:
        here.append(Found(str(folder), "", fault=f"{folder}: holds more; the first {_MOST:,} were looked at"))
    return [*here, *_local_minari()]


def _candidates(folder: Path, depth: int = 0) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            named = [entry.name for entry in entries if not entry.name.startswith((".", "_"))]
    except OSError:
        return
    for path in (folder / name for name in sorted(named, key=natural)):
        mode = _mode(path)
        if path.name.lower().endswith(_SUFFIXES) and stat.S_ISREG(mode):
            yield path
        elif stat.S_ISDIR(mode) and not os.path.lexists(path / DESCRIPTION):
            if _is_dataset(path):
                yield path
            elif depth < _DEEPEST:
                yield from _candidates(path, depth + 1)


def _mode(path: Path) -> int:
    """What it is, as the system has it; nothing where a link leads nowhere."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


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
        size = sum(file.stat().st_size for file in dataset_files(path))
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
