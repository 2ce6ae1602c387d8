"""Which files of a folder are the data in it: those that its reader reads, and no others."""

from __future__ import annotations

from pathlib import Path

from rl_training.data.formats import recognise
from rl_training.data.formats.folders import files_of
from rl_training.data.formats.limits import check_file


def dataset_files(path: Path) -> list[Path]:
    """The file itself, or those of a folder that are read; refused where one is a link or no file."""
    if not path.is_dir():
        return [path]
    kind = recognise(path)
    if kind == "minari":
        from rl_training.data.formats.minari import own_files as of_minari

        found = of_minari(path)
    elif kind == "columns":
        from rl_training.data.formats.columns import own_files

        found = [path / name for name in sorted(own_files(path))]
    else:
        return files_of(path, kind)
    for file in found:
        check_file(file)
    return found
