"""The cells of a table's step column, as numbers or dates."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import times
from rl_training.data.formats.clocks import DATED


def steps_of(name: str, cells: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[Any]:
    """`[N]` numbers as they are, or dates and times of a day as `DATED`."""
    if cells.dtype.names:
        return cells
    found = times(name, cells, first_row)
    if isinstance(found, np.ndarray) and found.dtype.kind != "M":
        return found
    read = np.empty(len(cells), dtype=DATED)
    if isinstance(found, np.ndarray):
        read["at"] = read["wall"] = found.astype("datetime64[ns]").astype(np.int64) / 1e9
        return read
    read["wall"] = [time.replace(tzinfo=UTC).timestamp() for time in found]
    read["at"] = [time.timestamp() for time in found] if found and found[0].tzinfo else read["wall"]
    return read
