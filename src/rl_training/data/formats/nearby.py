"""What lies beside a dataset, and datasets with a name like one that is not there."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from rl_training.paths import OF_DATA, is_there
from rl_training.validation import printable

_ALIKE = 0.65  # of difflib's ratio, endings left out: all of a folder may share theirs
_MOST = 3
_MOST_FOLDERS = 1_000  # entries of a folder that are looked into
WORKPLACE = "[0-9a-f]{11}-[0-9a-f]{20}"  # after `.NAME.`, the hidden folder beside it in which it is written
REPLACED = "old"  # in there, what lay under the name before
_OF_SYSTEMS = re.compile(r"\.DS_Store|\._.*|\.directory|\.nfs.*")  # what they hide in any folder
_PACKED_ROWS = re.compile(rf"[0-9a-f]{{32}}\.f32|\.[0-9a-f]{{32}}\.f32\.{WORKPLACE}")


def strange_in(folder: Path) -> str | None:
    """What lies in a dataset's folder, is no part of it and would go with it, the first by name."""
    from rl_training.data.formats.columns import PACKED, SCHEMA, own_files

    if not (folder / SCHEMA).is_file():
        strange = _besides(folder, "data")  # all of Minari's
    elif (packed := folder / PACKED).is_dir() and not packed.is_symlink():
        strange = _besides(folder, *own_files(folder), PACKED)
        strange += [f"{PACKED}/{name}" for name in _besides(packed) if not _PACKED_ROWS.fullmatch(name)]
    else:
        strange = _besides(folder, *own_files(folder))
    return printable(strange[0]) if strange else None


def _besides(folder: Path, *own: str) -> list[str]:
    names = sorted(entry.name for entry in folder.iterdir())
    return [name for name in names if name not in own and not _OF_SYSTEMS.fullmatch(name)]


def near_names(path: Path) -> str:
    """What to say after `no such file`: the folder is missing, or the names in it that are like the one asked for, or
    where a relative path was looked up."""
    folder = path.parent
    if not is_there(folder):
        return f" (folder {str(folder)!r} does not exist)"
    try:
        listed = list(folder.iterdir())
    except OSError:
        return ""
    workplace = re.compile(rf"\.{re.escape(path.name)}\.{WORKPLACE}")
    left = [entry for entry in listed if workplace.fullmatch(entry.name) and os.path.lexists(entry / REPLACED)]
    if left:
        was = f"{left[0].name}/{REPLACED}"
        return f" (its replacement was cut short: write it again; what was there is {was!r} beside it)"
    entries = [entry for entry in listed if not entry.name.startswith(".")]
    scores = {
        entry.name: _likeness(path, entry)
        for entry in entries
        if entry.suffix.lower() in OF_DATA or (not path.suffix and entry.is_dir())
    }
    near = sorted((name for name, score in scores.items() if score >= _ALIKE), key=lambda name: (-scores[name], name))
    if near := [*_elsewhere(path, entries), *near]:
        return f"; did you mean {' or '.join(map(repr, near[:_MOST]))}?"
    return "" if path.is_absolute() else f" (relative paths start at {Path.cwd()})"


def _elsewhere(path: Path, beside: list[Path]) -> list[str]:
    """Where a file of that very name lies: in the folder above, or in one of those beside it."""
    folders = [path.parent / "..", *(entry for entry in sorted(beside)[:_MOST_FOLDERS] if entry.is_dir())]
    return [str(folder / path.name) for folder in folders if path.suffix and is_there(folder / path.name)]


def _likeness(wanted: Path, there: Path) -> float:
    """By the names without their endings; of equals, the same ending first."""
    ratio = difflib.SequenceMatcher(None, wanted.stem.lower(), there.stem.lower()).ratio()
    return ratio + (0.01 if ratio and wanted.suffix.lower() == there.suffix.lower() else 0.0)
