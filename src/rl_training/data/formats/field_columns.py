"""Columns that bear the name of a field: `action`, or `obs_0 … obs_n`, which belong together by their numbers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from rl_training.data.checks import MATRIX_FIELDS
from rl_training.data.fields import FIELD_OF, PARTS, are_parts
from rl_training.data.flags import DONES
from rl_training.data.formats.names import listed, split_number
from rl_training.errors import DataError
from rl_training.validation import printable

# What has a column for each of the other's, in the same order.
_BESIDE = {"obs": "next_obs", "next_obs": "obs", "actions": "next_actions", "next_actions": "actions"}
_FIRST = ("obs", "actions")  # of which none may be passed over; what comes next may be named anew by who maps it


def plain(name: str) -> str:
    return name.strip().lower()


def slot_of(key: str) -> str | None:
    """The field of a name, of which there can be one; `dones` may stand beside terminations."""
    return DONES[0] if key in DONES else FIELD_OF.get(key)


def bearing(
    free: Sequence[str],
    notes: list[str],
    given: Container[str | None],
    mapped: Mapping[str, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """Of the columns that nobody has mapped, those of each field that is not `given`, by the name that it has there.

    mapped: the columns of the fields that somebody has.
    """
    found = _named(free, given)
    holders = {slot_of(key): columns[0] for key, columns in found.items()}
    said = {FIELD_OF[key]: columns for key, columns in mapped.items() if FIELD_OF[key] in _BESIDE}
    for key, (name,) in found.items():
        beside = _BESIDE.get(FIELD_OF[key], "")
        if beside in said and not _is_in_order(said[beside], beside, free):
            raise DataError(
                f"{name}: nothing shows that it goes in the order of columns.{beside} ({listed(said[beside])}); if it"
                f" does, say so: columns: {{{FIELD_OF[key]}: {printable(name)}}}{_other_way(FIELD_OF[key])}"
            )
    for key, columns in _numbered(free, notes, given, said).items():
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
    names = list(free)
    for name in names:
        field = slot_of(plain(name))
        if field is None or field in given or (field == PARTS and not are_parts(names)):
            continue
        if field in holders:
            raise DataError(f"{field}: both {holders[field]!r} and {name!r} hold it; say which in columns")
        holders[field] = name
        found[plain(name)] = (name,)
    return found


def _numbered(
    free: Iterable[str], notes: list[str], given: Container[str | None], said: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """`obs_0 … obs_n` gathered, for the fields that are matrices. said: the columns of those that are mapped."""
    groups: dict[str, dict[int, str]] = {}
    for name in free:
        stem, number = split_number(plain(name))
        field = FIELD_OF.get(stem)
        if number is not None and field in MATRIX_FIELDS and field not in given:
            group = groups.setdefault(stem, {})
            if number in group:
                raise DataError(f"{stem}: both {group[number]!r} and {name!r} are number {number}; keep one")
            group[number] = name
    found: dict[str, tuple[str, ...]] = {}
    for stem, group in groups.items():
        beside = _BESIDE.get(FIELD_OF[stem], "")
        if beside in said and (following := _following(stem, group, said[beside], free)) is not None:
            notes.append(f"{stem} from {listed(following)}, in the order of {beside}")
            found[stem] = following
            continue
        first, last = min(group), max(group)
        if len(group) <= last - first:
            gap = next(number for number in range(first, last) if number not in group)
            raise DataError(f"{stem}: columns {range_of(_in_order(group))}, but number {gap} is missing")
        notes.append(f"{stem} from {range_of(_in_order(group))}")
        found[stem] = tuple(_in_order(group))
    return found


def _numbers(names: Iterable[str], field: str) -> list[int | None]:
    """Of columns, by the numbers that they have under a name of a field; None for others, `[K]`."""
    split = [split_number(plain(name)) for name in names]
    return [number if FIELD_OF.get(stem) == field else None for stem, number in split]


def _following(stem: str, group: Mapping[int, str], said: Sequence[str], free: Iterable[str]) -> tuple[str, ...] | None:
    """Of a group of numbered columns, those with the numbers of the columns that were `said` to be the field beside
    it, in that order: a successor in another order than its observation would be another state. free: what nobody has
    mapped.

    None where its own order is theirs as well; refused where nothing shows which belong together.
    """
    field = FIELD_OF[stem]
    beside, own_order = _BESIDE[field], sorted(group)
    left = [number for number in _numbers(free, beside) if number is not None] if beside in _FIRST else []
    split = [split_number(plain(name)) for name in said]
    numbers = [number for _, number in split if number is not None]
    if len(set(numbers)) == len(said):
        if None not in _numbers(said, beside):
            is_theirs = set(numbers) <= group.keys() and (not left or group.keys() <= {*numbers, *left})
        else:
            is_theirs = len({stem for stem, _ in split}) == 1 and sorted(numbers) == own_order and not left
        if is_theirs:
            return None if numbers == own_order else tuple(group[number] for number in numbers)
    if not _is_in_order(said, beside, free):
        raise DataError(
            f"{stem}: columns {range_of(_in_order(group))} do not go with columns.{beside} ({listed(said)}) by their"
            f" numbers; say which belong to it, in the same order: columns: {{{field}: …}}{_other_way(field)}"
        )
    return None


def _is_in_order(said: Sequence[str], field: str, free: Iterable[str]) -> bool:
    """Whether columns that were said to be a field are in the one order that there can be: a column alone, or all of
    one name, counted from 0 or 1, and none that bears the field's name was left out. free: what nobody has mapped.

    Who says what comes next, beside a field that nobody mapped, has that one in mind.
    """
    split = [split_number(plain(name)) for name in said]
    numbers = [number for _, number in split if number is not None]
    if field not in _FIRST:
        return numbers == sorted(numbers)
    stems = {stem for stem, number in split if number is not None}
    for name in map(plain, free):
        stem, number = split_number(name)
        if FIELD_OF.get(name if number is None else stem) == field or (number is not None and stem in stems):
            return False
    counted = [list(range(first, first + len(said))) for first in (0, 1)]
    return len(said) == 1 or (len(stems) == 1 and numbers in counted)


def _other_way(field: str) -> str:
    """How to do without a field that was found by its name."""
    return f", or {{{field}: []}} to take it from the next row" if field == "next_obs" else ""


def _in_order(group: Mapping[int, str]) -> list[str]:
    return [group[number] for number in sorted(group)]


def range_of(names: Sequence[str]) -> str:
    first, last = printable(names[0]), printable(names[-1])
    return first if len(names) == 1 else f"{first} … {last} ({len(names)} columns)"
