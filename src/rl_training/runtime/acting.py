"""From raw observations to actions the environment understands: transforms, policy, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training.algorithms.base import Learner
from rl_training.data.transforms import Transforms

FloatArray = npt.NDArray[np.float32]


class Actor:
    """Every member's policy, in the environment's own units."""

    def __init__(self, learner: Learner, transforms: Transforms) -> None:
        self.learner = learner
        self.transforms = transforms

    def __call__(self, obs: npt.NDArray[Any], noise: Mapping[str, Tensor] | None = None) -> FloatArray:
        """Actions `[M, B, act]` for raw observations `[M, B, obs]`; with `noise`, sampled ones."""
        transformed = np.array(self.transforms.observations(obs), dtype=np.float32)  # a copy: torch wants it writable
        unit = self.learner.act(torch.from_numpy(transformed).to(self.learner.device), noise)
        return np.asarray(self.transforms.from_unit_actions(unit.cpu().numpy()), dtype=np.float32)
