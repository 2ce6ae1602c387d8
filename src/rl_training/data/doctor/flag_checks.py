"""Where episodes end: flags that contradict each other, that mark too much or too little, or time limits as deaths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from rl_training.data.checks import BoolArray, IndexArray
from rl_training.data.doctor.findings import Finding, Level
from rl_training.data.doctor.raw_checks import RawFields
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import share
from rl_training.data.fields import EPISODE_ENDS, EPISODE_IDS
from rl_training.data.flags import DONES
from rl_training.data.formats.raw import RawData
from rl_training.validation import printable
from rl_training.wording import amount

EndText: TypeAlias = Callable[[int], str | None]

_LIMIT_LEAST = 20  # rows: shorter episodes end at the same length by chance
_LIMIT_EPISODES = 3
_SINGLE = 0.9  # of the episodes: where so many have one row, that is what the task is like
_SAY_SO = "as a day that is settled does, leave it so (ends by ids or dates alone: last_rows_are: termination)"
_MOSTLY_FOLLOWED = 0.5  # of the rows
_LEAST_PAIRS = 3  # fewer may be chance


def check_flags(fields: RawFields, subject: Subject, end_text: EndText | None = None) -> Iterator[Finding]:
    """Every check on the flags; `fields` has them as the file does, `subject` as they are read.

    end_text: what a column of the file says at an episode's last row, if it has one that does.
    """
    if not subject.rows or not subject.whole_episodes:
        return
    if not _single_rows(subject):
        yield from _two_rows(fields, subject)
    yield from _overlap(fields)
    yield from check_ends(subject)
    yield from _time_limits(fields, subject, end_text)
    few = _few_followed(subject)
    if few is None or not _single_rows(subject):
        yield from _one_row(subject)
    if few is not None:
        yield few


def check_left_out(raw: RawData) -> Iterator[Finding]:
    """Terminations that were lost with rows that lack a value."""
    rows, terminations = raw.left_out
    if not terminations:
        return
    what = f"Of the {amount(rows, 'row')} left out for a missing value, {terminations:,} mark"
    what += f"{'s' * (terminations == 1)} a termination: {'its episode' if terminations == 1 else 'their episodes'}"
    what += f" now count{'s' * (terminations == 1)} as cut off, and nobody learns what ended there."
    advice = "Fill in what these rows lack; often it is the reward of an episode's last row."
    yield Finding("warning", "flags.left-out", "terminations", what, advice, terminations)


def _few_followed(subject: Subject) -> Finding | None:
    """Rows that cannot be trained on, where they are most: a wrong column of ids makes an episode of every row. Where
    none is left, training refuses them."""
    followed = subject.rows if subject.has_next_obs is None else _count(subject.has_next_obs)
    if followed >= _MOSTLY_FOLLOWED * subject.rows:
        return None
    what = f"{f'Only {followed:,}' if followed else 'None'} of {amount(subject.rows, 'row')} can be trained on: "
    what += f"{'the others' if followed else 'all'} end an episode that did not terminate, and what they led to was"
    what += " not recorded."
    over = "where the task is over at the last row of an episode"
    over += ", as where every decision stands alone (a bandit's)" * _single_rows(subject)
    advice = "See whether episode_ids and step are the right columns, and whether rows are missing between these;"
    advice += f" {over}, say last_rows_are: termination."
    level: Level = "warning" if followed else "error"
    return Finding(level, "flags.few-followed", "terminations", what, advice, subject.rows - followed)


def _single_rows(subject: Subject) -> bool:
    """Whether (nearly) every episode has one row, as in a bandit's log."""
    return len(subject.lengths) > 1 and bool((subject.lengths == 1).mean() >= _SINGLE)


_MARKS = {
    "terminations": "marked as terminated",
    "truncations": "marked as truncated",
    EPISODE_ENDS: "marked as the last of an episode",
}


