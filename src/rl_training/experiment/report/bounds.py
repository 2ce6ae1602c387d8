"""The bounds of the actions that a run was trained with: what its policy never leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_training.data.doctor.wording import number
from rl_training.data.provenance import KEY, Provenance
from rl_training.environments import Spaces
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.stored_numbers import as_number

_MOST_IN_A_LINE = 8


@dataclass(frozen=True)
class ActionBounds:
    """Lowest and highest value of every action, and whose they are."""

    ranges: tuple[tuple[float, float], ...]
    source: str

    def of(self, column: int) -> tuple[float, float] | None:
        return self.ranges[column] if column < len(self.ranges) else None


def action_bounds(run: RunContents, spaces: Spaces | None) -> ActionBounds | None:
    """From the checkpoint's spaces; without one, those that the configuration gives."""
    section = run.config.get("dataset")
    told = section if isinstance(section, Mapping) else {}
    given = told.get("action_low") is not None and told.get("action_high") is not None
    if spaces is not None:
        source = "the environment's" if run.summary.env_id else "as given" if given else _of_data(run)
        return ActionBounds(tuple(zip(spaces.action_low, spaces.action_high, strict=True)), source)
    width = as_number(run.data_facts.get("act_dim"), None)
    if not given or width is None or not 1 <= width <= 1e6:
        return None
    try:
        low, high = (_numbers(told[f"action_{side}"], int(width)) for side in ("low", "high"))
    except (ValueError, TypeError, OverflowError):
        return None
    return ActionBounds(tuple(zip(low, high, strict=True)), "as given")


def _of_data(run: RunContents) -> str:
    made = Provenance.read(run.data_facts.get(KEY))
    return "as given when the data were written" if made and made.says("action_low") else "taken from the data"


def _numbers(side: Any, width: int) -> list[float]:
    return list(np.broadcast_to(np.asarray(side, dtype=np.float64), width).tolist())


def common_bounds(found: Sequence[ActionBounds | None]) -> ActionBounds | None:
    """Of runs on the same data: what holds for all of them that tell."""
    known = [bounds for bounds in found if bounds is not None]
    return known[0] if known and all(one.ranges == known[0].ranges for one in known) else None


def bounds_text(bounds: tuple[float, float]) -> str:
    """`[0, 90]`."""
    return f"[{number(bounds[0])}, {number(bounds[1])}]"


def bounds_in_words(ranges: Sequence[tuple[float, float]]) -> str:
    """Each once, as far as they fit a line."""
    texts = list(map(bounds_text, ranges))
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(texts) if len(texts) <= _MOST_IN_A_LINE else f"from {texts[0]} to {texts[-1]}, each its own"
