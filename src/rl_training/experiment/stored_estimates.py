"""A record of `rl-training evaluate --offline`, as far as it can be read: nothing that may stand in one raises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.wording import alike as alike_numbers
from rl_training.data.doctor.wording import listed
from rl_training.experiment import statistics
from rl_training.experiment.horizon import beginning_of, discounted_by
from rl_training.experiment.statistics import Estimate
from rl_training.experiment.stored_numbers import as_number
from rl_training.paths import bare_name

Record = Mapping[str, Any]

TRAINED_ON = "the policy was trained on these episodes, which flatters it; judge it on others"


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
    text = "discounted" if discount is None else discounted_by(discount)
    return text if _of_the_mode(record) else f"{text}, with actions drawn at random"


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


def to_show(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """The estimates of the newest weights to show, the newest trusted of each data and discount that stands (or of the
    refused with the most updates the newest, where none does), and those that were refused, be it when made again."""
    of_step = [_by_bare_name(record) for record in records if record["step"] == records[-1]["step"]]
    refused = [record for record in of_step if not _is_trusted(record)]
    newest = _newest(one for one in _standing(of_step) if _is_trusted(one))
    overruled = [one for key, one in _newest(filter(_is_trusted, of_step)).items() if key not in newest]
    if newest or not refused:
        return tuple(newest.values()), (*refused, *overruled)
    shown = max(range(len(refused)), key=lambda place: (_work(refused[place])[0], place))
    return (refused.pop(shown),), (*refused, *overruled)  # a short trial hides no whole fit


def _is_trusted(record: Record) -> bool:
    return isinstance(record.get("value"), Mapping)


def _newest(records: Iterable[Record]) -> dict[tuple[Any, ...], Record]:
    """Of each data, discount, mode and choice of seeds."""
    newest: dict[tuple[Any, ...], Record] = {}
    for record in records:
        key = data_key(record), as_number(record.get("gamma"), 0.0), _of_the_mode(record), frozenset(_seeds(record))
        newest.pop(key, None)  # the newest of all stands last
        newest[key] = record
    return newest


def _standing(records: Sequence[Record]) -> list[Record]:
    """Those that were not made again as thoroughly, whatever came of it; `records` in the order they were made."""
    return [one for place, one in enumerate(records) if not any(_replaces(new, one) for new in records[place + 1 :])]


def contradicted(refused: Sequence[Record]) -> str:
    """Of those that `to_show` says were refused, what was trusted until it was made again; empty where nothing was."""
    said = [f"{_gained(one)} over the behaviour, {discounted(one)}" for one in refused if _is_trusted(one)]
    return "; ".join(
        f"an older estimate ({one}) is contradicted: made again as thoroughly, it was refused" for one in said
    )


def is_better(of: Record) -> bool:
    """Whether an estimate shows an improvement over the behaviour."""
    found = improvement(of)
    return found is not None and (found[0].low is None or found[0].low > 0.0)


def opposed(shown: Record, records: Sequence[Record]) -> tuple[Record, ...]:
    """Other trusted estimates of the same weights on the same episodes which say otherwise whether there is an
    improvement; `records` in the order they were made.

    One that was made again as thoroughly with the same discount counts no more, and one of the beginning of an episode
    says nothing against one of the whole.
    """
    if improvement(shown) is None:
        return ()
    alike = [one for one in _standing(records) if improvement(one) and _is_of_the_same(one, shown)]
    alike = [one for one in alike if _seeds(one) == _seeds(shown)]
    whole = beginning_of(shown) is None
    return tuple(
        one for one in alike if is_better(one) != is_better(shown) and not (whole and beginning_of(one) is not None)
    )


def in_a_word(records: Sequence[Record]) -> tuple[Record, str] | None:
    """The estimate that leads, and what all of them say: `better`, `worse`, `not shown`, `disputed` or `refused`, or
    nothing where it does not tell; none where there is none. records: of one run, in the order they were made."""
    shown = leading(to_show(records)[0]) if records else {}
    if not shown or (found := improvement(shown)) is None:
        return (shown, "refused" if reasons(shown) else "") if shown else None
    if others := opposed(shown, records):
        return shown, "disputed" if _disagree([shown, *others]) else "not shown"
    worse = found[0].high is not None and found[0].high < 0.0
    return shown, "better" if is_better(shown) else "worse" if worse else "not shown"


def disagreement(shown: Record, others: Sequence[Record], gain: str = "improvement") -> str:
    """`both estimates point to an improvement; only the one discounted by 0.99 excludes zero: undiscounted …`, or `two
    estimates disagree: …`; empty where no other is opposed. gain: what is gained."""
    return f"{how_they_agree(shown, others, gain)}: {gained_by_each(shown, others)}" if others else ""


def how_they_agree(shown: Record, others: Sequence[Record], gain: str) -> str:
    """The same without the numbers."""
    told = [shown, *reversed(others)]
    if _disagree(told):
        return f"{'two' if len(told) == 2 else len(told)} estimates disagree"
    signs = {found[0].value > 0 for one in told if (found := improvement(one)) is not None}
    sure = [how for how, one in zip(_told_apart(told), told, strict=True) if is_better(one)]
    names = [f"the {how} one" if how == discounted_by(1.0) else f"the one {how}" for how in sure]
    only = f"only {listed(names)} exclude{'s' * (len(sure) == 1)} zero"
    if len(signs) > 1:
        return f"{'two' if len(told) == 2 else len(told)} estimates point in different directions; {only}"
    every = "both" if len(told) == 2 else f"all {len(told)}"
    return f"{every} estimates point to {'an' if gain[:1] in 'aeiou' else 'a'} {gain}; {only}"


def gained_by_each(shown: Record, others: Sequence[Record]) -> str:
    """`undiscounted +7.1 (-0.6 to 14.9); discounted by 0.99 +3.34 (0.53 to 6.14)`."""
    told = [shown, *reversed(others)]
    return "; ".join(f"{how} {_gained(one)}" for how, one in zip(_told_apart(told), told, strict=True))


def _told_apart(told: Sequence[Record]) -> list[str]:
    discounts = [discounted(one) for one in told]
    made = [f", {count(one, 'repeats')} resamples, {count(one, 'updates')} updates" for one in told]
    return [own + how * (discounts.count(own) > 1) for own, how in zip(discounts, made, strict=True)]


def _disagree(told: Sequence[Record]) -> bool:
    """Whether some show the opposite of others, or intervals of the same discount do not meet."""
    gains = [(found[0], one.get("gamma")) for one in told if (found := improvement(one)) is not None]
    ends = [
        (own.value if own.low is None else own.low, own.value if own.high is None else own.high, g) for own, g in gains
    ]
    opposite = any(low > 0 for low, _, _ in ends) and any(high < 0 for _, high, _ in ends)
    return opposite or any(one[0] > two[1] and one[2] == two[2] for one in ends for two in ends)


def _gained(of: Record) -> str:
    found = improvement(of)
    if found is None or found[0].low is None or found[0].high is None:
        return "unknown" if found is None else f"{found[0].value:+,.4g}"
    value, low, high = alike_numbers(found[0].value, found[0].low, found[0].high)
    return f"{'+' * (found[0].value > 0)}{value} ({low} to {high})"


def _seeds(record: Record) -> set[str]:
    found = record.get("seeds")
    return set(map(str, found)) if isinstance(found, list) else set()


def _of_the_mode(record: Record) -> bool:
    """Whether it is of the most likely actions, not of drawn ones."""
    return record.get("deterministic") is not False


def _is_of_the_same(one: Record, other: Record) -> bool:
    """Weights, data and way to act."""
    return len({(of.get("step"), data_key(_by_bare_name(of)), _of_the_mode(of)) for of in (one, other)}) == 1


def _replaces(new: Record, old: Record) -> bool:
    """Whether one is of the same weights, all seeds of the other among them, on the same data with the same discount,
    and was made with at least as much work."""
    as_much = all(one >= other for one, other in zip(_work(new), _work(old), strict=True))
    return _is_of_the_same(new, old) and new.get("gamma") == old.get("gamma") and _seeds(new) >= _seeds(old) and as_much


def _work(record: Record) -> tuple[float, float]:
    """Updates, which a fit that diverged was stopped short of, and repeats."""
    asked = as_number(mapping(record.get("asked")).get("updates"), 0.0)
    return max(as_number(record.get("updates"), 0.0), asked), as_number(record.get("repeats"), 0.0)


def data_key(record: Record) -> str:
    """The same for the same data, whatever file they are in."""
    data = mapping(record.get("data"))
    return str(data.get("fingerprint") or data.get("title")) if data else ""


def _by_bare_name(record: Record) -> Record:
    """An estimate with its data by their bare name, wherever they lay."""
    data = record.get("data")
    if not isinstance(data, Mapping) or not isinstance(data.get("title"), str):
        return record
    return {**record, "data": {**data, "title": bare_name(data["title"])}}


def leading(offline: Sequence[Record]) -> Record:
    """Of those to show, on episodes that were not trained on if there is one: of the policy as it is shipped, of the
    most seeds, of whole episodes where these are added up, and of these the newest."""
    unseen = [record for record in offline if share_trained_on(record) == 0.0]
    others = [record for record in offline if share_trained_on(record) != 1.0]
    among = unseen or others or offline
    return max(reversed(among), key=_weight, default={})


def _weight(record: Record) -> tuple[bool, int, bool]:
    return _of_the_mode(record), len(_seeds(record)), record.get("gamma") == 1.0


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
    both = np.isfinite(repeats) & np.isfinite(others)  # a fit that diverged may have been left out
    if both.sum() < max(2, (1.0 - 2.0 * statistics.MOST_LEFT_OUT) * len(both)):
        return None
    gains, episodes = (repeats - others)[both], int(as_number(mapping(one.get("data")).get("episodes"), 0.0)) or None
    value, besides = ours.value - theirs.value, _missed(one) - _missed(other)
    found = statistics.student_estimate(value, gains, besides=besides, episodes=episodes)
    return found, statistics.chance_above_zero(value, gains, besides=besides, episodes=episodes)


def missed_by_the_mean(record: Record) -> float:
    """By how much left-out episodes were missed, in what the trusted seeds are better by, as far as it is told."""
    own = as_number(mapping(record.get("behaviour")).get("missed_on_left_out_episodes"), None)
    return 0.0 if own is None else _missed(record) - own


def _missed(record: Record) -> float:
    """By how much left-out episodes were missed, on average over the trusted seeds."""
    told = [mapping(policy.get("diagnostics")).get("missed_on_left_out_episodes") for policy in trusted(record)]
    return sum(as_number(one, 0.0) for one in told) / max(1, len(told))


def _resampled(record: Record) -> tuple[Any, ...]:
    """The same for estimates by the same resamples; nothing where a record does not tell."""
    told = (mapping(record.get("data")).get("fingerprint"), record.get("gamma"), record.get("repeats"))
    asked = mapping(record.get("asked"))
    is_told = bool(asked) and all(isinstance(part, str | int | float) for part in told)
    return (*told, str(asked), _of_the_mode(record)) if is_told else ()


def _of_trusted(record: Record) -> npt.NDArray[np.float64] | None:
    """The mean of the trusted seeds' values in each resample, `[R]`; NaN where one was left out."""
    chosen = [place for place, policy in enumerate(policies(record)) if not texts(policy.get("not_trusted_because"))]
    rows = record.get("of_every_repeat")
    if not chosen or not isinstance(rows, list) or len(rows) < 2 or not all(isinstance(row, list) for row in rows):
        return None
    if any(len(row) <= len(policies(record)) for row in rows):
        return None
    values = [[as_number(row[place], math.nan) for place in chosen] for row in rows]
    return np.asarray(np.array(values, dtype=np.float64).mean(1))
