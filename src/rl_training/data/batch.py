"""Batches, and the packed matrix they are gathered from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training import streams
from rl_training.data.checks import FaultyValueError, FloatArray, IndexArray
from rl_training.data.formats.raw import by_the_files_rows
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import batch_counts
from rl_training.data.transforms import Transforms
from rl_training.errors import DataError

_CHUNK = 16_384  # rows packed at once: what packing needs beyond the matrix itself


class Batch(NamedTuple):
    """B transitions for each of M members. Actions are in [-1, 1]; `terminations` is 1.0 where bootstrapping stops."""

    obs: Tensor  # [M, B, obs]
    actions: Tensor  # [M, B, act]
    rewards: Tensor  # [M, B]
    next_obs: Tensor  # [M, B, obs]
    terminations: Tensor  # [M, B]
    next_actions: Tensor | None = None  # [M, B, act]
    returns_to_go: Tensor | None = None  # [M, B]
    advantages: Tensor | None = None  # [M, B]


class Part(NamedTuple):
    """Rows `start` to `start + rows - 1`, drawn with probability `share`, or exactly that often in every batch."""

    start: int
    rows: int
    share: float


class PackedTransitions:
    """A dataset as one float32 matrix, a row per transition, so that a batch is a single gather.

    Transforms are applied here, once, and rows whose successor is not known are left out. Truncations need no column:
    only a termination stops the bootstrap. The rows of a mixture lie part by part.
    """

    def __init__(
        self, rows: Tensor, widths: Mapping[str, int], parts: Sequence[Part] = (), exact_shares: bool = False
    ) -> None:
        self.rows = rows
        self.widths = dict(widths)
        self.parts = tuple(parts) or (Part(0, len(rows), 1.0),)
        self.exact_shares = exact_shares
        self._starts = torch.tensor([part.start for part in self.parts], device=rows.device)
        self._bounds = torch.tensor([part.rows for part in self.parts], device=rows.device)
        self._edges = torch.tensor([part.share for part in self.parts], device=rows.device).cumsum(0)[:-1]

    @classmethod
    def from_dataset(
        cls,
        dataset: TransitionDataset,
        transforms: Transforms,
        device: torch.device | str = "cpu",
    ) -> PackedTransitions:
        # torch's memory, not numpy's: the huge pages numpy asks for cost far more to get than they save here.
        matrix = torch.empty(dataset.n_usable, sum(packed_widths(dataset).values()))
        pack_rows(dataset, transforms, matrix.numpy())
        return cls.describe(matrix.to(device), dataset)

    @classmethod
    def describe(cls, matrix: Tensor, dataset: TransitionDataset) -> PackedTransitions:
        """The packed rows of `dataset`: where its fields and the parts of a mixture lie in them."""
        widths = packed_widths(dataset)
        if dataset.mixture is None or dataset.part_ids is None:
            return PackedTransitions(matrix, widths)
        used = dataset.part_ids if dataset.has_next_obs is None else dataset.part_ids[dataset.has_next_obs]
        if (np.diff(used) < 0).any():
            raise DataError("mixture: the rows were reordered, so its parts no longer lie together")
        counts = np.bincount(used, minlength=len(dataset.mixture.shares)).tolist()
        starts = np.cumsum([0, *counts]).tolist()
        parts = [Part(s, n, share) for s, n, share in zip(starts, counts, dataset.mixture.shares, strict=False)]
        if not all(counts):
            empty = dataset.mixture.names[counts.index(0)]
            raise DataError(f"mixture: nothing of {empty} is left to train on")
        return PackedTransitions(matrix, widths, parts, dataset.mixture.exact)

    def __len__(self) -> int:
        return len(self.rows)

    def indices(self, keys: Tensor, stream: int, clock: Tensor | int, size: int) -> Tensor:
        """`[M, size]` rows to draw at update `clock`: uniform, or by the parts' shares."""
        if len(self.parts) == 1:
            return streams.integers(keys, stream, clock, size, len(self))
        if self.exact_shares:
            counts = batch_counts([part.share for part in self.parts], size)
            chosen = torch.cat([torch.full((n,), i, device=keys.device) for i, n in enumerate(counts)])
        else:
            chosen = torch.bucketize(streams.uniform(keys, stream + 1, clock, (size,)), self._edges, right=True)
        return self._starts[chosen] + streams.integers(keys, stream, clock, size, self._bounds[chosen])

    def first_contents(self, capacity: int) -> Tensor:
        """`[n]` rows, at most `capacity`, to fill a buffer with that is drawn from uniformly: the newest.

        Of a mixture they hold every part by its share: a part that has more rows is thinned evenly, one that has fewer
        repeated. Parts alternate, so that the shares stay while the oldest rows make room for experience.
        """
        count = min(len(self), capacity)
        if len(self.parts) == 1:
            return torch.arange(len(self) - count, len(self), device=self.rows.device)
        counts = batch_counts([part.share for part in self.parts], count)
        rows = [part.start + torch.arange(n) * part.rows // n for part, n in zip(self.parts, counts, strict=True)]
        moments = [(torch.arange(n, dtype=torch.float64) + 0.5) / n for n in counts]
        return torch.cat(rows)[torch.cat(moments).argsort(stable=True)].to(self.rows.device)

    def rows_at(self, indices: Tensor) -> Tensor:
        """`[M, B, width]`: the rows at `indices`, `[M, B]`."""
        return self.rows.index_select(0, indices.flatten()).view(*indices.shape, -1)

    def gather(self, indices: Tensor) -> Batch:
        """The transitions at `indices`, `[M, B]`."""
        return unpack(self.rows_at(indices), self.widths)


def packed_widths(dataset: TransitionDataset) -> dict[str, int]:
    """Columns of a packed row by field."""
    widths = {"obs": dataset.obs_dim, "actions": dataset.act_dim, "rewards": 1, "next_obs": dataset.obs_dim}
    widths["terminations"] = 1
    if dataset.next_actions is not None:
        widths["next_actions"] = dataset.act_dim
    if dataset.returns_to_go is not None:
        widths["returns_to_go"] = 1
    return widths


def pack_rows(dataset: TransitionDataset, transforms: Transforms, out: FloatArray) -> None:
    """Fill `out` with the usable rows, transformed, a block at a time; refuses what is not finite then."""
    if len(out) == 0:
        raise DataError("next_obs: no row has a recorded successor; nothing can be trained on")
    for block, place in _blocks(dataset):
        _pack_block(dataset, transforms, block, out[place])


def are_packed(dataset: TransitionDataset, transforms: Transforms, rows: FloatArray) -> bool:
    """Whether `rows` are, bit for bit, what `pack_rows` would fill them with."""
    packed = np.empty((_CHUNK, rows.shape[1]), dtype=np.float32)
    for block, place in _blocks(dataset):
        ours = packed[: place.stop - place.start]
        _pack_block(dataset, transforms, block, ours)
        if not np.array_equal(ours.view(np.uint32), rows[place].view(np.uint32)):
            return False
    return True


def _blocks(dataset: TransitionDataset) -> Iterator[tuple[slice, slice]]:
    """Rows of the dataset, and where those of them that are usable lie in the packed matrix."""
    known, place = dataset.has_next_obs, 0
    for first in range(0, len(dataset), _CHUNK):
        block = slice(first, min(first + _CHUNK, len(dataset)))
        count = block.stop - first if known is None else int(known[block].sum())
        yield block, slice(place, place + count)
        place += count


def _pack_block(dataset: TransitionDataset, transforms: Transforms, block: slice, packed: FloatArray) -> None:
    maps: dict[str, Any] = {
        "obs": transforms.observations,
        "actions": transforms.to_unit_actions,
        "rewards": transforms.rewards,
        "next_obs": transforms.observations,
        "next_actions": transforms.to_unit_actions,
    }
    keep = slice(None) if dataset.has_next_obs is None else dataset.has_next_obs[block]
    column, widths = 0, packed_widths(dataset)
    for name, width in widths.items():
        values = getattr(dataset, name)[block][keep]
        with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused
            packed[:, column : column + width] = (maps[name](values) if name in maps else values).reshape(-1, width)
        column += width
    if not np.isfinite(packed).all():
        with by_the_files_rows(dataset):
            raise _infinite(packed, widths, np.arange(len(dataset))[block][keep], dataset)


def _infinite(
    packed: FloatArray, widths: Mapping[str, int], rows: IndexArray, dataset: TransitionDataset
) -> FaultyValueError:
    """`rows` are the numbers that the packed ones have in the dataset."""
    row, column = (int(i) for i in np.argwhere(~np.isfinite(packed))[0])
    name, place = [(name, i) for name, width in widths.items() for i in range(width)][column]
    rule = "once transforms are applied; all values must be finite (in float32)"
    ends = dataset.terminations | dataset.truncations
    within = place if widths[name] > 1 else None
    return FaultyValueError(name, f"{packed[row, column]:g}", int(rows[row]), within, ends, rule, joint=" ")


def unpack(rows: Tensor, widths: Mapping[str, int]) -> Batch:
    """The fields of packed rows `[M, B, width]`."""
    fields = dict(zip(widths, rows.split(list(widths.values()), dim=-1), strict=True))
    for scalar in ("rewards", "terminations", "returns_to_go"):
        if scalar in fields:
            fields[scalar] = fields[scalar].squeeze(-1)
    return Batch(**fields)
