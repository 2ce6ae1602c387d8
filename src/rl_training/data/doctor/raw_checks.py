"""Checks on each field as the file has it: names, types, shapes, lengths, values that are not finite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FLAG_FIELDS, MATRIX_FIELDS, IndexArray, no_flag, transposed_against
from rl_training.data.doctor.findings import Finding, Place
from rl_training.data.doctor.wording import columns_in_words, listed
from rl_training.data.fields import (
    BORDERS_LOST,
    DISCRETE_ACTIONS,
    EPISODE_ENDS,
    EPISODE_IDS,
    FIELD_OF,
    IGNORED_PREFIXES,
    missing_fields,
)
from rl_training.data.flags import DONES, complete_flags
from rl_training.data.formats.names import listed as names_listed
from rl_training.errors import DataError, did_you_mean
from rl_training.reading_choices import WAYS_WITH_MISSING, WAYS_WITH_MISSING_REWARDS
from rl_training.validation import printable
from rl_training.wording import amount

CHUNK = 1 << 16  # rows looked at together, so that what is made along the way stays small

_FLAGS = (*FLAG_FIELDS, EPISODE_ENDS)


@dataclass(eq=False)
class RawFields:
    """The fields of a file by this package's names, those that are sound in `arrays`, what is wrong in `findings`."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # the name each has in the file
    shapes: dict[str, str] = field(default_factory=dict)  # by that name, in words
    findings: list[Finding] = field(default_factory=list)
    rows: int = 0
    ends: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # last rows of episodes
    marked_discrete: bool = False
    batched: tuple[int, ...] = ()  # episodes and steps, where rewards have an axis for each

    def place(self, row: int, column: int | None = None) -> Place:
        """A row with its episode."""
        return place_of(self.ends, row, column)

    def drop(self, name: str, code: str, what: str, advice: str, **where: Any) -> None:
        """Report a field as unsound and leave it out of what follows."""
        self.findings.append(Finding("error", code, name, what, advice, **where))
        self.arrays.pop(name, None)


def place_of(ends: IndexArray, row: int, column: int | None = None) -> Place:
    """A row with its episode, by the episodes' last rows; rows after the last end belong to one more episode."""
    episode = int(np.searchsorted(ends, row))
    start = int(ends[episode - 1]) + 1 if episode else 0
    return Place(row=row, episode=episode, step=row - start, column=column)


def chunks(rows: int) -> Iterator[slice]:
    """The rows in pieces."""
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))


def read_fields(arrays: Mapping[str, Any], name_of: Callable[[str, int], str | None] | None = None) -> RawFields:
    """Every check on the raw arrays. name_of: what the file calls a column of a field."""
    fields = RawFields()
    _resolve(fields, arrays)
    rewards = fields.arrays.get("rewards")
    fields.batched = rewards.shape if isinstance(rewards, np.ndarray) and rewards.ndim == 2 else ()
    for name in list(fields.arrays):
        _check_type_and_shape(fields, name)
    _check_transposed(fields)
    _check_lengths(fields)
    fields.ends = _ends(fields)
    _check_widths(fields)
    for name in list(fields.arrays):
        if name in _FLAGS:
            _check_flag_values(fields, name)
        elif name != EPISODE_IDS:
            _check_finite(fields, name, name_of)
    return fields


