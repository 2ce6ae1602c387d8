"""What the checks on the whole dataset look at: the sound fields as float32, and where episodes end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import BoolArray, FloatArray, IndexArray, column_extremes
from rl_training.data.doctor.findings import Place
from rl_training.data.doctor.raw_checks import RawFields, chunks, place_of
from rl_training.data.fields import EPISODE_ENDS, EPISODE_IDS, FIELD_OF
from rl_training.data.flags import complete_flags
from rl_training.data.formats.calendar_episodes import days_of
from rl_training.data.formats.raw import RawData, Recorded
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import episode_lengths
from rl_training.data.statistics import mean_and_deviation
from rl_training.errors import DataError


@dataclass(frozen=True, eq=False)
class Subject:
    """A dataset, or what can be made of one that was refused: a field that is not sound is None."""

    rows: int
    ends: IndexArray  # last row of each episode, the last row of the data included
    obs: FloatArray | None = None  # [N, O]
    actions: FloatArray | None = None  # [N, A]
    rewards: FloatArray | None = None  # [N]
    next_obs: FloatArray | None = None  # [N, O]; only where the file stores them
    terminations: BoolArray | None = None  # [N]
    truncations: BoolArray | None = None  # [N]
    has_next_obs: BoolArray | None = None  # [N]; False where next_obs is known to be only a stand-in
    whole_episodes: bool = True
    obs_names: tuple[str, ...] | None = None  # [O]; of the file's columns
    action_names: tuple[str, ...] | None = None  # [A]
    ends_told: bool = False  # episodes have ids or reasons of their ends, so that none can be unmarked
    recorded: Recorded | None = None  # the file's own episodes, where these are pieces of them
    ends_are_said: bool = False  # that last rows of episodes are terminations
    days: IndexArray | None = None  # [N]; counted, where steps are dates
    costs: bool = False  # rewards are the negative of the file's own
    added_at_ends: npt.NDArray[np.float64] | None = None  # [N]; what at_termination has added to rewards
    lost_in_float32: tuple[int, ...] = ()  # columns of obs that change, but not by enough for float32

    @classmethod
    def from_dataset(cls, dataset: TransitionDataset, next_obs_stored: bool) -> Subject:
        """The subject that a sound dataset is; arrays are shared."""
        return cls(
            rows=len(dataset),
            ends=dataset.episode_ends,
            obs=dataset.obs,
            actions=dataset.actions,
            rewards=dataset.rewards,
            next_obs=dataset.next_obs if next_obs_stored else None,
            terminations=dataset.terminations,
            truncations=dataset.truncations,
            has_next_obs=dataset.has_next_obs,
            whole_episodes=dataset.whole_episodes,
            lost_in_float32=tuple(found.column for found in dataset.coarse if found.field == "obs"),
        )

    @classmethod
    def from_fields(cls, fields: RawFields, whole_episodes: bool) -> Subject:
        """What is left of a dataset that was refused."""
        numbers: dict[str, Any] = {
            name: np.ascontiguousarray(fields.arrays[name], dtype=np.float32)
            for name in ("obs", "actions", "rewards", "next_obs")
            if name in fields.arrays
        }
        names = ("terminations", "truncations", EPISODE_ENDS, EPISODE_IDS)
        try:
            flags = complete_flags({name: fields.arrays[name] for name in names if name in fields.arrays})
        except (DataError, TypeError, ValueError):  # it is the reason of the refusal
            flags = {}
        numbers |= {name: np.asarray(flags[name], dtype=np.bool_) for name in names[:2] if name in flags}
        return cls(rows=fields.rows, ends=fields.ends, whole_episodes=whole_episodes, **numbers)

    def told_by(self, raw: RawData) -> Subject:
        """With what the file says of its columns and episodes."""
        widths = {"obs": self.obs, "actions": self.actions}
        names = {field: None if of is None else raw.names_of(field, of.shape[1]) for field, of in widths.items()}
        ids = any(FIELD_OF.get(key) == EPISODE_IDS for key in raw.arrays)
        recorded = raw.recorded if raw.recorded is not None and len(raw.recorded.cuts) == self.rows else None
        return replace(
            self,
            obs_names=names["obs"],
            action_names=names["actions"],
            ends_told=raw.ends_told or ids,
            recorded=recorded,
            ends_are_said=raw.ends_are_said,
            days=days_of(raw, self.rows),
            costs=raw.costs,
            added_at_ends=raw.added_to(self.rows),
        )

    @cached_property
    def pieces(self) -> BoolArray:
        """Which episodes are pieces that reading made of a recorded one, `[n_episodes]`."""
        if self.recorded is None:
            return np.zeros(len(self.ends), dtype=np.bool_)
        _, whole, counts = np.unique(self.recorded.episodes[self.ends], return_inverse=True, return_counts=True)
        before = self.recorded.cuts[self.ends]
        cut = before | np.r_[False, before[:-1]]
        return np.asarray(cut | (counts[whole.reshape(-1)] > 1))

    def place(self, row: int, column: int | None = None) -> Place:
        """A row with its episode, where there are episodes."""
        return place_of(self.ends, row, column) if self.whole_episodes else Place(row=row, column=column)

    def head(self, rows: int) -> Subject:
        """The first rows of it, as views; the last of them ends an episode."""
        if rows >= self.rows:
            return self
        ends = np.append(self.ends[self.ends < rows - 1], rows - 1)
        names = ("obs", "actions", "rewards", "next_obs", "terminations", "truncations", "has_next_obs")
        arrays = {name: getattr(self, name) for name in names}
        some: dict[str, Any] = {name: values[:rows] for name, values in arrays.items() if values is not None}
        recorded = None if self.recorded is None else self.recorded.of_rows(np.arange(rows))
        days = None if self.days is None else self.days[:rows]
        added = None if self.added_at_ends is None else self.added_at_ends[:rows]
        return replace(self, rows=rows, ends=ends, recorded=recorded, days=days, added_at_ends=added, **some)

    @cached_property
    def lengths(self) -> IndexArray:
        """Rows of each episode."""
        return episode_lengths(self.ends)

    @cached_property
    def starts(self) -> IndexArray:
        """First row of each episode."""
        return self.ends - self.lengths + 1

    @cached_property
    def returns(self) -> npt.NDArray[np.float64] | None:
        """Sum of each episode's rewards."""
        if self.rewards is None or not self.whole_episodes or not self.rows:
            return None
        return np.add.reduceat(self.rewards, self.starts, dtype=np.float64)

    @cached_property
    def inner(self) -> IndexArray:
        """Rows that are followed by another row of their episode."""
        followed = np.ones(self.rows, dtype=np.bool_)
        followed[self.ends] = False
        return np.flatnonzero(followed)


