"""What the columns beside a control are: further controls, by their unit and range, and what a control brings about."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.names import listed
from rl_training.data.guess_words import LIKELY, first_of
from rl_training.data.guesses import Guess

Columns = Mapping[str, npt.NDArray[Any]]

_SHARE = re.compile(r"%.*|pct|percent|per cent|prozent", re.IGNORECASE)  # how far open, or of the power
_BEHIND = re.compile(r"[\[(]([^\[\]()]+)[\])]\s*$")
_OVERLAP = 0.25  # of the wider range
_SAME = 0.999  # correlation with what brings it about
_FORESEEN = 0.8  # correlation with the row before: a state, by which controls may have been set
_LEAST_ROWS = 50
_MOST_CONTROLS = 32  # each of which is held to every other column


def with_others_alike(
    controls: Guess, columns: Columns, others: Sequence[str], units: Mapping[str, str]
) -> tuple[Guess, dict[str, str]]:
    """The controls, and what else may be one as a candidate; of the others, those that a policy may not see before it
    acts, and a word on those that a control brings about."""
    if len(controls.columns) > _MOST_CONTROLS:
        return controls, {}
    also = _like_controls(columns, controls.columns, others, units)
    every = [*controls.columns, *also]
    caused = _brought_about(columns, every, [name for name in others if name not in also])
    told = {
        name: f"{name} follows from {of} in the same row, as if known only after acting" for name, of in caused.items()
    }
    hardly_seen = dict.fromkeys(also, "") | told
    if not also:
        return controls, hardly_seen
    has = "has the unit and range" if len(also) == 1 else "have the unit and range"
    why = f"{controls.why}; {listed(also)} {has} of {listed(dict.fromkeys(also.values()))}: set, too?"
    both = tuple(name for name in columns if name in every)
    return replace(controls, why=why, candidates=(both,)), hardly_seen


def _like_controls(
    columns: Columns, controls: Sequence[str], others: Sequence[str], units: Mapping[str, str]
) -> dict[str, str]:
    """Of the others, those that have the unit of a control, a share in per cent, and its range, with that control; a
    name that is one of measurements says enough, and what the row before foresees is a level or a content."""
    shares = [name for name in controls if _is_share(name, units)]
    return {
        name: next(control for control in shares if _overlap(columns[name], columns[control]))
        for name in others
        if first_of(name, LIKELY["obs"]) is None
        and _is_share(name, units)
        and not _is_foreseen(columns[name])
        and any(_overlap(columns[name], columns[control]) for control in shares)
    }


def _brought_about(columns: Columns, controls: Collection[str], others: Sequence[str]) -> dict[str, str]:
    """Of the others, those that grow or fall with a control of the same row alone, and not with the row before, with
    that control."""
    found: dict[str, str] = {}
    for name in others:
        if not _is_foreseen(columns[name]):
            of = [control for control in controls if _follows(columns[name], columns[control])]
            found |= {name: of[0]} if of else {}
    return found


def _follows(values: npt.NDArray[Any], control: npt.NDArray[Any]) -> bool:
    """As the energy follows the power, be it as its square: in a line, or in order."""
    if values.shape != control.shape or values.ndim != 1:
        return False
    ranks = (np.unique(of, return_inverse=True)[1].reshape(-1) for of in (values, control))
    return abs(_correlation(values, control)) >= _SAME or abs(_correlation(*ranks)) >= _SAME


def _is_foreseen(values: npt.NDArray[Any]) -> bool:
    """Whether the row before tells a column, as it does of a state."""
    return abs(_correlation(values[1:], values[:-1])) >= _FORESEEN


def _is_share(name: str, units: Mapping[str, str]) -> bool:
    """By the line of units, or the end of the name: `Vent [%]`."""
    behind = _BEHIND.search(name)
    unit = units.get(name, "").strip("[]() ") or (behind[1].strip() if behind else "")
    return _SHARE.fullmatch(unit) is not None


def _overlap(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if any(values.ndim != 1 or not np.isfinite(values).any() for values in (one, other)):
        return False
    (low, high), (least, most) = ((float(np.nanmin(v)), float(np.nanmax(v))) for v in (one, other))
    return min(high, most) - max(low, least) >= _OVERLAP * max(high - low, most - least)


def _correlation(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Of two columns, as far as both have numbers; 0 where there are too few, or one never changes."""
    if one.shape != other.shape or one.ndim != 1:
        return 0.0
    known = np.isfinite(one) & np.isfinite(other)
    pair = np.stack([one[known], other[known]]).astype(np.float64)
    if pair.shape[1] < _LEAST_ROWS or np.any(pair.min(axis=1) == pair.max(axis=1)):
        return 0.0
    return float(np.asarray(np.corrcoef(pair))[0, 1])
