"""How the data of a run were read, by its configuration and by what their file tells of the file it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rl_training.data.doctor.wording import listed, number
from rl_training.data.kept_reasons import reasons_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import readings
from rl_training.experiment.stored_numbers import as_number
from rl_training.validation import printable

_MOST_REASONS = 6
_NOT_SAID = "(no reason given)"


def how_episodes_end(section: Any, facts: Mapping[str, Any]) -> str | None:
    """`25 of 105 end by termination (PRODUCT LOSS), 80 are cut (shift over)`; none where episodes were not counted."""
    counts = [as_number(facts.get(key), None) for key in ("episodes", "terminations", "truncations")]
    episodes, terminated, cut = (None if count is None else int(count) for count in counts)
    if episodes is None or terminated is None:
        return None
    told = [choices.get("end_reasons") for choices in readings(section, facts)]
    reasons = next((dict(one) for one in told if isinstance(one, Mapping) and one), {})
    text = f"{terminated:,} of {episodes:,} end by termination{_why(reasons, 'termination') if terminated else ''}"
    return text + (f", {cut:,} are cut{_why(reasons, 'truncation')}" if cut else "")


def added_at_termination(section: Any, facts: Mapping[str, Any]) -> str | None:
    """`500 for PRODUCT LOSS`: what was added to the reward or cost of an end; none where nothing was."""
    stages = list(readings(section, facts))
    place, told = next(((n, found) for n, one in enumerate(stages) if (found := one.get("at_termination"))), (0, None))
    # Said of a file whose rewards may be the costs of an earlier one: the page has the sign of the first.
    sign = (-1) ** sum(one.get("rewards_are") == "costs" for one in stages[place + 1 :])
    if not isinstance(told, Mapping):
        value = as_number(told, None)
        return None if value is None else f"{number(sign * value)} for every termination"
    parts = [(as_number(value, None), printable(str(reason))) for reason, value in told.items()]
    return listed(f"{number(sign * value)} for {reason}" for value, reason in parts if value is not None) or None


class EndedSo(NamedTuple):
    """Episodes that ended for one reason, and what they returned and how long they were on average."""

    reason: str
    meaning: str
    episodes: int
    mean_return: float
    mean_length: float


def count_reasons(dataset: TransitionDataset) -> tuple[EndedSo, ...]:
    """The most frequent first; none where no column tells, or where there are no whole episodes."""
    reasons = reasons_of(dataset)
    if reasons is None:
        return ()
    returns, lengths, ends = dataset.episode_returns(), dataset.episode_lengths(), dataset.episode_ends
    of: dict[tuple[str, str], list[int]] = {}
    for episode, row in enumerate(ends.tolist()):
        meaning = "termination" if dataset.terminations[row] else "cut"
        of.setdefault((reasons[episode] or _NOT_SAID, meaning), []).append(episode)
    found = [
        EndedSo(text, meaning, len(those), float(np.mean(returns[those])), float(np.mean(lengths[those])))
        for (text, meaning), those in of.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.episodes))


def _why(reasons: Mapping[Any, Any], ending: str) -> str:
    texts = [printable(str(text)) for text, meaning in reasons.items() if meaning == ending]
    some = texts if len(texts) <= _MOST_REASONS else [*texts[:_MOST_REASONS], f"{len(texts) - _MOST_REASONS} more"]
    return f" ({listed(some, 'or')})" if texts else ""
