"""Costs with the wrong sign."""

from __future__ import annotations

from collections.abc import Iterator

from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Subject
from rl_training.data.formats.raw import RawData

_FEWEST = 2  # rows: the only one may be a gain


def check_sign_of_costs(raw: RawData, subject: Subject) -> Iterator[Finding]:
    """Costs none of which is above zero, as of a column that was negated already: its sign is turned a second time.
    What at_termination has added does not tell, nor does a sum whose signs somebody has weighed."""
    rewards, added = subject.rewards, subject.added_at_ends
    if not raw.negated or raw.signs_told or rewards is None:
        return
    own = rewards if added is None else rewards[added == 0]
    below = int((own > 0).sum())
    if below < _FEWEST or (own < 0).any():
        return
    name = raw.column_in_file("rewards", None)
    what = f"Every cost{'' if name is None else f' in {name!r}'} is zero or below, and counts as a gain."
    advice = "If they were negated already, say rewards_are: rewards: as it stands, what costs most is learned as best."
    yield Finding("warning", "rewards.negated-costs", "rewards", what, advice, below)
