"""Whose policy is taken of a run of several seeds, where nobody names one: the one that the evidence speaks for.

What was measured by playing comes before what was estimated from data, as in the report's first lines.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from rl_training.experiment.stored_estimates import (
    Record,
    discounted,
    improvement,
    leading,
    policies,
    seed,
    seeds_in_words,
    title,
    to_show,
    trusted,
)
from rl_training.experiment.stored_numbers import as_number
from rl_training.runtime.records import OFFLINE_EVALUATIONS
from rl_training.runtime.run_directory import RunDirectory
from rl_training.validation import is_count
from rl_training.wording import amount

ONLY_ONE = "the only one that has not diverged"


@dataclass(frozen=True)
class SeedChoice:
    """why: in words, to follow the seed; none where there is no other seed. evident: whether anything speaks for it.
    best_of: the number of seeds that it was chosen from `by` their scores or estimates. how: these were made."""

    seed: int
    why: str | None = None
    evident: bool = True
    by: Literal["score", "estimate"] = "score"
    best_of: int = 1
    how: str = ""

    @property
    def told(self) -> list[str]:
        """What to say of the choice, where there was one: `seed 2: it scored best of 3 seeds …`."""
        return [] if self.why is None else [f"seed {self.seed}: {self.why}"]

    @property
    def taken(self) -> list[str]:
        """The same for whoever compares the seeds."""
        return [f"export and predict take {line}" for line in self.told]

    @property
    def caution(self) -> str | None:
        """What whoever quotes its number should know: of several numbers the largest is partly luck."""
        if self.best_of < 2:
            return None
        return f"seed {self.seed} is the best of {self.best_of} by its {self.by}, which is therefore optimistic"


def choose_seed(run: RunDirectory | None, step: int, seeds: Sequence[int], sound: Sequence[int]) -> SeedChoice:
    """By what is stored of the weights of `step`. sound: the seeds that have not diverged, at least one of them."""
    if len(sound) == 1:
        return SeedChoice(sound[0], None if len(seeds) == 1 else ONLY_ONE)
    played = _records(run, "evaluations", step)[-1:]
    by_scores = seed_by_scores(_scores(played, sound), *map(_when, played))
    if by_scores is not None:
        return by_scores
    record = leading(to_show(_records(run, OFFLINE_EVALUATIONS, step))[0])
    return seed_by_estimates(record, sound) or _first(record, sound, len(seeds))


def seed_by_scores(scores: Mapping[int, float], when: str = "") -> SeedChoice | None:
    """The one with the highest return, where all were played alike. when: in words."""
    known = {own: score for own, score in scores.items() if math.isfinite(score)}
    if not known:
        return None
    best = max(known, key=lambda own: known[own])
    how = f"best of {amount(len(known), 'seed')}" if len(known) > 1 else "as the only one"
    return SeedChoice(best, f"it scored {how} in the evaluation during training{when}", best_of=len(known))


def _when(record: Mapping[str, Any]) -> str:
    episodes: Any = record.get("episodes")
    return f" at step {record['step']:,}" + (f" ({amount(episodes, 'episode')} each)" if is_count(episodes) else "")


def seed_by_estimates(record: Record, among: Collection[int] | None = None) -> SeedChoice | None:
    """The one that is shown to improve the most, of those whose estimate is trusted; none where none is."""
    found = {int(seed(one)): gain[0] for one in trusted(record) if (gain := improvement(one)) is not None}
    found = {own: gain for own, gain in found.items() if among is None or own in among}
    if not found:
        return None
    best = max(found, key=lambda own: ((found[own].low or 0.0) > 0.0, found[own].value))
    refused = [seed(one) for one in policies(record) if one not in trusted(record)]
    why = f"its estimate is the best of {amount(len(found), 'seed')}" if len(found) > 1 else "its estimate is trusted"
    why += f", that of {seeds_in_words(refused)} was refused" if refused else ""
    return SeedChoice(best, why, by="estimate", best_of=len(found), how=f"{discounted(record)} on {title(record)}")


def _records(run: RunDirectory | None, kind: str, step: int) -> list[dict[str, Any]]:
    """As far as they can be read: no policy is refused for what lies beside it."""
    with suppress(OSError):
        return [] if run is None else [record for record in run.sound_records(kind) if record["step"] == step]
    return []


def _first(record: Record, sound: Sequence[int], count: int) -> SeedChoice:
    """As there is no better one."""
    first = sound[0]
    among = str(count) if len(sound) == count else f"{len(sound)} that have not diverged"
    own = [one for one in policies(record) if seed(one) == str(first)]
    if own and own[0] not in trusted(record):
        return SeedChoice(first, f"the first of {among}, as no estimate of a seed can be trusted")
    why = f"the first of {among}, as no evaluation or estimate of this checkpoint tells which is better"
    return SeedChoice(first, why, evident=False)


def _scores(records: Sequence[Mapping[str, Any]], sound: Sequence[int]) -> dict[int, float]:
    """The return of each sound seed in the one record, if there is one and as far as it can be read."""
    found: dict[int, float] = {}
    for record in records:
        own, values = record.get("seeds"), record.get("return_mean")
        if isinstance(own, list) and isinstance(values, list) and len(own) == len(values):
            told = {str(name): as_number(value, math.nan) for name, value in zip(own, values, strict=True)}
            found = {name: told[str(name)] for name in sound if str(name) in told}
    return found
