"""What stands first on the page, of runs that were judged alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Lead(NamedTuple):
    """What is said first of runs, each in HTML; empty where there is nothing to say. besides: to the result, for
    whoever wants to know how it came about; it is folded away."""

    result: str
    trust: str = ""
    then: str = ""
    besides: Sequence[str] = ()
