"""What `rl-training init` says of single columns: missing cells, text among numbers, rows that come twice."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import STEP
from rl_training.data.formats.cells import is_missing_word, may_stand_for_missing
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.names import listed
from rl_training.data.formats.peek import Peek
from rl_training.data.formats.row_order import DROPPED
from rl_training.data.formats.signs import number_before_unit
from rl_training.data.guess_words import is_control
from rl_training.data.guesses import Guesses
from rl_training.data.missing_marks import number_of
from rl_training.data.value_looks import repeats
from rl_training.validation import printable, shown
from rl_training.wording import amount
from rl_training.yaml_dialect import inline

_MOST_TOLD = 3  # columns with missing cells, of several
_MOSTLY = 0.5  # of the cells: a column of numbers in which some are text


def cells_used(first: Peek, guesses: Guesses) -> dict[str, npt.NDArray[np.bool_]]:
    """Where a column that is used, or may be, has a missing cell, `[K]`, if it has one. Scores of whole episodes, which
    only last rows have, lack none."""
    chosen = [name for guess in guesses.fields for columns in (guess.columns, *guess.candidates) for name in columns]
    late = set(guesses.late)
    cells = {name: first.columns[name] for name in chosen if name in first.columns and name not in late}
    cells = {name: values for name, values in cells.items() if values.dtype.kind == "f"}
    missing = {name: np.isnan(values).any(tuple(range(1, values.ndim))) for name, values in cells.items()}
    return {name: lacks for name, lacks in missing.items() if lacks.any()}


def missing_cells(first: Peek, guesses: Guesses) -> list[str]:
    """A note on the missing cells of columns that are used: one on all of them, those that lack most first."""
    by_rows: dict[int, dict[str, int]] = {}
    for name, lacks in cells_used(first, guesses).items():
        by_rows.setdefault(len(lacks), {})[name] = int(lacks.sum())
    way = "fill them in, or say missing: drop to leave out those rows, missing: hold where sensors are slow"
    notes = []
    for rows, counts in by_rows.items():
        among = f"the first {rows:,}" if first.files == 1 else first.looked_at(rows)
        name, cells = next(iter(counts.items()))
        told = f"{printable(name)} is missing in {amount(cells, 'cell')} of {among}"
        if len(counts) > 1:
            most = sorted(counts, key=lambda name: -counts[name])[:_MOST_TOLD]
            named = ", ".join(f"{printable(name)} in {counts[name]:,}" for name in most)
            more = f" and {len(counts) - len(most):,} more" if len(most) < len(counts) else ""
            told = f"{amount(len(counts), 'column')} lack cells in {first.looked_at(rows)}: {named}{more}"
        notes.append(f"{told}; {way}")
    return notes


def doubled_rows(first: Peek, guesses: Guesses) -> list[str]:
    """A note on rows that come twice with the same step, which no reader takes unless it is told to."""
    step = guesses.column_of(STEP)
    doubled = repeats(first.columns)
    if step is None or not doubled.any():
        return []
    rows = f"{int(doubled.sum()):,} of {first.looked_at(len(doubled))}"
    which = "the first is" if doubled.sum() > 1 else "it is"
    where = f" ({which} row {int(np.argmax(doubled)):,}, counted from 0)" if first.files == 1 else ""
    same = f"{rows} say the same as the row before, {printable(step)} included{where}"
    return [f"{same}; {DROPPED} the doubled ones out"]


def unused(first: Peek, guesses: Guesses, worded: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The columns that no field takes, with the reason where the column's own values are one. worded: those of a few
    words, by column."""
    reasons = {
        name: _of_words(worded[name]) if name in worded else _unfit(first, first.columns[name]) for name in guesses.left
    }
    steers = {name for name in reasons if is_control(name) and first.columns[name].dtype.kind in "OU"}
    told = {name: f"named like a control; {why}" if why and name in steers else why for name, why in reasons.items()}
    return tuple(printable(name) + (f" ({why})" if why else "") for name, why in told.items())


def _of_words(words: Collection[str]) -> str:
    return f"the words {listed(words)}; words gives them numbers"


def _with_commas(first: Peek, texts: Sequence[str]) -> str | None:
    """Of numbers, a few of which have another sign of decimals than the rest."""
    rows = [row for row, text in enumerate(texts) if "," in text]
    if not rows:
        return None
    where = f" at row {rows[0]:,}, counted from 0," if first.files == 1 else ""
    many = f"{shown(texts[rows[0]])}{where} has a comma"
    if len(rows) > 1:
        many = f"{len(rows):,} of {first.looked_at(len(texts))} have a comma, such as {shown(texts[rows[0]])}{where}"
    return f"{many.rstrip(',')}: write decimals with a point, to use it"


def _unfit(first: Peek, values: npt.NDArray[np.generic]) -> str | None:
    if not len(values) or values.ndim != 1:
        return None
    if values.dtype.kind in "OU":
        given = [text for cell in values.tolist() if not is_missing_word(text := text_of(cell))]
        texts = [text for text in given if math.isnan(number_of(text))]
        if not texts:
            return _with_commas(first, [text_of(cell) for cell in values.tolist()])
        if len(texts) > _MOSTLY * len(values):
            if all(map(number_before_unit, texts)):
                return f"numbers with a unit, such as {shown(texts[0])}: write them without it, to use it"
            return f"text, such as {shown(texts[0])}; only numbers can be observed"
        many = f"text in {len(texts):,} of {first.looked_at(len(values))}, such as {shown(texts[0])}"
        if len(texts) == len(given):
            return f"{many}; if it tells why episodes end, name it in columns: {{end_reasons: …}}"
        words = list(dict.fromkeys(text for text in texts if may_stand_for_missing(text)))[:_MOST_TOLD]
        way = f"say missing_words: {inline(words)}" if words else "name them in missing_words"
        return f"{many}: correct those cells, or {way}, to use it"
    if values.dtype.kind in "biuf" and (values == values[0]).all():
        return f"always {values[0]:g}"
    return None
