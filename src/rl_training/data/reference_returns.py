"""Returns that count as 0 and 100: those of a random and of an expert policy, as D4RL (Fu et al. 2020) or the Minari
dataset itself has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rl_training.errors import DataError


class Reference(NamedTuple):
    """Mean returns of the two policies that fix the scale, and whose figures they are."""

    random: float
    expert: float
    source: str = "D4RL"

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


def reference_of(dataset: Any, env_id: str | None) -> Reference | None:
    """The scale for a `dataset:` section, as plain values: the Minari dataset's own, else D4RL's."""
    if (folder := _minari_folder(dataset)) is not None:
        from rl_training.data.formats import minari

        try:
            own = minari_reference(minari.read_metadata(folder / "metadata.json"))
        except DataError:
            own = None
        if own is not None:
            return own
    return reference_returns(env_id)


def minari_reference(metadata: Mapping[str, Any]) -> Reference | None:
    """`ref_min_score` and `ref_max_score`, as `minari.get_normalized_score` uses them; None without sound ones."""
    low, high = (metadata.get(name) for name in ("ref_min_score", "ref_max_score"))
    numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in (low, high))
    return Reference(float(low), float(high), "Minari") if numbers and low < high else None  # type: ignore[arg-type, operator]


def _minari_folder(dataset: Any) -> Path | None:
    """Where the metadata of a Minari dataset lie, if it is one and is here; nothing is fetched."""
    from rl_training.data.formats.places import MINARI_PREFIX, expand, place_of

    try:
        match dataset:
            case {"source": "minari", "id": str(name)}:
                folder = place_of(f"{MINARI_PREFIX}{name}")
            case {"source": "file", "path": path}:
                folder = expand(Path(str(path)))
            case _:
                return None
        return next((place for place in (folder / "data", folder) if (place / "metadata.json").is_file()), None)
    except (DataError, OSError, ValueError):
        return None
