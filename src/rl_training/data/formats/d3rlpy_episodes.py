"""HDF5 as `ReplayBuffer.dump` of d3rlpy 2 writes it: `observations_0`, `actions_0`, … for every episode."""

from __future__ import annotations

import re
from typing import Any

import h5py
import numpy as np

from rl_training.data.fields import DISCRETE_ACTIONS, EPISODE_ENDS
from rl_training.data.formats.hdf5 import SharedReads, array_in, check_sizes
from rl_training.data.formats.raw import Arrays, RawData
from rl_training.errors import DataError

FIELDS = ("observations", "actions", "rewards")
ENDED = "terminated"  # one value per episode


def is_layout(file: h5py.File) -> bool:
    """Whether the file has an episode of it; `observations_0_0` is one of several observations per step."""
    several = "observations_0_0" in file
    return all(f"{name}_0" in file for name in (*FIELDS[1:], ENDED)) and (several or "observations_0" in file)


def count(file: h5py.File) -> int:
    """Episodes, which are numbered from 0."""
    episodes = 0
    while f"{FIELDS[1]}_{episodes}" in file:
        episodes += 1
    return episodes


def read(file: h5py.File) -> RawData:
    """All episodes one after another; an episode that did not terminate was cut."""
    if "observations_0_0" in file:
        raise DataError("observations: several per step (d3rlpy's tuples); join them to one vector and write it again")
    episodes = range(count(file))
    named = [re.fullmatch(rf"{FIELDS[1]}_([0-9]{{1,9}})", name) for name in file]
    if (last := max((int(found[1]) for found in named if found), default=-1)) >= len(episodes):
        lacks = f"lacks {FIELDS[1]}_{len(episodes)}, but holds {FIELDS[1]}_{last}"
        raise DataError(f"{lacks}; number the episodes from 0 without a gap")
    held = {name: [array_in(file, f"{name}_{i}") for i in episodes] for name in FIELDS}
    ended = [array_in(file, f"{ENDED}_{i}") for i in episodes]
    check_sizes([array for arrays in (*held.values(), ended) for array in arrays], flags=ended)
    lengths = [len(array) if array.ndim else 0 for array in held["observations"]]
    for name, arrays in held.items():
        for episode, array in enumerate(arrays):
            _check(name, episode, array, lengths[episode], arrays[0].shape[1:])
    rows = np.cumsum(lengths) - 1
    terminals, ends = np.zeros(sum(lengths), dtype=np.bool_), np.zeros(sum(lengths), dtype=np.bool_)
    ends[rows] = True
    terminals[rows] = [_flag(episode, array) for episode, array in enumerate(ended)]
    values = SharedReads(array for arrays in held.values() for array in arrays)
    joined: Arrays = {name: np.concatenate([values(array) for array in arrays]) for name, arrays in held.items()}
    marks: Arrays = {DISCRETE_ACTIONS: np.array(True)} if joined["actions"].dtype.kind in "biu" else {}
    return RawData({**joined, "terminals": terminals, EPISODE_ENDS: ends, **marks}, "HDF5, d3rlpy 2's layout")


def _check(name: str, episode: int, array: Any, rows: int, shape: tuple[int, ...]) -> None:
    if not array.ndim or not len(array):
        raise DataError(f"{name}_{episode}: holds no rows; leave out the episode")
    if len(array) != rows:
        raise DataError(f"{name}_{episode}: {len(array)} rows, but observations_{episode} has {rows}")
    if array.shape[1:] != shape:
        raise DataError(f"{name}_{episode}: a row has shape {array.shape[1:]}, but {shape} in {name}_0")


def _flag(episode: int, array: Any) -> bool:
    if array.size != 1 or (value := np.asarray(array[()]).item()) not in (0, 1):
        raise DataError(f"{ENDED}_{episode}: must be one flag, 0 or 1 (or a boolean)")
    return bool(value)
