"""Errors a user can cause, each told in one line: what is wrong, where, what is allowed, what was perhaps meant.

The command line prints them without a traceback and exits with code 2, or 3 for a run that diverged. Anything else that
escapes is a bug.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from rl_training.foreign_names import FOREIGN, foreign_hint
from rl_training.harmless import escaped


class RLTrainingError(Exception):
    """Base of every error the package raises on purpose."""

    def __str__(self) -> str:
        """The message with nothing in it that a terminal would obey: it may quote a stranger's file."""
        return escaped(super().__str__())


class ConfigError(RLTrainingError):
    """A configuration key or value is wrong, or a configuration cannot be found."""


class DataError(RLTrainingError):
    """A dataset is missing, malformed or inconsistent; the message names the field, the episode and the row."""


class ColumnsError(DataError):
    """Columns were not found by the names that were looked for. advice: what the message says of naming others."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class ReadingError(ConfigError, DataError):
    """What a caller says of how data are read is wrong: an option, that the data are not understood without."""


class EnvironmentUnsupportedError(RLTrainingError):
    """An environment is unknown or has spaces this package does not train on."""


class EnvironmentFailedError(RLTrainingError):
    """An environment raised an error, ended the process or answered with what is no number."""


class CheckpointError(RLTrainingError):
    """A run or checkpoint is missing, damaged or does not fit what is asked of it."""


class DivergenceError(RLTrainingError):
    """Every seed of a run has diverged: none of them has anything left to learn."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message: `"; did you mean 'x'?"`, the list of choices, or nothing at all."""
    choices = sorted(known)
    if hint := foreign_hint(word, choices):
        return hint
    if (close := closest(word, choices)) is not None:
        return f"; did you mean {close!r}?"
    if (foreign := closest(word, FOREIGN)) is not None and (hint := foreign_hint(foreign, choices)):
        return hint
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= 12 else ""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one of these names that is most like a word, if any is like it."""
    choices = sorted(known)
    scores = {choice: _likeness(word.lower(), choice.lower()) for choice in choices}
    close = max(choices, key=lambda choice: scores[choice], default=None)
    return close if close is not None and scores[close] > (0.0, 0.0) else None


_ALIKE = 0.65  # of difflib's ratio
_LONGEST_NAME = 200  # characters; what is longer was not meant as a name, and takes long to be compared


def _likeness(word: str, choice: str) -> tuple[float, float]:
    """How alike two names are, nothing below a bound; what all names share (`D4RL/…`, `…-v2`) does not count for it."""
    names = [re.sub(r"-v\d+$", "", name) for name in (word, choice)]
    whole, last = _ratio(*names), _ratio(*(name.rpartition("/")[2] for name in names))
    return (whole, _ratio(word, choice)) if min(whole, last) >= _ALIKE else (0.0, 0.0)


def _ratio(one: str, other: str) -> float:
    if max(len(one), len(other)) > _LONGEST_NAME:
        return 0.0
    return difflib.SequenceMatcher(None, other, one).ratio()
