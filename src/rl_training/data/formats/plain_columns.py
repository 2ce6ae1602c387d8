"""A column as a reader hands it over, with one value per row wherever that is all it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import one_per_row
from rl_training.data.formats.cells import NESTED
from rl_training.data.formats.clocks import DATED
from rl_training.data.formats.names import listed
from rl_training.errors import DataError
from rl_training.validation import shown


def plain_column(name: str, values: npt.NDArray[Any], *, is_read: bool) -> npt.NDArray[Any]:
    """`[N]` of `[N, 1]` and of lists of one, so that nothing after it need tell them apart; refused are records, of
    which no step, text or number can be made. is_read: the values are steps that were read, and may be `DATED`."""
    if values.dtype.kind == "V" and not (is_read and values.dtype == DATED):
        held = (
            f"records of {listed(values.dtype.names)}" if values.dtype.names else f"{shown(str(values.dtype))} values"
        )
        raise DataError(f"column {name!r}: holds {held}, not one number or text per row; give each as its own array")
    flat: npt.NDArray[Any] = np.asarray(one_per_row(values))
    if flat.dtype.kind == "O" and flat.ndim == 1 and len(flat) and all(map(_is_of_one, flat)):
        singles = np.empty(len(flat), dtype=object)
        singles[:] = [cell[0] for cell in flat]
        return singles
    return flat


def _is_of_one(cell: Any) -> bool:
    """Whether a cell is a list of one number or text."""
    is_list = isinstance(cell, NESTED) and getattr(cell, "ndim", 1) == 1
    return is_list and len(cell) == 1 and not isinstance(cell[0], NESTED)
