"""A record of `rl-training evaluate --offline`, as far as it can be read: nothing that may stand in one raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.wording import listed
from rl_training.experiment import statistics
from rl_training.experiment.horizon import discounted_by
from rl_training.experiment.offline_doubts import TRAINED_ON
from rl_training.experiment.report.numbers import as_number
from rl_training.experiment.statistics import Estimate

Record = Mapping[str, Any]


def mapping(value: Any) -> Record:
    return value if isinstance(value, Mapping) else {}


def texts(value: Any) -> list[str]:
    return [" ".join(str(entry).split()) for entry in value] if isinstance(value, list) else []


def cautions(record: Record) -> list[str]:
    """What it was told with, but for what is said of every estimate on the episodes of the training."""
    is_told = share_trained_on(record) == 1.0
    return [text for text in texts(record.get("cautions")) if not (is_told and text == TRAINED_ON)]


def share_trained_on(record: Record) -> float | None:
    """Of the episodes it was made on, those that the policy was trained on; none where that is not known, as records of
    earlier versions tell it of all alone."""
    data = mapping(record.get("data"))
    if data.get("trained_on") is True and TRAINED_ON in texts(record.get("cautions")):
        return 1.0
    return as_number(data.get("share_trained_on"), None)


def of_trust(caution: str) -> str | None:
    """In a few words, what a caution says of how far to trust an estimate; none where it says something else."""
    if caution.startswith(f"{discounted_by(1.0)}: "):
        return caution.partition(": ")[2]
    few = caution.partition(": ")[0]
    return few if few.endswith(" episodes are few") else None


def title(record: Record) -> str:
    return str(mapping(record.get("data")).get("title", "unknown data"))


def count(of: Record, name: str) -> str:
    found = as_number(of.get(name), None)
    return "?" if found is None else f"{int(found):,}"


def discounted(record: Record) -> str:
    discount = as_number(record.get("gamma"), None)
    return "discounted" if discount is None else discounted_by(discount)


def trained_otherwise(record: Record, config: Record) -> str:
    """`, trained discounted by 0.99`, where that is another discount than it was judged with."""
    own, judged = (as_number(of.get("gamma"), None) for of in (mapping(config.get("algo_kwargs")), record))
    return "" if own is None or judged is None or own == judged else f", trained {discounted_by(own)}"


def policies(record: Record) -> list[Record]:
    found = record.get("policies")
    return [mapping(policy) for policy in found] if isinstance(found, list) else []


def trusted(record: Record) -> list[Record]:
    return [policy for policy in policies(record) if not texts(policy.get("not_trusted_because"))]


def seed(policy: Record) -> str:
    return str(int(as_number(policy.get("seed"), 0.0)))


def seeds_in_words(seeds: Sequence[str]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {listed(seeds)}"


def reasons(record: Record) -> dict[str, list[str]]:
    """The seeds that each reason not to trust them is about."""
    of: dict[str, list[str]] = {}
    for policy in policies(record):
        for reason in texts(policy.get("not_trusted_because")):
            of.setdefault(reason, []).append(seed(policy))
    return of


def estimate(value: Any) -> Estimate | None:
    parts = mapping(value)
    middle, low, high = (as_number(parts.get(name), None) for name in ("value", "low", "high"))
    return None if middle is None else Estimate(middle, low, high)


def improvement(of: Record) -> tuple[Estimate, float | None] | None:
    """Over the behaviour, and how probable it is."""
    gain = estimate(of.get("improvement"))
    return None if gain is None else (gain, as_number(mapping(of.get("improvement")).get("probability"), None))


def gain_between(one: Record, other: Record) -> tuple[Estimate, float] | None:
    """What one is worth more than the other, on average over the trusted seeds, and how probably it is; nothing where
    they were not estimated on the same resamples of the same episodes."""
    if not _resampled(one) or _resampled(one) != _resampled(other):
        return None
    ours, theirs = estimate(one.get("value")), estimate(other.get("value"))
    repeats, others = _of_trusted(one), _of_trusted(other)
    if ours is None or theirs is None or repeats is None or others is None or len(repeats) != len(others):
        return None
    gains, episodes = repeats - others, int(as_number(mapping(one.get("data")).get("episodes"), 0.0)) or None
    value, besides = ours.value - theirs.value, _missed(one) - _missed(other)
    found = statistics.student_estimate(value, gains, besides=besides, episodes=episodes)
    return found, statistics.chance_above_zero(value, gains, besides=besides, episodes=episodes)


def _missed(record: Record) -> float:
    """By how much left-out episodes were missed, on average over the trusted seeds."""
    told = [mapping(policy.get("diagnostics")).get("missed_on_left_out_episodes") for policy in trusted(record)]
    return sum(as_number(one, 0.0) for one in told) / max(1, len(told))


def _resampled(record: Record) -> tuple[Any, ...]:
    """The same for estimates by the same resamples; nothing where a record does not tell."""
    told = (mapping(record.get("data")).get("fingerprint"), record.get("gamma"), record.get("repeats"))
    asked = mapping(record.get("asked"))
    return (*told, str(asked)) if asked and all(isinstance(part, str | int | float) for part in told) else ()


def _of_trusted(record: Record) -> npt.NDArray[np.float64] | None:
    """The mean of the trusted seeds' values in each resample, `[R]`."""
    chosen = [place for place, policy in enumerate(policies(record)) if not texts(policy.get("not_trusted_because"))]
    rows = record.get("of_every_repeat")
    if not chosen or not isinstance(rows, list) or len(rows) < 2 or not all(isinstance(row, list) for row in rows):
        return None
    if any(len(row) <= len(policies(record)) for row in rows):
        return None
    values = [[as_number(row[place], None) for place in chosen] for row in rows]
    if any(value is None for row in values for value in row):
        return None
    return np.asarray(np.array(values, dtype=np.float64).mean(1))