def _resolve(fields: RawFields, arrays: Mapping[str, Any]) -> None:
    """The names of this package for those of the file."""
    fields.marked_discrete = bool(np.any(arrays.get(DISCRETE_ACTIONS, False)))
    terminations_apart = any(FIELD_OF.get(key) == "terminations" and key not in DONES for key in arrays)
    for key, value in arrays.items():
        if str(key).startswith(IGNORED_PREFIXES) or key in (BORDERS_LOST, DISCRETE_ACTIONS) or value is None:
            continue
        name = EPISODE_ENDS if key in DONES and terminations_apart else FIELD_OF.get(key)
        if name is None:
            what = f"{key!r} is no field of a transition, and a dataset with unknown fields is refused."
            meant = did_you_mean(str(key), FIELD_OF).rstrip("?")
            advice = f"Say so if it holds one (columns: {{obs: …}}), otherwise leave it out{meant}"
            fields.findings.append(Finding("error", "fields.unknown", printable(str(key)), what, f"{advice}."))
        elif name in fields.sources:
            what = f"It is given twice, as {fields.sources[name]!r} and as {key!r}."
            fields.findings.append(Finding("error", "fields.twice", name, what, "Keep one of them."))
        else:
            fields.arrays[name], fields.sources[name] = value, str(key)
    for name in missing_fields(fields.arrays):
        names = listed([alias for alias, canonical in FIELD_OF.items() if canonical == name], "or")
        what = f"The data have no {name}; found: {names_listed(map(str, arrays)) if arrays else 'nothing'}."
        advice = f"Add an array named {names}, or say which one holds it with columns: {{{name}: …}}."
        fields.findings.append(Finding("error", "fields.missing", name, what, advice))


def _check_type_and_shape(fields: RawFields, name: str) -> None:
    try:
        array = np.asarray(fields.arrays[name])
    except (ValueError, TypeError):
        fields.drop(name, "fields.dtype", "Its rows differ in length.", "Give a rectangular array of numbers.")
        return
    shape = "×".join(f"{length:,}" for length in array.shape) or "single value"
    fields.shapes[fields.sources[name]] = f"{'text' if array.dtype.kind in 'US' else array.dtype} {shape}"
    if name == EPISODE_IDS:
        array = array.reshape(-1) if array.ndim else array.reshape(1)
    elif array.dtype.kind not in "biuf":
        what = f"Its type is {'text' if array.dtype.kind in 'US' else array.dtype}, which is refused."
        fields.drop(name, "fields.dtype", what, "Give booleans, integers or floating-point numbers.")
        return
    elif name in MATRIX_FIELDS:
        if array.ndim not in (1, 2):
            what = f"Its shape is {array.shape}; only flat vectors, [rows, columns], can be read."
            advice = "Flatten each row to a vector."
            if array.ndim == 3 and array.shape[:2] == fields.batched:
                count, steps, width = array.shape
                advice = f"Join the episodes: reshape(-1, {width}), and give episode_ids that tell them apart:"
                advice += f" np.repeat(np.arange({count}), {steps})."
            fields.drop(name, "fields.shape", what, advice)
            return
        array = array[:, None] if array.ndim == 1 else array
    else:
        if array.ndim != 1 and not (array.ndim == 2 and array.shape[1] == 1):
            what = f"Its shape is {array.shape} where one value per row is expected."
            advice = "Give it as [rows] or [rows, 1]; of [episodes, steps] make one by reshape(-1)."
            fields.drop(name, "fields.shape", what, advice)
            return
        array = array.reshape(len(array))
    fields.arrays[name] = array


def _check_transposed(fields: RawFields) -> None:
    for name in MATRIX_FIELDS:
        other = transposed_against(name, fields.arrays) if name in fields.arrays else None
        if other is not None:
            shape = fields.arrays[name].shape
            what = f"Its shape is {shape}, which looks transposed: {other} has {shape[1]:,} rows."
            fields.drop(name, "fields.shape", what, f"Give it as [rows, columns]: {name}.T.")


def _check_lengths(fields: RawFields) -> None:
    lengths = {name: len(array) for name, array in fields.arrays.items()}
    if not lengths:
        return
    fields.rows = lengths.get("obs", Counter(lengths.values()).most_common(1)[0][0])
    owner = "obs has" if "obs" in lengths else "most fields have"
    if fields.rows == 0:
        name = "obs" if "obs" in lengths else next(iter(lengths))
        finding = Finding("error", "fields.empty", name, "It has no rows.", "A dataset needs at least one transition.")
        fields.findings.append(finding)
    short = {name: length for name, length in lengths.items() if length != fields.rows}
    whole = {name: array for name, array in fields.arrays.items() if name not in short}
    ends = _ends(RawFields(arrays=whole, rows=fields.rows))
    for name, length in short.items():
        what = f"It has {amount(length, 'row')}, but {owner} {fields.rows:,}; all fields must have the same length."
        advice = "Find out which rows were lost or added (one observation too many per episode is common)."
        fields.drop(name, "fields.length", what, advice, place=place_of(ends, min(length, fields.rows)))


