"""Columns of other data whose numbers lie so far from those trained on that they may be counted in another unit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import NamedColumn, Spaces
from rl_training.validation import printable

_FAR = 0.5  # of the range trained on, beyond either end
_MOST = 0.5  # of the rows that lie so far out
_NARROW = 0.02  # of the range trained on, which all rows cover together, as fractions do where there were percents
_FEWEST_ROWS = 20
_MOST_TOLD = 4


def other_units(data: TransitionDataset, spaces: Spaces, title: str) -> list[str]:
    """What the user should look at, a line for each of the first columns; nothing where columns have no names."""
    if len(data) < _FEWEST_ROWS:
        return []
    columns = (
        *zip(spaces.obs_columns, data.obs.T, strict=False),
        *zip(spaces.action_columns, data.actions.T, strict=False),
    )
    far = [(column, values) for column, values in columns if _is_far(column, values)]
    return [
        f"{title}: {printable(column.name)} goes from {values.min():.4g} to {values.max():.4g}, where the policy was"
        f" trained on {column.low:.4g} to {column.high:.4g}: is it counted in the same unit?"
        for column, values in far[:_MOST_TOLD]
    ]


def _is_far(column: NamedColumn, values: npt.NDArray[np.floating]) -> bool:
    width = column.high - column.low
    if width <= 0:
        return False
    outside = (values < column.low - _FAR * width) | (values > column.high + _FAR * width)
    covered = float(values.max()) - float(values.min())
    return float(outside.mean()) > _MOST or 0.0 < covered < _NARROW * width
