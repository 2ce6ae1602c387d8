"""Names of columns that belong together: numbered ones, and those of a successor."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from rl_training.data.formats.names import natural, split_number
from rl_training.data.guess_words import NEXT, words_in


def is_next(name: str, columns: Container[str]) -> bool:
    """`next_x`, `x'`, and `s2` or `sp` beside `s`."""
    if name.endswith("'") or NEXT & set(words_in(name)):
        return True
    return len(name) > 1 and name[-1] in "2p_" and name[:-1] in columns and f"{name[:-1]}1" not in columns


def without_next(name: str) -> tuple[str, ...]:
    words = [word for word in words_in(name) if word not in NEXT]
    return tuple(words)


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """By number where names are numbered, else as they stand."""
    numbered = all(split_number(name)[1] is not None for name in names)
    return tuple(sorted(names, key=natural)) if numbered else tuple(names)


def pattern_of(names: Sequence[str], every: Iterable[str], matches: Callable[[str, str, str], bool]) -> str | None:
    """`s_*` where that stands for exactly these columns in this order."""
    stems = {name.rstrip("0123456789") for name in names}
    if len(names) < 3 or len(stems) != 1 or not (stem := next(iter(stems))):
        return None
    same = sorted((name for name in every if matches(name, stem, "")), key=natural)
    return f"{stem}*" if same == list(names) else None
