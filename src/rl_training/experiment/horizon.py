"""How far an estimate looks ahead: a discount counts some 1/(1 - γ) steps, and episodes may be far longer.

What a policy gains in the first steps it may lose later, by using up a store, say: of whole episodes, such an estimate
tells nothing, and whoever reads it has to be told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.yaml_dialect import inline

# What a card says of estimates that were refused beside the one it shows.
NEWER_REFUSED = "a newer estimate was refused"
FURTHER_REFUSED = "an estimate that looks further ahead was refused"
WHOLE_REFUSED = "an estimate of whole episodes was refused"

DEFAULT_GAMMA = 0.99  # where the algorithm has none (bc)
LEAST_COUNTED = 0.4  # of an episode's steps, for an estimate that is one of episodes
LEAST_GAMMA = 0.5  # how near a horizon is proposed at most
_NEARER = 5.0  # by how much of 1 - γ
_MOST_NAMED = 3  # reasons
_MOST_STEPS = 1_000  # of an episode that is added up whole: as many as a discount of 0.999 counts
_LONGEST = 2.0  # such an episode, in mean ones: beyond, it is the policy that decides when one ends


def steps_ahead(gamma: float) -> float:
    """Σ γ^t, for ever: how far a discount looks."""
    return 1.0 / (1.0 - gamma) if gamma < 1.0 else math.inf


def counted_share(gamma: float, steps: float) -> float:
    """Of an episode's steps, how much a discount counts."""
    return 1.0 if gamma == 1.0 else (1.0 - gamma**steps) * steps_ahead(gamma) / max(steps, 1.0)


def beginning(gamma: float, steps: float) -> str | None:
    """What part of an episode is judged, if it is its beginning alone: `the first 20 or so of 96 steps`."""
    counted = steps_ahead(gamma)
    return f"the first {counted:,.0f} or so of {steps:,.0f} steps" if counted < LEAST_COUNTED * steps else None


def nearer_gamma(gamma: float, steps: float) -> float:
    """The discount to try next where an estimate is refused, in digits that a person types. steps: of an episode."""
    apart = 1.0 - gamma if gamma < 1.0 else 1.0 / max(steps, 2.0)
    digits = 3 if _NEARER * apart < 0.05 else 2
    return max(round(1.0 - _NEARER * apart, digits), LEAST_GAMMA)


def why_not_whole(data: TransitionDataset) -> str | None:
    """Why episodes of these data cannot be added up undiscounted; none where all end, and at much the same time.

    Nothing but terminations keeps such a sum finite. Where the actions decide when an episode ends, a policy may well
    have longer ones than were ever recorded.
    """
    if not data.whole_episodes:
        return "rows that were sampled or reordered have none"
    lengths = data.episode_lengths()
    if cut := int((~data.terminations[data.episode_ends]).sum()):
        said = "is" if cut == 1 else "are"
        return f"{cut:,} of {len(lengths):,} {said} cut (a task that ends there: {_said_so(data)})"
    longest, mean = int(lengths.max()), float(np.mean(lengths))
    if longest > _LONGEST * mean:
        return f"the longest has {longest:,} steps and the mean one {mean:,.0f} (at most {_LONGEST:g} times as many)"
    return f"they have up to {longest:,} steps (at most {_MOST_STEPS:,})" if longest > _MOST_STEPS else None


def _said_so(data: TransitionDataset) -> str:
    """How to say that cut episodes end there: by their reasons, which count before all else where they are given."""
    cut = data.episode_ends[~data.terminations[data.episode_ends]].tolist()
    told = () if data.in_file is None else (text for row in cut if (text := data.in_file.end_text(row)))
    texts = list(dict.fromkeys(told))
    given = {} if data.provenance is None else data.provenance.applied().get("end_reasons")
    if not texts and isinstance(given, Mapping):
        texts = [str(text) for text, meaning in given.items() if meaning == "truncation"]
    if not texts:
        return "last_rows_are: termination"
    return f"end_reasons: {inline(dict.fromkeys(texts[:_MOST_NAMED], 'termination'))}"


def beginning_of(record: Mapping[str, Any]) -> str | None:
    """The same of a stored estimate, as far as it tells."""
    behaviour = record.get("behaviour")
    gamma, steps = record.get("gamma"), behaviour.get("steps") if isinstance(behaviour, Mapping) else None
    if not (isinstance(gamma, int | float) and isinstance(steps, int | float) and 0.0 <= gamma < 1.0):
        return None
    return beginning(gamma, steps)


def caution_of_horizon(gamma: float, steps: float) -> list[str]:
    """A word on what is not judged, or taken for granted."""
    if gamma == 1.0:
        return [
            f"undiscounted: this assumes that the policy's episodes end as those of the data do, after about"
            f" {steps:,.0f} steps"
        ]
    if (part := beginning(gamma, steps)) is None:
        return []
    return [
        f"a discount of {gamma:g} judges {part} of an episode: a policy may lose later what it gains there (by using up"
        " a store, say), so this does not tell which is better over whole episodes"
    ]


def discounted_by(gamma: float) -> str:
    """`discounted by 0.99`, or `undiscounted`."""
    return "undiscounted" if gamma == 1.0 else f"discounted by {gamma:g}"
