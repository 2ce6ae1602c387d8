"""What may decide whether a policy is better, where the interval of its improvement holds 0."""

from __future__ import annotations

import math
from typing import NamedTuple

from rl_training.experiment.statistics import LEVEL, Estimate, student_quantile

_UPPER = 0.5 * (1.0 + LEVEL)
_MANY_REPEATS = 20  # Student's factor hardly falls beyond
_MOST_RECORDED = 10  # times the episodes there are, that may be recorded to decide something
_MOST_BESIDES = 0.5  # of the variance, for which more resamples are no way to make it less


class Deciding(NamedTuple):
    """Either more resamples, or more episodes, with neither a longer training."""

    repeats: int | None = None
    episodes: float | None = None  # in all; infinite: many more

    @property
    def in_words(self) -> str:
        """`some 130`, or `many more`."""
        many = self.episodes is None or not math.isfinite(self.episodes)
        return "many more" if many else f"some {math.ceil((self.episodes or 0.0) / 10) * 10:,}"


def deciding(
    gain: Estimate, repeats: int, episodes: int, *, can_train_on: bool, besides: float = 0.0
) -> Deciding | None:
    """More resamples narrow an interval a little, more episodes a lot; longer training is proposed only where the
    policy came out no better, as it may also lead a good one away from the data. None where the interval does not hold
    0. besides: by how much left-out episodes were missed, an error that no more resamples make less."""
    if gain.low is None or gain.high is None or not gain.low <= 0.0 <= gain.high or repeats < 2:
        return None
    half = gain.value - gain.low
    factor = student_quantile(_UPPER, repeats - 1)
    narrower = student_quantile(_UPPER, _MANY_REPEATS - 1) / factor
    needed = episodes * (half / abs(gain.value)) ** 2 if gain.value else math.inf
    by_resamples = besides**2 <= _MOST_BESIDES * (half / factor) ** 2
    if repeats < _MANY_REPEATS and by_resamples and abs(gain.value) > narrower * half:
        return Deciding(repeats=_MANY_REPEATS)
    if gain.value > 0.0 or not can_train_on:
        return Deciding(episodes=needed if needed <= _MOST_RECORDED * episodes else math.inf)
    return Deciding()
