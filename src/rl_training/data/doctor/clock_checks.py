"""What the clock of a log shows: dates that are observed as numbers, and ends after which rows go on as before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from rl_training.data.checks import IndexArray
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Columns, Subject
from rl_training.data.doctor.succession import step_sizes
from rl_training.data.formats.calendar_episodes import goes_on, stride_of
from rl_training.data.formats.clocks import HOLE
from rl_training.data.formats.raw import RawData
from rl_training.data.statistics import sample_rows
from rl_training.validation import printable

_NEARLY_ALL = 0.9
_FEWEST = 3  # ends by a reason
_USUAL = 90.0  # percentile of the steps between other rows


def check_observed_dates(raw: RawData) -> Iterator[Finding]:
    """A column of dates among the observations, as seconds since 1970."""
    clock = raw.clock
    if clock is None or clock.wall is None or clock.column not in [name for name, _ in raw.columns.get("obs", ())]:
        return
    what = f"Column {clock.column!r} holds dates, and is observed as seconds since 1970: a date never comes again, so"
    what += " that a policy meets nothing but values it has not seen."
    advice = "Leave it out of obs; observe_time: [day] observes the time of day (week, year likewise)."
    yield Finding("warning", "values.date", "obs", what, advice)


def check_going_on(raw: RawData, subject: Subject) -> Iterator[Finding]:
    """Reasons of ends after which nearly all rows are followed by the next step of the same episode."""
    if raw.end_texts is None or raw.clock is None or subject.obs is None or not subject.whole_episodes:
        return
    ends = subject.ends[:-1]
    texts = {row: text for row in ends.tolist() if (text := raw.end_text(row)) is not None}
    if not texts or not subject.inner.size:
        return
    going_on = set(_followed(raw, subject, np.array(sorted(texts), dtype=np.int64)).tolist())
    counts = Counter(texts.values())
    for text, rows in counts.items():
        on = [row for row, said in texts.items() if said == text and row in going_on]
        if rows < _FEWEST or len(on) < _NEARLY_ALL * rows:
            continue
        what = f"{len(on):,} of {rows:,} ends by {printable(text)!r} are followed by the next step of the same episode,"
        what += " and the observations go on as between other rows: nothing seems to end there."
        advice = f"If so, write `{printable(text)}: ongoing` under end_reasons."
        yield Finding("warning", "flags.going-on", "truncations", what, advice, len(on), subject.place(min(on)))


def _followed(raw: RawData, subject: Subject, rows: IndexArray) -> IndexArray:
    """Those of the rows after which the clock goes on as usual, with the same id, and the observations do, too."""
    assert raw.clock is not None
    assert subject.obs is not None
    at = raw.clock.at[raw.in_table(np.arange(subject.rows))]
    strides = at[rows + 1] - at[rows]
    same = goes_on(raw, flags=False)[rows]
    followed = rows[same & (strides > 0) & (strides <= HOLE * stride_of(raw))]
    columns = Columns.of(subject.obs[sample_rows(subject.rows)])
    usual = np.percentile(step_sizes(subject.obs, sample_rows(subject.inner), columns), _USUAL)
    if followed.size and np.median(step_sizes(subject.obs, followed, columns)) > usual:
        return followed[:0]
    return followed
