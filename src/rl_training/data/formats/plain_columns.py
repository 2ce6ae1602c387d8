"""A column as a reader hands it over, with one value per row wherever that is all it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import one_per_row
from rl_training.data.formats.clocks import DATED
from rl_training.data.formats.names import listed
from rl_training.errors import DataError
from rl_training.validation import shown


def plain_column(name: str, values: npt.NDArray[Any], *, is_read: bool) -> npt.NDArray[Any]:
    """`[N]` of `[N, 1]`, so that nothing after it need tell them apart; refused are records, of which no step, text or
    number can be made. is_read: the values are steps that were read, and may be `DATED`."""
    if values.dtype.kind == "V" and not (is_read and values.dtype == DATED):
        held = (
            f"records of {listed(values.dtype.names)}" if values.dtype.names else f"{shown(str(values.dtype))} values"
        )
        raise DataError(f"column {name!r}: holds {held}, not one number or text per row; give each as its own array")
    flat: npt.NDArray[Any] = np.asarray(one_per_row(values))
    return flat
