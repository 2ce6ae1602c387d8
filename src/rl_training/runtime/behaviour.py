"""A trained policy as the behaviour that data are collected with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rl_training import streams
from rl_training.data.behaviours import Behaviour
from rl_training.data.episodes import Episode
from rl_training.runtime.acting import Actor, FloatArray, episode_noise

_LANES = 8


class TrainedBehaviour(Behaviour):
    """One member's policy, which answers an episode alike whatever other episodes run beside it.

    A matrix product rounds by how many rows it has and where a row lies among them. So the policy is always asked for
    `_LANES` rows, and episode e is row e mod `_LANES` of them; episodes that share a row are asked one after the other.
    """

    def __init__(self, actor: Actor, member: int = 0, sampling_seed: int | None = None) -> None:
        """sampling_seed: draw actions from the policy, with noise that is a function of (seed, episode, step)."""
        self.actor = actor
        self.member = member
        learner = actor.learner
        self._keys = None if sampling_seed is None else streams.member_keys([sampling_seed], learner.device)
        self._asked = np.zeros((_LANES, learner.obs_dim), dtype=np.float32)

    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> FloatArray:
        actions = np.empty((len(obs), self.actor.learner.act_dim), dtype=np.float32)
        for lanes, rows in _share_lanes(episodes):
            self._asked[lanes] = obs[rows]
            shape = (self.actor.learner.members, *self._asked.shape)
            answers = self.actor(np.broadcast_to(self._asked, shape), self._noise(lanes, [episodes[i] for i in rows]))
            actions[rows] = answers[self.member, lanes]
        return actions

    def _noise(self, lanes: Sequence[int], episodes: Sequence[Episode]) -> dict[str, Tensor] | None:
        """Drawn for all lanes, used in those that play an episode."""
        if self._keys is None:
            return None
        numbers, steps = torch.zeros((2, _LANES), dtype=torch.int64)
        numbers[lanes] = torch.tensor([episode.number for episode in episodes])
        steps[lanes] = torch.tensor([episode.step for episode in episodes])
        learner = self.actor.learner
        keys = streams.derive(self._keys, numbers.to(learner.device)).expand(learner.members, -1)
        return episode_noise(learner, keys, steps.to(learner.device), "collection/")


def _share_lanes(episodes: Sequence[Episode]) -> list[tuple[list[int], list[int]]]:
    """Groups of lanes and the rows that go there; no lane occurs twice in a group."""
    groups: list[dict[int, int]] = []
    for row, episode in enumerate(episodes):
        lane = episode.number % _LANES
        group = next((group for group in groups if lane not in group), None)
        if group is None:
            groups.append(group := {})
        group[lane] = row
    return [(list(group), list(group.values())) for group in groups]
