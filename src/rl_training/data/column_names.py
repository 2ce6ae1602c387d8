"""What the data call the values of an observation and of an action: kept with a policy for whoever feeds it later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rl_training.data.checks import FloatArray, column_extremes
from rl_training.data.formats.names import listed
from rl_training.data.formats.words import contradict, in_words, united
from rl_training.data.space_bounds import require_trained_bounds
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import DataError
from rl_training.reading_choices import Words

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset


_FIELDS = ("obs", "actions")
_CALLED = {"obs": "observations"}
_BY_PLACE = re.compile(r"column_[0-9]+")  # what a column is called where nothing names it


def are_names(names: Iterable[str]) -> bool:
    """Whether they tell more than the place of each; none do not."""
    return not all(map(_BY_PLACE.fullmatch, names))


def names_of(dataset: TransitionDataset, field: str, width: int) -> list[str]:
    """The columns of the table that a field was read from, `[width]`; empty where it came from no table."""
    return list((None if dataset.in_file is None else dataset.in_file.names_of(field, width)) or ())


def named_spaces(spaces: Spaces, dataset: TransitionDataset | None, before: Spaces | None = None) -> Spaces:
    """The spaces with the names that the data have for their values, and the range that each was seen in.

    before: those of a run that goes on, whose data may by now lie in a file that tells neither names nor bounds.
    """
    seen = done = ()  # type: tuple[NamedColumn, ...]
    if dataset is not None:
        words = _words_of(dataset)
        seen = _columns(names_of(dataset, "obs", dataset.obs_dim), dataset.obs, words)
        times = {} if dataset.in_file is None else dataset.in_file.time_columns
        seen = tuple(column._replace(time=times.get(column.name, "")) for column in seen)
        done = _columns(names_of(dataset, "actions", dataset.act_dim), dataset.actions, words)
    if before is not None:
        require_trained_bounds(None if dataset is None else dataset.bounds, before)
        seen, done = seen or before.obs_columns, done or before.action_columns
        if spaces.act_dim == before.act_dim:
            spaces = replace(spaces, action_low=before.action_low, action_high=before.action_high)
    return replace(spaces, obs_columns=seen, action_columns=done)


def require_order(dataset: TransitionDataset, spaces: Spaces, source: str) -> list[str]:
    """Refuse columns that are a policy's own in another order, or whose words stand for other numbers, as far as both
    have names: values would be taken for others. What is called otherwise is told. source: names the data."""
    known = {"obs": _told_by(spaces.obs_columns), "actions": _told_by(spaces.action_columns)}
    return _require_alike(_told(dataset), known, source, "the policy was trained on", "the run")


def require_named(names: Sequence[str], words: Words, columns: Sequence[NamedColumn], source: str) -> list[str]:
    """The same of observations alone, by the names and words that a file tells."""
    found, known = {"obs": _with_words(names, words)}, {"obs": _told_by(columns)}
    return _require_alike(found, known, source, "the policy was trained on", "the run")


def require_common_order(parts: Mapping[str, TransitionDataset]) -> list[str]:
    """The same of the parts of a mixture, each held to all before it; what is called otherwise, to the first alone."""
    told = {source: _told(dataset) for source, dataset in parts.items()}
    notes = []
    for field in _FIELDS:
        known = [source for source, columns in told.items() if columns[field]]
        first = next((source for source in known if told[source][field][0].is_named), None)
        for place, source in enumerate(known):
            for other in known[:place]:
                here, there = ({field: told[name][field]} for name in (source, other))
                about = _require_alike(here, there, f"mixture: {source}", f"those of {other} are", other)
                notes += about if other == first else []
    return notes


def common_names(parts: Iterable[TransitionDataset]) -> tuple[dict[str, list[tuple[str, int]]], Words]:
    """What the first part that names the values of a field calls them, and their words in all parts: `columns` and
    `words` of `RawData`. Its parts are those that `require_common_order` has let pass."""
    told = [_told(dataset) for dataset in parts]
    columns: dict[str, list[tuple[str, int]]] = {}
    words: dict[str, Mapping[str, float]] = {}
    for field in _FIELDS:
        for alike in zip(*(one[field] for one in told if one[field]), strict=True):
            name = next((column.name for column in alike if column.is_named), alike[0].name)
            columns.setdefault(field, []).append((name, 1))
            if known := united([words.get(name, {}), *(column.words for column in alike)]):
                words[name] = known
    return columns, words


class _Column(NamedTuple):
    name: str
    words: Mapping[str, float]
    is_named: bool  # not by its place alone

    @property
    def key(self) -> str:
        """Its name as it is compared."""
        return self.name.casefold()


_Told: TypeAlias = Mapping[str, Sequence[_Column]]  # by field


def _require_alike(found: _Told, known: _Told, source: str, are: str, whose: str) -> list[str]:
    notes = []
    for field, columns in found.items():
        pairs = list(zip(columns, known[field], strict=False))
        named = [pair for pair in pairs if all(column.is_named for column in pair)]
        if _stand_elsewhere(named):
            here, there = (listed(column.name for column in side) for side in (columns, known[field]))
            raise DataError(
                f"{source}: {field} are {here}, in that order, and {are} {there};"
                f" write the data anew with --columns {field}=…, in the order of {whose}"
            )
        for column, other in pairs:
            if contradict(column.words, other.words):
                raise DataError(
                    f"{source}: words of {column.name!r} stand for {in_words(column.words)}, and {are}"
                    f" {in_words(other.words)}; write the data anew with the words of {whose}"
                )
        if differ := [f"{column.name} for {other.name}" for column, other in named if column.key != other.key]:
            notes.append(
                f"{source}: the {_CALLED.get(field, field)} have other names than in {whose}: {listed(differ)};"
                " taken for the same"
            )
    return notes


def _stand_elsewhere(pairs: Sequence[tuple[_Column, _Column]]) -> bool:
    """Whether a name of one side stands at another place of the other."""
    here, there = {column.key for column, _ in pairs}, {other.key for _, other in pairs}
    return any(one.key != two.key and (one.key in there or two.key in here) for one, two in pairs)


def _told(dataset: TransitionDataset) -> _Told:
    words, widths = _words_of(dataset), {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    return {field: _with_words(names_of(dataset, field, width), words) for field, width in widths.items()}


def _told_by(columns: Sequence[NamedColumn]) -> list[_Column]:
    return _with_words([column.name for column in columns], {column.name: dict(column.words) for column in columns})


def _with_words(names: Sequence[str], words: Words) -> list[_Column]:
    is_named = are_names(names)
    return [_Column(name, words.get(name, {}), is_named) for name in names]


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
