"""Where a new run comes to lie, and how its folder is made: whole under its name, or not at all."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from rl_training.data.formats.atomic import sync, workplace
from rl_training.errors import CheckpointError, ConfigError
from rl_training.paths import in_shell
from rl_training.run_places import is_locked
from rl_training.runtime.checkpoint import reason
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_description import read_description


def new_path(config: TrainConfig) -> Path:
    """Where a new run of this configuration would be; a name that is taken is refused."""
    return next(_free_paths(config))


def make(config: TrainConfig, fill: Callable[[Path], None]) -> Path:
    """Make the folder of a new run, with what `fill` writes into it. A name that was made up is made up anew where
    another process has taken it in between; a given one is refused then."""
    for path in _free_paths(config):
        if _made(path, fill):
            return path
        if config.name is not None:
            raise ConfigError(_taken(path))
    raise ConfigError(f"runs_dir: no name is free in {config.runs_dir}; give one with name")


def _free_paths(config: TrainConfig) -> Iterator[Path]:
    parent = Path(config.runs_dir).expanduser()
    if config.name is not None:
        if (parent / config.name).exists():
            raise ConfigError(_taken(parent / config.name))
        yield parent / config.name
        return
    task = (config.env_id or "data").replace("/", "-").replace(":", "-").lower()
    name = f"{config.algo}-{task}-{time.strftime('%Y%m%d-%H%M%S')}"
    for candidate in chain((name,), (f"{name}-{i}" for i in range(2, 10_000))):
        if not (parent / candidate).exists():
            yield parent / candidate


def _made(path: Path, fill: Callable[[Path], None]) -> bool:
    """Whether the folder could be given its name; not where there is something by now."""
    _make_parent(path)
    try:
        with workplace(path, any_target=True) as temporary:
            temporary.mkdir()
            fill(temporary)
            temporary.rename(path)
    except BaseException as error:
        fault = error if isinstance(error, OSError) else error.__cause__  # of a file in it, told by a name it had there
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST) and path.exists():
            return False
        if isinstance(fault, OSError):
            raise ConfigError(f"runs_dir: {path} cannot be made ({reason(fault, path.parent)})") from None
        raise
    _sync_name(path)
    return True


def _sync_name(path: Path) -> None:
    """It has its name by now, whatever the disk says of it."""
    try:
        sync(path.parent)
    except OSError as error:
        raise ConfigError(
            f"runs_dir: {path} is made, but its disk fails ({reason(error, path.parent)}); once that is put right,"
            f" `rl-training resume {in_shell(path)}` begins to train it"
        ) from None


def _make_parent(path: Path) -> None:
    """The folder that a run is to lie in."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        if not there.is_dir():
            why = f"{there} is not a folder"
        elif error.errno == errno.ENOENT:  # as /proc has it, which is no place for files
            why = f"nothing can be made in {there}"
        else:
            why = reason(error, folder)
        raise ConfigError(f"runs_dir: the folder {folder} cannot be made ({why})") from None


def _taken(path: Path) -> str:
    """What to do about a name that is taken, by how the run of that name stands."""
    status, resume = _status(path), f"rl-training resume {in_shell(path)}"
    if status == "running" and is_locked(path):
        return f"name: run {path} exists already, and is being trained; choose another"
    if status == "finished":
        return f"name: run {path} exists already; choose another, or train it longer: `{resume} --total-timesteps N`"
    return f"name: run {path} exists already; choose another, or continue it with `{resume}`"


def _status(run: Path) -> str | None:
    try:
        return str(read_description(run)["status"])
    except CheckpointError:  # whatever lies there
        return None