def _two_rows(fields: RawFields, subject: Subject) -> Iterator[Finding]:
    """Ends marked on an episode's last row and on the one before, as in d3rlpy's CartPole file."""
    marks = {name: fields.arrays[name] for name in _MARKS if name in fields.arrays}
    if not marks:
        return
    if EPISODE_ENDS in marks and "terminations" in marks:
        yield from _strays(fields, subject, marks["terminations"])
    # Other ids, or an end of the other kind, are signs of an episode that does have a single row.
    signs = [fields.arrays[name] for name in (EPISODE_IDS, "terminations") if name in fields.arrays]
    if subject.recorded is not None:
        signs.append(subject.recorded.episodes)
    alike = np.logical_and.reduce([np.ones(subject.rows - 1, dtype=np.bool_), *(s[:-1] == s[1:] for s in signs)])
    if subject.recorded is not None:  # an end that reading made is no mark of the file's
        own = subject.recorded.cuts
        alike &= ~(own[:-1] | own[1:])
    for name, flags in marks.items():
        pairs = np.flatnonzero(flags[:-1] & flags[1:] & alike)
        if pairs.size and not (name == "terminations" and EPISODE_ENDS in marks):
            yield _pairs(subject, name, pairs, runs=_count(flags) - pairs.size)  # a run of set flags is one mark


def _strays(fields: RawFields, subject: Subject, flags: BoolArray) -> Iterator[Finding]:
    name = fields.sources["terminations"]
    stray = np.flatnonzero(flags & ~fields.arrays[EPISODE_ENDS])
    if stray.size and fields.sources[EPISODE_ENDS] == EPISODE_ENDS:  # dones beside terminations are refused then
        what = (
            f"{name!r} is set on {amount(stray.size, 'row')} that {EPISODE_ENDS!r} does not call the last of an"
            f" episode: with them there would be {len(subject.ends) + stray.size:,} episodes, not"
            f" {len(subject.ends):,}."
        )
        advice = f"Here {EPISODE_ENDS!r} counts, which is right; beware of readers that split on {name!r}."
        place = subject.place(int(stray[0]))
        yield Finding("warning", "flags.two-rows", "terminations", what, advice, int(stray.size), place)


