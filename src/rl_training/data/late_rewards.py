"""Rewards that a log holds one row too late, brought back to the step that earned them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.fields import EPISODE_IDS, FIELD_OF, TELL_ENDS
from rl_training.data.flags import complete_flags, resolve_names
from rl_training.data.formats.raw import RawData
from rl_training.errors import DataError
from rl_training.wording import amount


def from_next_rows(raw: RawData) -> RawData:
    """`raw`, whose flags are settled, with the reward of every row taken from the one after it.

    The last row of an episode has none: what its action led to is not recorded, and it goes. The row before it keeps
    its successor and is cut there, also where the episode terminated: that step's reward is not known.
    """
    arrays = raw.arrays
    named = {field: key for key in arrays if (field := FIELD_OF.get(key)) is not None}
    if "rewards" not in named or "obs" not in named:
        return raw  # for the checks to complain about
    rewards = np.asarray(arrays[named["rewards"]])
    if rewards.ndim != 1 or len(np.asarray(arrays[named["obs"]])) != len(rewards):
        return raw
    flags = complete_flags(resolve_names(arrays))
    nowhere = np.zeros(len(rewards), dtype=np.bool_)
    terminated = np.asarray(flags.get("terminations", nowhere)).reshape(-1) != 0
    ends = terminated | (np.asarray(flags.get("truncations", nowhere)).reshape(-1) != 0)
    ends[-1:] = True
    kept = np.flatnonzero(~ends)
    if not len(kept):
        raise DataError("rewards_at: next: every episode has one row, so that no step's reward is recorded")
    gone = {*TELL_ENDS, "returns_to_go"} - {EPISODE_IDS}  # which are the names of episodes, besides
    told = {key: values for key, values in arrays.items() if FIELD_OF.get(key) not in gone}
    told = {key: np.asarray(values)[kept] if key in FIELD_OF else values for key, values in told.items()}
    told[named["rewards"]] = rewards[kept + 1]
    if "next_obs" not in named:
        told["next_obs"] = np.asarray(arrays[named["obs"]])[kept + 1]
    told |= {"terminations": np.zeros(len(kept), dtype=np.bool_), "truncations": ends[kept + 1]}
    note = (
        f"rewards are those of the row after (rewards_at: next); the last rows of {amount(int(ends.sum()), 'episode')}"
    )
    lost = int(terminated.sum())
    note += " have none and are left out" + (f", {lost:,} of them terminations" if lost else "")
    note += "; the file's returns_to_go are of other rewards, and left out" if "returns_to_go" in named else ""
    return replace(raw.of_rows(kept), arrays=told, notes=(*raw.notes, note))
