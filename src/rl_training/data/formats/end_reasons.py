"""Text that says why an episode ended (`goal`, `crash`, `timeout`), brought to terminations and truncations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import END_REASONS, TO_FILL_IN
from rl_training.data.formats.names import first_of
from rl_training.data.formats.raw import Arrays, Files, row_named
from rl_training.data.formats.repeated_reasons import ends_nearly_everywhere, ends_of_episodes
from rl_training.errors import DataError, closest, did_you_mean
from rl_training.reading_choices import Ending, EndReasons
from rl_training.validation import printable, shown
from rl_training.wording import WARNING, amount
from rl_training.yaml_dialect import proposed

ENDINGS: tuple[Ending, ...] = get_args(Ending)
ONGOING: Ending = "ongoing"  # the episode goes on; so it does where a cell is empty
_WRITTEN_OUT = 2**64  # whole numbers below it are written in all their digits
_WHOLE = re.compile(r"-?\d+\.0+")  # as a column of numbers is written where some are missing
_FIELDS: dict[Ending, str] = {"termination": "terminations", "truncation": "truncations"}


def text_of(cell: Any) -> str:
    """A cell as it is compared with the reasons: without blanks around it, nothing as the empty text."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell:  # NA cannot be compared
        return ""
    if isinstance(cell, float | np.floating):
        return str(int(cell)) if cell.is_integer() and abs(float(cell)) < _WRITTEN_OUT else str(cell)
    text = (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def texts_in(cells: npt.NDArray[Any]) -> list[str]:
    """The texts of cells, `[N]`; narrow floats are not widened, so that 0.1 is `0.1`."""
    return [text_of(cell) for cell in (cells if cells.dtype.kind == "f" else cells.tolist())]


def checked(given: Any) -> dict[str, Ending]:
    """The user's mapping by texts in small letters, with every meaning one of `ENDINGS`."""
    if not isinstance(given, Mapping):
        raise DataError(f"{END_REASONS}: must say what each text means: {{goal: termination, timeout: truncation}}")
    meanings: dict[str, Ending] = {}
    if left := [str(text) for text, meaning in given.items() if meaning == TO_FILL_IN]:
        raise DataError(f"{END_REASONS}: {still_to_do(left)}; say termination, truncation or ongoing")
    for text, meaning in given.items():
        if meaning not in ENDINGS:
            hint = did_you_mean(str(meaning), ENDINGS) or f"; choose from {', '.join(ENDINGS)}"
            raise DataError(f"{END_REASONS}: {shown(text)} cannot mean {shown(meaning)}{hint}")
        key = text_of(text).casefold()
        if meanings.setdefault(key, meaning) != meaning:
            raise DataError(f"{END_REASONS}: {shown(text)} is given two meanings; capitals make no difference")
    return meanings


def still_to_do(names: Sequence[str]) -> str:
    """`obs is still TODO`, `obs, actions are still TODO`."""
    return f"{first_of(map(printable, names))} {'is' if len(names) == 1 else 'are'} still {TO_FILL_IN}"


def ends_by_reason(
    name: str,
    cells: npt.NDArray[Any],
    reasons: EndReasons | None,
    episodes: Any,
    step: npt.NDArray[Any] | None,
    files: Files = (),
    *,
    are_named: bool = True,
) -> tuple[Arrays, dict[int, str], list[str]]:
    """Terminations and truncations `[N]`, the texts of the rows that have ended something, and notes on them.

    A log may repeat an episode's reason in its rows. Where `episodes` `[N]` tell that it does, only the last row of
    each such episode, by `step` if there is one, has ended anything. are_named: the table names them; those of the
    calendar, or of a step that starts again, say no more than that.
    """
    texts = texts_in(cells)
    known = meanings_of(name, Counter(texts), reasons, lambda text: row_named(files, texts.index(text)))
    ended = np.array([known[text] != ONGOING for text in texts], dtype=np.bool_)
    said_at, once, note = np.where(ended, np.arange(len(texts)), -1), np.ones_like(ended), ""
    open_ends: list[str] = []
    if episodes is not None and len(texts):
        found = ends_of_episodes(texts, ended, np.asarray(episodes), step)
        said_at, once, note = found.said_at, found.once, found.note
        if are_named:
            found.refuse_ends_in_a_row(name, texts, np.asarray(episodes), files)
            open_ends = found.without_reason(texts, np.asarray(episodes), files)
    said = {row: texts[said_at[row]] for row in np.flatnonzero(said_at >= 0).tolist()}
    flags: Arrays = {field: np.zeros(len(texts), dtype=np.bool_) for field in _FIELDS.values()}
    for row, text in said.items():
        flags[_FIELDS[known[text]]][row] = True
    counted = Counter(text for row, text in said.items() if once[row])
    if not are_named or episodes is None:
        open_ends += ends_nearly_everywhere(name, texts, said_at)
    return flags, said, [_note(name, known, counted) + note, *open_ends]


def meanings_of(
    name: str, counts: Mapping[str, int], reasons: EndReasons | None, place_of: Callable[[str], str]
) -> dict[str, Ending]:
    """What each text of a column means; refused where nothing was said of one. counts: in how many rows each stands.
    place_of: the first of them, as `row 3`."""
    if reasons is None:
        raise DataError(_what_is_there(name, counts))
    meanings = {"": ONGOING} | checked(reasons)
    if strange := [text for text in counts if text.casefold() not in meanings]:
        found = {text.casefold() for text in counts}
        absent = [str(reason) for reason in reasons if text_of(reason).casefold() not in found]
        raise DataError(_not_said(name, strange[0], place_of(strange[0]), strange[1:], reasons, absent))
    return {text: meanings[text.casefold()] for text in counts}


def _note(name: str, known: Mapping[str, Ending], counted: Mapping[str, int]) -> str:
    kinds = []
    for ending in _FIELDS:
        found = sorted((text for text in counted if known[text] == ending), key=lambda text: -counted[text])
        if found:
            total = sum(counted[text] for text in found)
            kinds.append(f"{amount(total, ending)} ({first_of(f'{printable(t)} {counted[t]:,}' for t in found)})")
    if kinds or not any(known):
        return f"column {name!r} tells of {' and '.join(kinds) or 'no end'}"
    means = f"{first_of(printable(text) for text in known if text)}: all of it means ongoing"
    way = "say which text ends an episode, or see whether the rows that say it are missing"
    return f"{WARNING}column {name!r} tells of no end ({means}); {way}"


def _what_is_there(name: str, counts: Mapping[str, int]) -> str:
    counts = Counter({text: rows for text, rows in counts.items() if text})
    found = first_of(f"{printable(text)} ({amount(rows, 'row')})" for text, rows in counts.most_common())
    some = proposed(next(iter(counts), "crash"), "termination")
    return (
        f"columns.{END_REASONS}: say what the texts of column {name!r} mean, {END_REASONS}: {some}"
        f" (or truncation, ongoing) for each; it holds {found if counts else 'no text at all'}"
    )


def _not_said(name: str, text: str, row: str, others: Sequence[str], reasons: EndReasons, absent: Sequence[str]) -> str:
    """others: texts that are not among the reasons either. absent: reasons that no row has."""
    more = f" ({'nor are' if len(others) > 1 else 'nor is'} {first_of(map(shown, others))})" if others else ""
    told = f"column {name!r}: {shown(text)} at {row} is not among {END_REASONS}{more}"
    if (
        mistyped := closest(text, absent)
    ) is not None:  # the data are as they are: what was said of them is to be mended
        return f"{told}; {shown(mistyped)} there is in no row of the data, and probably means {shown(text)}"
    meant = did_you_mean(text, [str(reason) for reason in reasons])
    meant = meant if "did you mean" in meant else ""
    means = "each of them means" if others else "it means"
    return f"{told}{meant}; say what {means}, {END_REASONS}: {proposed(text, 'termination')} (or truncation, ongoing)"
