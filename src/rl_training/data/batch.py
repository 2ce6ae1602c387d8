"""Batches, and the packed matrix they are gathered from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms


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


class PackedTransitions:
    """A dataset as one float32 matrix, a row per transition, so that a batch is a single gather.

    Transforms are applied here, once, and rows whose successor is not known are left out. Truncations need no column:
    only a termination stops the bootstrap.
    """

    def __init__(self, rows: Tensor, widths: dict[str, int]) -> None:
        self.rows = rows
        self.widths = widths

    @classmethod
    def from_dataset(
        cls, dataset: TransitionDataset, transforms: Transforms, device: torch.device | str = "cpu"
    ) -> PackedTransitions:
        columns: dict[str, np.ndarray] = {
            "obs": transforms.observations(dataset.obs),
            "actions": transforms.to_unit_actions(dataset.actions),
            "rewards": transforms.rewards(dataset.rewards)[:, None],
            "next_obs": transforms.observations(dataset.next_obs),
            "terminations": dataset.terminations[:, None],
        }
        if dataset.next_actions is not None:
            columns["next_actions"] = transforms.to_unit_actions(dataset.next_actions)
        if dataset.returns_to_go is not None:
            columns["returns_to_go"] = dataset.returns_to_go[:, None]
        widths = {name: column.shape[1] for name, column in columns.items()}
        rows = np.empty((len(dataset), sum(widths.values())), dtype=np.float32)
        np.concatenate(list(columns.values()), axis=1, out=rows, casting="unsafe")
        if dataset.has_next_obs is not None:
            rows = rows[dataset.has_next_obs]
        return cls(torch.from_numpy(rows).to(device), widths)

    def __len__(self) -> int:
        return len(self.rows)

    def rows_at(self, indices: Tensor) -> Tensor:
        """`[M, B, width]`: the rows at `indices`, `[M, B]`."""
        return self.rows.index_select(0, indices.flatten()).view(*indices.shape, -1)

    def gather(self, indices: Tensor) -> Batch:
        """The transitions at `indices`, `[M, B]`."""
        return unpack(self.rows_at(indices), self.widths)


def unpack(rows: Tensor, widths: Mapping[str, int]) -> Batch:
    """The fields of packed rows `[M, B, width]`."""
    fields = dict(zip(widths, rows.split(list(widths.values()), dim=-1), strict=True))
    for scalar in ("rewards", "terminations", "returns_to_go"):
        if scalar in fields:
            fields[scalar] = fields[scalar].squeeze(-1)
    return Batch(**fields)
