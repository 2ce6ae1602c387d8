"""What acts in an environment while data are collected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.episodes import Episode
from rl_training.environments import Spaces
from rl_training.errors import ConfigError
from rl_training.wording import amount

Policy: TypeAlias = Callable[[FloatArray], npt.NDArray[Any]]
"""Observations `[B, O]` to actions `[B, A]`, each row on its own."""


class Behaviour(ABC):
    """Chooses actions in the environment's own units; they are clipped into its bounds before they are taken."""

    @abstractmethod
    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> npt.NDArray[Any]:
        """Actions `[B, A]` for observations `[B, O]`; row i belongs to `episodes[i]`, which knows number and step."""


class Following(Behaviour):
    """Does what a function of the observations says."""

    def __init__(self, policy: Policy, act_dim: int) -> None:
        self.policy = policy
        self.act_dim = act_dim

    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> npt.NDArray[Any]:
        actions = np.asarray(self.policy(obs))
        expected = (len(obs), self.act_dim)
        if actions.shape != expected:
            raise ConfigError(
                f"policy: gave actions of shape {actions.shape} for {amount(len(obs), 'row')}, not {expected}"
            )
        return actions


class Uniform(Behaviour):
    """Draws every action uniformly between the bounds."""

    def __init__(self, spaces: Spaces) -> None:
        self.low, self.high = np.asarray(spaces.action_low), np.asarray(spaces.action_high)

    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> npt.NDArray[Any]:
        return np.array([episode.rng.uniform(self.low, self.high) for episode in episodes])


class Exploring(Behaviour):
    """Another behaviour with Gaussian noise added (in halves of the action range) and uniform actions mixed in."""

    def __init__(self, behaviour: Behaviour, spaces: Spaces, noise: float = 0.0, epsilon: float = 0.0) -> None:
        self.behaviour = behaviour
        self.low, self.high = np.asarray(spaces.action_low), np.asarray(spaces.action_high)
        self.scale = noise * (self.high - self.low) / 2.0
        self.noise, self.epsilon = noise, epsilon

    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> npt.NDArray[Any]:
        actions = np.array(self.behaviour.act(obs, episodes), dtype=np.float32)
        for row, episode in enumerate(episodes):
            rng = episode.exploration_rng
            if self.noise:
                actions[row] += self.scale * rng.standard_normal(len(self.low))
            if self.epsilon:  # both are drawn at every step, so that the next step's numbers do not depend on this one
                chance, uniform = rng.random(), rng.uniform(self.low, self.high)
                if chance < self.epsilon:
                    actions[row] = uniform
        return actions
