"""Which row ends an episode, and how: the conventions of different logs brought to terminations and truncations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_ENDS, EPISODE_IDS, FIELD_OF, IGNORED_PREFIXES
from rl_training.errors import DataError, did_you_mean


def resolve_names(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays under the names of this package; side information is left out, an unknown name is an error."""
    given: dict[str, Any] = {}
    source: dict[str, str] = {}
    for key, value in mapping.items():
        if str(key).startswith(IGNORED_PREFIXES) or value is None:
            continue
        name = FIELD_OF.get(key)
        if name is None:
            raise DataError(f"unknown field {key!r}{did_you_mean(str(key), FIELD_OF)}")
        if name in given:
            raise DataError(f"{name}: given twice, as {source[name]!r} and {key!r}; keep one")
        given[name], source[name] = value, key
    return given


def complete_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Terminations and truncations from whatever says where episodes end.

    `episode_terminals` mark every episode's last row, as d3rlpy has it, and `terminations` which of them terminated
    (its CartPole data mark the row before the last, too; only a flag on a last row is an end). `episode_ids` change
    where a new episode begins. Given truncations count as they are.
    """
    ends = _episode_ends(given)
    rest = {name: value for name, value in given.items() if name not in (EPISODE_ENDS, EPISODE_IDS)}
    if ends is None:
        return rest
    flags = np.ravel(rest["terminations"]) != 0 if "terminations" in rest else np.zeros(len(ends), dtype=np.bool_)
    if ends.shape != flags.shape:
        raise DataError(f"terminations: {len(flags)} rows, but {len(ends)} tell where episodes end")
    if EPISODE_ENDS in given:
        flags = flags & ends
    truncations = np.ravel(rest["truncations"]) != 0 if "truncations" in rest else False
    return {**rest, "terminations": flags, "truncations": truncations | (ends & ~flags)}


def _episode_ends(given: Mapping[str, Any]) -> npt.NDArray[np.bool_] | None:
    if given.get(EPISODE_ENDS) is not None:
        return np.asarray(np.ravel(given[EPISODE_ENDS]) != 0)
    if given.get(EPISODE_IDS) is None:
        return None
    ids = np.ravel(given[EPISODE_IDS])
    if not len(ids):
        return np.zeros(0, dtype=np.bool_)
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise DataError(f"{EPISODE_IDS}: NaN at row {int(np.argmax(np.isnan(ids)))}; every row needs its episode")
    ends = np.ones(len(ids), dtype=np.bool_)
    ends[:-1] = ids[1:] != ids[:-1]
    first = np.flatnonzero(np.r_[True, ends[:-1]])
    names, counts = np.unique(ids[first], return_counts=True)
    if (counts > 1).any():
        again = names[counts > 1][0]
        row = int(first[ids[first] == again][1])
        raise DataError(f"{EPISODE_IDS}: episode {again} goes on at row {row} after another one; sort rows by episode")
    return ends


def refuse_mixed_dones(
    mapping: Mapping[str, Any], terminations: npt.NDArray[np.bool_], truncations: npt.NDArray[np.bool_]
) -> None:
    """Old logs write `done = terminated or truncated`; read as terminations it would stop every bootstrap."""
    name = next((key for key in ("dones", "done") if mapping.get(key) is not None), None)
    if name and truncations.any() and terminations[truncations].all():
        raise DataError(
            f"{name}: set on every truncated row, so it seems to mean 'terminated or truncated';"
            " give terminations (true ends only) under that name"
        )


def cut_at_time_limit(mapping: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The same arrays with a truncation wherever an episode reaches `steps` rows; refused where they have their own."""
    given = complete_flags(resolve_names(mapping))
    flags = np.ravel(given.get("terminations", ())) != 0
    if "truncations" in given and np.any(given["truncations"]):
        raise DataError("max_episode_steps: the data mark their truncations themselves; leave it out")
    truncations = np.zeros(len(flags), dtype=np.bool_)
    start = 0
    for end in [*np.flatnonzero(flags).tolist(), len(flags) - 1]:
        truncations[start + steps - 1 : end + 1 : steps] = True
        start = end + 1
    return {**given, "truncations": truncations & ~flags}


def d4rl_conversion(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What D4RL's `qlearning_dataset` makes of a file: rows at a time limit and the last row of the file are dropped,
    and every successor is the row that follows. Truncations move to the row before, so that borders stay known."""
    given = {name: np.asarray(values) for name, values in complete_flags(resolve_names(mapping)).items()}
    missing = [name for name in ("obs", "terminations") if name not in given]
    if missing:
        raise DataError(f"dataset lacks {', '.join(missing)}")
    terminated = np.ravel(given["terminations"]) != 0
    limits = np.ravel(given.get("truncations", np.zeros_like(terminated))) != 0
    keep = np.flatnonzero(~limits[:-1])
    last = limits | (np.arange(len(limits)) == len(limits) - 1)
    truncations = np.r_[last[1:], False] & ~terminated
    converted = {name: values[keep] for name, values in given.items() if len(values) == len(limits)}
    return {**converted, "next_obs": given["obs"][keep + 1], "truncations": truncations[keep]}
