"""What a Minari dataset says of its own size, held against what it has: a copy may have been cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from rl_training.data.formats.hdf5_files import attributes
from rl_training.errors import DataError
from rl_training.wording import WARNING, amount

_STEPS, _EPISODES = "total_steps", "total_episodes"


def check_episode(name: str, episode: h5py.Group, steps: int) -> None:
    """Refuse an episode that has fewer or more steps than it says itself."""
    said = _count(attributes(episode, [_STEPS]).get(_STEPS))
    if said is not None and said != steps:
        way = "write the episode anew, or leave it out"
        raise DataError(f"{name}: has {amount(steps, 'step')}, but its {_STEPS} says {said:,}; {way}")


def doubts_about(metadata: Mapping[str, Any], names: Sequence[str], steps: int) -> tuple[str, ...]:
    """A warning where the dataset tells of other counts than it has, or the numbers of its episodes have a gap."""
    held = {_EPISODES: len(names), _STEPS: steps}
    told = {key: _count(metadata.get(key)) for key in held}
    differ = [
        f"{key} says {said:,}, but there are {held[key]:,}"
        for key, said in told.items()
        if said is not None and said != held[key]
    ]
    numbers = {int(name.removeprefix("episode_")) for name in names}
    if (gap := next((number for number in range(len(numbers)) if number not in numbers), None)) is not None:
        differ.append(f"episode_{gap} is missing, and there is episode_{max(numbers)}")
    return (f"{WARNING}{'; '.join(differ)}: a part of the dataset may be lost",) if differ else ()


def _count(value: Any) -> int | None:
    """A whole number that was told, if it is one."""
    found = np.asarray(value)
    return int(found) if found.shape == () and found.dtype.kind in "iu" else None
