"""Scoring policies in their environment: fixed seeds, raw reward, every member on the same episodes."""

from __future__ import annotations

import math
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
from rl_training.wording import amount


@dataclass(frozen=True)
class Fault:
    """Why an episode with the policy of a seed has no score; an environment is to blame for what it gave."""

    seed: int
    what: str
    by_policy: bool


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of every episode of every member, `[M, episodes]`, after `step` updates, and which of them
    terminated, where that is known.

    An episode that `faults` speak of has no return: it is not a number.
    """

    step: int
    seeds: tuple[int, ...]
    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    faults: tuple[Fault, ...] = ()
    terminated: npt.NDArray[np.bool_] | None = None

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
        kept, faults = tuple(self.seeds[row] for row in rows), tuple(f for f in self.faults if f.seed in seeds)
        ends = None if self.terminated is None else self.terminated[rows]
        returns, lengths = self.returns[rows], self.lengths[rows]
        return replace(self, seeds=kept, returns=returns, lengths=lengths, faults=faults, terminated=ends)

    def scored(self) -> Evaluation:
        """The same of the seeds that have a return for every episode."""
        return self.only([seed for seed in self.seeds if np.isfinite(self.of_seed(seed)).all()])

    def to_json(self) -> dict[str, Any]:
        """One record; lists have a value per member."""
        ends = {} if self.terminated is None else {"terminations": self.terminated.sum(1).tolist()}
        return {
            "step": self.step,
            "seeds": list(self.seeds),
            "episodes": self.returns.shape[1],
            "return_mean": self.returns.mean(1).tolist(),
            "return_std": self.returns.std(1).tolist(),
            "return_min": self.returns.min(1).tolist(),
            "return_max": self.returns.max(1).tolist(),
            "length_mean": self.lengths.mean(1).tolist(),
            **ends,
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
        learner, episodes = actor.learner, self.config.episodes
        width = max(1, min(episodes, self.config.max_envs // learner.members))
        self._open(learner.members * width)
        waves = [
            self._run_wave(actor, range(first, min(first + width, episodes))) for first in range(0, episodes, width)
        ]
        returns = np.concatenate([wave.returns.reshape(learner.members, -1) for wave in waves], axis=1)
        lengths = np.concatenate([wave.lengths.reshape(learner.members, -1) for wave in waves], axis=1)
        ends = np.concatenate([wave.terminated.reshape(learner.members, -1) for wave in waves], axis=1)
        faults = tuple(fault for wave in waves for fault in wave.faults)
        sound = [seed for seed, active in zip(learner.seeds, learner.active.tolist(), strict=True) if active]
        return Evaluation(step, learner.seeds, returns, lengths, faults, ends).only(sound)

    def _open(self, count: int) -> None:
        while len(self._envs) < count:
            self._envs.append(make_env(self.env_id))

    def _run_wave(self, actor: Actor, episodes: range) -> _Wave:
        """One episode in each of members × len(episodes) environments."""
        learner, width = actor.learner, len(episodes)
        envs = self._envs[: learner.members * width]
        wave = _Wave(self.env_id, learner, episodes, self.config.seed)
        obs = np.stack([envs[slot].reset(seed=wave.reset_seed(slot))[0] for slot in range(len(envs))])
        obs = obs.astype(np.float32)
        while wave.keep_finite(obs, f"environment {self.env_id!r} gave an observation"):
            if self.should_stop():
                raise EvaluationStoppedError
            noise = None if self.config.deterministic else _wave_noise(learner, episodes, int(wave.lengths.max()))
            actions = actor(obs.reshape(learner.members, width, -1), noise).reshape(len(envs), -1)
            still: list[int] = []
            for slot in wave.keep_finite(actions, "the policy gave an action", by_policy=True):
                obs[slot], reward, terminated, truncated, _ = envs[slot].step(actions[slot])
                wave.terminated[slot] = bool(terminated)
                is_last = bool(terminated or truncated or wave.lengths[slot] + 1 >= self.config.max_steps)
                if wave.score(slot, float(reward)) and not is_last:
                    still.append(slot)
            wave.running = still
        return wave

    def close(self) -> None:
        for env in self._envs:
            env.close()
        self._envs = []


class _Wave:
    """The scores of episodes that are played side by side, and the faults that leave some without one."""

    def __init__(self, env_id: str, learner: Learner, episodes: range, first_seed: int) -> None:
        self.env_id, self.learner, self.episodes, self.first_seed = env_id, learner, episodes, first_seed
        slots = learner.members * len(episodes)
        self.returns, self.lengths = np.zeros(slots), np.zeros(slots, dtype=np.int64)
        self.terminated = np.zeros(slots, dtype=np.bool_)
        active = learner.active.tolist()
        self.running = [slot for slot in range(slots) if active[slot // len(episodes)]]
        self.faults: list[Fault] = []

    def reset_seed(self, slot: int) -> int:
        return self.first_seed + self.episodes[slot % len(self.episodes)]

    def keep_finite(self, values: npt.NDArray[np.float32], what: str, *, by_policy: bool = False) -> list[int]:
        """The slots that go on: those whose row of `values` is finite; the others are at fault and set to zero."""
        finite = np.isfinite(values)
        if not finite.all():
            broken = [slot for slot in self.running if not finite[slot].all()]
            for slot in broken:
                self._fail(slot, what, by_policy=by_policy)
            self.running = [slot for slot in self.running if slot not in broken]
            values[~finite] = 0.0
        return self.running

    def score(self, slot: int, reward: float) -> bool:
        """Add a reward, if it can be."""
        self.returns[slot] += reward
        self.lengths[slot] += 1
        if not math.isfinite(reward):
            self._fail(slot, f"environment {self.env_id!r} gave a reward", by_policy=False)
        return math.isfinite(reward)

    def _fail(self, slot: int, what: str, *, by_policy: bool) -> None:
        self.returns[slot] = math.nan
        member, place = divmod(slot, len(self.episodes))
        where = f"after {amount(int(self.lengths[slot]), 'step')} of episode {self.episodes[place]}"
        text = f"{what} that is not finite, {where} (reset with seed {self.reset_seed(slot)})"
        self.faults.append(Fault(self.learner.seeds[member], text, by_policy))


def _wave_noise(learner: Learner, wave: range, step: int) -> dict[str, Tensor]:
    """Noise for one action in each of the wave's episodes, whatever else is in the wave."""
    keys = streams.derive(learner.keys, torch.arange(wave.start, wave.stop, device=learner.device))
    return episode_noise(learner, keys, step, "evaluation/")
