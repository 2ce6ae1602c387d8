"""Data that were not trained on: read as the run read its own, and held to what it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import column_extremes, rounding_slack
from rl_training.data.dataset_loaders import DatasetConfig, MixtureDatasetConfig, path_alone
from rl_training.data.fields import REQUIRED_FIELDS
from rl_training.data.formats import MINARI_PREFIX, recognise
from rl_training.data.formats.csv_text import layout_of
from rl_training.data.formats.folders import files_of
from rl_training.data.formats.places import locate
from rl_training.data.formats.written import provenance_in
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.termination_rewards import NAME as AT_TERMINATION
from rl_training.environments import Spaces
from rl_training.errors import RLTrainingError
from rl_training.experiment.report.bounds import bounds_in_words
from rl_training.reading_choices import is_said
from rl_training.runtime.config import TrainConfig

Sums = npt.NDArray[np.uint64]

_WHERE = ("path", "id", "download")  # of a section: which data, not how they are read
_NAME_COLUMNS = (
    *("columns", "dones_are", "end_reasons", "missing_words", "words", "duplicates", "episode_each", "observe_time"),
)
_CHANGE_VALUES = (
    *("rewards_are", "rewards_at", AT_TERMINATION, "last_rows_are", "time_limits", "max_episode_steps", "missing"),
)
_MOST = 4_000  # held-out rows that are looked for
_BLOCK = 1 << 16  # rows summed at once, so that a memory-mapped field is read through and let go


class Alike(NamedTuple):
    """How other data are read, and what the user should know of it."""

    section: DatasetConfig
    notes: tuple[str, ...] = ()


def read_alike(config: Mapping[str, Any], held_out: str) -> Alike:
    """The section for `held_out`, with the run's own columns and flags where its data are of the same kind, but for
    what was applied when this package wrote them."""
    plain: dict[str, Any] = path_alone(held_out)
    ways: list[dict[str, Any]] = []
    for section in _sections(config):
        if section.source == plain["source"]:
            way = section.model_dump(mode="json", exclude=set(_WHERE))
            ways += [way] if way not in ways else []
    own = ways[0] if len(ways) == 1 else {}  # parts of a mixture that are read in several ways show none
    own, notes = _not_twice(own, plain)
    values = {"algo": "bc", "total_timesteps": 1, "dataset": {**own, **plain}}
    made = TrainConfig.parse(values).dataset
    assert made is not None
    return Alike(made, notes)


def _not_twice(own: dict[str, Any], plain: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What of the run's own ways is still to be said of data that may have been written here, and a note on the rest.

    What names columns and texts is of no use with the names that are written; what changes values was said already or
    not, as the file tells."""
    named = f"{MINARI_PREFIX}{plain['id']}" if plain["source"] == "minari" else str(plain.get("path", ""))
    try:
        place = locate(named)
        kind = recognise(place)
        told, by_names = provenance_in(place, kind), kind == "csv" and _has_written_names(place, own)
    except (RLTrainingError, OSError, ValueError):
        return own, ()  # said when they are opened
    changing = {name: own[name] for name in _CHANGE_VALUES if is_said(own.get(name))}
    if told is None and not by_names:
        return own, ()
    if told is None and not own.get("columns"):
        doubtful = f"{_listed(changing)} is applied to it as to the run's own data; if it was written from such by"
        return own, (f"{doubtful} `data split` or `convert`, it is applied twice",) if changing else ()
    applied = changing if told is None else told.applied()
    done = {name: applied[name] for name in changing if name in applied}
    left = {name: choice for name, choice in own.items() if name not in (*_NAME_COLUMNS, *done)}
    by = "by its columns" if told is None else "as it tells"
    notes = [f"it was written with {_listed(done)}, {by}, which is not applied again"] if done else []
    if isinstance(left.get(AT_TERMINATION), Mapping):  # the texts are not in what was written
        numbers = left.pop(AT_TERMINATION)
        notes.append(
            f"its rewards are without {_listed({AT_TERMINATION: numbers})}, as it keeps no reasons; write it anew with"
            " --at-termination"
        )
    return left, tuple(notes)


