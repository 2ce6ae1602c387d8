"""Which configuration in the working folder says how a file is read."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats.places import expand
from rl_training.errors import RLTrainingError
from rl_training.experiment.config import read_config
from rl_training.paths import resolved

_USUAL = "config.yaml"  # what `init` writes
_MOST = 20  # others that are looked into


def config_of(path: Path) -> str | None:
    """The name of the configuration whose data are this very file; none where there is none."""
    with suppress(OSError):
        others = (place.name for place in islice(sorted(Path().glob("*.yaml")), _MOST) if place.name != _USUAL)
        for name in (_USUAL, *others):
            if Path(name).is_file() and _is_of(name, path):
                return name
    return None


def _is_of(name: str, path: Path) -> bool:
    with suppress(RLTrainingError, OSError, ValueError):
        section = read_config(name, values={"total_timesteps": 1}).dataset
        if isinstance(section, FileDatasetConfig) and section.columns:
            return resolved(expand(section.path)) == resolved(expand(path))
    return False
