"""Episodes: one while it runs, one that is over, and many as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces
from rl_training.errors import DataError

# What each generator of an episode is for: the last part of its key.
_RESET, _BEHAVIOUR, _EXPLORATION = 0, 1, 2
_FIRST_CAPACITY = 256  # steps of an episode that there is room for before its arrays grow


class Episode:
    """One episode while it runs: the path so far, and random numbers of its own.

    `obs[t]` led to `actions[t]`, which earned `rewards[t]`. Observations and actions have one row more than there were
    steps: the last observation, and what the behaviour does (or would do) there.
    """

    def __init__(self, number: int, seed: int, spaces: Spaces) -> None:
        self.number = number
        self.step = 0
        self._seed = seed
        self._obs = np.empty((_FIRST_CAPACITY + 1, spaces.obs_dim), dtype=np.float32)
        self._actions = np.empty((_FIRST_CAPACITY + 1, spaces.act_dim), dtype=np.float32)
        self._rewards = np.empty(_FIRST_CAPACITY + 1, dtype=np.float32)

    @property
    def reset_seed(self) -> int:
        """What the environment is reset with."""
        return int(self._sequence(_RESET).generate_state(1)[0])

    @cached_property
    def rng(self) -> np.random.Generator:
        """The behaviour's own."""
        return np.random.default_rng(self._sequence(_BEHAVIOUR))

    @cached_property
    def exploration_rng(self) -> np.random.Generator:
        """Of the noise that is put on top of a behaviour."""
        return np.random.default_rng(self._sequence(_EXPLORATION))

    def _sequence(self, purpose: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self._seed, spawn_key=(self.number, purpose))

    @property
    def last_obs(self) -> FloatArray:
        """The observation the next action is for, `[O]`."""
        last: FloatArray = self._obs[self.step]
        return last

    def begin(self, obs: npt.ArrayLike) -> None:
        self._obs[0] = obs

    def decide(self, action: FloatArray) -> None:
        self._actions[self.step] = action

    def advance(self, reward: Any, obs: npt.ArrayLike) -> None:
        """Copies: environments may show the same array again."""
        if self.step + 2 > len(self._obs):
            self._grow()
        self._rewards[self.step] = reward
        self.step += 1
        self._obs[self.step] = obs

    def _grow(self) -> None:
        for name in ("_obs", "_actions", "_rewards"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.empty_like(old))))

    def finish(self, *, terminated: bool, truncated: bool) -> Trajectory:
        """The path as it was, in arrays of its own."""
        rows = self.step
        obs, actions = self._obs[: rows + 1].copy(), self._actions[: rows + 1].copy()
        return Trajectory(self.number, obs, actions, self._rewards[:rows].copy(), terminated, truncated)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """An episode of T steps that is over."""

    number: int
    obs: FloatArray  # [T + 1, O]
    actions: FloatArray  # [T + 1, A]; the last is what the behaviour would do after the end
    rewards: FloatArray  # [T]
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.rewards)

    def first(self, rows: int) -> Trajectory:
        """Cut after so many rows: the world went on, so it is a truncation."""
        if rows >= len(self):
            return self
        obs, actions = self.obs[: rows + 1], self.actions[: rows + 1]
        cut = replace(self, obs=obs, actions=actions, rewards=self.rewards[:rows])
        return replace(cut, terminated=False, truncated=True)

    def require_finite(self) -> None:
        """Refuse what is not finite, by its episode and step; what an action follows from is named before it."""
        faults = []
        for order, (name, values) in enumerate(
            (("environment gave an observation", self.obs), ("policy gave an action", self.actions))
        ):
            bad = ~np.isfinite(values).all(axis=1)
            faults += [(int(bad.argmax()), order, name)] if bad.any() else []
        bad = ~np.isfinite(self.rewards)
        faults += [(int(bad.argmax()), 2, "environment gave a reward")] if bad.any() else []
        if faults:
            step, _, name = min(faults)
            raise DataError(f"the {name} that is not finite: episode {self.number}, step {step}")


def join(trajectories: Sequence[Trajectory]) -> TransitionDataset:
    """The transitions of whole episodes, one after the other."""
    ends = np.cumsum([len(trajectory) for trajectory in trajectories]) - 1
    terminations = np.zeros(ends[-1] + 1, dtype=np.bool_)
    truncations = np.zeros_like(terminations)
    terminations[ends] = [trajectory.terminated for trajectory in trajectories]
    truncations[ends] = [trajectory.truncated for trajectory in trajectories]
    return TransitionDataset(
        obs=np.concatenate([trajectory.obs[:-1] for trajectory in trajectories]),
        actions=np.concatenate([trajectory.actions[:-1] for trajectory in trajectories]),
        rewards=np.concatenate([trajectory.rewards for trajectory in trajectories]),
        next_obs=np.concatenate([trajectory.obs[1:] for trajectory in trajectories]),
        terminations=terminations,
        truncations=truncations,
        next_actions=np.concatenate([trajectory.actions[1:] for trajectory in trajectories]),
    )
