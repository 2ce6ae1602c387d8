"""What a user may choose on how data are read: in configurations, in Python and on the command line alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast

from rl_training.errors import ConfigError

DonesAre: TypeAlias = Literal["terminations", "truncations", "ends"]  # what a plain `dones` flag means
TimeLimits: TypeAlias = Literal["keep", "d4rl"]  # rows at a time limit: kept, or dropped as D4RL does
RewardsAre: TypeAlias = Literal["rewards", "costs"]  # higher is better, or lower is
RewardsAt: TypeAlias = Literal["same", "next"]  # the row that holds a step's reward: its own, or the one after it
Missing: TypeAlias = Literal["refuse", "drop", "hold"]  # what is done where a value is missing
Duplicates: TypeAlias = Literal["refuse", "drop"]  # rows that are copies of the one before, in a table with a step
Ending: TypeAlias = Literal["termination", "truncation", "ongoing"]  # what a text such as `crash` says of its row
EndReasons: TypeAlias = Mapping[str, Ending]  # by text
Words: TypeAlias = Mapping[str, Mapping[str, float]]  # numbers that words stand for, by column and by word
AtTermination: TypeAlias = float | Mapping[str, float]  # added to the reward of a termination: of all, or by reason
Side: TypeAlias = float | Sequence[float]  # the smallest or largest action: of all dimensions, or of each

# What to say wherever a value is missing.
WAYS_WITH_MISSING = (
    "missing: hold carries the last value forward, as suits slow sensors;"
    " missing: drop leaves these rows out and cuts the episodes there"
)


@dataclass(frozen=True)
class TableChoices:
    """What may be said of the cells and rows of a table, before its fields are understood.

    end_reasons: what the texts of a column of reasons mean. missing_words: texts that stand for a missing number,
    besides those that everyone writes. duplicates: of rows whose step occurs twice. words: numbers that the words of a
    column stand for.
    """

    end_reasons: EndReasons | None = None
    missing_words: tuple[str, ...] = ()
    duplicates: Duplicates = "refuse"
    words: Words | None = None


AS_IT_STANDS = TableChoices()


class Understanding(TypedDict, total=False):
    """How what was read is understood, whatever its format: keywords of `TransitionDataset.load` and its like."""

    time_limits: TimeLimits
    max_episode_steps: int | None
    dones_are: DonesAre | None
    rewards_are: RewardsAre
    rewards_at: RewardsAt
    at_termination: AtTermination | None
    action_low: Side | None
    action_high: Side | None
    missing: Missing


class Choices(Understanding, total=False):
    """All of it, that of tables besides."""

    end_reasons: EndReasons | None
    missing_words: Sequence[str]
    duplicates: Duplicates
    words: Words | None


def is_said(choice: Any) -> bool:
    """Whether a choice is another than what is done where nothing is said."""
    if isinstance(choice, str | tuple | list):  # an array cannot be looked for
        return choice not in ("keep", "rewards", "same", "refuse", (), [])
    return choice is not None


def apart(said: Choices) -> tuple[TableChoices, Understanding]:
    """What is said of a table's cells and rows, and the rest."""
    words, duplicates = said.get("missing_words", ()), said.get("duplicates", AS_IT_STANDS.duplicates)
    if isinstance(words, str):
        raise ConfigError(f"missing_words: must be a list of words, such as [{words!r}]")
    of_table = TableChoices(said.get("end_reasons"), tuple(map(str, words)), duplicates, said.get("words"))
    names = Understanding.__annotations__
    return of_table, cast(Understanding, {name: choice for name, choice in said.items() if name in names})
