"""Which row ends an episode, and how: the conventions of different logs brought to terminations and truncations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import (
    FaultyValueError,
    IndexArray,
    as_array,
    as_numbers,
    as_vector,
    check_flag_values,
    check_rows,
)
from rl_training.data.fields import (
    EPISODE_ENDS,
    EPISODE_IDS,
    FIELD_OF,
    IGNORED_PREFIXES,
    TELL_ENDS,
    hint,
)
from rl_training.errors import DataError, did_you_mean
from rl_training.reading_choices import DonesAre
from rl_training.validation import shown
from rl_training.wording import amount

if TYPE_CHECKING:
    from rl_training.data.rows_told import RowsTold

DONES = ("dones", "done")
_END_FLAGS = ("terminations", "truncations")
SHORTEST_TIME_LIMIT = 10  # rows; episodes of one length below it say nothing about what ended them


def resolve_names(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays under the names of this package, with as many rows each; an unknown name is an error.

    Side information is left out.
    """
    given: dict[str, Any] = {}
    source: dict[str, str] = {}
    for key, value in mapping.items():
        if str(key).startswith(IGNORED_PREFIXES) or value is None:
            continue
        name = FIELD_OF.get(key)
        if name is None:
            meant, looks = did_you_mean(str(key), FIELD_OF), hint(str(key), ())
            how = meant if meant or looks is None else f"; {looks}"
            raise DataError(f"unknown field {key!r}{how or '; files with other names are read with columns: {obs: …}'}")
        if name in given:
            how = ", or read the file with dones_are: ends" if {key, source[name]} & set(DONES) else ""
            raise DataError(f"{name}: given twice, as {source[name]!r} and {key!r}; keep one{how}")
        given[name], source[name] = as_array(name, value), key
    check_rows(given)
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
    flags = _flags("terminations", rest.get("terminations", np.zeros(len(ends))))
    if EPISODE_ENDS in given:
        flags = flags & ends
    truncations = _flags("truncations", rest.get("truncations", np.zeros(len(ends))))
    return {**rest, "terminations": flags, "truncations": truncations | (ends & ~flags)}


def _flags(name: str, values: Any) -> npt.NDArray[np.bool_]:
    """`[N]` booleans; what is neither 0 nor 1 is refused, and a missing value is no flag either."""
    flat = as_vector(name, as_numbers(name, values))
    check_flag_values({name: flat})
    return np.asarray(flat != 0)


def _episode_ends(given: Mapping[str, Any]) -> npt.NDArray[np.bool_] | None:
    """Last rows of episodes, `[N]`, by whatever tells them; where two do, either of them ends one."""
    marked = None if given.get(EPISODE_ENDS) is None else _flags(EPISODE_ENDS, given[EPISODE_ENDS])
    changed = None if given.get(EPISODE_IDS) is None else _ends_by_id(given[EPISODE_IDS])
    return changed if marked is None else marked if changed is None else marked | changed


def _ends_by_id(values: Any) -> npt.NDArray[np.bool_]:
    """Last rows of episodes, `[N]`: those before the id changes."""
    ids = as_vector(EPISODE_IDS, np.asarray(values))
    if not len(ids):
        return np.zeros(0, dtype=np.bool_)
    _require_ids(ids)
    ends = np.ones(len(ids), dtype=np.bool_)
    try:
        ends[:-1] = ids[1:] != ids[:-1]
        first = np.flatnonzero(np.r_[True, ends[:-1]])
        names, counts = np.unique(ids[first], return_counts=True)
    except (TypeError, ValueError) as error:  # of objects, whatever they are
        raise DataError(f"{EPISODE_IDS}: must be numbers or names, all of one kind") from error
    if (counts > 1).any():
        again = names[counts > 1][0]
        row = int(first[ids[first] == again][1])
        rule = (
            "after another one; sort rows by episode, or name the column that counts its steps, if a table has one"
            " (columns: step)"
        )
        raise FaultyValueError(EPISODE_IDS, f"episode {again} goes on", row, None, None, rule, joint=" ")
    return ends


def _require_ids(ids: npt.NDArray[Any]) -> None:
    """Refuse ids of a kind that tells nothing apart, and rows without one."""
    if ids.dtype.kind in "cV":
        raise DataError(f"{EPISODE_IDS}: must be numbers or names, got dtype {shown(str(ids.dtype))}")
    if ids.dtype.kind == "O":  # whatever they are: what cannot be compared is told there
        return
    missing = np.char.str_len(ids) == 0 if ids.dtype.kind in "SU" else ids != ids  # NaN and NaT
    if missing.any():
        what = "nothing" if ids.dtype.kind in "SU" else "NaT" if ids.dtype.kind in "mM" else "NaN"
        raise DataError(f"{EPISODE_IDS}: {what} at row {int(np.argmax(missing))}; every row needs its episode")