def _listed(choices: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {choice}" for name, choice in choices.items())


def _has_written_names(path: Path, own: Mapping[str, Any]) -> bool:
    """Whether a table has the columns that are written here, and not those that the run names for its own data."""
    names = layout_of(files_of(path, "csv")[0]).names
    stems = {name.rstrip("0123456789").removesuffix("_") for name in names}
    given = [
        one for found in (own.get("columns") or {}).values() for one in ([found] if isinstance(found, str) else found)
    ]
    return {*REQUIRED_FIELDS, "next_obs", "truncations"} <= stems and not any(name in names for name in given)


def _sections(config: Mapping[str, Any]) -> list[DatasetConfig]:
    try:
        section = TrainConfig.parse(dict(config)).dataset
    except RLTrainingError:
        return []
    return [] if section is None else list(_parts(section))


def _parts(section: DatasetConfig) -> Iterator[DatasetConfig]:
    if isinstance(section, MixtureDatasetConfig):
        for part in section.parts:
            yield from _parts(part.dataset)
    else:
        yield section


def outside_in_words(data: TransitionDataset, spaces: Spaces) -> list[str]:
    """A word on actions outside the bounds that a policy was trained with, by more than rounding, if there are any."""
    low, high = np.asarray(spaces.action_low), np.asarray(spaces.action_high)
    slack = rounding_slack(low, high)
    least, most = column_extremes(data.actions)
    if (least >= low - slack).all() and (most <= high + slack).all():
        return []
    outside = int(((data.actions < low - slack) | (data.actions > high + slack)).any(-1).sum())
    bounds = bounds_in_words(list(zip(spaces.action_low, spaces.action_high, strict=True)))
    lies = "lies" if outside == 1 else "lie"
    some = f"{outside:,} of {len(data):,} actions {lies}"
    return [f"{some} outside the bounds the policy was trained with ({bounds}); clipped"]


def clipped(data: TransitionDataset, spaces: Spaces) -> tuple[TransitionDataset, list[str]]:
    """The data with actions inside the bounds that a policy was trained with, and a word on those that were not; of
    another width, which is refused elsewhere, as they are."""
    if data.act_dim != spaces.act_dim or not (said := outside_in_words(data, spaces)):
        return data, []
    inside = np.clip(data.actions, spaces.action_low, spaces.action_high).astype(np.float32)
    return replace(data, actions=inside), said


def share_seen(held: TransitionDataset, trained: TransitionDataset) -> float:
    """The share of the held-out rows (of some, spread over all) that are among the rows trained on."""
    if (held.obs_dim, held.act_dim) != (trained.obs_dim, trained.act_dim):
        return 0.0
    rows = np.unique(np.linspace(0, len(held) - 1, min(len(held), _MOST)).astype(np.int64))
    asked = _sums(held, rows)
    found = np.zeros(len(asked), dtype=np.bool_)
    for start in range(0, len(trained), _BLOCK):
        found |= np.isin(asked, _sums(trained, slice(start, start + _BLOCK)))
    return float(found.mean())


def _sums(data: TransitionDataset, rows: npt.NDArray[np.int64] | slice) -> Sums:
    """A sum of 64 bits over observation, action and reward of each row."""
    fields = (np.asarray(values[rows], dtype=np.float32) for values in (data.obs, data.actions, data.rewards))
    table = np.concatenate([values.reshape(len(values), -1) for values in fields], axis=1) + np.float32(0)  # no -0
    factors = np.random.default_rng(0).integers(1, 2**63, table.shape[1], dtype=np.uint64) | np.uint64(1)
    bits = np.ascontiguousarray(table).view(np.uint32).astype(np.uint64)
    return np.asarray((bits * factors).sum(axis=1, dtype=np.uint64))
