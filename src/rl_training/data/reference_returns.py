"""Returns that D4RL (Fu et al. 2020) counts as 0 and 100: those of a random and of an expert policy."""

from __future__ import annotations

import re
from typing import NamedTuple


class Reference(NamedTuple):
    """Mean returns of the two policies that fix the scale."""

    random: float
    expert: float

    def score(self, value: float) -> float:
        """A return on the scale from 0 (random) to 100 (expert)."""
        return 100.0 * (value - self.random) / (self.expert - self.random)


# d4rl/infos.py; Ant is the version of d4rl/gym_mujoco. Kitchen and mazes other than AntMaze are left out.
REFERENCE_RETURNS = {
    "halfcheetah": Reference(-280.178953, 12135.0),
    "hopper": Reference(-20.272305, 3234.3),
    "walker2d": Reference(1.629008, 4592.3),
    "ant": Reference(-325.6, 3879.7),
    "door": Reference(-56.512833, 2880.5693087298737),
    "hammer": Reference(-274.856578, 12794.134825156867),
    "pen": Reference(96.262799, 3076.8331017826877),
    "relocate": Reference(-6.425911, 4233.877797728884),
    "antmaze": Reference(0.0, 1.0),
}


def reference_returns(env_id: str | None) -> Reference | None:
    """The reference of a task by the name Gymnasium (`Hopper-v4`, `AdroitHandDoor-v1`), D4RL (`hopper-medium-v2`) or
    Minari (`D4RL/door/human-v2`) gives it; None where D4RL has none."""
    words = re.split(r"[/_\-]", (env_id or "").lower())
    tasks = [word.removeprefix("adroithand") for word in words]
    return next((REFERENCE_RETURNS[task] for task in tasks if task in REFERENCE_RETURNS), None)
