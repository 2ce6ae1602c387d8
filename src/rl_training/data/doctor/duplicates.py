"""Transitions and whole episodes that occur more than once, found by hashes of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rl_training.data.doctor.findings import Finding, Level
from rl_training.data.doctor.raw_checks import chunks
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import share
from rl_training.wording import amount

Hashes = npt.NDArray[np.uint64]

_MANY = 0.01
_SHIFT = np.uint64(29)


def check_duplicates(subject: Subject) -> Iterator[Finding]:
    """Rows with the same observation, action and reward, bit by bit; and episodes made of the same rows."""
    if subject.obs is None or subject.actions is None or subject.rewards is None or subject.rows < 2:
        return
    hashes = _row_hashes(subject)
    again, first = _repeated(hashes)
    if not again.size:
        return
    in_a_row = _in_a_row(subject, hashes)
    if in_a_row.size:
        yield _twice(subject, in_a_row)
    episodes = _repeated_episodes(subject, hashes) if subject.whole_episodes else None
    if episodes is not None and episodes[0].size:
        copies, originals = episodes
        what = f"{amount(copies.size, 'episode')} of {len(subject.ends):,} repeat{'s' * (copies.size == 1)} an earlier"
        what += f" one row by row: episode {copies[0]:,} is episode {originals[0]:,} again."
        advice = "Drop the copies unless they are meant to count twice; a split by episode would leak between parts."
        place = subject.place(int(subject.starts[copies[0]]))
        yield Finding("warning", "duplicates.episodes", "obs", what, advice, int(copies.size), place)
    if in_a_row.size == again.size:
        return
    part = again.size / subject.rows
    what = (
        f"{amount(again.size, 'row')} ({share(part)}) {'is an exact copy' if again.size == 1 else 'are exact copies'}"
    )
    what += f" of earlier ones in obs, actions and reward: row {again[0]:,} is row {first[0]:,} again."
    advice = "In continuous spaces this does not happen by chance: see whether the data were joined or drawn twice."
    level: Level = "warning" if part > _MANY else "note"
    yield Finding(level, "duplicates.rows", "obs", what, advice, int(again.size), subject.place(int(again[0])))


def _in_a_row(subject: Subject, hashes: Hashes) -> npt.NDArray[np.int64]:
    """Rows of an episode that are the row before again; where successors are stored, those show it."""
    if subject.next_obs is not None or not subject.whole_episodes:
        return np.empty(0, dtype=np.int64)
    return np.asarray(subject.inner[hashes[subject.inner] == hashes[subject.inner + 1]] + 1)


def _twice(subject: Subject, rows: npt.NDArray[np.int64]) -> Finding:
    what = f"{amount(rows.size, 'row')} inside episodes {'repeats' if rows.size == 1 else 'repeat'} the row before in"
    what += " obs, actions and reward."
    advice = "Drop the copies, unless the system stood still: they teach that an action changes nothing."
    return Finding("warning", "duplicates.in-a-row", "obs", what, advice, int(rows.size), subject.place(int(rows[0])))


def _row_hashes(subject: Subject) -> Hashes:
    """A 64-bit hash of each row: a sum of its words times random odd numbers, mixed."""
    assert subject.obs is not None
    assert subject.actions is not None
    assert subject.rewards is not None
    fields = (subject.obs, subject.actions, subject.rewards[:, None])
    factors = _odd_numbers(sum(field.shape[1] for field in fields))
    hashes = np.empty(subject.rows, dtype=np.uint64)
    for part in chunks(subject.rows):
        words = np.concatenate([field[part] for field in fields], axis=1)
        words += np.float32(0.0)  # -0 and 0 are the same number
        hashes[part] = _mixed(words.view(np.uint32).astype(np.uint64) @ factors)
    return hashes


def _odd_numbers(count: int) -> Hashes:
    return np.random.default_rng(1).integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> _SHIFT)) * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> _SHIFT)


def _repeated(hashes: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions that repeat an earlier one, in order, and that earlier one."""
    order = np.argsort(hashes, kind="stable")
    new = np.r_[True, hashes[order[1:]] != hashes[order[:-1]]]
    group_start = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    copies, originals = order[~new], order[group_start[~new]]
    by_position = np.argsort(copies)
    return copies[by_position], originals[by_position]


def _repeated_episodes(subject: Subject, hashes: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Episodes of the same rows in the same order as an earlier one."""
    steps = np.arange(subject.rows) - np.repeat(subject.starts, subject.lengths)
    factors = _odd_numbers(int(subject.lengths.max()))
    return _repeated(_mixed(np.add.reduceat(hashes * factors[steps], subject.starts)))
