"""Columns that bear the name of a field: `action`, or `obs_0 … obs_n`, which belong together by their numbers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from rl_training.data.checks import MATRIX_FIELDS
from rl_training.data.fields import FIELD_OF
from rl_training.data.flags import DONES
from rl_training.data.formats.names import split_number
from rl_training.errors import DataError
from rl_training.validation import printable


def plain(name: str) -> str:
    return name.strip().lower()


def slot_of(key: str) -> str | None:
    """The field of a name, of which there can be one; `dones` may stand beside terminations."""
    return DONES[0] if key in DONES else FIELD_OF.get(key)


def bearing(free: Sequence[str], notes: list[str], given: Container[str | None]) -> dict[str, tuple[str, ...]]:
    """Of the columns that nobody has mapped, those of each field that is not `given`, by the name that it has there."""
    found = _named(free, given)
    holders = {slot_of(key): columns[0] for key, columns in found.items()}
    for key, columns in _numbered(free, notes, given).items():
        field = slot_of(key)
        if field in holders:
            raise DataError(f"{field}: both {holders[field]!r} and {columns[0]!r} hold it; say which in columns")
        holders[field] = columns[0]
        found[key] = columns
    return found


def _named(free: Iterable[str], given: Container[str | None]) -> dict[str, tuple[str, ...]]:
    """Columns that bear a field's name, unless the mapping has that field already."""
    found: dict[str, tuple[str, ...]] = {}
    holders: dict[str, str] = {}
    for name in free:
        field = slot_of(plain(name))
        if field is None or field in given:
            continue
        if field in holders:
            raise DataError(f"{field}: both {holders[field]!r} and {name!r} hold it; say which in columns")
        holders[field] = name
        found[plain(name)] = (name,)
    return found


def _numbered(free: Iterable[str], notes: list[str], given: Container[str | None]) -> dict[str, tuple[str, ...]]:
    """`obs_0 … obs_n` gathered, for the fields that are matrices."""
    groups: dict[str, dict[int, str]] = {}
    for name in free:
        stem, number = split_number(plain(name))
        field = FIELD_OF.get(stem)
        if number is not None and field in MATRIX_FIELDS and field not in given:
            group = groups.setdefault(stem, {})
            if number in group:
                raise DataError(f"{stem}: both {group[number]!r} and {name!r} are number {number}; keep one")
            group[number] = name
    for stem, group in groups.items():
        first, last = min(group), max(group)
        if len(group) <= last - first:
            gap = next(number for number in range(first, last) if number not in group)
            raise DataError(f"{stem}: columns {range_of(_in_order(group))}, but number {gap} is missing")
        notes.append(f"{stem} from {range_of(_in_order(group))}")
    return {stem: tuple(_in_order(group)) for stem, group in groups.items()}


def _in_order(group: Mapping[int, str]) -> list[str]:
    return [group[number] for number in sorted(group)]


def range_of(names: Sequence[str]) -> str:
    first, last = printable(names[0]), printable(names[-1])
    return first if len(names) == 1 else f"{first} … {last} ({len(names)} columns)"
