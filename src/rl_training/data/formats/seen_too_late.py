"""What a policy would be shown and cannot know before it acts, or never meets again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rl_training.data.fields import EPISODE_IDS, FIELD_OF
from rl_training.data.formats.reward_terms import Term, only_measured
from rl_training.wording import WARNING

_TOO_LATE = {
    "rewards": "is the reward, and observed: it is known only after acting",
    "actions": "is an action, and observed: the policy would be shown what it has to choose, and learn to repeat it",
}


def known_too_late(fields: Mapping[str, Sequence[str]], terms: Sequence[Term]) -> Iterator[str]:
    """A warning where an observation is not known before acting. terms: of which rewards are added up; how far a column
    is from where it should be may be known."""
    seen, measured = fields.get("obs", ()), only_measured(terms)
    for key, why in _TOO_LATE.items():
        if both := [name for name in fields.get(key, ()) if name in seen and name not in measured]:
            yield f"{WARNING}column {both[0]!r} {why}; leave it out of obs"
    ids = [name for key, names in fields.items() if FIELD_OF.get(key) == EPISODE_IDS for name in names]
    if both := [name for name in ids if name in seen]:
        why = (
            "tells episodes apart (episode_ids), and is observed: a policy meets new ones only, which it has never seen"
        )
        yield f"{WARNING}column {both[0]!r} {why}; leave it out of obs unless its number means more than which it is"
