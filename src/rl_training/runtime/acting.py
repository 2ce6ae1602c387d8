"""From raw observations to actions the environment understands: transforms, policy, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Learner
from rl_training.data.transforms import Transforms
from rl_training.models.live_arrays import LiveArrays
from rl_training.runtime.torch_state import is_own, own_torch_state

FloatArray = npt.NDArray[np.float32]


class Actor:
    """Every member's policy, in the environment's own units."""

    def __init__(self, learner: Learner, transforms: Transforms) -> None:
        self.learner = learner
        self.transforms = transforms
        self._arrays: dict[int, LiveArrays] = {}  # of the members that were asked alone

    def __call__(self, obs: npt.NDArray[Any], noise: Mapping[str, Tensor] | None = None) -> FloatArray:
        """Actions `[M, B, act]` for raw observations `[M, B, obs]`; with `noise`, sampled ones."""
        if not is_own():
            with own_torch_state():
                return self(obs, noise)
        # A copy in torch's own memory: numpy's is aligned by chance, and matrix products may round by alignment. It may
        # also run backwards, which torch does not take.
        transformed = torch.tensor(np.ascontiguousarray(self.transforms.observations(obs)))
        unit = self.learner.act(transformed.to(self.learner.device), noise)
        return np.asarray(self.transforms.from_unit_actions(unit.cpu().numpy()), dtype=np.float32)

    def mode(self, obs: FloatArray, member: int) -> FloatArray:
        """The deterministic action of one member, `[act]` or `[B, act]` for raw observations `[obs]` or `[B, obs]`.

        In NumPy where that can be (`LiveArrays`), which takes an eighth of the time for one observation.
        """
        arrays = self._arrays_of(member)
        if arrays is not None:
            return self.transforms.from_unit_actions(arrays.mode(self.transforms.observations(obs)))
        rows = np.atleast_2d(obs)
        actions: FloatArray = self(np.broadcast_to(rows, (self.learner.members, *rows.shape)))[member]
        return actions[0] if obs.ndim == 1 else actions

    def _arrays_of(self, member: int) -> LiveArrays | None:
        policy: object = self.learner.policy
        known = self._arrays.get(member)
        if known is not None and known.are_of(policy):
            return known
        if type(self.learner).act is not Learner.act or not LiveArrays.can_show(policy):
            return None
        self._arrays[member] = LiveArrays(policy, member, self.learner.act_dim)
        return self._arrays[member]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": {}}  # copied, they would be views of nothing


def episode_noise(learner: Learner, keys: Tensor, steps: Tensor | int, purpose: str) -> dict[str, Tensor]:
    """Noise for one action in each of W episodes of every member, from the episodes' own keys `[M, W]`.

    steps: of each episode, `[W]`, or of all. What an episode gets depends on its key and step alone.
    """
    one, two = learner.acting_noise(1), learner.acting_noise(2)
    at = steps.repeat(len(keys)) if isinstance(steps, Tensor) else steps
    drawn = streams.NoiseStreams(one, purpose).draw(keys.flatten(), at)
    noise = {}
    for name, values in drawn.items():
        axis = next(i for i, size in enumerate(one[name].shape) if size != two[name].shape[i])  # where the batch lies
        by_episode = values.view(*keys.shape, *one[name].shape)
        noise[name] = by_episode.movedim(1, axis + 1).squeeze(axis + 2)
    return noise