@dataclass(frozen=True)
class Extremes:
    """Each column's smallest and largest value, `[K]` each, in float64."""

    min: npt.NDArray[np.float64]
    max: npt.NDArray[np.float64]

    @classmethod
    def of(cls, values: FloatArray) -> Extremes:
        """Of at least one row."""
        least, most = column_extremes(values)
        return Extremes(least.astype(np.float64), most.astype(np.float64))


@dataclass(frozen=True)
class Columns(Extremes):
    """Each column's statistics, `[K]` each, in float64."""

    mean: npt.NDArray[np.float64]
    std: npt.NDArray[np.float64]

    @classmethod
    def of(cls, values: FloatArray) -> Columns:
        """Of at least one row, a piece at a time: no copy of the data is made."""
        mean, deviation = mean_and_deviation(values)
        ends = Extremes.of(values)
        return cls(ends.min, ends.max, mean, np.where(ends.min == ends.max, 0.0, deviation))


@dataclass(frozen=True)
class Outside:
    """Entries of a matrix outside bounds that at least one of them lies outside of."""

    entries: int
    rows: int
    first: tuple[int, int]  # row and column

    @classmethod
    def of(cls, values: FloatArray, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> Outside:
        """Count them in `[N, K]`, a piece at a time; the bounds are `[K]`."""
        entries, rows, first = 0, 0, None
        for part in chunks(len(values)):
            wrong = (values[part] < low) | (values[part] > high)
            entries += int(np.count_nonzero(wrong))
            rows += int(np.count_nonzero(wrong.any(axis=1)))
            if first is None and wrong.any():
                row, column = divmod(int(np.argmax(wrong)), wrong.shape[1])
                first = (part.start + row, column)
        assert first is not None
        return cls(entries, rows, first)
