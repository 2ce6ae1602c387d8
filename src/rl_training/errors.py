"""Errors a user can cause, each told in one line: what is wrong, where, what is allowed, what was perhaps meant.

The command line prints them without a traceback and exits with code 2, or 3 for a run that diverged. Anything else that
escapes is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RLTrainingError(Exception):
    """Base of every error the package raises on purpose."""


class ConfigError(RLTrainingError):
    """A configuration key or value is wrong, or a configuration cannot be found."""


class DataError(RLTrainingError):
    """A dataset is missing, malformed or inconsistent; the message names the field, the episode and the row."""


class EnvironmentUnsupportedError(RLTrainingError):
    """An environment is unknown or has spaces this package does not train on."""


class CheckpointError(RLTrainingError):
    """A run or checkpoint is missing, damaged or does not fit what is asked of it."""


class DivergenceError(RLTrainingError):
    """Every seed of a run has diverged: none of them has anything left to learn."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message: `"; did you mean 'x'?"`, the list of choices, or nothing at all."""
    choices = sorted(known)
    by_lower_case = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {by_lower_case[close[0]]!r}?"
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= 12 else ""
