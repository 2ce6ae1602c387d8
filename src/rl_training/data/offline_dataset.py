"""`TransitionDataset`: logged transitions as numpy arrays, checked when made, in the order they were recorded."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import (
    BoolArray,
    FloatArray,
    IndexArray,
    check_action_bounds,
    check_transitions,
    convert_fields,
)
from rl_training.data.returns import discounted_returns_to_go, episode_lengths, shift_within_episodes
from rl_training.errors import DataError, did_you_mean

FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "obs": ("observations", "observation"),
    "actions": ("action",),
    "rewards": ("reward",),
    "next_obs": ("next_observations", "next_observation"),
    "terminations": ("termination", "terminals", "terminal", "terminated", "dones", "done"),
    "truncations": ("truncation", "truncated", "timeouts", "timeout"),
    "next_actions": ("next_action",),
    "returns_to_go": (),
}
REQUIRED_FIELDS = ("obs", "actions", "rewards", "next_obs", "terminations")
_IGNORED_PREFIXES = ("infos", "metadata")  # side information in D4RL's files
_FIELD_OF = {alias: name for name, aliases in FIELD_ALIASES.items() for alias in (name, *aliases)}

_BORDERS_LOST = "borders_lost"  # marks a saved selection whose rows are no longer whole episodes
_MEMORY_LIMIT_FALLBACK = 64 * 2**30  # bytes, where the system does not say how much memory is free


@dataclass(frozen=True, eq=False)
class TransitionDataset:
    """N transitions in recorded order. Arrays are shared with the caller where possible: do not write to them.

    An episode ends at a termination or truncation; data that stop in mid-episode end there too, without a flag, as
    the last row's successor is simply not known. Only a termination stops bootstrapping; where both flags are set,
    termination wins. `whole_episodes` is False after `sample` and other selections that lose the episodes' order:
    episode ids, returns and lengths then mean nothing, and what must not cross a border is no longer computed.
    """

    obs: FloatArray  # [N, O]
    actions: FloatArray  # [N, A]
    rewards: FloatArray  # [N]
    next_obs: FloatArray  # [N, O]
    terminations: BoolArray  # [N]
    truncations: BoolArray  # [N]
    next_actions: FloatArray | None = None  # [N, A]
    returns_to_go: FloatArray | None = None  # [N]
    whole_episodes: bool = True

    def __post_init__(self) -> None:
        arrays = convert_fields(self.to_dict())
        check_transitions(arrays)
        for name, values in arrays.items():
            object.__setattr__(self, name, values)

    @classmethod
    def from_dict(
        cls,
        mapping: Mapping[str, Any],
        *,
        action_low: npt.ArrayLike | None = None,
        action_high: npt.ArrayLike | None = None,
    ) -> TransitionDataset:
        """Build from named arrays; `FIELD_ALIASES` lists the names. Truncations default to none.

        `[N, 1]` rewards and flags are flattened, `[N]` observations and actions become `[N, 1]`, numbers become
        float32, and 0/1 flags become booleans. Actions are checked against the bounds when both are given.
        """
        if not isinstance(mapping, Mapping):
            raise DataError(f"dataset: must be a mapping of arrays by name, is {type(mapping).__name__}")
        if (action_low is None) != (action_high is None):
            raise DataError("action_low and action_high are given together or not at all")
        given = _resolve_names(mapping)
        missing = [name for name in REQUIRED_FIELDS if name not in given]
        if missing:
            raise DataError(f"dataset lacks {', '.join(missing)}; found {', '.join(map(str, mapping)) or 'nothing'}")
        if "truncations" not in given and any(name in mapping for name in ("dones", "done")):
            warnings.warn(
                "'dones' are read as terminations, which stop the bootstrap; give time limits apart, as truncations",
                stacklevel=2,
            )
        given.setdefault("truncations", np.zeros(np.shape(given["terminations"]), dtype=np.bool_))
        dataset = cls(**given)
        _refuse_mixed_dones(mapping, dataset)
        if action_low is not None and action_high is not None:
            dataset.check_bounds(action_low, action_high)
        return dataset

    def check_bounds(self, action_low: npt.ArrayLike, action_high: npt.ArrayLike) -> None:
        """Refuse an action outside the bounds (each a scalar or `[A]`) by more than rounding."""
        check_action_bounds(self.actions, action_low, action_high, self.terminations | self.truncations)

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
        return np.repeat(np.arange(self.n_episodes, dtype=np.int64), self.episode_lengths())

    @property
    def n_episodes(self) -> int:
        """Number of episodes, a cut-off last one included."""
        return len(self.episode_ends)

    def episode_returns(self) -> npt.NDArray[np.float64]:
        """Undiscounted sum of the raw rewards of each episode, `[n_episodes]`."""
        starts = self.episode_ends - self.episode_lengths() + 1
        return np.add.reduceat(self.rewards.astype(np.float64), starts)

    def episode_lengths(self) -> IndexArray:
        """Rows of each episode, `[n_episodes]`."""
        return episode_lengths(self.episode_ends)

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by field name, absent optional fields left out."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name in FIELD_ALIASES)
        return {name: value for name, value in values if value is not None}

    def fingerprint(self) -> str:
        """SHA-256 over field names, dtypes, shapes and bytes, in hexadecimal."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, values in self.to_dict().items():
            digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.data)
        return digest.hexdigest()

    def select(self, rows: npt.NDArray[Any]) -> TransitionDataset:
        """The given rows (indices, or a mask `[N]`) with every field they have; derive fields before, not after."""
        chosen = np.asarray(rows)
        index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise DataError(f"rows: indices {index.min()} to {index.max()}; the dataset has 0 to {len(self) - 1}")
        keeps_borders = self.whole_episodes and self._follows_episodes(index)
        return self._take(index, whole_episodes=keeps_borders)

    def sample(self, batch_size: int, rng: np.random.Generator) -> TransitionDataset:
        """`batch_size` rows drawn uniformly with replacement."""
        return self._take(rng.integers(0, len(self), size=batch_size), whole_episodes=False)

    def _take(self, rows: IndexArray, whole_episodes: bool) -> TransitionDataset:
        arrays: dict[str, Any] = {name: values[rows] for name, values in self.to_dict().items()}
        return TransitionDataset(**arrays, whole_episodes=whole_episodes)

    def _follows_episodes(self, rows: IndexArray) -> bool:
        """Whether neighbours in the selection are neighbours in an episode, or have an episode's flagged end between.

        A selection that starts inside an episode keeps the borders; only what precedes it is gone.
        """
        flagged = self.terminations | self.truncations
        return bool(((np.diff(rows) == 1) | flagged[rows[:-1]]).all())

    def _require_whole_episodes(self, what: str) -> None:
        if not self.whole_episodes:
            raise DataError(f"{what}: the rows were sampled or reordered; compute it on the whole dataset first")

    def with_next_actions(self) -> TransitionDataset:
        """Fill `next_actions` with each row's successor in its episode.

        The last row of an episode has no recorded successor; it repeats its own action. After a termination that
        does not matter (the bootstrap is masked). After a truncation or cut it assumes that the behaviour goes on as
        it just did; the row is kept, as its reward and next observation are real.
        """
        self._require_whole_episodes("next_actions")
        ends = self.episode_ends
        return replace(self, next_actions=shift_within_episodes(self.actions, ends, self.actions[ends]))

    def with_returns_to_go(self, gamma: float, rewards: npt.NDArray[Any] | None = None) -> TransitionDataset:
        """Fill `returns_to_go` from `rewards` `[N]` (the raw ones by default), with no value after the last row.

        See `discounted_returns_to_go` for what that assumes of a truncated episode.
        """
        self._require_whole_episodes("returns_to_go")
        source = self.rewards if rewards is None else np.asarray(rewards)
        if source.shape != self.rewards.shape:
            raise DataError(f"rewards: shape {source.shape}, but the dataset has {len(self)} rows")
        returns = discounted_returns_to_go(source, self.episode_ends, gamma)
        return replace(self, returns_to_go=returns.astype(np.float32))

    def summary(self) -> dict[str, Any]:
        """What a person wants to know of a dataset, as JSON values."""
        returns = self.episode_returns()
        return {
            "transitions": len(self),
            "episodes": self.n_episodes,
            "return_mean": float(returns.mean()),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "length_mean": float(self.episode_lengths().mean()),
            "terminations": int(self.terminations.sum()),
            "truncations": int(self.truncations.sum()),
            "obs_dim": self.obs_dim,
            "act_dim": self.act_dim,
            "fingerprint": self.fingerprint(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an `.npz` file: complete under its name or not there at all."""
        target = Path(path)
        if target.suffix != ".npz":
            raise DataError(f"{target}: a dataset is saved as .npz")
        arrays = self.to_dict()
        if not self.whole_episodes:
            arrays[_BORDERS_LOST] = np.array(True)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(target, arrays)
        except OSError as error:
            raise DataError(f"{target}: cannot be written: {error.strerror or error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TransitionDataset:
        """Read an `.npz` file written by `save`, or any with the names of `FIELD_ALIASES`; no pickle is opened."""
        try:
            arrays = _read_npz(Path(path))
            borders_lost = bool(arrays.pop(_BORDERS_LOST, False))
            return replace(cls.from_dict(arrays), whole_episodes=False) if borders_lost else cls.from_dict(arrays)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error


def _resolve_names(mapping: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    source: dict[str, str] = {}
    for key, value in mapping.items():
        if str(key).startswith(_IGNORED_PREFIXES) or value is None:
            continue
        name = _FIELD_OF.get(key)
        if name is None:
            raise DataError(f"unknown field {key!r}{did_you_mean(str(key), _FIELD_OF)}")
        if name in given:
            raise DataError(f"{name}: given twice, as {source[name]!r} and {key!r}; keep one")
        given[name], source[name] = value, key
    return given


def _refuse_mixed_dones(mapping: Mapping[str, Any], dataset: TransitionDataset) -> None:
    """Old logs write `done = terminated or truncated`; read as terminations it would stop every bootstrap."""
    name = next((key for key in ("dones", "done") if mapping.get(key) is not None), None)
    truncated = dataset.truncations
    if name and truncated.any() and dataset.terminations[truncated].all():
        raise DataError(
            f"{name}: set on every truncated row, so it seems to mean 'terminated or truncated';"
            " give terminations (true ends only) under that name"
        )


def _write_atomically(target: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if _is_field(member.filename)]
            _check_size(sum(member.file_size for member in members))
            arrays: dict[str, npt.NDArray[Any]] = {}
            for member in members:
                with archive.open(member) as file:
                    _check_header(file, member)
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
            return arrays
    except FileNotFoundError as error:
        raise DataError("no such file") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        EOFError,
        KeyError,
        RuntimeError,
        MemoryError,
        OverflowError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"not a readable .npz file ({reason})") from error


def _is_field(member: str) -> bool:
    return not member.startswith(_IGNORED_PREFIXES)


def _check_size(size: int) -> None:
    limit = _free_memory()
    if size > limit:
        raise DataError(f"needs {size / 2**30:.1f} GiB unpacked, but only {limit / 2**30:.1f} GiB of memory is free")


def _free_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _MEMORY_LIMIT_FALLBACK


def _check_header(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Hold the array's own header to the size the archive declares: numpy allocates what the header says."""
    if member.comment:  # none is ever written; a damaged length here would swallow the entries that follow
        raise DataError(f"{member.filename}: damaged (an unexpected comment in the archive)")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{member.filename}: compression {member.compress_type} is not one numpy writes")
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{member.filename}: npy version {version} is not supported")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise DataError(f"{member.filename}: holds Python objects; give plain numbers")
    count = 1
    for length in shape:  # Python integers: a forged shape must not wrap around
        count *= length
    if count * dtype.itemsize != member.file_size - file.tell():
        raise DataError(f"{member.filename}: damaged (its header and its size do not agree)")
