"""What is taken for data and is none: a configuration, or the folder of a run; and the data that it names."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.data.formats.names import first_of
from rl_training.data.formats.places import MINARI_PREFIX
from rl_training.paths import read_plain_file
from rl_training.run_places import DESCRIPTION
from rl_training.validation import printable

_OF_CONFIGS = (".yaml", ".yml")
_USED = "to use it here, name the run that it was exported from: rl-training predict RUN"
_OF_POLICIES = {
    ".onnx": f"onnxruntime runs it (docs/export.md); {_USED}",
    ".pt2": f"torch.export.load opens it (docs/export.md); {_USED}",
}
_WORKBOOKS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")  # in the archive of a spreadsheet
DAMAGED_WORKBOOK = "begins as an archive and is none: perhaps a damaged workbook; save its sheet as CSV (UTF-8)"
WORKBOOK = "is the workbook of a spreadsheet; save its sheet as CSV (UTF-8)"
BESIDE = "-metadata.json"  # at the end of the name of what is kept beside a table
_LARGEST = 2**18  # bytes of a configuration


def told_apart(path: Path) -> str | None:
    """What a path is in place of data, and which data it names; none where it may be data."""
    if path.is_dir():
        config = path / "config.yaml"
        if not ((path / DESCRIPTION).is_file() and config.is_file()):
            return None
        named = [] if config.is_symlink() else _data_named(config)
        return "is a run, not data" + (f"; it was trained on {first_of(named)}" if named else "")
    if path.exists() and not path.is_file():
        return None  # a pipe or a device, whatever it is called
    if path.name.endswith(BESIDE) and path.with_name(own := path.name.removesuffix(BESIDE)).is_file():
        return f"is kept beside {printable(own)}, and says how to read it; name {printable(own)}"
    if path.suffix.lower() in _OF_POLICIES:
        return f"is a policy ({path.suffix.lower()}), not data; {_OF_POLICIES[path.suffix.lower()]}"
    if path.suffix.lower() not in _OF_CONFIGS:
        return None
    named = _data_named(path)
    return "is a configuration, not data" + (f"; the data that it names: {first_of(named)}" if named else "")


def is_workbook(path: Path) -> bool:
    """Whether an archive is a spreadsheet's, whatever it is called."""
    with suppress(OSError, ValueError, NotImplementedError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return any(name in _WORKBOOKS for name in archive.namelist())
    return False


def _data_named(config: Path) -> list[str]:
    """The files, or `minari:ID`, of a configuration; nothing where it cannot be read."""
    try:
        values = yaml_dialect.read(read_plain_file(config, _LARGEST))
    except (OSError, ValueError):
        return []
    named = _sources(values.get("dataset")) if isinstance(values, Mapping) else ()
    return [printable(name) for name in dict.fromkeys(named)]


def _sources(section: Any) -> Iterator[str]:
    if isinstance(section, str):
        yield section
    elif isinstance(section, Mapping):
        if isinstance(path := section.get("path"), str):
            yield path
        if isinstance(identity := section.get("id"), str):
            yield f"{MINARI_PREFIX}{identity}"
        for part in section["parts"] if isinstance(section.get("parts"), list) else ():
            yield from _sources(part.get("dataset") if isinstance(part, Mapping) else None)
