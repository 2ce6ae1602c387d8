"""What a user may choose on how flags are read: in configurations, in Python and on the command line alike."""

from __future__ import annotations

from typing import Literal, TypeAlias

DonesAre: TypeAlias = Literal["terminations", "truncations", "ends"]  # what a plain `dones` flag means
TimeLimits: TypeAlias = Literal["keep", "d4rl"]  # rows at a time limit: kept, or dropped as D4RL does
