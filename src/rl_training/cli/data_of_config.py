"""`rl-training data check -c CONFIG`, `data convert`, `data split`: the data that a configuration names."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rl_training import yaml_dialect
from rl_training.cli.reading_options import Reading, joined, words_entries
from rl_training.data.dataset_loaders import (
    DatasetConfig,
    FileDatasetConfig,
    MinariDatasetConfig,
    MixtureDatasetConfig,
)
from rl_training.data.formats import MINARI_PREFIX
from rl_training.data.formats.mapping_checks import check_columns, check_texts
from rl_training.data.formats.nearby import near_names
from rl_training.data.formats.places import expand
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.config import read_config
from rl_training.paths import in_shell, is_there

Verb = Literal["check", "convert", "split"]
_NO_BUDGET = {"total_timesteps": 1}  # how long to train need not be said where nothing is trained


def data_of_config(
    name: str, env_id: str | None, reading: Reading, verb: Verb = "check"
) -> tuple[Path, str | None, Reading]:
    """Where the data lie, their environment, and how they are read. verb: what is to be done with them."""
    if given := [word for word in reading.options() if word.startswith("--") and word != "--download"]:
        own = given[0].lstrip("-").partition("=")[0].replace("-", "_")
        entry = {key: value for key, value in reading.said().items() if key == own}
        way = f"leave it out, and write {yaml_dialect.inline(entry)[1:-1]} there, below dataset"
        raise ConfigError(f"{given[0]}: {name} says how its data are read; {way}")
    config = read_config(name, values=_NO_BUDGET)
    env_id = env_id or config.env_id
    match config.dataset:
        case FileDatasetConfig() as section:
            return section.path, env_id, reading_of(section)
        case MinariDatasetConfig() as section:
            said = replace(_common_reading(section), download=reading.download or section.download)
            return Path(f"{MINARI_PREFIX}{section.id}"), env_id, said
        case MixtureDatasetConfig() as section:
            raise ConfigError(f"{name}: its data are a mixture; {_by_parts(section, verb)}")
        case None:
            raise ConfigError(f"{name}: names no data (dataset), there is nothing to {verb}")
        case section:
            made = f"{name}: its data ({section.source}) are made when it is trained; nothing to {verb}"
            raise ConfigError(made + ("; another seed makes others to judge a policy by" if verb == "split" else ""))


def _by_parts(mixture: MixtureDatasetConfig, verb: Verb) -> str:
    """What to do with a mixture: the same with every file of it."""
    paths = [part.dataset.path for part in mixture.parts if isinstance(part.dataset, FileDatasetConfig)]
    path = paths[0] if paths else Path("FILE.npz")
    command = f"`rl-training data {verb} {in_shell(path)}"
    if verb != "split":
        return f"{verb} every part of it, {command}{' TARGET.npz' if verb == 'convert' else ''}`"
    ways = " ".join(shlex.quote(f"{path.stem}_{name}.npz") for name in ("train", "held_out"))
    return f"split every part of it by itself, {command} -o {ways}`, and name what is to train on in its parts"


def check_files(name: str, section: DatasetConfig | None, place: str = "dataset") -> list[str]:
    """Hold the columns that a configuration names to the headers of its files; what is not there is told."""
    if isinstance(section, MixtureDatasetConfig):
        parts = [check_files(name, part.dataset, f"{place}.parts.{n}") for n, part in enumerate(section.parts)]
        return [said for part in parts for said in part]
    if not isinstance(section, FileDatasetConfig):
        return []
    path = expand(section.path)
    if not is_there(path):
        return [f"its data, {section.path}, are not here{near_names(path)}"]
    try:
        check_columns(path, section.columns, section.table_choices())
        check_texts(path, section.columns, section.table_choices())
    except DataError as error:
        raise DataError(f"{name}: {place}: {section.path}: {error}") from None
    return []


def reading_of(section: FileDatasetConfig) -> Reading:
    """How a section says that its file is read, as the options of a command line."""
    return replace(
        _common_reading(section),
        dones_are=section.dones_are,
        end_reasons=[f"{text}={meaning}" for text, meaning in (section.end_reasons or {}).items()] or None,
        action_low=_side(section.action_low),
        action_high=_side(section.action_high),
        missing_words=joined(section.missing_words) if section.missing_words else None,
        words=words_entries(section.words or {}) or None,
        duplicates=section.duplicates,
        episode_each=section.episode_each,
        observe_time=",".join(section.observe_time) or None,
        last_rows_are=section.last_rows_are,
    )


def _common_reading(section: FileDatasetConfig | MinariDatasetConfig) -> Reading:
    """What can be said of any data that have a section of their own."""
    return Reading(
        columns=_columns(section.columns),
        time_limits=section.time_limits,
        max_episode_steps=section.max_episode_steps,
        rewards_are=section.rewards_are,
        rewards_at=section.rewards_at,
        at_termination=_added(section.at_termination),
        missing=section.missing,
    )


def _side(side: float | list[float] | None) -> str | None:
    return None if side is None else ",".join(map(str, side if isinstance(side, list) else [side]))


def _added(at_termination: float | dict[str, float] | None) -> list[str] | None:
    """A number, or `crash=-100` for every reason, as `--at-termination` takes it."""
    if isinstance(at_termination, dict):
        return [f"{text}={value}" for text, value in at_termination.items()]
    return None if at_termination is None else [str(at_termination)]


def _columns(columns: dict[str, str | list[str]] | None) -> list[str] | None:
    """`obs=x,y` for every field, as `--columns` takes it."""
    if columns is None:
        return None
    return [f"{field}={joined([names] if isinstance(names, str) else names)}" for field, names in columns.items()]
