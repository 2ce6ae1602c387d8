"""Experience collected online: one ring of packed transitions per member."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rl_training.data.batch import Batch, unpack


class ReplayBuffer:
    """The newest `capacity` transitions of each of M members, as rows `[M, capacity, width]` on the device.

    Members always hold equally many. `filled` is a tensor, so that a compiled update can draw below it.
    """

    def __init__(
        self, members: int, capacity: int, widths: Mapping[str, int], device: torch.device | str = "cpu"
    ) -> None:
        self.widths = dict(widths)
        self.capacity = capacity
        self.rows = torch.zeros(members, capacity, sum(self.widths.values()), device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        self._position = 0
        self._offsets = torch.arange(members, device=device).unsqueeze(-1) * capacity

    def __len__(self) -> int:
        return int(self.filled)

    def add(self, rows: Tensor) -> None:
        """Append `[M, n, width]` rows, over the oldest ones where it is full."""
        rows = rows[:, -self.capacity :]
        count = rows.shape[1]
        slots = (self._position + torch.arange(count, device=rows.device)) % self.capacity
        self.rows[:, slots] = rows.to(self.rows.dtype)
        self._position = (self._position + count) % self.capacity
        self.filled.add_(count).clamp_(max=self.capacity)

    def rows_at(self, indices: Tensor) -> Tensor:
        """`[M, B, width]`: each member's own rows at `indices`, `[M, B]`."""
        flat = self.rows.flatten(0, 1)
        return flat.index_select(0, (indices + self._offsets).flatten()).view(*indices.shape, -1)

    def gather(self, indices: Tensor) -> Batch:
        """Each member's own transitions at `indices`, `[M, B]`."""
        return unpack(self.rows_at(indices), self.widths)

    def state(self) -> dict[str, Tensor]:
        """Everything a checkpoint needs: what is filled, and where the next row goes."""
        return {"rows": self.rows[:, : len(self)], "position": torch.tensor(self._position)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        count = state["rows"].shape[1]
        self.rows[:, :count] = state["rows"]
        self.filled.fill_(count)
        self._position = int(state["position"])
