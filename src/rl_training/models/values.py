"""Critic ensembles and state values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rl_training.models.initialisers import Initialiser
from rl_training.models.layers import LayerNormPlacement, MLPSpec, StackedMLP

Reduction = Literal["first", "min", "mean"]


class Critics(StackedMLP):
    """E action values Q_1 … Q_E, none above `maximum` where one is given."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        *,
        n_critics: int = 2,
        layer_norm: LayerNormPlacement = "none",
        init: Initialiser | None = None,
        maximum: float | None = None,
    ) -> None:
        spec = MLPSpec((obs_dim + act_dim, *hidden, 1), layer_norm, init or Initialiser())
        super().__init__(spec, seeds, "critic", copies=n_critics)
        self.maximum = maximum

    def values(self, obs: Tensor, actions: Tensor) -> Tensor:
        """`[M, E, B]` for actions `[M, B, act]`; `[M, E, n, B]` for n actions per observation, `[M, n, B, act]`."""
        if actions.dim() == 4:
            several = actions.shape[1]
            rows = torch.cat((obs.unsqueeze(1).expand(-1, several, -1, -1), actions), dim=-1)
            values = self._evaluate(rows.flatten(1, 2))
            return values.view(*values.shape[:2], several, -1)
        return self._evaluate(torch.cat((obs, actions), dim=-1))

    def _evaluate(self, rows: Tensor) -> Tensor:
        values = self.forward(rows).squeeze(-1)
        return values if self.maximum is None else values.clamp(max=self.maximum)


class StateValue(StackedMLP):
    """V(s)."""

    def __init__(
        self,
        obs_dim: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        *,
        layer_norm: LayerNormPlacement = "none",
        init: Initialiser | None = None,
    ) -> None:
        super().__init__(MLPSpec((obs_dim, *hidden, 1), layer_norm, init or Initialiser()), seeds, "value")

    def values(self, obs: Tensor) -> Tensor:
        """`[M, B]`."""
        return self.forward(obs).squeeze(1).squeeze(-1)


def reduce_critics(values: Tensor, reduction: Reduction, subset: Tensor | None = None) -> Tensor:
    """One value from E: `[M, E, …] -> [M, …]`.

    subset: `[M, k]` critic indices to reduce over (RLPD and REDQ redraw them for every update); None takes all.
    """
    if subset is not None:
        index = subset.reshape(*subset.shape, *(1,) * (values.dim() - 2)).expand(-1, -1, *values.shape[2:])
        values = values.gather(1, index)
    if reduction == "first":
        return values[:, 0]
    return values.amin(1) if reduction == "min" else values.mean(1)


def random_subset(uniform: Tensor, size: int) -> Tensor:
    """`[M, size]` distinct indices from uniform noise `[M, E]`."""
    return uniform.topk(size, dim=-1).indices
