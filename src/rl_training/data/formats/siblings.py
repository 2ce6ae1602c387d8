"""Files of one form in one folder, of which one alone was given: a log that is cut by the day, or by the episode."""

from __future__ import annotations

import os
import shlex
import stat
from itertools import islice
from pathlib import Path

from rl_training.data.formats import written
from rl_training.data.formats.csv_text import GZIP, unpacked_start
from rl_training.validation import printable

_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_MOST_ENTRIES = 1000  # of a folder that are looked at
_FEWEST = 2  # one other alone is rather what was set aside
_BEGINNING = 2**14  # bytes of a file, in which its header stands


def alike_beside(path: Path) -> str | None:
    """A note on the other CSV files in the folder of one whose first line is the same; none where there are hardly any.

    Only first lines are read. What cannot be read does not count."""
    try:
        if not path.name.lower().endswith(_ENDINGS) or not path.is_file() or _was_written_here(path):
            return None
        header = _first_line(path)
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MOST_ENTRIES) if _may_be_one(entry, path.name)]
    except OSError:
        return None
    names = [name for name in names if not _was_written_here(path.parent / name)]
    alike = [name for name in names if header and _first_line_if_any(path.parent / name) == header]
    if len(alike) < _FEWEST:
        return None
    folder = printable(shlex.quote(str(path.parent)))
    way = f"the folder itself can be given, unless some are held out: rl-training init {folder}"
    if len(alike) < len(names):
        way = "in a folder of their own they can be read together: rl-training init FOLDER"
    return f"{len(alike):,} more files with the same columns lie beside it; {way}"


def _was_written_here(path: Path) -> bool:
    """By this package, as a part or a copy of another file: joined to others, episodes would count twice."""
    return written.beside(path).exists()


def _may_be_one(entry: os.DirEntry[str], own: str) -> bool:
    return entry.name != own and entry.name.lower().endswith(_ENDINGS) and not entry.name.startswith((".", "_"))


def _first_line_if_any(path: Path) -> bytes | None:
    try:
        return _first_line(path) if stat.S_ISREG(path.lstat().st_mode) else None  # links may lead anywhere
    except OSError:
        return None


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(_BEGINNING)
    if start.startswith(GZIP):
        start = unpacked_start(start)
    return start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")[0].strip()
