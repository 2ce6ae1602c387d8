"""What a reader handed over, brought to the flags of this package as its user says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rl_training.data.checks import FaultyValueError
from rl_training.data.fields import BORDERS_LOST, DISCRETE_ACTIONS, FIELD_OF
from rl_training.data.final_rewards import with_final_rewards
from rl_training.data.flags import (
    cut_at_time_limit,
    d4rl_conversion,
    distrust_reset_successors,
    dones_are_alone,
    settle_dones,
)
from rl_training.data.formats import RawData
from rl_training.data.formats.reward_terms import note_on_sum, notes_on_sums
from rl_training.data.last_rows import with_last_rows
from rl_training.data.late_rewards import from_next_rows
from rl_training.data.missing_rows import with_held, without_missing
from rl_training.data.rows_told import rows_told
from rl_training.data.space_bounds import SpaceBounds
from rl_training.data.termination_rewards import with_termination_rewards
from rl_training.errors import DataError
from rl_training.reading_choices import (
    AtTermination,
    DonesAre,
    LastRowsAre,
    Missing,
    RewardsAre,
    RewardsAt,
    Side,
    TimeLimits,
    is_said,
)

MARKS = (BORDERS_LOST, DISCRETE_ACTIONS)  # among the arrays of a file, but none of its fields


def settle(
    raw: RawData,
    *,
    time_limits: TimeLimits = "keep",
    max_episode_steps: int | None = None,
    dones_are: DonesAre | None = None,
    rewards_are: RewardsAre | None = None,
    rewards_at: RewardsAt = "same",
    at_termination: AtTermination | None = None,
    last_rows_are: LastRowsAre = "truncation",
    action_low: Side | None = None,
    action_high: Side | None = None,
    missing: Missing = "refuse",
) -> RawData:
    """The data with terminations and truncations apart and the bounds that were said, options as for
    `TransitionDataset.load`; notes say what was done. Values are not looked at: what is wrong with them is still there
    to be found."""
    raw = replace(raw, bounds=_bounds(raw, action_low, action_high), notes=notes_on_sums(raw.notes, rewards_are))
    said = {"rewards_are": rewards_are, "rewards_at": rewards_at, "time_limits": time_limits}
    raw = _told_of_repeats(raw, said | {"at_termination": at_termination})
    raw = replace(with_last_rows(raw, last_rows_are), rewards_are=rewards_are)
    if raw.negated:
        raw = _negated(raw)
    marks = {name: raw.arrays[name] for name in MARKS if name in raw.arrays}
    lost = bool(np.any(marks.get(BORDERS_LOST, False)))
    if lost and (time_limits == "d4rl" or max_episode_steps is not None):
        raise DataError("time limits: the rows were sampled or reordered, so episodes are not known")
    if rewards_at == "next" and (time_limits == "d4rl" or lost):
        raise DataError("rewards_at: needs every row in its order: neither a sample of them, nor time_limits: d4rl")
    if rewards_at == "next" and at_termination is not None:
        left_out = "rows that terminate are left out, as their reward is not recorded"
        raise DataError(f"at_termination: with rewards_at: next, {left_out}")
    placed = raw
    arrays: dict[str, Any] = {name: values for name, values in raw.arrays.items() if name not in marks}
    try:
        alone = dones_are is None and dones_are_alone(arrays)
        if time_limits == "d4rl" and max_episode_steps is not None and alone:
            dones_are = "terminations"  # D4RL's own count tells which of them are dropped
        arrays, of_dones = settle_dones(arrays, dones_are, max_episode_steps, rows_told(raw))
        if time_limits == "keep" and max_episode_steps is not None and not alone:
            arrays = cut_at_time_limit(arrays, max_episode_steps)
        arrays, of_successors = distrust_reset_successors(arrays)
        if time_limits == "d4rl":
            arrays, kept = d4rl_conversion(arrays, max_episode_steps)
            placed = raw.of_rows(kept)
    except FaultyValueError as fault:
        raise raw.located(fault) from fault
    settled = replace(placed, arrays=arrays, notes=(*raw.notes, *of_dones, *of_successors))
    settled = settled if lost else with_final_rewards(settled)
    if at_termination is not None:
        settled = with_termination_rewards(settled, at_termination, costs=raw.negated)
    if missing != "refuse" and lost:
        raise DataError("missing: the rows were sampled or reordered, so episodes are not known; leave it out")
    if missing == "hold":  # before rows become each other's successors
        settled = with_held(settled)
    if rewards_at == "next":
        settled = from_next_rows(settled)
    if missing != "refuse":
        settled = without_missing(settled, missing)
    return replace(settled, arrays={**settled.arrays, **marks})


def _told_of_repeats(raw: RawData, said: Mapping[str, Any]) -> RawData:
    """With a note on what is applied in the file already, and is done a second time."""
    own = raw.provenance
    twice = {name: choice for name, choice in said.items() if is_said(choice) and own and own.says(name)}
    if "rewards_are" in twice:
        raise DataError(
            "the file was written with rewards_are: costs, so that its rewards are the negative of its costs already;"
            " leave it out: a second time would make the worst policy the best"
        )
    again = [f"{name}: {choice}" if isinstance(choice, str) else name for name, choice in twice.items()]
    note = f"the file was written with {', '.join(again)}, which is applied a second time: leave it out"
    return replace(raw, notes=(*raw.notes, note)) if again else raw


def _negated(raw: RawData) -> RawData:
    """Costs as rewards; what is no number is left for the checks to find."""
    arrays = dict(raw.arrays)
    for name, values in raw.arrays.items():
        if FIELD_OF.get(name) in ("rewards", "returns_to_go") and np.asarray(values).dtype.kind in "biuf":
            arrays[name] = -np.asarray(values, dtype=np.float64)
    column = raw.column_in_file("rewards", None)
    named = "the data's rewards" if column is None else f"column {column!r}"
    note = f"{named}: costs, where lower is better; rewards are their negative"
    if column is not None and (of_sum := note_on_sum(column)) in raw.notes:
        note = f"costs are {column}, where lower is better; rewards are their negative"
        return replace(raw, arrays=arrays, notes=tuple(note if one == of_sum else one for one in raw.notes))
    return replace(raw, arrays=arrays, notes=(*raw.notes, note))


def _bounds(raw: RawData, low: Side | None, high: Side | None) -> SpaceBounds | None:
    """Those of the file, but for what the user says of actions."""
    if low is None and high is None:
        return raw.bounds
    if low is None or high is None:
        raise DataError("action_low and action_high are given together or not at all")
    actions = next((values for name, values in raw.arrays.items() if FIELD_OF.get(name) == "actions"), None)
    return raw.bounds if actions is None else (raw.bounds or SpaceBounds()).said(low, high, actions)
