"""The commands that use a trained policy."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.cli.declared_missing import missing_words_of, refuse_marks
from rl_training.cli.given_options import require_draws
from rl_training.cli.observation_files import read_observations
from rl_training.cli.observed_columns import (
    as_option,
    computed_from,
    in_their_order,
)
from rl_training.cli.telling import tell
from rl_training.cli.typed_observations import typed
from rl_training.data.column_names import are_names
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import first_of, listed
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.paths import in_shell
from rl_training.validation import printable
from rl_training.wording import WARNING, amount, notice_line, readable


def predict(run: Path, texts: list[str], file: Path | None, which: str, seed: int | None, *, stochastic: bool) -> None:
    """`rl-training predict`."""
    if bool(texts) == (file is not None):
        raise ConfigError(
            "predict: give observations with --obs 0.1,0.2,… or with --obs-file, one of the two"
            + ("" if texts else _such_as(run, which))
        )
    worded = any("=" in text or re.search(r"[^\W\d_eE]", text) for text in texts)
    named = (file is not None and file.suffix in (".csv", ".tsv", ".npz", ".json")) or worded
    policy = load_policy(run, which) if named else None
    known = () if policy is None else policy.checkpoint.spaces.obs_columns
    notes: list[str] = []  # told once nothing is refused any more: a refusal is one line
    if file is None:
        observations: Any = [typed(text, known) for text in texts]
    else:
        observations, notes = read_observations(file, known, missing_words_of(policy) if policy else ())
    policy = policy or load_policy(run, which)
    if stochastic:
        require_draws([(run, policy)])
    spaces = policy.checkpoint.spaces
    for text, row in zip(texts, observations, strict=True) if file is None else ():
        if len(row) != spaces.obs_dim:
            called = f": {listed(column.name for column in spaces.obs_columns)}" if spaces.obs_columns else ""
            called += computed_from(spaces.obs_columns, in_their_order(spaces.obs_columns, row))
            with_commas = spaces.obs_dim < len(row) <= 2 * spaces.obs_dim and "." not in text
            called += "; write decimals with a point, if that is what the commas stand before" if with_commas else ""
            raise DataError(f"--obs {text}: {amount(len(row), 'value')}, {spaces.obs_dim} expected{called}")
    rows = _rectangular(observations)
    if not rows.size:
        raise DataError(f"--obs-file {file}: has no rows; each is an observation of {amount(spaces.obs_dim, 'value')}")
    given = [f"--obs {text}" for text in texts] if file is None else [f"--obs-file {file}"]
    refuse_marks(rows, spaces.obs_columns, missing_words_of(policy), given)
    with warnings.catch_warnings(action="ignore"):  # what diverged is told as a note
        actions = policy.predict(rows, deterministic=not stochastic, seed=seed)
    chosen = policy.seed_choice.told if seed is None and policy.seed_choice.evident else []
    tell_stopped(policy)
    for note in (*chosen, *notes, *_about_names(rows, spaces)):
        tell(notice_line(note), err=True)
    for action in actions:
        # float32 by way of text: 0.3, not 0.30000001192092896
        tell(json.dumps([float(str(value)) for value in action]))


def _such_as(run: Path, which: str) -> str:
    """An observation of this policy, to type."""
    spaces = load_policy(run, which).checkpoint.spaces
    option = as_option(spaces.obs_columns) if spaces.obs_columns else f"--obs {','.join(['0'] * spaces.obs_dim)}"
    return f", such as `rl-training predict {in_shell(run)} {option}`"


def _about_names(observations: Any, spaces: Spaces) -> Iterator[str]:
    """What the numbers printed are, and which of those given were never seen in training; a warning where one is
    further out than all that was seen is wide."""
    if observations.ndim == 2 and observations.shape[1] == len(spaces.obs_columns):
        outside, is_far = [], False
        for values, column in zip(observations.T, spaces.obs_columns, strict=True):
            rounding = 1e-6 * max(abs(column.low), abs(column.high))  # the data are held as float32
            if (wrong := values[(values < column.low - rounding) | (values > column.high + rounding)]).size:
                given, low, high = _told_apart(float(wrong[0]), column.low, column.high)
                outside.append(f"{printable(column.name)} {given} ({low} to {high})")
                room = max(column.high - column.low, rounding)
                is_far |= bool(((wrong < column.low - room) | (wrong > column.high + room)).any())
        if outside:
            yield f"{WARNING if is_far else ''}outside what was seen in training: {first_of(outside)}"
    if are_names(column.name for column in spaces.action_columns):
        yield f"actions are {listed(column.name for column in spaces.action_columns)}"


def _told_apart(value: float, low: float, high: float) -> list[str]:
    """The three in words, with digits enough that the value is seen to lie outside."""
    texts = [readable(number) for number in (value, low, high)]
    given, least, most = map(float, texts)
    return [f"{number:.9g}" for number in (value, low, high)] if least <= given <= most else texts


def tell_stopped(policy: LoadedPolicy) -> None:
    """What diverged in its run, beside a result: once nothing is refused any more, as a refusal is one line."""
    for finding in policy.stopped_seeds.values():
        tell(f"note: {finding}", err=True)


def _rectangular(rows: Any) -> Any:
    """Rows of equal length as an array."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind not in "iuf":
        raise DataError(f"obs: values must be numbers, not {rows.dtype}")
    if isinstance(rows, np.ndarray):
        check_size(8 * rows.size)
    try:
        with np.errstate(over="ignore"):  # what float64 does not hold becomes infinite, and is refused with its place
            return np.atleast_2d(np.asarray(rows, dtype=np.float64))
    except OverflowError:
        raise DataError("obs: a value is larger than any floating-point number") from None
    except (TypeError, ValueError):
        raise DataError("obs: every observation must have the same number of values") from None
