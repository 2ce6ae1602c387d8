"""The `dataset:` section of a configuration, and the dataset it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from rl_training.data.checks import column_extremes
from rl_training.data.doctor.screening import screened
from rl_training.data.few_episodes import of_one_episode
from rl_training.data.fields import TO_FILL_IN
from rl_training.data.formats.end_reasons import still_to_do
from rl_training.data.formats.places import MINARI_PREFIX, expand, locate
from rl_training.data.generation import PENDULUM, generate_pendulum_dataset, generate_random_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import mix_datasets
from rl_training.data.reading_options import (
    AT_TERMINATION,
    MAX_EPISODE_STEPS,
    MISSING,
    REWARDS_ARE,
    REWARDS_AT,
    TIME_LIMITS,
    ReadingOptions,
    SaidOfRewards,
)
from rl_training.data.section_texts import columns_by_field, rewards_by_text
from rl_training.data.space_bounds import action_bounds, bounds_in_words
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.paths import resolved
from rl_training.reading_choices import Missing, Refused, RewardsAt, TimeLimits
from rl_training.validation import Section
from rl_training.wording import amount


class ScriptedDatasetConfig(Section):
    """Transitions of a scripted behaviour of mixed quality (Pendulum-v1 only)."""

    source: Literal["scripted"] = Field(default="scripted", description="Run the scripted mixed-quality behaviour.")
    size: int = Field(default=40_000, ge=1, description="Number of transitions.")
    seed: int = Field(default=0, ge=0, description="Seed of the resets and of the behaviour's noise.")


class RandomDatasetConfig(Section):
    """Transitions of uniformly random actions in any environment with Box spaces."""

    source: Literal["random"] = Field(default="random", description="Take uniformly random actions.")
    size: int = Field(default=40_000, ge=1, description="Number of transitions.")
    seed: int = Field(default=0, ge=0, description="Seed of the resets and of the actions.")


_ACCEPT: list[Refused] = Field(
    default=[], description="Errors of `data check`, by their codes, to train in spite of: [successors.reset]."
)
_Columns = Annotated[dict[str, str | list[str]], BeforeValidator(columns_by_field)]


class MappedDatasetConfig(Section):
    """Data whose columns may be mapped to fields."""

    @field_validator("columns", mode="after", check_fields=False)
    @classmethod
    def _are_filled_in(cls, columns: dict[str, str | list[str]] | None) -> dict[str, str | list[str]] | None:
        """What `rl-training init` could not guess must be said before anything is read."""
        given = {field: [names] if isinstance(names, str) else names for field, names in (columns or {}).items()}
        if left := [field for field, names in given.items() if TO_FILL_IN in names]:
            raise ValueError(
                f"{still_to_do(left)}; name the column, or columns, that hold {'it' if len(left) == 1 else 'them'}"
            )
        return columns


class _FileOfData(MappedDatasetConfig):
    """What stands first in a section that reads a file."""

    source: Literal["file"] = Field(default="file", description="Read a file.")
    path: Path = Field(description="The file; its format is recognised by its content; ~ stands for the home folder.")
    columns: _Columns | None = Field(
        default=None, description="Which columns, or arrays, hold which field: {obs: [x, y], actions: u, rewards: r}."
    )


class FileDatasetConfig(ReadingOptions, _FileOfData):
    """Transitions read from a file."""

    accept: list[Refused] = _ACCEPT


class MinariDatasetConfig(MappedDatasetConfig):
    """Transitions of a Minari dataset."""

    source: Literal["minari"] = Field(default="minari", description="Read a Minari dataset by its id.")
    id: str = Field(min_length=1, description="Such as D4RL/door/human-v2, in MINARI_DATASETS_PATH or ~/.minari.")
    download: bool = Field(default=False, description="Fetch it where it is not on this machine yet.")
    columns: _Columns | None = Field(
        default=None, description="Which entries of Dict observations to use: {obs: [observation, desired_goal]}."
    )
    time_limits: TimeLimits = TIME_LIMITS
    max_episode_steps: int | None = MAX_EPISODE_STEPS
    rewards_are: SaidOfRewards = REWARDS_ARE
    rewards_at: RewardsAt = REWARDS_AT
    at_termination: Annotated[float | dict[str, float], BeforeValidator(rewards_by_text)] | None = AT_TERMINATION
    missing: Missing = MISSING
    accept: list[Refused] = _ACCEPT


class MixturePart(Section):
    """One dataset of a mixture."""

    dataset: DatasetConfig = Field(description="Any dataset section, or just the path of a file.")
    weight: float | None = Field(default=None, gt=0.0, description="How often it is drawn; none: by its rows.")
    name: str | None = Field(default=None, min_length=1, description="What messages call it; none: its source or path.")

    @field_validator("dataset", mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return path_alone(value)


class MixtureDatasetConfig(Section):
    """Several datasets in one, each drawn by its weight."""

    source: Literal["mixture"] = Field(default="mixture", description="Mix several datasets.")
    parts: list[MixturePart] = Field(min_length=1, description="The datasets and their weights.")
    exact: bool = Field(default=False, description="Hold the shares in every batch, instead of on average.")

    @model_validator(mode="after")
    def _all_or_none(self) -> MixtureDatasetConfig:
        given = [part.weight is not None for part in self.parts]
        if any(given) and not all(given):
            raise ValueError("give every part a weight, or none")
        return self


DatasetConfig = Annotated[
    ScriptedDatasetConfig | RandomDatasetConfig | FileDatasetConfig | MinariDatasetConfig | MixtureDatasetConfig,
    Field(discriminator="source"),
]
MixturePart.model_rebuild()
MixtureDatasetConfig.model_rebuild()


def path_alone(value: Any) -> Any:
    """`dataset: log.npz` is short for a file, `dataset: minari:ID` for a Minari dataset."""
    if isinstance(value, str) and value.startswith(MINARI_PREFIX):
        return {"source": "minari", "id": value.removeprefix(MINARI_PREFIX)}
    if isinstance(value, list | tuple):
        raise ValueError(
            "must be one dataset; several are mixed: {source: mixture, parts: [{dataset: a.npz}, {dataset: b.npz}]}"
        )
    return {"source": "file", "path": value} if isinstance(value, str | Path) else value


def with_absolute_paths(config: DatasetConfig) -> DatasetConfig:
    """The same data from any folder: a run can be resumed from elsewhere."""
    match config:
        case FileDatasetConfig():
            return config.model_copy(update={"path": resolved(expand(config.path))})
        case MixtureDatasetConfig():
            parts = [p.model_copy(update={"dataset": with_absolute_paths(p.dataset)}) for p in config.parts]
            return config.model_copy(update={"parts": parts})
        case _:
            return config


def load_dataset(
    config: DatasetConfig, env_id: str | None, spaces: Spaces | None, *, refuse: bool = True
) -> TransitionDataset:
    """Generate or read the configured dataset and hold it to the environment's spaces, where they are known.

    What was read is screened for what `data check` would find at little cost: an error is refused, or only told.
    """
    match config:
        case ScriptedDatasetConfig():
            dataset = _scripted(config, env_id)
        case RandomDatasetConfig():
            if env_id is None:
                raise ConfigError(
                    "dataset.source: 'random' runs an environment; set env_id, or use source: file or minari"
                )
            dataset = generate_random_dataset(env_id, config.size, config.seed)
        case FileDatasetConfig():
            dataset = TransitionDataset.load(config.path, columns=config.columns, **config.every())
        case MinariDatasetConfig():
            dataset = _read_minari(config)
        case MixtureDatasetConfig():
            dataset = _mixed(config, env_id, spaces, refuse)
    if spaces is not None:
        _refuse_other_bounds(config, spaces, env_id)
        source = str(config.path) if isinstance(config, FileDatasetConfig) else f"{_title(config)} dataset"
        check_spaces(dataset, spaces, source, env_id)
    if isinstance(config, FileDatasetConfig | MinariDatasetConfig):
        is_file, known = isinstance(config, FileDatasetConfig), spaces is not None
        source = str(config.path) if isinstance(config, FileDatasetConfig) else config.id
        way = f"dataset: {{source: {'file, path' if is_file else 'minari, id'}: …, accept: [CODE]}}"
        dataset = screened(dataset.accepting(*config.accept), source, way, bounds_known=known, refuse=refuse)
    return dataset


def screen_arrays(dataset: TransitionDataset, spaces: Spaces | None, *, refuse: bool = True) -> TransitionDataset:
    """As `load_dataset` does with what it has read."""
    return screened(dataset, "dataset", "dataset.accepting('CODE')", bounds_known=spaces is not None, refuse=refuse)


def infer_spaces(dataset: TransitionDataset) -> Spaces:
    """Spaces of data that come without an environment; see `action_bounds`."""
    least, most, _ = action_bounds(dataset.bounds, *column_extremes(dataset.actions))
    for column in np.flatnonzero(least >= most).tolist():
        name = None if dataset.in_file is None else dataset.in_file.column_in_file("actions", column)
        raise DataError(
            f"actions: column {column if name is None else repr(name)} is always {least[column]:g}, so its bounds"
            " cannot be inferred; leave it out, give action_low and action_high, or set env_id"
        )
    return Spaces(dataset.obs_dim, tuple(least.tolist()), tuple(most.tolist()))


def _scripted(config: ScriptedDatasetConfig, env_id: str | None) -> TransitionDataset:
    if env_id not in (None, PENDULUM):
        raise ConfigError(
            f"dataset.source: 'scripted' has no policy for {env_id!r}, only for {PENDULUM!r}; use source: random"
        )
    return generate_pendulum_dataset(config.size, config.seed)


def _mixed(config: MixtureDatasetConfig, env_id: str | None, spaces: Spaces | None, refuse: bool) -> TransitionDataset:
    names = [part.name or _title(part.dataset) for part in config.parts]
    unique = [name if names.count(name) == 1 else f"{name} (part {i + 1})" for i, name in enumerate(names)]
    if len(set(unique)) < len(unique):
        raise ConfigError(f"dataset.parts: names must differ, got {', '.join(names)}")
    parts = {
        name: load_dataset(part.dataset, env_id, spaces, refuse=refuse)
        for name, part in zip(unique, config.parts, strict=True)
    }
    weights = {name: part.weight for name, part in zip(unique, config.parts, strict=True) if part.weight is not None}
    return mix_datasets(parts, weights or None, exact=config.exact)


def _refuse_other_bounds(config: DatasetConfig, spaces: Spaces, env_id: str | None) -> None:
    """An environment has bounds; others that are said for its data would not be used."""
    if not isinstance(config, FileDatasetConfig) or config.action_low is None or config.action_high is None:
        return
    said = (np.broadcast_to(side, spaces.act_dim) for side in (config.action_low, config.action_high))
    if not all(np.allclose(one, own) for one, own in zip(said, (spaces.action_low, spaces.action_high), strict=True)):
        own = bounds_in_words(spaces.action_low, spaces.action_high)
        where = env_id or "the environment"
        raise ConfigError(f"dataset.action_low: {where} has bounds of its own, {own}; leave out these, or env_id")


def _title(config: DatasetConfig) -> str:
    match config:
        case FileDatasetConfig():
            return config.path.name
        case MinariDatasetConfig():
            return config.id
        case _:
            return config.source


def _read_minari(config: MinariDatasetConfig) -> TransitionDataset:
    folder = locate(f"{MINARI_PREFIX}{config.id}", download=config.download)
    return TransitionDataset.load(
        folder,
        columns=config.columns,
        time_limits=config.time_limits,
        max_episode_steps=config.max_episode_steps,
        rewards_are=config.rewards_are,
        rewards_at=config.rewards_at,
        at_termination=config.at_termination,
        missing=config.missing,
    )


def check_spaces(dataset: TransitionDataset, spaces: Spaces, source: str, env_id: str | None, owner: str = "") -> None:
    """Refuse data of other widths or action bounds than the environment's, or else the owner's; source: of the data."""
    owner = f"environment {env_id!r}" if env_id else owner or "the expected space"
    widths = (("observations", dataset.obs_dim, spaces.obs_dim), ("actions", dataset.act_dim, spaces.act_dim))
    for name, found, expected in widths:
        if found != expected:
            raise DataError(f"{source}: {name} have {amount(found, 'column')}, but {owner} has {expected}")
    try:
        dataset.check_bounds(spaces.action_low, spaces.action_high)
    except DataError as error:
        raise DataError(f"{source}: {error} of {owner}") from error


def data_notices(dataset: TransitionDataset, env_id: str | None) -> list[str]:
    """What the user should know of the data before they are trained on."""
    notices = list(dataset.notes)
    if dataset.env_id is not None and env_id is None:
        notices.append(f"the data name their environment, {dataset.env_id}: set env_id to have policies evaluated")
    elif dataset.env_id not in (None, env_id):
        notices.append(f"the data were recorded in {dataset.env_id}, as they say themselves, not in {env_id}")
    notices += of_one_episode(dataset)
    unknown = len(dataset) - dataset.n_usable
    if unknown == len(dataset):
        way = "where the task is over at the last row of an episode, say last_rows_are: termination"
        raise DataError(f"dataset: next_obs: no row has a recorded successor; nothing can be trained on; {way}")
    if unknown:
        notices.append(
            f"{unknown:,} of {amount(len(dataset), 'row')} not trained on: they end an episode that did not terminate,"
            " and the next observation was not recorded"
        )
    return notices
