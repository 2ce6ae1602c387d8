"""Datasets made by running an environment: deterministic from a seed, whatever was run before.

Episode e of seed s starts from a reset and a policy generator that are functions of (s, e) alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces, env_spaces, make_env, read_spaces
from rl_training.errors import ConfigError

PENDULUM = "Pendulum-v1"


class Policy(Protocol):
    """A behaviour: observation `[O]` to action `[A]`; it may draw from the generator it was made with."""

    def __call__(self, obs: npt.NDArray[Any], /) -> npt.NDArray[Any]: ...


PolicyForEpisode = Callable[[int, np.random.Generator], Policy]
"""Makes the behaviour of one episode from the episode's number and its own generator."""


def collect(env_id: str, policy_for_episode: PolicyForEpisode, steps: int, seed: int) -> TransitionDataset:
    """Run a behaviour for exactly `steps` transitions.

    The last episode is cut where the steps run out and marked as truncated there. `next_actions` hold the action the
    behaviour takes at `next_obs`; at an episode's last row, where none is taken, the one it would take, drawn from it.
    Actions are clipped into the environment's bounds before they are taken and recorded.
    """
    if steps < 1:
        raise ConfigError(f"size: {steps} transitions; at least 1 is needed")
    if seed < 0:
        raise ConfigError(f"seed: {seed} is negative; use 0 or more")
    env = make_env(env_id, disable_env_checker=True)
    try:
        record = _Record(steps, env_spaces(env))
        episode = 0
        while record.rows < steps:
            reset_seed = int(np.random.SeedSequence(seed, spawn_key=(episode, 0)).generate_state(1)[0])
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(episode, 1)))
            record.run_episode(env, policy_for_episode(episode, rng), reset_seed)
            episode += 1
        return record.dataset()
    finally:
        env.close()


class _Record:
    """Arrays of the final size, filled row by row."""

    def __init__(self, steps: int, spaces: Spaces) -> None:
        self.rows, self.steps = 0, steps
        self.low = np.asarray(spaces.action_low, dtype=np.float32)
        self.high = np.asarray(spaces.action_high, dtype=np.float32)
        self.obs = np.empty((steps, spaces.obs_dim), dtype=np.float32)
        self.next_obs = np.empty_like(self.obs)
        self.actions = np.empty((steps, spaces.act_dim), dtype=np.float32)
        self.next_actions = np.empty_like(self.actions)
        self.rewards = np.empty(steps, dtype=np.float32)
        self.terminations = np.zeros(steps, dtype=np.bool_)
        self.truncations = np.zeros(steps, dtype=np.bool_)

    def run_episode(self, env: Any, policy: Policy, reset_seed: int) -> None:
        obs = np.array(env.reset(seed=reset_seed)[0])
        action = self._act(policy, obs)
        ended = False
        while not ended:
            successor, reward, terminated, truncated, _ = env.step(action)
            next_obs = np.array(successor)  # a copy: environments may reuse the array
            next_action = self._act(policy, next_obs)
            row = self.rows
            # Cut by the step budget: the world went on, so it is a truncation.
            cut = row + 1 == self.steps and not terminated
            self.obs[row], self.actions[row], self.rewards[row] = obs, action, reward
            self.next_obs[row], self.next_actions[row] = next_obs, next_action
            self.terminations[row], self.truncations[row] = terminated, truncated or cut
            self.rows += 1
            ended = terminated or truncated or cut
            obs, action = next_obs, next_action

    def _act(self, policy: Policy, obs: npt.NDArray[Any]) -> FloatArray:
        # np.clip costs several times more than these two on arrays this small.
        action = np.asarray(policy(obs), dtype=np.float32)
        return np.minimum(np.maximum(action, self.low), self.high)

    def dataset(self) -> TransitionDataset:
        return TransitionDataset(
            obs=self.obs,
            actions=self.actions,
            rewards=self.rewards,
            next_obs=self.next_obs,
            terminations=self.terminations,
            truncations=self.truncations,
            next_actions=self.next_actions,
        )


def generate_random_dataset(env_id: str, size: int, seed: int) -> TransitionDataset:
    """Actions drawn uniformly between the bounds of any environment with Box spaces."""
    spaces = read_spaces(env_id)
    low, high = np.asarray(spaces.action_low), np.asarray(spaces.action_high)

    def uniform_policy(episode: int, rng: np.random.Generator) -> Policy:
        return lambda obs: rng.uniform(low, high)

    return collect(env_id, uniform_policy, size, seed)


@dataclass(frozen=True)
class PendulumQuality:
    """How well an episode of the scripted Pendulum behaviour is played."""

    name: str
    skill: float  # factor on the controller's torque: 1 is tuned, 0 does nothing
    noise: float  # standard deviation of the exploration noise on the torque (bounds are -2 and 2)
    episodes: int  # of each cycle of `sum(episodes)`


PENDULUM_QUALITIES = (
    PendulumQuality("good", skill=1.0, noise=0.2, episodes=3),
    PendulumQuality("medium", skill=0.55, noise=0.6, episodes=3),
    PendulumQuality("weak", skill=0.25, noise=1.0, episodes=2),
    PendulumQuality("random", skill=0.0, noise=1.5, episodes=2),
)


def pendulum_quality(episode: int) -> PendulumQuality:
    """The quality of an episode: qualities take turns, so that any stretch of the data holds all of them."""
    cycle = sum(quality.episodes for quality in PENDULUM_QUALITIES)
    # 3 and 10 share no factor: the step visits every slot of the cycle and mixes the qualities within it.
    slot = episode * 3 % cycle
    for quality in PENDULUM_QUALITIES:
        if slot < quality.episodes:
            return quality
        slot -= quality.episodes
    raise AssertionError("the slot lies within the cycle")


def generate_pendulum_dataset(size: int = 40_000, seed: int = 0) -> TransitionDataset:
    """Scripted Pendulum-v1 data of mixed quality: from energy swing-up and balancing down to noise."""

    def scripted_policy(episode: int, rng: np.random.Generator) -> Policy:
        quality = pendulum_quality(episode)

        def policy(obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
            torque = quality.skill * pendulum_torque(float(obs[0]), float(obs[1]), float(obs[2]))
            return np.array([torque + quality.noise * rng.standard_normal()])

        return policy

    return collect(PENDULUM, scripted_policy, size, seed)


def pendulum_torque(cosine: float, sine: float, velocity: float) -> float:
    """Swing up by energy (Astrom & Furuta 2000), then hold with a PD law near the top; the angle is 0 upright.

    With Pendulum-v1's rod (m = l = 1, g = 10) the energy is `velocity^2 / 6 + 5 cosine`, 5 at rest on top. The
    swing-up stays a little inside the torque limit of 2, so that exploration noise moves it both ways.
    """
    angle = math.atan2(sine, cosine)
    if abs(angle) < 0.5 and abs(velocity) < 3.0:
        torque = -(10.0 * angle + 2.5 * velocity)
    else:
        missing_energy = 5.0 - (velocity * velocity / 6.0 + 5.0 * cosine)
        torque = 1.5 * missing_energy * math.copysign(1.0, velocity)
    return max(-1.7, min(1.7, torque))
