"""Why episodes ended: failures whose rewards nothing tells from the rest, and ends by a clock that nobody observes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.findings import Finding, spelt_out
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import listed, round_up
from rl_training.data.flags import SHORTEST_TIME_LIMIT
from rl_training.data.formats.raw import RawData
from rl_training.data.reason_guesses import is_failure
from rl_training.data.statistics import sample_rows
from rl_training.data.termination_rewards import NAME as AT_TERMINATION
from rl_training.validation import printable
from rl_training.wording import amount

_STANDARD_ERRORS = 2.5  # of the difference of two means, that are no chance
_LIMIT_EPISODES = 3  # that end with one reason at one length, the largest
_COUNTS = 0.999  # correlation with the place of a row in its episode


def check_failures(raw: RawData, subject: Subject) -> Iterator[Finding]:
    """Terminations for several reasons, some of which sound like failures, where the last reward is alike in all."""
    if raw.end_texts is None or subject.rewards is None or subject.terminations is None or not subject.whole_episodes:
        return
    of: dict[str, list[int]] = {}  # last rows by the text there
    for row in subject.ends[subject.terminations[subject.ends]].tolist():
        if text := raw.end_text(row):
            of.setdefault(text, []).append(row)
    failed = [text for text in of if is_failure(text)]
    others = [row for text, rows in of.items() if text not in failed for row in rows]
    if not failed or not others:
        return
    alike = [text for text in failed if not is_worse(subject.rewards[of[text]], subject.rewards[others])]
    if not alike:
        return
    rest = [text for text in of if text not in failed]
    noun = "cost" if raw.negated else "reward"
    named, besides = (listed(printable(text) for text in texts) for texts in (alike, rest))
    count = sum(len(of[text]) for text in alike)
    what = (
        f"{amount(count, 'episode')} terminate{'s' * (count == 1)} with {named}, by the name a failure, and the {noun}"
        f" there is no worse than with {besides}: for the algorithm, failing is as good."
    )
    returns = subject.returns
    size = round_up(max(1.0, float(np.abs(returns).mean()))) if returns is not None and len(returns) else 100.0
    cost = float(f"{size if raw.negated else -size:g}")
    advised = {AT_TERMINATION: dict.fromkeys(alike, int(cost) if cost.is_integer() else cost)}
    advice = (
        f"Say what failing costs besides, `{spelt_out(advised)}`; the number is what an episode comes to on"
        " average, to be replaced by what a failure costs you. Leave it so if the name misleads."
    )
    place = subject.place(of[alike[0]][0])
    yield Finding("warning", "rewards.ends-alike", "rewards", what, advice, count, place, advised)


Unread = Callable[[], Mapping[str, npt.NDArray[Any]]]  # numbers of columns that nobody reads, by the file's rows


def check_unseen_limit(raw: RawData, subject: Subject, unread: Unread = dict) -> Iterator[Finding]:
    """Terminations with a reason that comes after one number of rows, where no observation counts rows. unread: asked
    for one that does, if there is something to tell."""
    if raw.end_texts is None or subject.obs is None or subject.terminations is None or not subject.whole_episodes:
        return
    limit = int(subject.lengths.max(initial=0))
    of: dict[str, list[tuple[int, int]]] = {}  # last rows, and the lengths of their episodes
    for row, length in zip(subject.ends.tolist(), subject.lengths.tolist(), strict=True):
        if subject.terminations[row] and (text := raw.end_text(row)):
            of.setdefault(text, []).append((row, length))
    by_clock = {
        text: ends for text, ends in of.items() if len(ends) >= _LIMIT_EPISODES and {n for _, n in ends} == {limit}
    }
    if limit < SHORTEST_TIME_LIMIT or len(by_clock) != 1 or _counts_rows(subject, subject.obs):
        return
    ((text, ends),) = by_clock.items()
    what = (
        f"All {amount(len(ends), 'episode')} that end with {printable(text)!r} have {limit:,} rows, the most, and"
        " no column of the observations counts rows: nothing that a policy sees tells it how near that end is."
    )
    advice = f"{_counter(raw, subject, unread)}; if the task does not end there, write `{printable(text)}: truncation`."
    yield Finding("warning", "flags.unseen-limit", "terminations", what, advice, len(ends), subject.place(ends[0][0]))


def _counter(raw: RawData, subject: Subject, unread: Unread) -> str:
    """What to add to the observations, so that they count rows: never a date, which does not come again."""
    is_date = raw.clock is not None and raw.clock.wall is not None
    if raw.clock is not None and not is_date:
        return f"Add {printable(raw.clock.column)!r} to obs"
    places = raw.in_table(np.arange(subject.rows))
    for name, numbers in unread().items():
        if len(numbers) > places.max() and _counts_rows(subject, numbers[places][:, None]):
            return f"Add {printable(name)!r} to obs"
    by_day = " (or say observe_time: [day], if all begin at one time of day)" if is_date else ""
    return f"Add a column that counts the rows of an episode to obs{by_day}"


def _counts_rows(subject: Subject, values: npt.NDArray[Any]) -> bool:
    """Whether a column of `[N, K]` grows with the place of a row in its episode, or falls with it."""
    rows = sample_rows(subject.rows)
    starts = subject.starts[np.searchsorted(subject.ends, rows)]
    at = rows - starts - np.mean(rows - starts)
    seen = values[rows].astype(np.float64)
    if not np.isfinite(seen).all():
        return False
    seen -= seen.mean(axis=0)
    size = np.sqrt((seen**2).sum(axis=0) * (at**2).sum())
    return bool(np.any(np.abs(seen.T @ at) >= _COUNTS * np.maximum(size, 1e-12)))


def is_worse(failed: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> bool:
    """Whether the last rewards of failures are lower on average, by more than chance makes them. The scatter of a
    single one is taken from the others."""
    groups = failed.astype(np.float64), others.astype(np.float64)
    means = [float(values.mean()) for values in groups]
    variances = [float(values.var(ddof=1)) if len(values) > 1 else None for values in groups]
    known = [variance for variance in variances if variance is not None]
    spread = [max(known, default=0.0) if variance is None else variance for variance in variances]
    error = math.sqrt(sum(variance / len(values) for variance, values in zip(spread, groups, strict=True)))
    return means[1] - means[0] > max(_STANDARD_ERRORS * error, 1e-6 * abs(means[1]))
