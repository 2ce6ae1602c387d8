"""How far an estimate looks ahead: a discount counts some 1/(1 - γ) steps, and episodes may be far longer.

What a policy gains in the first steps it may lose later, by using up a store, say: of whole episodes, such an estimate
tells nothing, and whoever reads it has to be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What a card says of estimates that were refused beside the one it shows.
NEWER_REFUSED = "a newer estimate was refused"
FURTHER_REFUSED = "an estimate that looks further ahead was refused"

LEAST_COUNTED = 0.4  # of an episode's steps, for an estimate that is one of episodes


def counted_steps(gamma: float) -> float:
    """Σ γ^t."""
    return 1.0 / (1.0 - gamma)


def beginning(gamma: float, steps: float) -> str | None:
    """What part of an episode is judged, if it is its beginning alone: `the first 20 or so of 96 steps`."""
    counted = counted_steps(gamma)
    return f"the first {counted:,.0f} or so of {steps:,.0f} steps" if counted < LEAST_COUNTED * steps else None


def beginning_of(record: Mapping[str, Any]) -> str | None:
    """The same of a stored estimate, as far as it tells."""
    behaviour = record.get("behaviour")
    gamma, steps = record.get("gamma"), behaviour.get("steps") if isinstance(behaviour, Mapping) else None
    if not (isinstance(gamma, int | float) and isinstance(steps, int | float) and 0.0 <= gamma < 1.0):
        return None
    return beginning(gamma, steps)


def caution_of_horizon(gamma: float, steps: float) -> list[str]:
    """A word on what is not judged."""
    if (part := beginning(gamma, steps)) is None:
        return []
    return [
        f"a discount of {gamma:g} judges {part} of an episode: what a policy gains there it may lose later (by using up"
        " what is stored, say), and which is better over whole episodes this does not tell"
    ]
