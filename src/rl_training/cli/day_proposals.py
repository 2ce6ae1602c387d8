"""What `rl-training init` makes of dates in the step column: is each day an episode?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import END_REASONS, EPISODE_ENDS, EPISODE_IDS, STEP
from rl_training.data.formats.clocks import HOLE, Clock, clock_of, usual_stride
from rl_training.data.formats.peek import Peek
from rl_training.data.formats.times import steps_of
from rl_training.data.guesses import Guesses
from rl_training.data.value_looks import together
from rl_training.errors import DataError
from rl_training.reading_choices import EpisodeEach, Period

_DAY = 86_400
_FEWEST_DAYS = 3
_NEARLY_ALL = 0.8
_FAR = 99.5  # percentile of the changes from row to row within a day
_MARKS = ("terminations", "truncations", "dones", EPISODE_ENDS, EPISODE_IDS)


@dataclass(frozen=True)
class DayProposal:
    """episode_each, observe_time: taken, or only suggested in a comment. why: what speaks for it, in words."""

    why: str
    is_clear: bool

    @property
    def episode_each(self) -> EpisodeEach | None:
        return "day" if self.is_clear else None

    @property
    def observe_time(self) -> tuple[Period, ...]:
        return ("day",) if self.is_clear else ()

    def lines(self) -> list[str]:
        """For a `dataset:` section."""
        sign = "" if self.is_clear else "# "
        return [
            f"  {sign}episode_each: day  # {self.why}",
            f"  {sign}observe_time: [day]  # the policy sees the time of day, as sin_day and cos_day",
            "  # last_rows_are: termination  # if nothing carries over from one day into the next",
        ]


def clock_in(first: Peek, guesses: Guesses) -> Clock | None:
    """The clock of the rows that were looked at; none where no step was found that can be read."""
    column = guesses.column_of(STEP)
    cells = None if column is None else first.columns.get(column)
    if column is None or cells is None or cells.ndim != 1 or len(cells) < 2:
        return None
    try:
        clock = clock_of(column, steps_of(column, cells))
    except DataError:
        return None
    return clock if np.isfinite(clock.at).all() else None


def proposed_days(first: Peek, guesses: Guesses) -> DayProposal | None:
    """Where steps are dates of several days, and nothing marks where episodes end."""
    clock = clock_in(first, guesses)
    marked = any(guess.is_clear and guess.field in _MARKS for guess in guesses.fields)
    if first.kind not in ("csv", "parquet") or clock is None or clock.wall is None or marked:
        return None
    at, day = clock.at, clock.wall // _DAY
    midnights = np.flatnonzero((np.diff(day) != 0) & (np.diff(at) > 0))
    stride = usual_stride(at, np.ones(len(at) - 1, dtype=np.bool_))
    paused = np.diff(at)[midnights] > HOLE * stride
    if len(midnights) + 1 < _FEWEST_DAYS and not paused.any():
        return None
    if paused.mean() >= _NEARLY_ALL:
        return DayProposal("rows pause between nearly all days", is_clear=guesses.column_of(END_REASONS) is None)
    jumped = _jumped(_observed(first, guesses), midnights, np.diff(day) == 0)
    if len(midnights) + 1 >= _FEWEST_DAYS and jumped.mean() >= _NEARLY_ALL:
        why = f"after {int(jumped.sum()):,} of {len(midnights):,} midnights the measurements jump"
        return DayProposal(why, is_clear=guesses.column_of(END_REASONS) is None)
    return DayProposal("if each day is a task of its own, such as one that is billed", is_clear=False)


def _observed(first: Peek, guesses: Guesses) -> list[npt.NDArray[np.float64]]:
    """What may be seen, of the rows that were looked at."""
    names = [name for g in guesses.fields if g.field == "obs" for some in (g.columns, *g.candidates) for name in some]
    cells = [first.columns[name] for name in dict.fromkeys(names) if name in first.columns]
    return [values.astype(np.float64) for values in cells if values.ndim == 1 and values.dtype.kind in "iuf"]


def _jumped(
    columns: list[npt.NDArray[np.float64]], midnights: npt.NDArray[np.int64], inside: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """After which midnights one of the columns changes as it hardly ever does within a day, `[K]`."""
    jumped = np.zeros(len(midnights), dtype=np.bool_)
    for values in columns:
        changes = np.abs(np.diff(values))
        usual = changes[inside & np.isfinite(changes)]
        if usual.size:
            jumped |= changes[midnights] > np.percentile(usual, _FAR)
    return jumped


def going_on(first: Peek, guesses: Guesses, texts: Mapping[str, Any]) -> dict[str, str]:
    """Of the texts that may say why episodes ended, those after which nearly all rows go on a usual step later in the
    same episode, with as little change as elsewhere: what speaks for that, in words."""
    clock, column = clock_in(first, guesses), guesses.column_of(END_REASONS)
    if clock is None or column is None or first.files > 1:
        return {}
    ids = guesses.column_of(EPISODE_IDS)
    at, texted, episode = together(clock.at, first.columns[column], clock.at if ids is None else first.columns[ids])
    if len(at) < 2:
        return {}
    stride = usual_stride(at, np.ones(len(at) - 1, dtype=np.bool_))
    follows = (np.diff(at) > 0) & (np.diff(at) <= HOLE * stride)
    if ids is not None:
        follows &= episode[1:] == episode[:-1]
    cells = np.array([str(cell).strip() for cell in texted.tolist()])
    observed = [values[: len(at)] for values in _observed(first, guesses) if len(values) >= len(at)]
    quiet = ~_jumped(observed, np.arange(len(at) - 1), cells[:-1] == "")
    found = {}
    for text in filter(None, texts):
        rows = np.flatnonzero(cells[:-1] == text)
        on = int((follows & quiet)[rows].sum())
        if len(rows) >= _FEWEST_DAYS and on >= _NEARLY_ALL * len(rows):
            found[text] = f"after {on:,} of {len(rows):,} rows looked at the next follows as usual: nothing ended"
    return found
