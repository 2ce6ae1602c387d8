"""What a reward may count of a column beside its value: how far it is from where it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rl_training.data.formats.names import LONGEST_NAME
from rl_training.validation import printable

_LONGEST_NUMBER = 40  # characters
_SIGNS = {"+": 1.0, "-": -1.0, "\N{MINUS SIGN}": -1.0}
_MEASURES: Mapping[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    "abs": np.abs,
    "square": np.square,
    "over": lambda difference: np.maximum(difference, 0.0),  # nan stays nan
}
_WRITTEN = re.compile(rf"({'|'.join(_MEASURES)}) ?\((.*)\)")


@dataclass(frozen=True)
class Measure:
    """`abs(T - 20)`, `square(u)` or `over(p - p_max)`, which is 0 where the difference is below: what is taken off is
    a number or a column, and so is what it is taken from."""

    kind: str
    of: str | float
    less: str | float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(side for side in (self.of, self.less) if isinstance(side, str))

    def text(self) -> str:
        sides = [side if isinstance(side, str) else f"{side:g}" for side in (self.of, self.less) if side is not None]
        return f"{self.kind}({' - '.join(map(printable, sides))})"

    def values(self, parts: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.float64]:
        """`[N]`, from the numbers of its columns."""
        of, less = (
            parts[side].astype(np.float64) if isinstance(side, str) else np.float64(side or 0.0)
            for side in (self.of, self.less)
        )
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused with its row
            return _MEASURES[self.kind](np.asarray(of - less))


def measure_of(text: str, names: Container[str] | None) -> Measure | None:
    """What a text says if it is written like one. names: the table's columns, which may have a minus in them; of a
    side that is none of them, the user is told."""
    written = _WRITTEN.fullmatch(text) if len(text) <= 2 * LONGEST_NAME else None
    if written is None or not written[2].strip():
        return None
    kind, inside = written[1], written[2].strip()
    ways = [Measure(kind, _side(inside)), *(Measure(kind, *map(_side, pair)) for pair in _at_minus(inside))]
    fitting = [way for way in ways if names is not None and way.columns and all(side in names for side in way.columns)]
    return [*fitting, *ways[1:2], *ways][0]


def _at_minus(text: str) -> Iterator[tuple[str, str]]:
    """A text parted at each minus, those with blanks around them first."""
    places = [place for place in range(1, len(text)) if text[place] in "-\N{MINUS SIGN}"]
    for place in sorted(places, key=lambda place: text[place - 1 : place + 2 : 2] != "  "):
        before, after = text[:place].strip(), text[place + 1 :].strip()
        if before and after:
            yield before, after


def _side(text: str) -> str | float:
    sign = _SIGNS.get(text[:1])
    number = number_of(text if sign is None else text[1:].lstrip())
    return text if number is None else (sign or 1.0) * number


def number_of(text: str) -> float | None:
    """`0.31`, `.31` or `1e-3`; nothing of what only Python takes for a number, `1_000` or `inf`."""
    if len(text) > _LONGEST_NUMBER or not text.isascii() or text[:1] not in {*"0123456789."} or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
