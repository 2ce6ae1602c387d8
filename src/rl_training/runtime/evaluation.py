"""Scoring policies in their environment: fixed seeds, raw reward, every member on the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Learner
from rl_training.environments import make_env
from rl_training.runtime.acting import Actor, episode_noise
from rl_training.runtime.config import EvaluationConfig

EVALUATION_METRICS = ("return_mean", "return_std", "return_min", "return_max", "length_mean")


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of every episode of every member, `[M, episodes]`, after `step` updates."""

    step: int
    seeds: tuple[int, ...]
    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Mean return over all members and episodes."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the return over all members and episodes."""
        return float(self.returns.std())

    def of_seed(self, seed: int) -> npt.NDArray[np.float64]:
        """The returns of one member's episodes."""
        row: npt.NDArray[np.float64] = self.returns[self.seeds.index(seed)]
        return row

    def only(self, seeds: Sequence[int]) -> Evaluation:
        """The same of these seeds alone."""
        rows = [row for row, seed in enumerate(self.seeds) if seed in seeds]
        return replace(
            self, seeds=tuple(self.seeds[row] for row in rows), returns=self.returns[rows], lengths=self.lengths[rows]
        )

    def to_json(self) -> dict[str, Any]:
        """One record; lists have a value per member."""
        return {
            "step": self.step,
            "seeds": list(self.seeds),
            "episodes": self.returns.shape[1],
            "return_mean": self.returns.mean(1).tolist(),
            "return_std": self.returns.std(1).tolist(),
            "return_min": self.returns.min(1).tolist(),
            "return_max": self.returns.max(1).tolist(),
            "length_mean": self.lengths.mean(1).tolist(),
        }


class EvaluationStoppedError(Exception):
    """An evaluation was broken off; what it had seen is forgotten."""


class Evaluator(Protocol):
    """Anything that can judge a policy during training."""

    def evaluate(self, actor: Actor, step: int) -> Evaluation: ...

    def close(self) -> None: ...


class EnvironmentEvaluator:
    """Runs whole episodes, several environments at once; environments are opened once and kept.

    Members that diverged and are frozen are left out.
    """

    def __init__(self, env_id: str, config: EvaluationConfig) -> None:
        self.env_id = env_id
        self.config = config
        self.should_stop: Callable[[], bool] = lambda: False  # asked at every step
        self._envs: list[Any] = []

    def evaluate(self, actor: Actor, step: int) -> Evaluation:
        members, episodes = actor.learner.members, self.config.episodes
        returns = np.zeros((members, episodes))
        lengths = np.zeros((members, episodes), dtype=np.int64)
        width = max(1, min(episodes, self.config.max_envs // members))
        self._open(members * width)
        for first in range(0, episodes, width):
            wave = range(first, min(first + width, episodes))
            returns[:, wave], lengths[:, wave] = self._run_wave(actor, wave)
        learner = actor.learner
        sound = [seed for seed, active in zip(learner.seeds, learner.active.tolist(), strict=True) if active]
        return Evaluation(step, learner.seeds, returns, lengths).only(sound)

    def _open(self, count: int) -> None:
        while len(self._envs) < count:
            self._envs.append(make_env(self.env_id))

    def _run_wave(self, actor: Actor, wave: range) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """One episode in each of members × len(wave) environments."""
        members, width = actor.learner.members, len(wave)
        envs = self._envs[: members * width]
        obs = np.stack(
            [env.reset(seed=self.config.seed + wave[slot % width])[0] for slot, env in enumerate(envs)]
        ).astype(np.float32)
        returns, lengths = np.zeros(len(envs)), np.zeros(len(envs), dtype=np.int64)
        active = actor.learner.active.tolist()
        running = [slot for slot in range(len(envs)) if active[slot // width]]
        while running:
            if self.should_stop():
                raise EvaluationStoppedError
            noise = None if self.config.deterministic else _wave_noise(actor.learner, wave, int(lengths.max()))
            actions = actor(obs.reshape(members, width, -1), noise).reshape(len(envs), -1)
            still: list[int] = []
            for slot in running:
                obs[slot], reward, terminated, truncated, _ = envs[slot].step(actions[slot])
                returns[slot] += float(reward)
                lengths[slot] += 1
                if not (terminated or truncated or lengths[slot] >= self.config.max_steps):
                    still.append(slot)
            running = still
        return returns.reshape(members, width), lengths.reshape(members, width)

    def close(self) -> None:
        for env in self._envs:
            env.close()
        self._envs = []


def _wave_noise(learner: Learner, wave: range, step: int) -> dict[str, Tensor]:
    """Noise for one action in each of the wave's episodes, whatever else is in the wave."""
    keys = streams.derive(learner.keys, torch.arange(wave.start, wave.stop, device=learner.device))
    return episode_noise(learner, keys, step, "evaluation/")
