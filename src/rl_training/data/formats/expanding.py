"""The columns that a mapping names for a field, one by one or by what their names have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rl_training.data.checks import MATRIX_FIELDS
from rl_training.data.fields import END_REASONS, FIELD_ALIASES, FIELD_OF, REQUIRED_FIELDS, STEP
from rl_training.data.formats.field_columns import range_of, slot_of
from rl_training.data.formats.names import doubled, listed, natural, suggest
from rl_training.data.formats.raw import Columns
from rl_training.errors import ColumnsError, DataError, did_you_mean
from rl_training.reading_choices import Choices
from rl_training.validation import shown

_TIMES = ("timestamp", "timestamps", "time", "times", "date", "dates", "datetime", "timestep", "timesteps", "t")
_NEEDED = set(REQUIRED_FIELDS) - {"terminations"}  # in place of which other ends may be told
_MOST_PATTERNS = 200  # of one field, each held against every name


def checked_mapping(columns: Columns | None) -> dict[str, list[str]]:
    """The user's mapping with every value a list, keys that exist, and RLlib's `new_obs` by its own name."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise DataError("columns: must map fields to columns: {obs: [x, y], actions: u}")
    checked: dict[str, list[str]] = {}
    for key, value in columns.items():
        if key not in (STEP, END_REASONS) and key not in FIELD_OF:
            known = [*FIELD_ALIASES, STEP, END_REASONS]
            meant = "; did you mean 'obs'?" if str(key).lower() in ("state", "states", "s") else ""
            meant = f"; did you mean {STEP!r}?" if str(key).lower() in _TIMES else meant
            if key in Choices.__annotations__:
                meant = f"; {key} is an option of dataset: it stands beside columns, not inside: indent it like columns"
            hint = meant or did_you_mean(str(key), known) or f"; fields are {', '.join(known)}"
            raise DataError(f"columns: no field {shown(key)}{hint}")
        wanted = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
        may_lack = value == [] and slot_of(key) not in _NEEDED
        if not (wanted or may_lack) or not all(isinstance(name, str) for name in wanted):
            raise DataError(f"columns.{key}: must be a column's name or a list of names, got {shown(value)}")
        checked["new_obs" if wanted == ["new_obs"] else key] = wanted
    if (twice := doubled(slot_of(key) or key for key in checked)) is not None:
        raise DataError(f"columns: {twice} is given twice, under two of its names; keep one")
    return checked


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
