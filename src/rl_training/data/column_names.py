"""What the data call the values of an observation and of an action: kept with a policy for whoever feeds it later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from rl_training.data.checks import FloatArray, column_extremes
from rl_training.data.formats.names import listed
from rl_training.data.formats.words import in_words, key_of
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import DataError
from rl_training.reading_choices import Words

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset


_BY_PLACE = re.compile(r"column_[0-9]+")  # what a column is called where nothing names it


def names_of(dataset: TransitionDataset, field: str, width: int) -> list[str]:
    """The columns of the table that a field was read from, `[width]`; empty where it came from no table."""
    return list((None if dataset.in_file is None else dataset.in_file.names_of(field, width)) or ())


def named_spaces(spaces: Spaces, dataset: TransitionDataset | None, before: Spaces | None = None) -> Spaces:
    """The spaces with the names that the data have for their values, and the range that each was seen in.

    before: those of a run that goes on, whose data may by now lie in a file that has no names.
    """
    seen = done = ()  # type: tuple[NamedColumn, ...]
    if dataset is not None:
        words = _words_of(dataset)
        seen = _columns(names_of(dataset, "obs", dataset.obs_dim), dataset.obs, words)
        times = {} if dataset.in_file is None else dataset.in_file.time_columns
        seen = tuple(column._replace(time=times.get(column.name, "")) for column in seen)
        done = _columns(names_of(dataset, "actions", dataset.act_dim), dataset.actions, words)
    if before is not None:
        seen, done = seen or before.obs_columns, done or before.action_columns
    return replace(spaces, obs_columns=seen, action_columns=done)


def require_order(dataset: TransitionDataset, spaces: Spaces, source: str) -> list[str]:
    """Refuse columns that are a policy's own in another order, or whose words stand for other numbers, as far as both
    have names: values would be taken for others. What is called otherwise is told. source: names the data."""
    own = {"obs": spaces.obs_columns, "actions": spaces.action_columns}
    known = {field: [(column.name, _keyed(column.words)) for column in columns] for field, columns in own.items()}
    return _require_alike(_told(dataset), known, source, "the policy was trained on", "the run")


def require_named(names: Sequence[str], words: Words, columns: Sequence[NamedColumn], source: str) -> list[str]:
    """The same of observations alone, by the names and words that a file tells."""
    found = [] if all(map(_BY_PLACE.fullmatch, names)) else [(n, _keyed(words.get(n, {}).items())) for n in names]
    known = [(column.name, _keyed(column.words)) for column in columns]
    return _require_alike({"obs": found}, {"obs": known}, source, "the policy was trained on", "the run")


def require_common_order(parts: Mapping[str, TransitionDataset]) -> list[str]:
    """The same of the parts of a mixture, each held to all before it; what is called otherwise, to the first alone."""
    told = {source: _told(dataset) for source, dataset in parts.items()}
    notes = []
    for field in ("obs", "actions"):
        named = [source for source, columns in told.items() if columns[field]]
        for place, source in enumerate(named):
            for number, other in enumerate(named[:place]):
                found, known = ({field: told[name][field]} for name in (source, other))
                about = _require_alike(found, known, f"mixture: {source}", f"those of {other} are", other)
                notes += [] if number else about
    return notes


_Told: TypeAlias = Mapping[str, Sequence[tuple[str, Mapping[str, float]]]]  # by field: names, with their words


def _require_alike(found: _Told, known: _Told, source: str, are: str, whose: str) -> list[str]:
    notes = []
    for field, columns in found.items():
        ours, theirs = ([name for name, _ in one] for one in (columns, known[field]))
        mine, yours = ([name.casefold() for name in names] for names in (ours, theirs))
        pairs = list(zip(columns, known[field], strict=False))
        if any(one != two and (one in yours or two in mine) for one, two in zip(mine, yours, strict=False)):
            raise DataError(
                f"{source}: {field} are {listed(ours)}, in that order, and {are} {listed(theirs)};"
                f" write the data anew with --columns {field}=…, in the order of {whose}"
            )
        for (name, words), (other, others) in pairs:
            if name == other and any(others.get(word, number) != number for word, number in words.items()):
                raise DataError(
                    f"{source}: words of {name!r} stand for {in_words(words)}, and {are} {in_words(others)};"
                    f" write the data anew with the words of {whose}"
                )
        if differ := [f"{name} for {other}" for (name, _), (other, _) in pairs if name.casefold() != other.casefold()]:
            notes.append(
                f"{source}: {field} are called otherwise than in {whose}: {listed(differ)}; taken for the same"
            )
    return notes


def _told(dataset: TransitionDataset) -> _Told:
    words, widths = _words_of(dataset), {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    names = {field: names_of(dataset, field, width) for field, width in widths.items()}
    names = {field: [] if all(map(_BY_PLACE.fullmatch, own)) else own for field, own in names.items()}
    return {field: [(name, _keyed(words.get(name, {}).items())) for name in own] for field, own in names.items()}


def _keyed(words: Iterable[tuple[str, float]]) -> dict[str, float]:
    return {key_of(word): number for word, number in words}


def _words_of(dataset: TransitionDataset) -> Words:
    return {} if dataset.in_file is None else dataset.in_file.words


def _columns(names: list[str], values: FloatArray, words: Words) -> tuple[NamedColumn, ...]:
    if not names:
        return ()
    # float32 by way of text: 0.3, not 0.30000001192092896
    sides = ([float(str(value)) for value in side] for side in column_extremes(values))
    return tuple(
        NamedColumn(name, low, high, tuple(words.get(name, {}).items()))
        for name, low, high in zip(names, *sides, strict=True)
    )
