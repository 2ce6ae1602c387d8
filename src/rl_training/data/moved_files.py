"""A `dataset:` section whose file lies in another place by now; whatever else it says holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rl_training.data.dataset_loaders import (
    DatasetConfig,
    FileDatasetConfig,
    MinariDatasetConfig,
    MixtureDatasetConfig,
)
from rl_training.data.formats.places import expand
from rl_training.errors import ConfigError
from rl_training.paths import is_there


def moved_to(config: DatasetConfig | None, path: Path) -> DatasetConfig:
    """The section with `path` in the place of its file's. Of several files it is the one that is gone, or else the only
    one of that name. Data that were no file, such as arrays in memory, may be in one now."""
    match config:
        case FileDatasetConfig():
            return config.model_copy(update={"path": path})
        case MinariDatasetConfig():
            said = config.model_dump(exclude={"source", "id", "download"})
            return FileDatasetConfig(path=path, **said)
        case MixtureDatasetConfig():
            return _with_part(config, _meant(config, path), path)
        case _:
            return FileDatasetConfig(path=path)


def _meant(config: MixtureDatasetConfig, path: Path) -> Path:
    """Which file of a mixture is the one that lies at `path` now."""
    files = list(dict.fromkeys(_files(config)))
    if not files:
        raise ConfigError("dataset: the run mixes data of which none is a file; leave it out")
    gone = [file for file in files if not is_there(expand(file))]
    for found in (gone, [file for file in gone or files if file.name == path.name]):
        if len(found) == 1:
            return found[0]
    names = ", ".join(map(str, files))
    raise ConfigError(
        f"dataset: the run mixes {len(files)} files, {names}, and which of them is {path} now cannot be told; put them"
        " back where they lay, or links to them, and leave it out"
    )


def _files(config: DatasetConfig) -> Iterator[Path]:
    if isinstance(config, FileDatasetConfig):
        yield config.path
    elif isinstance(config, MixtureDatasetConfig):
        for part in config.parts:
            yield from _files(part.dataset)


def _with_part(config: DatasetConfig, meant: Path, path: Path) -> DatasetConfig:
    if isinstance(config, MixtureDatasetConfig):
        parts = [p.model_copy(update={"dataset": _with_part(p.dataset, meant, path)}) for p in config.parts]
        return config.model_copy(update={"parts": parts})
    is_meant = isinstance(config, FileDatasetConfig) and config.path == meant
    return config.model_copy(update={"path": path}) if is_meant else config
