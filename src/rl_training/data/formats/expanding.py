"""The columns that a mapping names for a field, one by one or by what their names have in common."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.data.checks import MATRIX_FIELDS
from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.field_columns import range_of
from rl_training.data.formats.names import doubled, listed, natural, suggest
from rl_training.errors import ColumnsError, DataError
from rl_training.validation import shown

_MOST_PATTERNS = 200  # of one field, each held against every name


def expand(key: str, wanted: list[str], names: Sequence[str], notes: list[str], *, several: bool) -> tuple[str, ...]:
    """The columns that a value stands for, `obs_*` written out in numeric order. several: rewards are a sum of them."""
    chosen: list[str] = []
    known, patterns = frozenset(names), 0
    for word in wanted:
        if word in known:
            chosen.append(word)
        elif word.count("*") == 1:
            if (patterns := patterns + 1) > _MOST_PATTERNS:
                raise DataError(f"columns.{key}: at most {_MOST_PATTERNS} names with a * in them are looked for")
            before, after = word.split("*")
            found = sorted((name for name in names if matches(name, before, after)), key=natural)
            if not found:
                raise ColumnsError(f"columns.{key}: no column matches {shown(word)}; the data have {listed(names)}")
            chosen += found
            _refuse_doubled(key, chosen)  # before the next one: thousands would fill the memory
            notes.append(f"{key} from {range_of(found)}")
        else:
            raise ColumnsError(f"columns.{key}: no column {shown(word)}{suggest(word, names)}")
    _refuse_doubled(key, chosen)
    if len(chosen) > 1 and FIELD_OF.get(key) not in (*MATRIX_FIELDS, *(["rewards"] if several else [])):
        raise DataError(f"columns.{key}: takes one column, got {len(chosen)}: {listed(chosen)}")
    return tuple(chosen)


def _refuse_doubled(key: str, chosen: Sequence[str]) -> None:
    if (twice := doubled(chosen)) is not None:
        raise DataError(f"columns.{key}: {twice!r} is given twice")


def matches(name: str, before: str, after: str) -> bool:
    return len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after)