def refuse_mixed_dones(
    mapping: Mapping[str, Any], terminations: npt.NDArray[np.bool_], truncations: npt.NDArray[np.bool_]
) -> None:
    """Old logs write `done = terminated or truncated`; read as terminations it would stop every bootstrap."""
    name = _name_of_dones(mapping)
    if name and truncations.any() and terminations[truncations].all():
        raise DataError(
            f"{name}: set on every truncated row, so it seems to mean 'terminated or truncated';"
            " give terminations (true ends only) under that name, or read it with dones_are: ends"
        )


def dones_hide_time_limits(mapping: Mapping[str, Any], named: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a `dones` of `mapping` is all that tells of ends, by the names of this package and once completed."""
    cuts_known = "truncations" in named or bool(np.any(given.get("truncations", False)))
    return not cuts_known and any(name in mapping for name in DONES)


def _name_of_dones(mapping: Mapping[str, Any]) -> str | None:
    return next((key for key in DONES if mapping.get(key) is not None), None)


def dones_are_alone(mapping: Mapping[str, Any]) -> bool:
    """Whether a `dones` is there, and no other flag that tells anything of ends."""
    return _name_of_dones(mapping) is not None and not _flags_beside_dones(mapping)


def _flags_beside_dones(mapping: Mapping[str, Any]) -> set[str]:
    """The fields that tell of ends, `dones` apart; truncations that are never set tell nothing."""
    fields = {FIELD_OF[key]: key for key, value in mapping.items() if key in FIELD_OF and key not in DONES}
    beside = {field for field in (EPISODE_ENDS, *_END_FLAGS) if mapping.get(fields.get(field, "")) is not None}
    if "truncations" in beside and not _flags("truncations", mapping[fields["truncations"]]).any():
        beside.remove("truncations")
    return beside


def settle_dones(
    mapping: Mapping[str, Any],
    dones_are: DonesAre | None,
    max_episode_steps: int | None,
    told: RowsTold,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same arrays with `dones` brought to the flags of this package, and what to tell the user.

    `dones` do not say what ended an episode. What they are read as:

    | dones_are    | beside them                | a done is                                                |
    |--------------|----------------------------|----------------------------------------------------------|
    | terminations | no terminations            | a termination                                            |
    | truncations  | no truncations             | a truncation, unless the row terminated                  |
    | ends         | one of the two             | of the other kind, where that one is not set             |
    | None         | terminations               | an end of an episode: a truncation, if no termination    |
    | None         | truncations, episode ends  | a termination                                            |
    | None         | only `max_episode_steps`   | a truncation after that many rows, else a termination    |
    | None         | nothing                    | a truncation if all end episodes of one length, else a termination |

    told: what the file tells of rows that it has lost, which count as well.
    """
    named = {key if key in DONES else FIELD_OF[key]: value for key, value in mapping.items() if key in FIELD_OF}
    check_rows({name: as_array(name, value) for name, value in named.items() if value is not None})
    name = _name_of_dones(mapping)
    if name is None and dones_are is not None:
        raise DataError(f"dones_are: the data have no dones, only {', '.join(map(str, mapping))}; leave it out")
    if dones_are in ("truncations", "ends") and max_episode_steps is not None:
        raise DataError(
            f"max_episode_steps: {name} are said to be {dones_are} already (dones_are); leave one of them out"
        )
    if name is None:
        return dict(mapping), ()
    arrays = {key: value for key, value in mapping.items() if key != name}
    if dones_are is not None:
        return _dones_as_said(arrays, name, mapping[name], dones_are), ()
    beside = _flags_beside_dones(mapping)
    if "terminations" in beside:
        return _dones_beside_terminations(arrays, name, mapping[name])
    if beside:
        return dict(mapping), ()  # terminations by their name; truncations are held against them later
    arrays = {key: value for key, value in arrays.items() if FIELD_OF.get(key) != "truncations"}
    flags = _flags(name, mapping[name])
    if max_episode_steps is not None:
        return _dones_with_limit(arrays, name, flags, max_episode_steps, told)
    return _dones_by_length(arrays, name, flags, told)


def _dones_as_said(arrays: dict[str, Any], name: str, dones: Any, dones_are: DonesAre) -> dict[str, Any]:
    if dones_are in {FIELD_OF.get(key) for key in arrays}:
        raise DataError(f"dones_are: {dones_are}, but the data have {dones_are} besides {name}; leave it out")
    if dones_are == "terminations":
        return {**arrays, "terminations": dones}
    flags = _flags(name, dones)
    given = {field: _flags(key, arrays[key]) for key in arrays if (field := FIELD_OF.get(key)) in _END_FLAGS}
    if dones_are == "truncations":
        terminations = given.get("terminations", np.zeros_like(flags))
        return {**arrays, **({} if given else {"terminations": terminations}), "truncations": flags & ~terminations}
    if len(given) != 1:
        raise DataError(f"dones_are: ends needs either terminations or truncations besides {name}, to tell them apart")
    ((field, values),) = given.items()
    return {**arrays, ("truncations" if field == "terminations" else "terminations"): flags & ~values}


def _dones_beside_terminations(arrays: dict[str, Any], name: str, dones: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`dones` as the ends of episodes, of which the terminations are some."""
    keys = {field: key for key in arrays if (field := FIELD_OF.get(key)) is not None}
    flags, terminated = _flags(name, dones), _flags("terminations", arrays[keys["terminations"]])
    stray = np.flatnonzero(terminated & ~flags)
    if stray.size:
        rule = f"{name} beside terminations must mark the end of every episode; keep the flag that is right"
        raise FaultyValueError("terminations", f"set without {name}", int(stray[0]), None, flags | terminated, rule)
    cut = _flags("truncations", arrays[keys["truncations"]]) if "truncations" in keys else np.zeros_like(flags)
    added = int(np.count_nonzero(flags & ~terminated & ~cut))
    note = f"{name} are read as the ends of episodes: {added} that did not terminate count as truncated"
    rest = {key: value for key, value in arrays.items() if key != keys.get("truncations")}
    return {**rest, "truncations": cut | (flags & ~terminated)}, (note,) if added else ()


def _dones_with_limit(
    arrays: dict[str, Any], name: str, flags: npt.NDArray[np.bool_], steps: int, told: RowsTold
) -> tuple[dict[str, Any], tuple[str, ...]]:
    counts, known, _ = _counted(flags, arrays, told)
    cuts = known & (counts % steps == 0)
    note = f"{name} after {amount(steps, 'row')} are read as truncations, the others as terminations"
    if unknown := int((flags & ~known).sum()):
        note += f", {unknown:,} of them in episodes that lack rows, nobody knows how many"
    arrays = {**arrays, "terminations": flags & ~cuts, "truncations": cuts}
    return arrays, (note,) if (flags & (cuts | ~known)).any() else ()


def _dones_by_length(
    arrays: dict[str, Any], name: str, flags: npt.NDArray[np.bool_], told: RowsTold
) -> tuple[dict[str, Any], tuple[str, ...]]:
    counts, known, ends = _counted(flags, arrays, told)
    ended, longest = counts[flags & known], counts[ends].max(initial=0)
    if len(ended) > 1 and (ended == ended[0]).all() and ended[0] >= SHORTEST_TIME_LIMIT and longest <= ended[0]:
        all_of_them = f"all {flags.sum()} episodes they end have {ended[0]} rows"
        all_of_them += "" if not told.cuts.any() else ", with those that are missing"
        note = (
            f"{name}: {all_of_them}, so they are read as time limits"
            " (truncations); if the task itself ended there, say dones_are: terminations"
        )
        return {**arrays, "terminations": np.zeros_like(flags), "truncations": flags}, (note,)
    note = (
        f"{name} are read as terminations, which stop the bootstrap; where they also mark time limits,"
        " give max_episode_steps, or dones_are: truncations"
    )
    return {**arrays, "terminations": flags}, (note,) if flags.any() else ()


def _counted(
    flags: npt.NDArray[np.bool_], arrays: Mapping[str, Any], told: RowsTold
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Of each row, which one of its episode it is, counted from 1, whether that is known, and whether the episode ends
    there; `flags` and episode ids tell where, `[N]`."""
    given = {field: arrays[key] for key in arrays if (field := FIELD_OF.get(key)) == EPISODE_IDS}
    borders = _episode_ends(given)
    borders = np.zeros_like(flags) if borders is None else borders
    ends = flags | borders
    ends[-1:] = True
    return *told.counted(flags, borders), ends


def distrust_reset_successors(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """RLlib's `new_obs` may be the next row's `obs` even after an episode's end, or zeros after the last: no successor.

    Where that is so at every end, rows that end an episode without a termination get `has_next_obs` False.
    """
    arrays = dict(mapping)
    given = complete_flags(resolve_names(mapping)) if "new_obs" in mapping else {}
    if not {"obs", "terminations"} <= given.keys() or "has_next_obs" in given:
        return arrays, ()
    obs, successors = np.asarray(given["obs"]), np.asarray(given["next_obs"])
    terminated = _flags("terminations", given["terminations"])
    truncated = _flags("truncations", given.get("truncations", np.zeros_like(terminated)))
    if obs.shape != successors.shape:
        return arrays, ()  # for the checks to complain about
    ends = np.flatnonzero(terminated | truncated)
    following = np.minimum(ends + 1, len(obs) - 1)
    axes = tuple(range(1, obs.ndim))
    after_reset = (successors[ends] == obs[following]).all(axis=axes) & (following > ends)
    unknown = ends[~terminated[ends]]
    if not unknown.size or not (after_reset | (successors[ends] == 0).all(axis=axes)).all():
        return arrays, ()
    known = np.ones(len(obs), dtype=np.bool_)
    known[unknown] = False
    note = (
        "new_obs at the end of an episode is the first observation of the next one (or zeros), not the successor:"
        " it counts as not recorded"
    )
    return {**arrays, "has_next_obs": known}, (note,)


def cut_at_time_limit(mapping: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The same arrays with a truncation wherever an episode reaches `steps` rows; refused where they have their own.

    All but the flags keep the file's names: by its name `new_obs` is known for what it may be.
    """
    given = complete_flags(resolve_names(mapping))
    rest = {key: values for key, values in mapping.items() if FIELD_OF.get(key) not in TELL_ENDS}
    flags = _flags("terminations", given.get("terminations", ()))
    if "truncations" in given:
        _refuse_own_truncations(_flags("truncations", given["truncations"]))
    ends = flags.copy()
    ends[-1:] = True
    return {**rest, "terminations": flags, "truncations": _every(steps, ends) & ~flags}


def _refuse_own_truncations(truncations: npt.NDArray[np.bool_]) -> None:
    if truncations.any():
        raise DataError("max_episode_steps: the data mark their truncations themselves; leave it out")


def _every(steps: int, ends: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Every `steps`-th row of each episode, `[N]`; `ends` marks the last rows, that of the data among them."""
    cuts = np.zeros(len(ends), dtype=np.bool_)
    start = 0
    for end in np.flatnonzero(ends).tolist():
        cuts[start + steps - 1 : end + 1 : steps] = True
        start = end + 1
    return cuts


def d4rl_conversion(
    mapping: Mapping[str, Any], max_episode_steps: int | None = None
) -> tuple[dict[str, Any], IndexArray]:
    """What D4RL's `qlearning_dataset` makes of a file: rows at a time limit and the last row of the file are dropped,
    and every successor is the row that follows. Truncations move to the row before, so that borders stay known.
    Also the rows that are left, `[N]`.

    max_episode_steps: where the data have no truncations, D4RL's count of steps tells the rows at a time limit.
    """
    given = complete_flags(resolve_names(mapping))
    missing = [name for name in ("obs", "terminations") if name not in given]
    if missing:
        raise DataError(f"dataset lacks {', '.join(missing)}")
    terminated = _flags("terminations", given["terminations"])
    limits = _flags("truncations", given.get("truncations", np.zeros_like(terminated)))
    if max_episode_steps is not None:
        _refuse_own_truncations(limits)
        limits = _d4rl_limits(terminated, max_episode_steps)
    keep = np.flatnonzero(~limits[:-1])
    last = limits | (np.arange(len(limits)) == len(limits) - 1)
    truncations = np.r_[last[1:], False] & ~terminated
    converted = {name: values[keep] for name, values in given.items()}
    return {**converted, "next_obs": given["obs"][keep + 1], "truncations": truncations[keep]}, keep


def _d4rl_limits(terminated: npt.NDArray[np.bool_], steps: int) -> npt.NDArray[np.bool_]:
    """Rows at which D4RL's own counter reaches the time limit, `[N]`.

    It starts at 0 in the file and after a limit, but at 1 after a termination (it is set to 0 and counted up in the
    same pass), so the episode after one reaches the limit a row early. A termination at the limit is a limit.
    """
    limits = np.zeros(len(terminated), dtype=np.bool_)
    start = counted = 0
    for end in [*np.flatnonzero(terminated).tolist(), len(terminated) - 1]:
        limits[start + steps - 1 - counted : end + 1 : steps] = True
        start, counted = end + 1, 0 if limits[end : end + 1].any() else 1
    return limits
