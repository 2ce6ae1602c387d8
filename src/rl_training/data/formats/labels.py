"""Names of episodes in a column of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.cells import NESTED, is_missing
from rl_training.data.formats.limits import check_size
from rl_training.errors import DataError
from rl_training.validation import shown

# Six digits of seven or more, as a wide cell shows them; three of four or more, as cells of the format 0.00E+00 do.
_ROUNDED = re.compile(r"\d[.,](?:\d{5}[eE]\+(?:0[6-9]|[1-9]\d)|\d{2}[eE]\+(?:0[3-9]|[1-9]\d))")


def labels(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`[N]` names of episodes: numbers or text, none of them missing."""
    if values.ndim != 1:
        raise DataError(f"column {name!r}: holds lists; the episode of a row is one number or name")
    if values.dtype.kind in "biu":
        return values
    if values.dtype.kind == "c":
        raise DataError(f"column {name!r}: {values.dtype} values; the episode of a row is one number or name")
    if values.dtype.kind in "OS":
        cells = values.tolist()
        if nested := [row for row, cell in enumerate(cells) if isinstance(cell, NESTED)]:
            held = f"row {nested[0]} holds {shown(cells[nested[0]])}"
            raise DataError(f"column {name!r}: {held}; the episode of a row is one number or name")
        values = np.array([decoded(cell) for cell in cells], dtype=object)
        _refuse_one_of_two(name, values.tolist())
    if values.dtype.kind in "OU":
        _refuse_rounded(name, values.tolist())
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.array([is_missing(cell) or cell is None or cell == "" or cell != cell for cell in values])
    if missing.any():
        raise DataError(f"column {name!r}: row {int(np.argmax(missing))} has no episode")
    if values.dtype.kind in "fU":
        return values
    if any(str(value).endswith("\0") for value in values):  # which numpy leaves out
        raise DataError(f"column {name!r}: a name ends in NUL; the episode of a row is one number or name")
    longest = max(map(len, map(str, values)), default=0)
    check_size(4 * longest * len(values))  # numpy gives every text the room of the longest
    return values.astype(str)


def _refuse_one_of_two(name: str, cells: Sequence[Any]) -> None:
    """Refuse a number beside a text that is written like it, which would be one episode."""
    texts = {cell for cell in cells if isinstance(cell, str)}
    numbers = {str(cell) for cell in cells if not isinstance(cell, str)} if texts else set()
    if both := sorted(texts & numbers):
        told = f"{both[0]} is a number in some rows and text in others"
        raise DataError(f"column {name!r}: {told}; write it as the one or the other in all")


def are_rounded(texts: Iterable[str]) -> bool:
    """Whether one of the texts of a column of ids is a number as spreadsheets round it."""
    return any(_ROUNDED.fullmatch(text.strip()) for text in texts)


def _refuse_rounded(name: str, cells: Sequence[Any]) -> None:
    """Refuse what spreadsheets make of long numbers, as several of them become one."""
    texts = dict.fromkeys(cell for cell in cells if isinstance(cell, str))
    if (rounded := next((text for text in texts if _ROUNDED.fullmatch(text.strip())), None)) is not None:
        row = cells.index(rounded)
        what = f"{rounded.strip()} at row {row} is a number that was rounded, as spreadsheets do to long ones"
        raise DataError(f"column {name!r}: {what}, and episodes may have become one; export the column as text")


def decoded(cell: Any) -> Any:
    """Bytes as text. What is no UTF-8 is written out, as no two names may become one."""
    return cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else cell
