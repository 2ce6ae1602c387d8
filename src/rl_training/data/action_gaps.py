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

FEW_VALUES = 20  # distinct ones, of ten times as many rows: stages, and every range between two of them is a gap
_WIDE = 0.2  # of the range from the smallest to the largest action
_INSIDE = 0.001  # of the rows may lie in a gap: slips of a sensor or of a hand
_BESIDE = 0.005  # of the rows at least lie on either side
_FEWEST = 10  # rows on either side, and steps across it: a slow drive passes by a range now and then
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


def find_gaps(actions: npt.NDArray[np.floating]) -> Gaps:
    """The gaps of every column of actions `[N, A]`, from below."""
    every = max(1, -(-len(actions) // _SAMPLE))
    some = np.asarray(actions[::every], dtype=np.float64)
    return tuple(gap for column in range(some.shape[1]) for gap in _gaps_of(some[:, column], column))


def distinct_values(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating] | None:
    """The few values that a column takes, sorted; none where they are many, or where it never changes."""
    found = np.unique(values)
    return found if 1 < len(found) <= min(FEW_VALUES, len(values) / 10) else None


def _gaps_of(values: npt.NDArray[np.float64], column: int) -> list[ActionGap]:
    stages = distinct_values(values)
    if stages is not None:
        return [ActionGap(column, float(a), float(b)) for a, b in pairwise(stages)]
    rows, in_order, values = len(values), values, np.sort(values)
    least, inside = max(_FEWEST, int(_BESIDE * rows)), int(_INSIDE * rows)
    if rows < 2 * least + inside + 1:
        return []
    below, above = values[least - 1 : rows - least - inside], values[least + inside : rows - least + 1]
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
