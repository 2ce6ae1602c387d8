"""How the data of a run were read, by its configuration and by what their file tells of the file it was made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rl_training.data.doctor.wording import listed, number
from rl_training.data.kept_reasons import reasons_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import KEY, Provenance, readings
from rl_training.experiment.stored_numbers import as_number
from rl_training.validation import printable

_MOST_REASONS = 6
_NOT_SAID = "(no reason given)"
_TERMINATED, _CUT = "termination", "cut"


class End(NamedTuple):
    """How many episodes ended for one reason; meaning: `termination` or `cut`, empty where it is not known."""

    reason: str
    meaning: str
    episodes: int


def how_episodes_end(section: Any, facts: Mapping[str, Any], ends: Sequence[End] = ()) -> str | None:
    """`25 of 105 end by termination (25 PRODUCT LOSS), 80 are cut (80 shift over)`; none where episodes were not
    counted. ends: for which reasons; where that is not known, only what is read as which."""
    counts = [as_number(facts.get(key), None) for key in ("episodes", "terminations", "truncations")]
    episodes, terminated, cut = (None if count is None else int(count) for count in counts)
    if episodes is None or terminated is None:
        return None
    reasons = _meanings(section, facts)
    whys = [_counted(ends, name) or _why(reasons, name) for name in (_TERMINATED, _CUT)]
    text = f"{terminated:,} of {episodes:,} end by termination{whys[0] if terminated else ''}"
    return text + (f", {cut:,} are cut{whys[1]}" if cut else "")


def kept_ends(section: Any, facts: Mapping[str, Any]) -> tuple[End, ...]:
    """What the file of the data keeps of why its episodes ended, the most frequent first; nothing where it keeps
    none."""
    made = Provenance.read(facts.get(KEY))
    kept = None if made is None else made.reasons_kept()
    if kept is None or len(kept) != as_number(facts.get("episodes"), None):
        return ()
    meanings = _meanings(section, facts)
    return tuple(
        End(printable(text) or _NOT_SAID, meanings.get(text, ""), count) for text, count in Counter(kept).most_common()
    )


def added_at_termination(section: Any, facts: Mapping[str, Any], ends: Sequence[End] = ()) -> str | None:
    """`500 for PRODUCT LOSS`: what was added to the reward or cost of an end; none where nothing was. ends: for which
    reasons episodes ended, where that is known."""
    added = added_to_ends(section, facts)
    if added is None or isinstance(added, float):
        return None if added is None else f"{number(added)} for every termination"
    known = {end.reason for end in ends}
    parts = [f"{number(value)} for {reason}" for reason, value in added.items() if not known or reason in known]
    return listed(parts) or None


def added_to_ends(section: Any, facts: Mapping[str, Any]) -> float | dict[str, float] | None:
    """The same in numbers, by reason or for every termination, with the sign of the page."""
    stages = list(readings(section, facts))
    place, told = next(((n, found) for n, one in enumerate(stages) if (found := one.get("at_termination"))), (0, None))
    # Said of a file whose rewards may be the costs of an earlier one: the page has the sign of the first.
    sign = (-1) ** sum(one.get("rewards_are") == "costs" for one in stages[place + 1 :])
    if not isinstance(told, Mapping):
        value = as_number(told, None)
        return None if value is None else sign * value
    parts = [(as_number(value, None), printable(str(reason))) for reason, value in told.items()]
    return {reason: sign * value for value, reason in parts if value is not None}


class EndedSo(NamedTuple):
    """Episodes that ended for one reason, and what they returned and how long they were on average."""

    reason: str
    meaning: str
    episodes: int
    mean_return: float
    mean_length: float

    @property
    def end(self) -> End:
        return End(printable(self.reason), self.meaning, self.episodes)


def count_reasons(dataset: TransitionDataset) -> tuple[EndedSo, ...]:
    """The most frequent first; none where no column tells, or where there are no whole episodes."""
    reasons = reasons_of(dataset)
    if reasons is None:
        return ()
    returns, lengths, ends = dataset.episode_returns(), dataset.episode_lengths(), dataset.episode_ends
    of: dict[tuple[str, str], list[int]] = {}
    for episode, row in enumerate(ends.tolist()):
        meaning = _TERMINATED if dataset.terminations[row] else _CUT
        of.setdefault((reasons[episode] or _NOT_SAID, meaning), []).append(episode)
    found = [
        EndedSo(text, meaning, len(those), float(np.mean(returns[those])), float(np.mean(lengths[those])))
        for (text, meaning), those in of.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.episodes))


def _meanings(section: Any, facts: Mapping[str, Any]) -> dict[str, str]:
    """What each reason is read as, whether it occurs or not."""
    told = [choices.get("end_reasons") for choices in readings(section, facts)]
    found = next((one for one in told if isinstance(one, Mapping) and one), {})
    of = {"termination": _TERMINATED, "truncation": _CUT}
    return {str(reason): of[meaning] for reason, meaning in found.items() if meaning in of}


def _counted(ends: Sequence[End], meaning: str) -> str:
    texts = [f"{end.episodes:,} {end.reason}" for end in ends if end.meaning == meaning]
    return f" ({', '.join(_some(texts))})" if texts else ""


def _why(reasons: Mapping[str, str], meaning: str) -> str:
    texts = [printable(text) for text, read in reasons.items() if read == meaning]
    several = "read as such: " if len(texts) > 1 else ""  # some may never have occurred
    return f" ({several}{listed(_some(texts), 'or')})" if texts else ""


def _some(texts: Sequence[str]) -> list[str]:
    return [*texts] if len(texts) <= _MOST_REASONS else [*texts[:_MOST_REASONS], f"{len(texts) - _MOST_REASONS} more"]
