"""Wide ranges that no recorded action lies in: between the off and on of a switch, or the stages of a fan.

A policy with one mode averages where the data do one or the other, and so acts where nobody ever did. `snap` moves such
an action to the nearer side.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.statistics import sample_rows

FEW_VALUES = 20  # distinct ones, of ten times as many rows: stages, and every range between two of them is a gap
_WIDE = 0.2  # of the range from the smallest to the largest action
_INSIDE = 0.001  # of the rows may lie in a gap: slips of a sensor or of a hand
_BESIDE = 0.005  # of the rows at least lie on either side
_FEWEST = 10  # rows on either side, or at a stage, and steps across it: a slow drive passes by a range now and then
_RARELY = 0.05  # of the rows of a column with stages: at those that are hardly used
_SAMPLE = 200_000


class ActionGap(NamedTuple):
    """The open interval between two actions that were recorded, in one column, in the environment's units."""

    column: int
    low: float
    high: float


Gaps = tuple[ActionGap, ...]


class SnappingLayer(NamedTuple):
    """a ≥ turn ? max(a, above) : min(a, below), each `[A]`. Columns without a gap have ends that move nothing."""

    turn: npt.NDArray[np.float32]
    below: npt.NDArray[np.float32]
    above: npt.NDArray[np.float32]


class Stages(NamedTuple):
    """The few values that a column of actions takes, sorted. slips: whether some rows have others."""

    values: npt.NDArray[np.float64]
    slips: bool


def find_gaps(actions: npt.NDArray[np.floating]) -> Gaps:
    """The gaps of every column of actions `[N, A]`, from below."""
    some = _sampled(actions)
    return tuple(gap for column in range(some.shape[1]) for gap in _gaps_of(some[:, column], column))


def find_stages(actions: npt.NDArray[np.floating]) -> dict[int, Stages]:
    """Of the columns of actions `[N, A]` that take few values, which."""
    some = _sampled(actions)
    found = {column: _stages_of(some[:, column]) for column in range(some.shape[1])}
    return {column: stages for column, stages in found.items() if stages is not None}


def _sampled(actions: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    return np.asarray(actions[sample_rows(len(actions), _SAMPLE)], dtype=np.float64)


def _stages_of(values: npt.NDArray[np.float64]) -> Stages | None:
    """None where values are many, or where they never change. What a handful of rows hold is no stage."""
    found, counts = np.unique(values, return_counts=True)
    held = counts >= max(_FEWEST, _INSIDE * len(values))
    slips = int(counts[~held].sum())
    most = min(FEW_VALUES, len(values) / 10)
    few = slips <= _RARELY * len(values) if len(found) <= most else slips <= _slips_among(len(values))
    return Stages(found[held], slips > 0) if few and 1 < int(held.sum()) <= most else None


def _slips_among(rows: int) -> int:
    return max(1, int(_INSIDE * rows))


def _gaps_of(values: npt.NDArray[np.float64], column: int) -> list[ActionGap]:
    stages = _stages_of(values)
    if stages is None:
        return _wide_gaps(values, column)
    between = [(low, high, np.count_nonzero((values > low) & (values < high))) for low, high in pairwise(stages.values)]
    most = _slips_among(len(values))
    return [ActionGap(column, float(low), float(high)) for low, high, inside in between if inside <= most]


def _wide_gaps(values: npt.NDArray[np.float64], column: int) -> list[ActionGap]:
    rows, in_order, values = len(values), values, np.sort(values)
    least, inside = max(_FEWEST, int(_BESIDE * rows)), int(_INSIDE * rows)
    if rows < 2 * least + inside + 1:
        return []
    below, above = values[least - 1 : rows - least - inside], values[least + inside : rows - least + 1]
    with np.errstate(over="ignore"):  # `init` asks before it is known that float32 holds the actions
        widths = above - below
        wide = np.flatnonzero(widths >= _WIDE * (values[-1] - values[0]))
    found: list[ActionGap] = []
    for place in wide[np.argsort(-widths[wide], kind="stable")].tolist():
        low, high = float(below[place]), float(above[place])
        if high > low and all(high <= other.low or low >= other.high for other in found):
            found.append(ActionGap(column, low, high))
    return sorted(gap for gap in found if _steps_across(in_order, 0.5 * (gap.low + gap.high)) >= _FEWEST)


def _steps_across(values: npt.NDArray[np.float64], middle: float) -> int:
    above = values >= middle
    return int(np.count_nonzero(above[1:] != above[:-1]))


def snap(actions: npt.NDArray[np.float32], gaps: Sequence[ActionGap]) -> npt.NDArray[np.float32]:
    """Actions `[..., A]`, those in a gap moved to its nearer side, the upper one where both are as near."""
    for turn, below, above in snapping_layers(gaps, actions.shape[-1]) if gaps else ():
        actions = np.where(actions >= turn, np.maximum(actions, above), np.minimum(actions, below))
    return actions


def snapping_layers(gaps: Sequence[ActionGap], width: int) -> list[SnappingLayer]:
    """What to do one after the other to move actions of so many columns out of these gaps."""
    most = np.finfo(np.float32).max
    layers: list[SnappingLayer] = []
    used = [0] * width
    for column, low, high in gaps:
        depth, used[column] = used[column], used[column] + 1
        if depth == len(layers):
            layers.append(SnappingLayer(*(np.full(width, fill, dtype=np.float32) for fill in (0.0, most, -most))))
        layer = layers[depth]
        layer.turn[column], layer.below[column], layer.above[column] = 0.5 * (low + high), low, high
    return layers
