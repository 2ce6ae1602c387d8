"""Which configuration in the working folder says how a file is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rl_training.cli.data_of_config import reading_of
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats.places import expand
from rl_training.errors import RLTrainingError
from rl_training.experiment.config import read_config
from rl_training.paths import resolved
from rl_training.reading_choices import is_said

_USUAL = "config.yaml"  # what `init` writes
_MOST = 20  # others that are looked into


def config_of(path: Path, read: Mapping[str, Any] | None = None) -> str | None:
    """The name of the configuration whose data are this very file; none where there is none. read: the options that it
    has to say of how they are read, all of them and no others."""
    with suppress(OSError):
        others = (place.name for place in islice(sorted(Path().glob("*.yaml")), _MOST) if place.name != _USUAL)
        for name in (_USUAL, *others):
            if Path(name).is_file() and _is_of(name, path, read):
                return name
    return None


def _is_of(name: str, path: Path, read: Mapping[str, Any] | None) -> bool:
    with suppress(RLTrainingError, OSError, ValueError):
        section = read_config(name, values={"total_timesteps": 1}).dataset
        if isinstance(section, FileDatasetConfig) and section.columns:
            same = read is None or _comparable(reading_of(section).said()) == _comparable(read)
            return same and resolved(expand(section.path)) == resolved(expand(path))
    return False


def _comparable(options: Mapping[str, Any]) -> Any:
    """Options as JSON keeps them, what is left as it is left out, and a single name as a list of one."""
    plain = json.loads(json.dumps({name: choice for name, choice in options.items() if is_said(choice)}))
    columns = plain.get("columns")
    if isinstance(columns, dict):
        plain["columns"] = {field: [names] if isinstance(names, str) else names for field, names in columns.items()}
    return plain
