"""What a user may choose on how data are read: in configurations, in Python and on the command line alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

DonesAre: TypeAlias = Literal["terminations", "truncations", "ends"]  # what a plain `dones` flag means
TimeLimits: TypeAlias = Literal["keep", "d4rl"]  # rows at a time limit: kept, or dropped as D4RL does
RewardsAre: TypeAlias = Literal["rewards", "costs"]  # higher is better, or lower is
RewardsAt: TypeAlias = Literal["same", "next"]  # the row that holds a step's reward: its own, or the one after it
Missing: TypeAlias = Literal["refuse", "drop"]  # rows in which a value is missing
Ending: TypeAlias = Literal["termination", "truncation", "ongoing"]  # what a text such as `crash` says of its row
EndReasons: TypeAlias = Mapping[str, Ending]  # by text
Side: TypeAlias = float | Sequence[float]  # the smallest or largest action: of all dimensions, or of each


class Understanding(TypedDict, total=False):
    """How what was read is understood, whatever its format: keywords of `TransitionDataset.load` and its like."""

    time_limits: TimeLimits
    max_episode_steps: int | None
    dones_are: DonesAre | None
    rewards_are: RewardsAre
    rewards_at: RewardsAt
    action_low: Side | None
    action_high: Side | None
    missing: Missing
