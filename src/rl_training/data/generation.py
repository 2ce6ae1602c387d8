"""Datasets made by running packaged behaviours: deterministic from a seed, whatever was run before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.behaviours import Behaviour, Uniform
from rl_training.data.checks import FloatArray
from rl_training.data.collection import Budget, run_behaviour
from rl_training.data.episodes import Episode
from rl_training.data.formats.limits import check_size
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces, read_spaces
from rl_training.errors import ConfigError, DataError
from rl_training.wording import amount

PENDULUM = "Pendulum-v1"


def generate_random_dataset(env_id: str, size: int, seed: int) -> TransitionDataset:
    """Actions drawn uniformly between the bounds of any environment with Box spaces."""
    spaces = read_spaces(env_id)
    return run_behaviour(env_id, Uniform(spaces), _budget(size, spaces), seed=seed)


def _budget(size: int, spaces: Spaces) -> Budget:
    if size < 1:
        raise ConfigError(f"size: {amount(size, 'transition')}; at least 1 is needed")
    try:
        check_size(4 * size * (2 * spaces.obs_dim + spaces.act_dim + 1), purpose="made")
    except DataError as error:
        raise ConfigError(f"dataset.size: {size:,} {error}") from None
    return Budget(steps=size)


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


@cache
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


class ScriptedPendulum(Behaviour):
    """Energy swing-up and balancing, played as well as the episode's quality says."""

    def act(self, obs: FloatArray, episodes: Sequence[Episode]) -> npt.NDArray[Any]:
        return np.array([[self._torque(row, episode)] for row, episode in zip(obs, episodes, strict=True)])

    def _torque(self, obs: FloatArray, episode: Episode) -> float:
        quality = pendulum_quality(episode.number)
        torque = quality.skill * pendulum_torque(float(obs[0]), float(obs[1]), float(obs[2]))
        return torque + quality.noise * episode.rng.standard_normal()


def generate_pendulum_dataset(size: int = 40_000, seed: int = 0) -> TransitionDataset:
    """Scripted Pendulum-v1 data of mixed quality: from energy swing-up and balancing down to noise."""
    return run_behaviour(PENDULUM, ScriptedPendulum(), _budget(size, read_spaces(PENDULUM)), seed=seed)


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
