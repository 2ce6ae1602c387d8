"""What the data call the values of an observation and of an action: kept with a policy for whoever feeds it later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rl_training.data.checks import FloatArray, column_extremes
from rl_training.data.formats.names import listed
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import DataError
from rl_training.reading_choices import Words

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset


def names_of(dataset: TransitionDataset, field: str, width: int) -> list[str]:
    """The columns of the table that a field was read from, `[width]`; empty where it came from no table."""
    return list((None if dataset.in_file is None else dataset.in_file.names_of(field, width)) or ())


def named_spaces(spaces: Spaces, dataset: TransitionDataset | None, before: Spaces | None = None) -> Spaces:
    """The spaces with the names that the data have for their values, and the range that each was seen in.

    before: those of a run that goes on, whose data may by now lie in a file that has no names.
    """
    seen = done = ()  # type: tuple[NamedColumn, ...]
    if dataset is not None:
        words = {} if dataset.in_file is None else dataset.in_file.words
        seen = _columns(names_of(dataset, "obs", dataset.obs_dim), dataset.obs, words)
        done = _columns(names_of(dataset, "actions", dataset.act_dim), dataset.actions, words)
    if before is not None:
        seen, done = seen or before.obs_columns, done or before.action_columns
    return replace(spaces, obs_columns=seen, action_columns=done)


def require_order(dataset: TransitionDataset, spaces: Spaces, source: str) -> None:
    """Refuse columns that are a policy's own in another order, as far as both have names: values would be taken for
    others. source: names the data in the message."""
    own = {"obs": spaces.obs_columns, "actions": spaces.action_columns}
    widths = {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    for field, columns in own.items():
        trained, found = [column.name for column in columns], names_of(dataset, field, widths[field])
        if trained != found and sorted(trained) == sorted(found):
            raise DataError(
                f"{source}: {field} are {listed(found)}, in that order, and the policy was trained on"
                f" {listed(trained)}; write the data anew with --columns {field}=…, in the order of the run"
            )


def _columns(names: list[str], values: FloatArray, words: Words) -> tuple[NamedColumn, ...]:
    if not names:
        return ()
    # float32 by way of text: 0.3, not 0.30000001192092896
    sides = ([float(str(value)) for value in side] for side in column_extremes(values))
    return tuple(
        NamedColumn(name, low, high, tuple(words.get(name, {}).items()))
        for name, low, high in zip(names, *sides, strict=True)
    )
