"""What `rl-training init` says of actions that are switched rather than set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.action_gaps import find_gaps
from rl_training.data.column_names import names_of
from rl_training.data.doctor.wording import alike, listed
from rl_training.data.formats.peek import Peek
from rl_training.data.guesses import Guesses
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.validation import printable

_MOST = 4  # that are told
_ROWS = 1 << 20  # that are looked at


def switches(
    dataset: TransitionDataset | None, guesses: Guesses, first: Peek, words: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """`defrost is hardly ever between 0.06 and 0.53`, of the data, or of the likeliest columns that were looked at.

    words: of columns that hold some.
    """
    found = [f"{printable(name)} is {listed(words[name], 'or')}" for name in _likeliest(guesses) if name in words]
    found = found if dataset is None else []
    for name, values in _actions(dataset, guesses, first).items():
        if gaps := find_gaps(values[np.isfinite(values)].reshape(-1, 1)):
            low, high = alike(gaps[0].low, gaps[0].high)
            found.append(f"{printable(name)} is hardly ever between {low} and {high}")
    return tuple(found[:_MOST])


def _actions(dataset: TransitionDataset | None, guesses: Guesses, first: Peek) -> dict[str, npt.NDArray[np.floating]]:
    if dataset is not None:
        names = names_of(dataset, "actions", dataset.act_dim) or [f"action {n}" for n in range(dataset.act_dim)]
        return {name: dataset.actions[:_ROWS, column] for column, name in enumerate(names)}
    values = {name: first.columns[name] for name in _likeliest(guesses) if name in first.columns}
    return {name: v.astype(np.float64) for name, v in values.items() if v.ndim == 1 and v.dtype.kind in "biuf"}


def _likeliest(guesses: Guesses) -> tuple[str, ...]:
    guess = next((guess for guess in guesses.fields if guess.field == "actions"), None)
    return () if guess is None else guess.columns or next(iter(guess.candidates), ())
