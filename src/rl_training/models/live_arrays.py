"""One member's deterministic action in NumPy, on the network's own memory.

For a few observations at a time, where PyTorch spends far more on calling its operations than on the arithmetic. The
weights are views of the tensor that training, loading and people's own hands write to: there is no copy to grow stale.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import torch

from rl_training.models.layers import StackedMLP
from rl_training.models.policies import DeterministicPolicy, GaussianPolicy, TanhGaussianPolicy

FloatArray = npt.NDArray[np.float32]
_HEADS = (DeterministicPolicy, GaussianPolicy, TanhGaussianPolicy)


class LiveArrays:
    """The layers of member `member` of a policy; what `mode` answers is the policy's own `mode`, to rounding."""

    def __init__(self, policy: StackedMLP, member: int, act_dim: int) -> None:
        flat = policy.flat.detach()
        self._policy, self._address = policy, flat.data_ptr()
        arrays = {name: tensor[member].numpy() for name, tensor in policy.tensors(flat).items()}
        layers = [(arrays[f"weight_{i}"], arrays[f"bias_{i}"]) for i in range(len(policy.spec.sizes) - 1)]
        *self._hidden, (weight, bias) = layers
        self._last = weight[:, :act_dim], bias[:act_dim]  # a tanh-Gaussian head has its log σ after the mean

    @staticmethod
    def can_show(policy: object) -> TypeGuard[StackedMLP]:
        """Whether a policy is one of the package's heads, without LayerNorm, in float32 and in the CPU's memory."""
        return (
            type(policy) in _HEADS
            and isinstance(policy, StackedMLP)
            and policy.spec.layer_norm == "none"
            and policy.arithmetic == "fp32"
            and policy.flat.dtype == torch.float32
            and policy.flat.device.type == "cpu"
        )

    def are_of(self, policy: object) -> bool:
        """Whether these are still a policy's weights: a tensor that was moved or replaced lies elsewhere."""
        own = self._policy
        return policy is own and own.flat.data_ptr() == self._address and own.arithmetic == "fp32"

    def mode(self, obs: FloatArray) -> FloatArray:
        """Actions in [-1, 1], `[act]` or `[B, act]`, for transformed observations `[obs]` or `[B, obs]`."""
        h = obs
        with np.errstate(over="ignore", invalid="ignore"):  # weights that are not finite are for the caller to find
            for weight, bias in self._hidden:
                h = h @ weight
                h += bias
                np.maximum(h, 0.0, out=h)
            weight, bias = self._last
            action: FloatArray = np.tanh(h @ weight + bias)
        return action
