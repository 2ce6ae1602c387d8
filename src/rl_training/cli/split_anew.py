"""The command that sets more episodes aside than were, for a run that too few of them could judge."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rl_training.cli.config_of_file import config_of
from rl_training.cli.data_of_config import reading_of
from rl_training.cli.telling import program
from rl_training.data.dataset_loaders import FileDatasetConfig, MinariDatasetConfig, path_alone
from rl_training.data.formats.places import expand
from rl_training.data.provenance import KEY, Provenance
from rl_training.errors import RLTrainingError
from rl_training.paths import free_names, from_here, in_shell, is_there, resolved
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import run_of

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy

SHARE = 0.5  # of the episodes


class SplitAnew(NamedTuple):
    """A command that can be typed as it stands, and the files that it writes."""

    command: str
    train: str
    aside: str


def split_anew(policy: LoadedPolicy) -> SplitAnew | None:
    """Of the log that the run's data are a part of, or of these themselves; none where that is not at hand."""
    run, section = run_of(policy.place), policy.checkpoint.config.dataset
    if run is None or not isinstance(section, FileDatasetConfig | MinariDatasetConfig):
        return None
    facts = run.describe().get("dataset")
    made = Provenance.read(facts.get(KEY)) if isinstance(facts, Mapping) else None
    split = None if made is None else made.split()
    own = from_here(resolved(expand(section.path))) if isinstance(section, FileDatasetConfig) else Path("log.npz")
    with suppress(RLTrainingError, OSError, ValueError):
        if split is None:
            source: str | None = f"-c {in_shell(from_here(resolved(run.path)) / 'config.yaml')}"
            names = [own.with_name(f"{name}{own.suffix}") for name in ("train", "aside")]
        else:
            source = _of_log(split, own)
            parts = own, own.parent / (split.others or f"aside{own.suffix}")
            names = list(parts if (split.part or "").startswith("all but") else parts[::-1])
        if source is not None:
            train, aside = (f"{name}{'' if own.suffix else '/'}" for name in free_names(*map(str, names)))
            files = f"-o {in_shell(train)} {in_shell(aside)}"
            return SplitAnew(f"{program()} data split {source} --held-out {SHARE:g} {files}", train, aside)
    return None


def _of_log(split: Provenance, part: Path) -> str | None:
    """The words that name the log which was split, and how it was read then: by a configuration that says the same,
    where one is at hand; another one may name other columns of the same log."""
    places = [folder / split.source for folder in (part.parent, Path()) if split.source]
    place = next((place for place in places if is_there(place)), None)
    if place is None:
        return None
    if (config := config_of(place, split.options)) is not None:
        return f"-c {in_shell(config)}"
    values = {"algo": "bc", "total_timesteps": 1, "dataset": {**path_alone(str(place)), **split.options}}
    section = TrainConfig.parse(values).dataset
    options = shlex.join(reading_of(section).options()) if isinstance(section, FileDatasetConfig) else ""
    return f"{in_shell(place)} {options}".rstrip()
