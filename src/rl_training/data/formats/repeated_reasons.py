"""Why an episode ended, where a log repeats it in the episode's rows: only the last of them has ended anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import IndexArray
from rl_training.data.formats.names import first_of
from rl_training.data.formats.raw import Files, row_named
from rl_training.errors import DataError
from rl_training.validation import printable, shown
from rl_training.wording import WARNING, amount

_NEARLY_ALL = 0.8  # of an episode's rows have one reason
_MOST = 0.5  # so many are enough where most episodes have it in nearly all


@dataclass(frozen=True)
class EpisodeEnds:
    """said_at: for rows that have ended something, the row that says why, else -1, `[N]`. once: where each is to be
    counted, as copies of a row are not, `[N]`. in_a_row: rows that end an episode which the next row of its id ends
    again, and these next rows, `[K]` each. last: rows of the episodes, and how many each has,
    `[n_episodes]`. note: on what was repeated."""

    said_at: IndexArray
    once: npt.NDArray[np.bool_]
    in_a_row: tuple[IndexArray, IndexArray]
    last: tuple[IndexArray, IndexArray]
    note: str

    def without_reason(self, texts: list[str], episodes: npt.NDArray[Any], files: Files) -> list[str]:
        """What tells of episodes whose last row says that they go on, where most others tell why they ended: rows may
        be missing, but for the one that was being recorded when the file was written."""
        last, counts = self.last
        found = [place for place, row in enumerate(last.tolist()) if self.said_at[row] < 0 and texts[row]]
        alone = self._nowhere_else(texts)
        if said_ongoing := [place for place in found if texts[last[place]] in alone]:
            said = first_of(dict.fromkeys(shown(texts[last[place]]) for place in said_ongoing))
            way = "if the task ended there, say termination, if it was cut, truncation"
            return [
                f"{WARNING}{amount(len(said_ongoing), 'episode')} end with {said}, which stands in last rows alone and"
                f" is said to be ongoing, so that rows seem to be missing; {way}"
            ]
        if not found or 2 * len(found) >= len(last):
            return []
        said = first_of(dict.fromkeys(shown(texts[last[place]]) for place in found))
        told = first_of(
            f"{printable(str(episodes[last[place]]))} after {amount(int(counts[place]), 'row')},"
            f" {row_named(files, int(last[place]))}"
            for place in found
        )
        only_newest = len(found) == 1 and last[found[0]] == len(texts) - 1
        ends = "episode ends" if len(found) == 1 else "episodes end"
        how = "as if it was still going on" if only_newest else "as if rows were missing"
        return [f"{'' if only_newest else WARNING}{len(found):,} {ends} with {said}, {how}: {told}"]

    def _nowhere_else(self, texts: list[str]) -> set[str]:
        """Texts that several episodes end with, and no other row has."""
        ends = Counter(texts[row] for row in self.last[0].tolist())
        everywhere = Counter(texts)
        return {text for text, count in ends.items() if text and 1 < count == everywhere[text]}

    def refuse_ends_in_a_row(self, name: str, texts: list[str], episodes: npt.NDArray[Any], files: Files) -> None:
        """Where most ends are such, rows would be episodes of their own, against the ids."""
        rows, following = self.in_a_row
        if not len(rows) or 2 * len(rows) <= np.count_nonzero((self.said_at >= 0) & self.once):
            return
        row, after, more = int(rows[0]), int(following[0]), len(rows) - 1
        raise DataError(
            f"column {name!r}: the episode named {printable(str(episodes[row]))} ends with {shown(texts[row])} at"
            f" {row_named(files, row)} and again with {shown(texts[after])} in its next row, {row_named(files, after)}"
            + (f", and {more:,} more {'rows do' if more > 1 else 'row does'} so" if more else "")
            + "; keep the reason in the last row of each episode, or leave out episode_ids if every row is an episode"
        )


def ends_of_episodes(
    texts: list[str], ended: npt.NDArray[np.bool_], episodes: npt.NDArray[Any], step: npt.NDArray[Any] | None
) -> EpisodeEnds:
    """ended: rows whose text ends an episode, `[N]`. An episode with one reason in nearly all of its rows ends once,
    in its last row by `step`, with the last reason that it has."""
    _, number = np.unique(episodes, return_inverse=True)
    number = number.reshape(-1)
    order = np.argsort(number, kind="stable") if step is None else np.lexsort((step, number))
    rows = np.bincount(number)
    repeated, all_alike = _are_repeated(texts, ended, number, rows)
    last = order[np.cumsum(rows) - 1]  # of each episode, by its number
    given = order[ended[order]]
    reason = np.full(len(rows), -1)
    reason[number[given]] = given  # the last of each that has one
    inside = repeated[number]
    at_end = np.zeros(len(texts), dtype=np.bool_) if step is None else step == step[last][number]  # copies, perhaps
    at_end[last] = True
    alone = ended & ~inside
    said_at = np.where(alone, np.arange(len(texts)), np.where(inside & at_end, reason[number], -1))
    once = ~inside
    once[last] = True
    before, after = order[:-1], order[1:]
    pair = alone[before] & alone[after] & (number[before] == number[after])
    if step is not None:
        pair &= step[before] != step[after]
    return EpisodeEnds(said_at, once, (before[pair], after[pair]), (last, rows), _note(repeated, all_alike))


def _are_repeated(
    texts: list[str], ended: npt.NDArray[np.bool_], number: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which episodes have one reason in nearly all of their rows, and in all of them, `[n_episodes]`. rows: how many
    each has."""
    _, kind = np.unique(texts, return_inverse=True)
    pairs, counts = np.unique(np.stack([number[ended], kind.reshape(-1)[ended]]), axis=1, return_counts=True)
    most = np.zeros(len(rows), dtype=np.int64)  # rows of its commonest reason
    np.maximum.at(most, pairs[0], counts)
    several = (rows > 1) & (most > 0)
    nearly = several & (most >= _NEARLY_ALL * rows)
    if 2 * nearly.sum() > several.sum():
        nearly = several & (most >= _MOST * rows)
    return nearly, nearly & (most == rows)


def _note(repeated: npt.NDArray[np.bool_], all_alike: npt.NDArray[np.bool_]) -> str:
    if not repeated.any():
        return ""
    nearly = "nearly " * bool((repeated & ~all_alike).any())
    return f"; it says the same in {nearly}all rows of an episode: the last of them counts"


def ends_nearly_everywhere(name: str, texts: list[str], said_at: IndexArray) -> list[str]:
    """A warning where nearly every row ends an episode, most with the reason of the row before."""
    ends = said_at >= 0
    again = int((ends[1:] & (np.array(texts[1:]) == np.array(texts[:-1]))).sum())
    if len(texts) < 2 or ends.sum() < _NEARLY_ALL * len(texts) or 2 * again < len(texts):
        return []
    way = "if it is repeated through an episode, give episode_ids, or keep it in last rows"
    return [f"{WARNING}column {name!r}: {int(ends.sum()):,} of {len(texts):,} rows end an episode; {way}"]
