"""What may decide whether a policy is better, where the interval of its improvement holds 0."""

from __future__ import annotations

import math
from typing import NamedTuple

from rl_training.experiment.statistics import LEVEL, Estimate, student_quantile

_UPPER = 0.5 * (1.0 + LEVEL)
_MANY_REPEATS = 20  # Student's factor hardly falls beyond
_MOST_RECORDED = 10  # times the episodes there are, that may be recorded to decide something


class Deciding(NamedTuple):
    """Either more resamples, or more episodes (so many, in words), or, with neither, a longer training."""

    repeats: int | None = None
    episodes: str | None = None


def deciding(gain: Estimate, repeats: int, episodes: int, *, can_train_on: bool) -> Deciding | None:
    """More resamples narrow an interval a little, more episodes a lot, and neither helps where the policy does what the
    data do; none where the interval does not hold 0."""
    if gain.low is None or gain.high is None or not gain.low <= 0.0 <= gain.high or repeats < 2:
        return None
    half = gain.value - gain.low
    narrower = student_quantile(_UPPER, _MANY_REPEATS - 1) / student_quantile(_UPPER, repeats - 1)
    needed = episodes * (half / abs(gain.value)) ** 2 if gain.value else math.inf
    if repeats < _MANY_REPEATS and abs(gain.value) > narrower * half:
        return Deciding(repeats=_MANY_REPEATS)
    if not can_train_on or (gain.value > 0.0 and needed <= _MOST_RECORDED * episodes):
        return Deciding(episodes=f"some {math.ceil(needed / 10) * 10:,}" if math.isfinite(needed) else "many more")
    return Deciding()
