"""Environments small enough to be followed by hand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

Obs = npt.NDArray[np.float32]


class Cliff(gymnasium.Env[Obs, Obs]):
    """A point starts near 0, moves by a quarter of the action (in [-2, 2]) and ends where it falls off ±1.

    The reward is the place it moved to, times ten. Registered with a limit of `LIMIT` steps.
    """

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.uniform(-0.5, 0.5)), 0
        return self._see(), {}

    def _see(self) -> Obs:
        return np.array([self.place, self.time / 10], dtype=np.float32)

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.place += float(action[0]) / 4
        self.time += 1
        return self._see(), 10 * self.place, abs(self.place) > 1.0, False, {}


class Thrifty(Cliff):
    """Shows the same array every time, with new values in it."""

    def __init__(self) -> None:
        self.shown = np.zeros(2, dtype=np.float32)

    def _see(self) -> Obs:
        self.shown[:] = super()._see()
        return self.shown


class Slippery(Cliff):
    """Moves a little further on every step ever taken in this process, so that no episode can be repeated."""

    taken = 0

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        Slippery.taken += 1
        self.place += 1e-4 * Slippery.taken
        return super().step(action)


class Counted(Slippery):
    """Counts the environments that are open and the steps taken in all of them; may refuse the n-th reset."""

    opened = closed = steps = 0
    resets_left: int | None = None

    def __init__(self) -> None:
        super().__init__()
        Counted.opened += 1

    @classmethod
    def start_counting(cls, resets_left: int | None = None) -> None:
        cls.opened = cls.closed = cls.steps = Slippery.taken = 0
        cls.resets_left = resets_left

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        if Counted.resets_left is not None:
            if Counted.resets_left == 0:
                raise RuntimeError("no more resets")
            Counted.resets_left -= 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        Counted.steps += 1
        return super().step(action)

    def close(self) -> None:
        Counted.closed += 1


LIMIT = 6
CLIFF, THRIFTY, SLIPPERY, COUNTED = (f"tests/{name}-v0" for name in ("Cliff", "Thrifty", "Slippery", "Counted"))
for _name, _kind in ((CLIFF, Cliff), (THRIFTY, Thrifty), (SLIPPERY, Slippery), (COUNTED, Counted)):
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_kind, max_episode_steps=LIMIT, disable_env_checker=True)
