"""A column of steps and one of episodes that were named for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_IDS, STEP
from rl_training.wording import WARNING
from rl_training.yaml_dialect import proposed

_FEWEST_ROWS = 20
_STAYS, _CHANGES = 0.5, 0.9  # of the rows
_SMOOTHER = 0.5  # of the way from row to row: so much shorter is no chance


def look_swapped(
    names: tuple[str, str], episodes: npt.NDArray[Any], steps: npt.NDArray[Any], obs: npt.NDArray[Any]
) -> list[str]:
    """A warning where rows of one step follow each other smoothly, and those of one episode do not. names: of the
    columns of episodes and of steps; all by the file's rows, `[N]`, `[N]` and `[N, …]`. Logs of several episodes at a
    time look alike, but for what is observed."""
    if len(steps) < _FEWEST_ROWS or obs.dtype.kind not in "iuf":
        return []
    stays, changes = steps[1:] == steps[:-1], episodes[1:] != episodes[:-1]
    if stays.mean() < _STAYS or changes.mean() < _CHANGES or not _counts(episodes, stays):
        return []
    _, numbers = np.unique(episodes, return_inverse=True)
    order = np.lexsort((steps, numbers))
    values = np.asarray(obs, dtype=np.float64).reshape(len(steps), -1)
    as_named = _ways(values[order], numbers[order][1:] == numbers[order][:-1])
    swapped = _ways(values, stays)
    own = swapped > 0  # what all episodes share at a step, as the weather, is alike in them
    if not own.any() or (as_named[own] < _SMOOTHER * swapped[own]).any():
        return []
    if not np.mean(swapped[own]) < _SMOOTHER * np.mean(as_named[own]):
        return []
    ids, counter = names
    return [
        f"{WARNING}columns {ids!r} and {counter!r} look swapped: what is observed goes on from row to row of one"
        f" {counter!r}, and jumps from step to step of one {ids!r}; if so, say"
        f" columns: {proposed(EPISODE_IDS, counter)} and columns: {proposed(STEP, ids)}"
    ]


def _counts(ids: npt.NDArray[Any], going_on: npt.NDArray[np.bool_]) -> bool:
    """Whether ids begin at one number, and grow by one from row to row that goes on, as steps would."""
    if ids.dtype.kind not in "iuf":
        return False
    first = ids[np.r_[True, ~going_on]]
    _, often = np.unique(first, return_counts=True)
    grown = (ids[1:] > ids[:-1]) & (ids[1:] - ids[:-1] == 1)  # compared first, as unsigned numbers would wrap
    return bool(often.max() >= _CHANGES * len(first) and grown[going_on].mean() >= _CHANGES)


def _ways(values: npt.NDArray[np.float64], going_on: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Of each column, the mean step between rows of which the second goes on, in standard deviations, `[K]`; NaN where
    there is none."""
    spread = np.nanstd(values, axis=0)
    if not going_on.any():
        return np.full(len(spread), np.nan)
    steps = np.abs(np.diff(values, axis=0))[going_on]
    known = (~np.isnan(steps)).sum(axis=0)
    told = (known > 0) & (spread > 0)
    mean = np.nansum(steps, axis=0) / np.where(told, known, 1)
    return np.where(told, mean / np.where(told, spread, 1.0), np.nan)
