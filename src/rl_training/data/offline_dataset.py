"""`TransitionDataset`: logged transitions as numpy arrays, checked when made, in the order they were recorded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import (
    BoolArray,
    FloatArray,
    IndexArray,
    check_action_bounds,
    check_transitions,
    convert_fields,
    row_indices,
)
from rl_training.data.fields import BORDERS_LOST, DISCRETE_ACTIONS, FIELD_ALIASES, missing_fields, what_is_missing
from rl_training.data.fingerprints import combined_fingerprint, field_digest
from rl_training.data.flags import complete_flags, dones_hide_time_limits, refuse_mixed_dones, resolve_names
from rl_training.data.formats import Columns, RawData, is_there, read, read_table, writers
from rl_training.data.formats.calendar_episodes import with_time_after_ends
from rl_training.data.formats.columns import SCHEMA, notes_on, open_columns
from rl_training.data.formats.places import expand, locate, text_of
from rl_training.data.formats.raw import by_the_files_rows
from rl_training.data.offline_mixers import Mixture
from rl_training.data.own_labels import bounds_by_name, by_own_labels, one_index
from rl_training.data.provenance import KEY, Provenance
from rl_training.data.reading_options import ReadingOptions
from rl_training.data.resolution import CoarseColumn, coarse_columns
from rl_training.data.returns import discounted_returns_to_go, episode_lengths, follows_episodes, shift_within_episodes
from rl_training.data.settling import MARKS, settle
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.data.summaries import ROW_FACTS, Facts
from rl_training.errors import DataError
from rl_training.reading_choices import Choices, Understanding, checked_codes
from rl_training.wording import amount


@dataclass(frozen=True, eq=False, repr=False)
class TransitionDataset:
    """N transitions in recorded order. Arrays are shared with the caller where possible: do not write to them.

    An episode ends at a termination or truncation; data that stop in mid-episode end there too, without a flag, as
    the last row's successor is simply not known. Only a termination stops bootstrapping; where both flags are set,
    termination wins. Rows without `has_next_obs` count in episodes and returns but are never trained on, as their
    `next_obs` is only a stand-in. `whole_episodes` is False after `sample` and other selections that lose the
    episodes' order: episode ids, returns and lengths would mean nothing then, and are refused.
    """

    obs: FloatArray  # [N, O]
    actions: FloatArray  # [N, A]
    rewards: FloatArray  # [N]
    next_obs: FloatArray  # [N, O]
    terminations: BoolArray  # [N]
    truncations: BoolArray  # [N]
    next_actions: FloatArray | None = None  # [N, A]
    returns_to_go: FloatArray | None = None  # [N]
    has_next_obs: BoolArray | None = None  # [N]; False where the successor was not recorded; None: everywhere
    part_ids: IndexArray | None = None  # [N]; which part of a mixture a row belongs to, in ascending order
    whole_episodes: bool = True
    origin: str | None = None  # what the data were read from, in words
    in_file: RawData | None = None  # where the file has a row and a column; of its arrays, what tells ends
    notes: tuple[str, ...] = ()  # what was done on reading that a user should know
    mixture: Mixture | None = None  # what `part_ids` stand for
    folder: Path | None = None  # the column directory whose rows these are, all of them
    env_id: str | None = None  # the environment the file says it was recorded in
    bounds: SpaceBounds | None = None  # of actions and observations, as the file tells them
    next_obs_derived: bool = False  # taken from the next row, not stored
    coarse: tuple[CoarseColumn, ...] = ()  # columns that lost their changes in float32
    provenance: Provenance | None = None  # where they come from, the file's own word on that included
    accepted: tuple[str, ...] = ()  # codes of findings to train in spite of

    def __post_init__(self) -> None:
        arrays = convert_fields(self.to_dict())
        check_transitions(arrays)
        for name, values in arrays.items():
            object.__setattr__(self, name, values)

    @classmethod
    def _unchecked(cls, values: Mapping[str, Any]) -> TransitionDataset:
        dataset = object.__new__(cls)
        dataset.__dict__.update(values)
        return dataset

    def _with(self, **changes: Any) -> TransitionDataset:
        """As `replace`, for what is no array or is made of arrays that were checked: they are not looked at again."""
        return self._unchecked({field.name: getattr(self, field.name) for field in fields(self)} | changes)

    @classmethod
    def from_dict(
        cls,
        mapping: Mapping[str, Any],
        *,
        action_low: npt.ArrayLike | None = None,
        action_high: npt.ArrayLike | None = None,
    ) -> TransitionDataset:
        """Build from named arrays; `FIELD_ALIASES` lists the names. Truncations default to none.

        Without `next_obs`, each row's successor is the next row of its episode; the last row of an episode that did
        not terminate then has none. Without `truncations`, `episode_terminals` tell where episodes end.

        `[N, 1]` rewards and flags are flattened, `[N]` observations and actions become `[N, 1]`, numbers float32, and
        0/1 flags booleans. Actions are checked against the bounds when both are given.
        """
        mapping = by_own_labels(mapping)
        action_low, action_high = bounds_by_name(mapping, action_low, action_high)
        if (action_low is None) != (action_high is None):
            raise DataError("action_low and action_high are given together or not at all")
        named = resolve_names(mapping)
        given = complete_flags(named)
        if missing := missing_fields(named):
            raise DataError(what_is_missing(missing, mapping))
        if dones_hide_time_limits(mapping, named, given):
            warnings.warn(
                "'dones' are read as terminations, which stop the bootstrap; give time limits apart, as truncations",
                stacklevel=2,
            )
        given.setdefault("truncations", np.zeros(np.shape(given["terminations"]), dtype=np.bool_))
        derived = "next_obs" not in given
        dataset = cls(**given | ({"next_obs": given["obs"]} if derived else {}))
        dataset = (dataset._with_next_obs() if derived else dataset)._with(coarse=coarse_columns(given))
        refuse_mixed_dones(mapping, dataset.terminations, dataset.truncations)
        if action_low is None or action_high is None:
            return dataset
        dataset.check_bounds(action_low, action_high)
        return dataset._with(bounds=SpaceBounds.of_actions(action_low, action_high, dataset.act_dim))

    def check_bounds(self, action_low: npt.ArrayLike, action_high: npt.ArrayLike) -> None:
        """Refuse an action outside the bounds (each a scalar or `[A]`) by more than rounding."""
        with by_the_files_rows(self):
            check_action_bounds(self.actions, action_low, action_high, self.terminations | self.truncations)

    def __repr__(self) -> str:
        """Short: the arrays themselves are long."""
        episodes = amount(self.n_episodes, "episode") if self.whole_episodes else "sampled or reordered"
        what = f"{amount(len(self), 'transition')}, {episodes}, obs {self.obs_dim}, actions {self.act_dim}"
        return f"TransitionDataset({what}, fields {', '.join(self.to_dict())})"

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def obs_dim(self) -> int:
        """Width of an observation."""
        return int(self.obs.shape[1])

    @property
    def act_dim(self) -> int:
        """Width of an action."""
        return int(self.actions.shape[1])

    @cached_property
    def episode_ends(self) -> IndexArray:
        """Last row of each episode, `[n_episodes]`: a termination, a truncation or the end of the data."""
        ends = self.terminations | self.truncations
        ends[-1] = True
        return np.flatnonzero(ends)

    @property
    def episode_ids(self) -> IndexArray:
        """Number of the episode each row belongs to, `[N]`, from 0."""
        self._require_whole_episodes("episode_ids")
        return np.repeat(np.arange(self.n_episodes, dtype=np.int64), self.episode_lengths())

    @property
    def n_episodes(self) -> int:
        """Number of episodes, a cut-off last one included."""
        self._require_whole_episodes("n_episodes")
        return len(self.episode_ends)

    def episode_returns(self) -> npt.NDArray[np.float64]:
        """Undiscounted sum of the raw rewards of each episode, `[n_episodes]`."""
        self._require_whole_episodes("episode_returns")
        starts = self.episode_ends - self.episode_lengths() + 1
        return np.add.reduceat(self.rewards.astype(np.float64), starts)

    def episode_lengths(self) -> IndexArray:
        """Rows of each episode, `[n_episodes]`."""
        self._require_whole_episodes("episode_lengths")
        return episode_lengths(self.episode_ends)

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by field name, absent optional fields left out."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name in FIELD_ALIASES)
        return {name: value for name, value in values if value is not None}

    def fingerprint(self) -> str:
        """SHA-256 over field names, dtypes, shapes and bytes (and a mixture's shares), in hexadecimal."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return combined_fingerprint({name: field_digest(a) for name, a in self.to_dict().items()}, self.mixture)

    def select(self, rows: npt.NDArray[Any]) -> TransitionDataset:
        """The given rows (indices, or a mask `[N]`) with every field they have; derive fields before, not after."""
        index = row_indices(rows, len(self))
        flagged = self.terminations | self.truncations
        return self._take(index, whole_episodes=self.whole_episodes and follows_episodes(index, flagged))

    def accepting(self, *codes: str) -> TransitionDataset:
        """To be trained on in spite of the errors that `rl-training data check` finds under these codes."""
        return self._unchecked(self.__dict__ | {"accepted": checked_codes(codes)})

    def noted(self, *notes: str) -> TransitionDataset:
        """With more to tell whoever trains on it."""
        return self._unchecked(self.__dict__ | {"notes": tuple(dict.fromkeys((*self.notes, *notes)))})

    def sample(self, batch_size: int, rng: np.random.Generator) -> TransitionDataset:
        """`batch_size` rows drawn uniformly with replacement of those whose successor is known."""
        if batch_size < 1:
            raise DataError(f"batch_size: must be at least 1, is {batch_size}")
        self._require_usable()
        rows = rng.integers(0, self.n_usable, size=batch_size)
        rows = rows if self.has_next_obs is None else np.flatnonzero(self.has_next_obs)[rows]
        return self._take(rows, whole_episodes=False)

    def _take(self, rows: IndexArray, whole_episodes: bool) -> TransitionDataset:
        arrays: dict[str, Any] = {name: values[rows] for name, values in self.to_dict().items()}
        in_file = None if self.in_file is None else self.in_file.of_rows(rows)
        return self._with(**arrays, whole_episodes=whole_episodes, folder=None, in_file=in_file)

    def _require_whole_episodes(self, what: str) -> None:
        if not self.whole_episodes:
            raise DataError(f"{what}: the rows were sampled or reordered; compute it on the whole dataset first")

    def _with_next_obs(self) -> TransitionDataset:
        """`next_obs` from the next row of the episode; unknown after the last, unless that is a termination."""
        ends = self.episode_ends
        known = np.ones(len(self), dtype=np.bool_)
        known[ends] = self.terminations[ends]
        return self._with(
            next_obs=shift_within_episodes(self.obs, ends, self.obs[ends]),
            has_next_obs=None if known.all() else known,
            next_obs_derived=True,
        )

    @property
    def n_usable(self) -> int:
        """Rows that can be trained on: those whose successor is known."""
        return len(self) if self.has_next_obs is None else int(self.has_next_obs.sum())

    def _require_usable(self) -> None:
        if not self.n_usable:
            raise DataError("next_obs: no row has a recorded successor; nothing can be trained on")

    def usable(self) -> TransitionDataset:
        """The rows whose successor is known. An episode that loses its last row is truncated at the row before."""
        if self.has_next_obs is None:
            return self
        self._require_usable()
        self._require_whole_episodes("usable")
        before = np.flatnonzero(~self.has_next_obs[1:] & (self.episode_ids[1:] == self.episode_ids[:-1]))
        truncations = self.truncations.copy()
        truncations[before] = True
        kept = replace(self, truncations=truncations, has_next_obs=None)
        return kept._take(np.flatnonzero(self.has_next_obs), whole_episodes=True)

    def refuse_mixture(self) -> None:
        """A file holds rows, not how often they are drawn."""
        if self.mixture is not None:
            raise DataError("a mixture is not written: its shares would be lost; write its parts and mix them again")

    def with_next_actions(self) -> TransitionDataset:
        """Fill `next_actions` with each row's successor in its episode.

        The last row of an episode has no recorded successor; it repeats its own action. After a termination that
        does not matter (the bootstrap is masked). After a truncation or cut it assumes that the behaviour goes on as
        it just did; the row is kept, as its reward and next observation are real.
        """
        self._require_whole_episodes("next_actions")
        ends = self.episode_ends
        return self._with(next_actions=shift_within_episodes(self.actions, ends, self.actions[ends]))

    def with_returns_to_go(self, gamma: float, rewards: npt.NDArray[Any] | None = None) -> TransitionDataset:
        """Fill `returns_to_go` from `rewards` `[N]` (the raw ones by default), with no value after the last row; see
        `discounted_returns_to_go` for what that assumes of a truncated episode."""
        self._require_whole_episodes("returns_to_go")
        source = self.rewards if rewards is None else np.asarray(rewards)
        if source.shape != self.rewards.shape:
            raise DataError(f"rewards: shape {source.shape}, but the dataset has {amount(len(self), 'row')}")
        returns = discounted_returns_to_go(source, self.episode_ends, gamma)
        return replace(self, returns_to_go=returns.astype(np.float32))

    def summary(self) -> dict[str, Any]:
        """What a person wants to know of a dataset, as JSON values."""
        self._require_whole_episodes("summary")
        return self._facts | self.row_summary()

    def row_summary(self) -> dict[str, Any]:
        """As much of it as can be said of any rows, sampled ones too."""
        widths = {"obs_dim": self.obs_dim, "act_dim": self.act_dim}
        return {name: self._facts[name] for name in ROW_FACTS} | widths | {"fingerprint": self.fingerprint()}

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return Facts.of(self).to_json()

    def save(self, path: str | os.PathLike[str], *, file_format: writers.Format | None = None) -> None:
        """Write a file or folder: complete under its name or not there at all.

        The name's ending chooses the format as in `rl-training data convert` (`log.npz`, `log.hdf5`, `log.parquet`,
        `log.csv`, `log/`, `minari:ID`), or `file_format` does. What the format cannot hold is warned of.
        """
        for note in writers.write(self, writers.target_of(text_of(path), file_format), force=True):
            warnings.warn(note, stacklevel=2)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, columns: Columns | None = None, **said: Unpack[Choices]
    ) -> TransitionDataset:
        """Read a file in any format of `rl_training.data.formats`, with the names of `FIELD_ALIASES`.

        columns: which columns hold which field, or which arrays, where a file has other names.
        end_reasons: what the texts of a column of reasons mean, `{"goal": "termination"}`.
        time_limits: `d4rl` converts as D4RL's `qlearning_dataset` does; `keep` keeps rows at a time limit.
        max_episode_steps: where the data have no truncations, an episode is cut after so many rows.
        dones_are: what a plain `dones` flag means: `terminations`, `truncations`, or `ends` of either kind.
        rewards_are: `costs` are negated: lower is better in the data.
        rewards_at: `next` where a step's reward stands in the row after it; last rows, which have none, are left out.
        at_termination: added to the reward of a row that terminates, or by reason; to the cost, of costs.
        action_low, action_high: the bounds of actions, each a number or one for each; an action outside is refused.
        missing: `drop` leaves out rows with a missing value, each cuts its episode; `hold` takes the last one before.
        missing_words: what else stands for a missing number in a table: `["ERR", "-9999"]`.
        duplicates: `drop` leaves out rows of a step that are copies of the row before.
        words: numbers that the words of a column stand for, `{"door": {"shut": 0, "open": 1}}`.
        episode_each: `hour`, `day`, `week` or `month`, by the dates of a table's step column, is an episode each.
        observe_time: sine and cosine of the place in a `day`, `week` or `year`, by these dates, are observed, too.
        last_rows_are: what the last row of an episode is that ends by its id alone: a `truncation` or `termination`.
        Nothing in the file is executed: no pickle is opened, no external file is followed.
        """
        options, place = ReadingOptions.of(said, columns), locate(text_of(path))
        if not (told := options.said()) and columns is None and is_there(place / SCHEMA):
            return cls.open(place)
        try:
            dataset = cls.from_raw(read(place, columns, options.table_choices()), **options.understanding())
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        return dataset._with(provenance=Provenance.of(place.name, {"columns": columns, **told}, dataset.provenance))

    @classmethod
    def from_table(cls, table: Any, columns: Columns | None = None, **said: Unpack[Choices]) -> TransitionDataset:
        """Build from a table: a pandas DataFrame, an Arrow table or a mapping of columns by name.

        columns: which columns hold which field, `{"obs": ["x", "y"], "actions": "u"}`; what it leaves out is found
        by the names of `FIELD_ALIASES`, numbered columns (`obs_0`, `obs_1`, …) together. Other options as for `load`.
        """
        options = ReadingOptions.of(said, columns)
        return cls.from_raw(read_table(one_index(table), columns, options.table_choices()), **options.understanding())

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> TransitionDataset:
        """A column directory, memory-mapped: nothing is read or checked until it is used (see `formats.columns`)."""
        path = expand(folder)
        try:
            arrays, schema = open_columns(path)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        defaults = {field.name: field.default for field in fields(cls) if field.default is not MISSING}
        told = {"env_id": told_env_id(schema.get("env_id")), "bounds": SpaceBounds.read(schema.get("bounds") or {})}
        told |= {"whole_episodes": schema["whole_episodes"], "origin": "column directory"}
        known = {KEY: Provenance(path.name, before=Provenance.read(schema.get(KEY))), "folder": path.resolve()}
        known |= {"_fingerprint": schema["fingerprint"], "_facts": schema["summary"], "notes": notes_on(schema)}
        return cls._unchecked(defaults | arrays | told | known)

    @classmethod
    def from_raw(cls, raw: RawData, **understood: Unpack[Understanding]) -> TransitionDataset:
        """What a reader handed over, checked and completed; options as for `load`."""
        if np.any(raw.arrays.get(mark := DISCRETE_ACTIONS, False)):
            raise DataError(f"actions: discrete (the file's {mark} is set); only continuous actions are supported")
        settled = settle(raw, **understood)
        arrays = {name: values for name, values in settled.arrays.items() if name not in MARKS}
        with settled.locating():
            dataset = cls.from_dict(arrays)
            if dataset.next_obs_derived and raw.time_columns:
                last = dataset.episode_ends
                dataset = dataset._with(next_obs=with_time_after_ends(raw, dataset.obs, dataset.next_obs, last))
            if (said := settled.bounds) is not None and said.by_user and said.action_low and said.action_high:
                ends = dataset.terminations | dataset.truncations
                check_action_bounds(dataset.actions, said.action_low, said.action_high, ends, by_user=True)
        bounds, misfits = settled.bounds.fitted(dataset.obs, dataset.actions) if settled.bounds else (None, ())
        return dataset._with(
            whole_episodes=not np.any(raw.arrays.get(BORDERS_LOST, False)),
            origin=raw.format,
            in_file=settled.with_ends_alone(),
            next_obs_derived=dataset.next_obs_derived or understood.get("time_limits") == "d4rl",
            notes=(*settled.notes, *raw.hints, *misfits),
            provenance=raw.provenance,
            env_id=raw.env_id,
            bounds=bounds,
        )