def _ends(fields: RawFields) -> IndexArray:
    """Last rows of episodes, by the flags that can be read, the very last row included."""
    flags = {name: fields.arrays[name] for name in (*_FLAGS, EPISODE_IDS) if name in fields.arrays}
    ends = np.zeros(fields.rows, dtype=np.bool_)
    try:
        complete = complete_flags({name: array == 1 if name in _FLAGS else array for name, array in flags.items()})
    except (DataError, TypeError, ValueError):  # told when the dataset is made
        complete = {}
    for name in ("terminations", "truncations"):
        if name in complete:
            ends |= np.asarray(complete[name])
    ends[-1:] = True
    return np.flatnonzero(ends)


def _check_widths(fields: RawFields) -> None:
    for name in MATRIX_FIELDS:
        if name in fields.arrays and fields.arrays[name].shape[1] == 0:
            fields.drop(name, "fields.width", "It has no columns.", "At least one is needed.")
    for name, like in (("next_obs", "obs"), ("next_actions", "actions")):
        if name in fields.arrays and like in fields.arrays:
            width, expected = fields.arrays[name].shape[1], fields.arrays[like].shape[1]
            if width != expected:
                what = f"It has {amount(width, 'column')}, but {like} has {expected}; both describe the same thing."
                column = min(width, expected)
                advice = "Store both with the same columns in the same order."
                fields.drop(
                    name, "fields.width", what, advice, place=fields.place(0, column) if fields.rows else Place()
                )


def _check_flag_values(fields: RawFields, name: str) -> None:
    values = fields.arrays[name]
    if values.dtype == np.bool_:
        return
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if wrong.size:
        row = int(wrong[0])
        source = fields.sources[name]
        what = f"{amount(wrong.size, 'row')} of {source!r} {'is' if wrong.size == 1 else 'are'} neither 0 nor 1"
        what = f"{what} (the first is {no_flag(values[row])})."
        advice = "Flags must be 0 or 1 (or booleans): map every other value to what it means."
        fields.drop(name, "flags.values", what, advice, count=int(wrong.size), place=fields.place(row))
    else:
        fields.arrays[name] = values == 1


def _check_finite(fields: RawFields, name: str, name_of: Callable[[str, int], str | None] | None) -> None:
    values = fields.arrays[name]
    if values.dtype.kind != "f":
        return
    bad: dict[str, list[npt.NDArray[Any]]] = {"nan": [], "infinite": []}
    for part in chunks(len(values)):
        with np.errstate(over="ignore"):  # beyond float32, in which everything is trained
            narrow = values[part].astype(np.float32, copy=False)
        if not np.isfinite(narrow).all():
            for kind, mask in (("nan", np.isnan(narrow)), ("infinite", np.isinf(narrow))):
                place = np.argwhere(mask)
                place[:, 0] += part.start
                bad[kind].append(place)
    found = {kind: np.concatenate(places) for kind, places in bad.items() if sum(map(len, places))}
    for kind, places in found.items():
        rows = np.unique(places[:, 0])
        episodes = len(np.unique(np.searchsorted(fields.ends, rows)))
        what = f"{amount(len(places), 'value')} {'is' if len(places) == 1 else 'are'} "
        what += "NaN" if kind == "nan" else "infinite (in float32)"
        what += f", in {amount(len(rows), 'row')} of {amount(episodes, 'episode')}"
        column = None
        if places.shape[1] == 2:
            column = int(places[0, 1])
            columns = np.unique(places[:, 1]).tolist()
            known = [name_of(name, place) if name_of else None for place in range(values.shape[1])]
            what += f" ({columns_in_words(columns, known, most=5)})"
        where = fields.place(int(places[0, 0]), column)
        ways = WAYS_WITH_MISSING if name != "rewards" else WAYS_WITH_MISSING_REWARDS
        advice = f"Repair the values where you know them; else {ways}."
        fields.drop(name, f"values.{kind}", f"{what}.", advice, count=len(places), place=where)
