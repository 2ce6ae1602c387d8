"""Which columns of a CSV file are a policy's observations: by its names, those that were written here, and by dates."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rl_training.cli.reading_options import joined
from rl_training.data.fields import FIELD_OF, STEP
from rl_training.data.formats.cells import BadCellsError
from rl_training.data.formats.clocks import DATES, clock_of
from rl_training.data.formats.csv_text import Layout
from rl_training.data.formats.field_columns import bearing, plain
from rl_training.data.formats.names import listed, split_number
from rl_training.data.formats.other_names import called_otherwise
from rl_training.data.formats.times import steps_of
from rl_training.data.formats.written import names_beside
from rl_training.environments import NamedColumn
from rl_training.errors import DataError
from rl_training.time_features import feature

_SOME_TIME = "2024-06-01T12:00"
_ALSO = (STEP, "t")  # what a column of dates may be called, where nobody named it


def by_their_names(path: Path, layout: Layout, known: Sequence[NamedColumn]) -> Layout:
    """The layout with `obs_0`, `obs_1`, … as they are called in the file beside it; without one, as the policy does,
    unless the file has a name of the policy's: a number may be part of it."""
    told = names_beside(path).get("obs") if known else None
    own = told if isinstance(told, list) and len(told) == len(known) else [column.name for column in known]
    if not known or (own is not told and not set(own).isdisjoint(layout.names)):
        return layout
    numbered = by_number(layout)
    if len(numbered) != len(known):
        return layout
    called = dict(zip(numbered, map(str, own), strict=True))
    return replace(layout, names=[called.get(name, name) for name in layout.names])


def by_number(layout: Layout) -> tuple[str, ...]:
    """The columns `obs_0`, `obs_1`, … in the order of their numbers, as data are read; none where there are none."""
    names = layout.names if layout.has_names else ()
    own = [name for name in names if FIELD_OF.get(split_number(plain(name))[0]) == "obs"]
    return next((found for found in bearing(own, [], (), {}).values() if split_number(found[0])[1] is not None), ())


def dates_of(column: NamedColumn, names: Collection[str]) -> str | None:
    """The column of dates that a value is computed from, where the file has that and not the value itself."""
    if not column.time or column.name in names:
        return None
    return next((name for name in (column.time, *_ALSO) if name in names), None)


def as_option(known: Sequence[NamedColumn], given: Mapping[str, str] | None = None) -> str:
    """`--obs x=1,y=2,time=2024-06-01T12:00`: an observation by its names, of what was given for them, else of values
    from the middle of what was seen, and 0 of what may be either 0 or 1."""
    middles = {column.name: f"{_some_value(column):.4g}" for column in known if not column.time}
    some = middles | {column.time: _SOME_TIME for column in known if column.time}
    return f"--obs {shlex.quote(joined(f'{name}={(given or {}).get(name) or value}' for name, value in some.items()))}"


def _some_value(column: NamedColumn) -> float:
    return 0.0 if (column.low, column.high) == (0.0, 1.0) else (column.low + column.high) / 2


def in_their_order(known: Sequence[NamedColumn], values: Sequence[float]) -> dict[str, str]:
    """By name, where they are as many as are not computed from the time."""
    plain = [column.name for column in known if not column.time]
    return dict(zip(plain, map("{:.9g}".format, values), strict=True)) if len(values) == len(plain) else {}


def computed_from(known: Sequence[NamedColumn], given: Mapping[str, str]) -> str:
    """Which values nobody has to give, and what to type instead; nothing where there are none."""
    timed = [column for column in known if column.time]
    if not timed:
        return ""
    names = listed(column.name for column in timed)
    return f"; {names} are computed from {timed[0].time}, which is given by name: {as_option(known, given)}"


def require_all(known: Sequence[NamedColumn], names: Sequence[str]) -> None:
    """Refuse a file that lacks a column that the policy sees, or is computed from."""
    held = set(names)
    lacking = [column for column in known if column.name not in held and dates_of(column, held) is None]
    if not lacking:
        return
    dates = {column.time for column in lacking if column.time}
    way = f" (or {listed(dates)}, the dates that they are computed from)" if dates else ""
    own = {column.name for column in known}
    meant = called_otherwise(lacking[0].name, [name for name in names if name not in own])
    seen = listed(column.name for column in known)
    raise DataError(f"lacks {listed(column.name for column in lacking)}{way}; the policy sees {seen}{meant}")


def computed(name: str, dates: str, cells: Iterable[str]) -> npt.NDArray[np.float64]:
    """The values of one name from the cells of a column of dates, `[N]`."""
    clock = clock_of(dates, steps_of(dates, np.array(list(cells), dtype=object)))
    if clock.wall is None:
        raise DataError(f"column {dates!r}: holds no dates ({DATES}), and {name} is computed from them")
    return feature(clock.wall, name)


def refuse_missing(
    name: str, values: npt.NDArray[np.float64], lines: npt.NDArray[np.int64], first_written: str
) -> None:
    """Tell the first cell without a value by its line, and what to do. first_written: as it stands there."""
    lacking = np.flatnonzero(np.isnan(values))
    if not lacking.size:
        return
    first = int(lacking[0])
    written = first_written.strip()
    what = f"has no value{f', but {written!r}' if written else ''}"
    more = f" ({lacking.size:,} such rows, the last in line {lines[int(lacking[-1])]})" if lacking.size > 1 else ""
    count = "lines count from 1 with the header, as rows of a spreadsheet do"
    way = "fill it in, with the value before where it changes slowly, or leave out the row"
    raise DataError(f"column {name!r}: line {lines[first]} {what}{more}; {way} ({count})")


def in_lines(error: BadCellsError, lines: npt.NDArray[np.int64]) -> DataError:
    """Cells that are no numbers, with the line of the first, and what to do."""
    told = error.told({row: int(lines[row]) for row in error.cells if row < len(lines)})
    return DataError(f"{told}; write what it stands for, or leave out the row")
