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
        # What comes next may well be named anew by who maps it; of what it follows, none may be passed over.
        left = _numbers(free, beside) if beside in ("obs", "actions") else []
        if beside in said and (following := _following(stem, group, said[beside], left)) is not None:
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


def _following(
    stem: str, group: Mapping[int, str], said: Sequence[str], left: Iterable[int | None]
) -> tuple[str, ...] | None:
    """Of a group of numbered columns, those with the numbers of the columns that were `said` to be the field beside
    it, in that order: a successor in another order than its observation would be another state. left: the numbers of
    those that were left out there.

    None where its own order is all that there is to go by; refused where the two do not go together.
    """
    beside, own_order = _BESIDE[FIELD_OF[stem]], sorted(group)
    own, numbers = _numbers(said, beside), [split_number(plain(name))[1] for name in said]
    is_own = None not in own
    if is_own or len({split_number(plain(name))[0] for name in said}) == 1:
        chosen = [number for number in numbers if number is not None]
        if chosen == own_order:
            return None
        if len(set(chosen)) == len(said) and (set(chosen) <= group.keys() if is_own else sorted(chosen) == own_order):
            return tuple(group[number] for number in chosen)
    counted_on = is_own and own == sorted(number for number in own if number is not None)  # from another number
    elsewhere = any(number is not None and own_order[place : place + 1] != [number] for place, number in enumerate(own))
    if (elsewhere and not counted_on) or not group.keys().isdisjoint(left):
        raise DataError(
            f"{stem}: columns {range_of(_in_order(group))} do not go with columns.{beside} ({listed(said)}) by their"
            f" numbers; say which belong to it, in the same order: columns: {{{FIELD_OF[stem]}: …}}"
        )
    return None


def _in_order(group: Mapping[int, str]) -> list[str]:
    return [group[number] for number in sorted(group)]


def range_of(names: Sequence[str]) -> str:
    first, last = printable(names[0]), printable(names[-1])
    return first if len(names) == 1 else f"{first} … {last} ({len(names)} columns)"
