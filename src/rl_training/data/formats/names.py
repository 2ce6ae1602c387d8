"""Names of columns and arrays: their order, their numbers, and how messages list them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rl_training.errors import DataError, closest, did_you_mean
from rl_training.validation import printable, shown
from rl_training.yaml_dialect import inline

_SHOWN_NAMES = 12  # names that a message lists
_COMPARED_NAMES = 1000  # names a mistyped one is held against
_LEAST_PART = 3  # letters of a name that may stand for the whole
LONGEST_NAME = 1000  # characters
_MOST_DIGITS = 9  # of a column's number


def check_names(names: Iterable[str]) -> None:
    """Refuse names without end, and one that stands for two columns."""
    given = list(names)
    long = next((name for name in given if len(name) > LONGEST_NAME), None)
    if long is not None:
        raise DataError(
            f"column {shown(long)}: its name has {len(long):,} characters; at most {LONGEST_NAME:,} are read"
        )
    if (twice := doubled(name for name in given if name)) is not None:
        raise DataError(f"two columns are named {shown(twice)}; give each its own name")


def doubled(names: Iterable[str]) -> str | None:
    """The first name that occurs again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def natural(name: str) -> list[tuple[int, int, str, str]]:
    """A key that sorts `x2` before `x10`; numbers of any length are compared as text, for `int` refuses long ones."""
    parts = ((part, part.lstrip("0")) for part in re.split(r"([0-9]+)", name))
    return [(0, len(digits), digits, part) if part.isdecimal() else (1, 0, part, "") for part, digits in parts]


def split_number(name: str) -> tuple[str, int | None]:
    """The name and the number of `obs_0`, `obs.0`, `obs[0]`, `obs 0` and `obs0`."""
    whole = name.removesuffix("]")
    stem = whole.rstrip("0123456789")
    digits = whole[len(stem) :]
    if not 0 < len(digits) <= _MOST_DIGITS:
        return name, None
    stem = stem.removesuffix("[")
    return (stem[:-1] if stem.endswith((".", "_", " ")) else stem), int(digits)


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first ones of many; one with a comma in it stands in quotes."""
    return first_of((shown if "," in name else printable)(name) if name else "(unnamed)" for name in names)


def first_of(texts: Iterable[str]) -> str:
    """The first of many texts, and how many more there are."""
    given = list(texts)
    more = f" and {len(given) - _SHOWN_NAMES} more" if len(given) > _SHOWN_NAMES else ""
    return ", ".join(given[:_SHOWN_NAMES]) + more if given else "no columns"


def suggest(word: str, names: Sequence[str]) -> str:
    several = [part.strip() for part in word.split(",")] if len(word) <= LONGEST_NAME else []
    if len(several) > 1 and all(part in names for part in several):
        return f"; several are a list: {inline(several)}"
    hint = did_you_mean(word, names[:_COMPARED_NAMES])
    holding = [name for name in names if len(word) >= _LEAST_PART and word.casefold() in name.casefold()]
    if len(holding) == 1:
        return f"; did you mean {shown(holding[0])}?"
    if "did you mean" in hint:
        return hint
    slashless = {name.replace("/", ""): name for name in names[:_COMPARED_NAMES]}  # of units, `km/h`, and no paths
    near = closest(word.replace("/", ""), slashless)
    return f"; the data have {listed(names)}" if near is None else f"; did you mean {shown(slashless[near])}?"
