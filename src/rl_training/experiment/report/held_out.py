"""Data that were not trained on: read as the run read its own, and held to what it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.dataset_loaders import DatasetConfig, MixtureDatasetConfig, path_alone
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import RLTrainingError
from rl_training.runtime.config import TrainConfig

Sums = npt.NDArray[np.uint64]

_WHERE = ("path", "id", "download")  # of a section: which data, not how they are read
_MOST = 4_000  # held-out rows that are looked for
_BLOCK = 1 << 16  # rows summed at once, so that a memory-mapped field is read through and let go


def read_alike(config: Mapping[str, Any], held_out: str) -> DatasetConfig:
    """The section for `held_out`, with the run's own columns and flags where its data are of the same kind."""
    plain: dict[str, Any] = path_alone(held_out)
    ways: list[dict[str, Any]] = []
    for section in _sections(config):
        if section.source == plain["source"]:
            way = section.model_dump(mode="json", exclude=set(_WHERE))
            ways += [way] if way not in ways else []
    own = ways[0] if len(ways) == 1 else {}  # parts of a mixture that are read in several ways show none
    values = {"algo": "bc", "total_timesteps": 1, "dataset": {**own, **plain}}
    made = TrainConfig.parse(values).dataset
    assert made is not None
    return made


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
