"""What every reader hands over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from rl_training.data.space_bounds import SpaceBounds

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Columns: TypeAlias = Mapping[str, str | Sequence[str]]  # field -> the column, or columns, that hold it


@dataclass(frozen=True)
class RawData:
    """The arrays of a file by the names it gives them, before anything is checked or completed.

    format: what the file was recognised as, in words. env_id: the environment the file says it was recorded in.
    notes: what the reader did that its user should know. bounds: of its actions and observations, where it tells them.
    """

    arrays: Arrays
    format: str
    env_id: str | None = None
    notes: tuple[str, ...] = ()
    bounds: SpaceBounds | None = None
