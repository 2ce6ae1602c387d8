"""Columns that nobody reads, with text where episodes end: they may tell why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from rl_training.data.doctor.findings import Finding, Level
from rl_training.data.doctor.subject import Subject
from rl_training.data.fields import END_REASONS
from rl_training.data.formats import RawData
from rl_training.data.formats.names import first_of
from rl_training.validation import printable

_FEWEST = 2  # episodes; one row may be an end by chance


def check_unused_texts(texts: Mapping[str, Mapping[int, str]], raw: RawData, subject: Subject) -> Iterator[Finding]:
    """texts: by column, then by the file's rows."""
    if not texts or not subject.whole_episodes:
        return
    places = np.arange(subject.rows) if raw.rows is None else raw.rows
    ends, read = {int(row): place for place, row in enumerate(places[subject.ends])}, set(places.tolist())
    level: Level = "note" if np.any(subject.terminations) else "warning"  # where ends are told of, it may say the same
    for name, by_row in texts.items():
        found = {row: text for row, text in by_row.items() if row in read}
        if len(found) < _FEWEST or not set(found) <= set(ends):
            continue
        counted = first_of(f"{printable(text)} ({rows:,})" for text, rows in Counter(found.values()).most_common())
        what = f"The unused column {name!r} has text only in the last rows of {len(found):,} episodes: {counted}."
        advice = f"Name it in columns.{END_REASONS} if it tells why episodes end."
        place = subject.place(int(subject.ends[ends[min(found)]]))
        yield Finding(level, "data.unused-reasons", "data", what, advice, len(found), place)