def _pairs(subject: Subject, name: str, pairs: IndexArray, runs: int) -> Finding:
    what = f"{amount(pairs.size, 'row')} {_MARKS[name]} {'is' if pairs.size == 1 else 'are'} directly followed by"
    what += " another end, which makes an episode of a single row of it."
    systematic = pairs.size >= max(_LEAST_PAIRS, runs // 2)
    advice = "Mark only the last row of an episode" + ("; here it looks like a habit of the recorder" * systematic)
    level: Level = "error" if systematic else "warning"
    place = subject.place(int(pairs[0]))
    return Finding(level, "flags.two-rows", name, what, f"{advice}.", int(pairs.size), place)


def _count(flags: BoolArray) -> int:
    return int(np.count_nonzero(flags))


def _overlap(fields: RawFields) -> Iterator[Finding]:
    if "terminations" not in fields.arrays or "truncations" not in fields.arrays:
        return
    terminations, truncations = fields.arrays["terminations"], fields.arrays["truncations"]
    both = np.flatnonzero(terminations & truncations)
    if not both.size:
        return
    cut = _count(truncations)
    what = f"{amount(both.size, 'row')} {'is' if both.size == 1 else 'are'} marked as terminated and as truncated"
    level: Level = "error" if both.size == cut and cut >= _LIMIT_EPISODES else "warning"
    if level == "error":
        what += ": every truncation is also called a termination, so time limits would be learned as the task's end."
        advice = "Set terminations only where the task itself ended; a flag for both is no termination."
        if fields.sources.get("terminations") in DONES:
            advice = (
                f"If {fields.sources['terminations']!r} marks every end, of either kind, read it with dones_are: ends."
            )
    else:
        what += "; there the termination counts."
        advice = "Mark a row in one of the two: terminated where the task ended, truncated where it was cut."
    place = fields.place(int(both[0]))
    yield Finding(level, "flags.overlap", "truncations", what, advice, int(both.size), place)


def check_ends(subject: Subject) -> Iterator[Finding]:
    """Whether episodes end at all, and the last one, too."""
    if not subject.whole_episodes or (subject.terminations is None and subject.truncations is None):
        return
    none = np.zeros(1, dtype=np.bool_)
    flags = (subject.terminations if subject.terminations is not None else none) | (
        subject.truncations if subject.truncations is not None else none
    )
    if not flags.any():
        what = f"No row ends an episode: all {subject.rows:,} count as one, and its return means nothing."
        advice = "Mark the last row of every episode as terminated or truncated, or give episode_ids."
        yield Finding("warning", "flags.none", "terminations", what, advice)
    elif not flags[-1]:
        start = int(subject.starts[-1])
        what = f"The last episode (rows {start:,} to {subject.rows - 1:,}) ends without a flag, as if cut off there."
        advice = "Nothing to do if the recording stopped there: the last row then counts as cut, not as terminated."
        yield Finding("note", "flags.open-end", "truncations", what, advice, place=subject.place(subject.rows - 1))


def _time_limits(fields: RawFields, subject: Subject, end_text: EndText | None) -> Iterator[Finding]:
    """Terminations that pile up at one length, the largest but for a few; some may be marked as truncated besides."""
    if subject.terminations is None or subject.ends_are_said:
        return
    terminated = subject.terminations[subject.ends]
    lengths = subject.lengths[terminated]
    if len(lengths) < _LIMIT_EPISODES:
        return
    limit = int(lengths.max())
    at_limit = int(np.count_nonzero(lengths == limit))
    longer = int(np.count_nonzero(subject.lengths > limit))
    near = int(np.count_nonzero((lengths >= 0.9 * limit) & (lengths < limit)))
    name = fields.sources.get("terminations", "terminations")
    many = at_limit >= max(_LIMIT_EPISODES, 0.02 * len(lengths)) and at_limit > max(near, longer)
    if limit >= _LIMIT_LEAST and many:
        ends = subject.ends[terminated & (subject.lengths == limit)].tolist()
        said = set() if end_text is None else _at_that_length(subject, end_text, limit)
        everyone = "every episode ends" if at_limit == len(subject.lengths) else f"{amount(at_limit, 'episode')} end"
        what = f"By {name!r}, {everyone} in a termination after exactly {limit:,} rows: that looks like a time limit."
        written = ", ".join(f"{printable(text)}: truncation" for text in sorted(said))
        way = f"write `{written}` under end_reasons" if said else "mark these rows as truncated instead"
        advice = (
            f"Does anything carry over into the next episode? Then {way}: a termination tells the algorithm that no"
        )
        advice += f" reward follows. If the task truly ends there, {_SAY_SO}."
        place = subject.place(ends[0])
        yield Finding("warning", "flags.time-limit", "terminations", what, advice, at_limit, place)
    elif name in DONES and "truncations" not in fields.arrays and not np.any(subject.truncations):
        what = f"{name!r} is read as terminations, and nothing says where episodes were only cut."
        advice = "If it also marks time limits, split it into terminations and truncations."
        yield Finding("note", "flags.dones", "terminations", what, advice)


def _at_that_length(subject: Subject, end_text: EndText, limit: int) -> set[str]:
    """The reasons of terminations that come after so many rows alone; a crash may happen to."""
    of: dict[str, set[int]] = {}
    assert subject.terminations is not None
    for row, length in zip(subject.ends.tolist(), subject.lengths.tolist(), strict=True):
        if subject.terminations[row] and (text := end_text(row)):
            of.setdefault(text, set()).add(length)
    return {text for text, lengths in of.items() if lengths == {limit}}


def _one_row(subject: Subject) -> Iterator[Finding]:
    short = np.flatnonzero(subject.lengths == 1)
    if not short.size or len(subject.lengths) == 1:
        return
    part = short.size / len(subject.lengths)
    ended = subject.terminations is not None and bool(subject.terminations.any())
    field = "terminations" if ended else "truncations"
    consist = "consists" if short.size == 1 else "consist"
    what = f"{amount(short.size, 'episode')} of {len(subject.lengths):,} ({share(part)}) {consist} of a single row."
    place = subject.place(int(subject.ends[short[0]]))
    if subject.pieces[short].all():
        what = f"{what[:-1]}: what is left of {'one that was' if short.size == 1 else 'some that were'} cut on reading."
        yield Finding("note", "episodes.one-row", "data", what, "", int(short.size), place)
        return
    if _single_rows(subject):
        what = f"{what[:-1]}, as a bandit's do."
        advice = "Nothing to do if every decision stands alone; else give episode_ids, or flags on last rows only."
        yield Finding("note", "episodes.one-row", field, what, advice, int(short.size))
        return
    advice = "See whether the row before really ends an episode; a flag one row too early does this."
    if subject.ends_told:
        advice = "Nothing to do if the recording stopped there; returns of such episodes say little."
    level: Level = "warning" if part > 0.01 and short.size > 1 else "note"
    yield Finding(level, "episodes.one-row", field, what, advice, int(short.size), place)
