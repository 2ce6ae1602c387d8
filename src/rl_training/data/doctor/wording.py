"""Numbers and lists as a person writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rl_training.data.fields import FIELD_OF
from rl_training.validation import printable


def number(value: float) -> str:
    """As many digits as mean something: 12,135 / 1,251.5 / 1.25 / 0.00413 / 3.2e+08."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.3g}"
    if value == round(value):
        return f"{value + 0.0:,.0f}"  # no -0
    if size >= 10:
        return f"{value:,.1f}"
    return f"{value:.3g}"


def alike(*values: float) -> list[str]:
    """Numbers that stand together, all with the decimals that suit the largest: 0.0196, 0.0166, 0.0230."""
    largest = max(map(abs, values))
    if not 1e-4 <= largest < 1e7 or all(value == round(value) for value in values):  # false for NaN, too
        return [number(value) for value in values]
    decimals = 1 if largest >= 10 else 2 - math.floor(math.log10(largest))
    return [f"{value + 0.0:,.{decimals}f}" for value in (round(value, decimals) for value in values)]


def within(value: float, deviation: float) -> str:
    """A number of a spread, to the spread's last digit; a whole one stays whole."""
    size = number(deviation)
    if value == round(value) or "e" in size:
        return number(value)
    text = f"{value:,.{len(size.partition('.')[2])}f}"
    return text if text.strip("-0.,") else "0"


def round_up(value: float) -> float:
    """To two digits, away from zero."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return math.copysign(math.ceil(abs(value) / unit - 1e-9) * unit, value)


def share(part: float) -> str:
    """A share in per cent: 11%, 99.6%, 0.3%, below 0.01%."""
    percent = 100.0 * part
    if percent == 0 or percent == 100:
        return f"{percent:.0f}%"
    if percent < 0.01:
        return "below 0.01%"
    if percent > 99:
        places = 100 if percent > 99.9 else 10
        return f"{math.floor(percent * places) / places:g}%"
    return f"{percent:.0f}%" if percent >= 10 else f"{percent:.1f}%" if percent >= 1 else f"{percent:.2g}%"


def sentence(text: str) -> str:
    """With a capital and a full stop; the name of a field or of anything else with a spelling of its own keeps it."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    named = first.rstrip(":,") in FIELD_OF or not first.rstrip(":,").isalpha() or first.endswith(":")
    return f"{text if named else text[:1].upper() + text[1:]}".rstrip(".") + "."


def listed(items: Iterable[object], last: str = "and") -> str:
    """`a, b and c`."""
    words = [str(item) for item in items]
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def capital(text: str) -> str:
    """With a capital; names further on keep theirs."""
    return text[:1].upper() + text[1:]


def column_in_words(column: int, names: Sequence[str | None] | None = None) -> str:
    """`column 3`, or by the name that the file has for it."""
    return columns_in_words([column], names)


def columns_in_words(columns: list[int], names: Sequence[str | None] | None = None, most: int = 8) -> str:
    """`column 3`, `columns 3, 4 and 7`, `columns 27 to 110`, `columns 0, 2, … and 40 more`; by `names` where the file
    has them."""
    if names and all(names[column] for column in columns):
        called = [repr(printable(str(names[column]))) for column in columns]
        some = called[:most] + ([f"{len(called) - most} more"] if len(called) > most else [])
        return f"column{'s' * (len(called) > 1)} {listed(some)}"
    if len(columns) == 1:
        return f"column {columns[0]}"
    if len(columns) > 2 and columns[-1] - columns[0] == len(columns) - 1:
        return f"columns {columns[0]} to {columns[-1]}"
    if len(columns) <= most:
        return f"columns {listed(columns)}"
    return f"columns {', '.join(map(str, columns[:most]))} and {len(columns) - most} more"
