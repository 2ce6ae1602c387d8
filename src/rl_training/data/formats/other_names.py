"""What a column is called in other data: by another spelling, or with another unit, which no other name makes right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rl_training.data.formats.names import LONGEST_NAME, suggest
from rl_training.validation import printable, shown

# Units of one and the same quantity: `phase [A]` and `phase [B]`, `door (front)` and `door (rear)` have none.
_OF_ONE_QUANTITY = (
    {"°C", "°F", "℃", "℉", "K", "C", "F", "degC", "degF", "celsius", "fahrenheit", "kelvin"},
    {"bar", "mbar", "Pa", "hPa", "kPa", "MPa", "psi"},
    {"W", "kW", "MW"},
    {"Wh", "kWh", "MWh", "J", "kJ", "MJ"},
    {"m", "cm", "mm", "km", "ft", "inch"},
    {"kg", "g", "mg", "t", "lb", "lbs"},
    {"l", "L", "ml", "hl", "m³", "m3", "gal"},
    {"m/s", "km/h", "mph"},
    {"l/s", "l/min", "l/h", "m³/h", "m3/h"},
    {"s", "ms", "min", "h"},
    {"V", "mV", "kV"},
    {"A", "mA"},
)
_MOST_LOOKED_AT = 1000  # names
# `x [°C]`, `x (bar)`, `x °C`, `x_mbar`
_UNIT_LAST = re.compile(r"(.+?)[\s_]*(?:[\[(]\s*([^][()]{1,12}?)\s*[\])]|[\s_]([^\s_]{2,12}))")


def called_otherwise(lacking: str, given: Sequence[str]) -> str:
    """How the given name has to be called that most likely stands for the one that is lacking, or that its numbers have
    another unit; where there is no such name, which are given."""
    stem, unit = _parts(lacking)
    for name in given[:_MOST_LOOKED_AT]:
        other, its_unit = _parts(name)
        if other == stem and its_unit != unit and any({unit, its_unit} <= known for known in _OF_ONE_QUANTITY):
            return f"; {shown(name)} is in another unit: convert its values to {printable(unit)}, and name it so"
    hint = suggest(lacking, given)
    name = hint.removeprefix("; did you mean ").removesuffix("?")
    return hint if name == hint else f"; if {name} is that, its name must be {shown(lacking)}"


def _parts(name: str) -> tuple[str, str]:
    """A name in small letters without what may be a unit at its end, and that as it is written."""
    found = _UNIT_LAST.fullmatch(name.strip()) if len(name) <= LONGEST_NAME else None
    return (name.casefold(), "") if found is None else (found[1].casefold(), found[2] or found[3])
