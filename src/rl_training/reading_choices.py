"""What a user may choose on how data are read: in configurations, in Python and on the command line alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from rl_training.errors import ConfigError, did_you_mean
from rl_training.validation import shown

DonesAre: TypeAlias = Literal["terminations", "truncations", "ends"]  # what a plain `dones` flag means
TimeLimits: TypeAlias = Literal["keep", "d4rl"]  # rows at a time limit: kept, or dropped as D4RL does
RewardsAre: TypeAlias = Literal["rewards", "costs"]  # higher is better, or lower is
RewardsAt: TypeAlias = Literal["same", "next"]  # the row that holds a step's reward: its own, or the one after it
Missing: TypeAlias = Literal["refuse", "drop", "hold"]  # what is done where a value is missing
Duplicates: TypeAlias = Literal["refuse", "drop"]  # rows that are copies of the one before, in a table with a step
EpisodeEach: TypeAlias = Literal["hour", "day", "week", "month"]  # of the calendar: each is an episode
Period: TypeAlias = Literal["day", "week", "year"]  # whose time is observed
LastRowsAre: TypeAlias = Literal["truncation", "termination"]  # last rows of episodes of which no flag or text tells
Ending: TypeAlias = Literal["termination", "truncation", "ongoing"]  # what a text such as `crash` says of its row
EndReasons: TypeAlias = Mapping[str, Ending]  # by text
Words: TypeAlias = Mapping[str, Mapping[str, float]]  # numbers that words stand for, by column and by word
AtTermination: TypeAlias = float | Mapping[str, float]  # added to the reward of a termination: of all, or by reason
Refused: TypeAlias = Literal[  # errors of `data check` that data may be trained on in spite of
    "flags.two-rows", "flags.overlap", "successors.copied", "successors.reset", "values.resolution"
]
Side: TypeAlias = float | Sequence[float]  # the smallest or largest action: of all dimensions, or of each

SIGNS_OF_REWARDS = "costs (lower is better) or rewards (higher is better)"
# What to say wherever a value is missing.
WAYS_WITH_MISSING = (
    "missing: hold carries the last value forward, as suits slow sensors;"
    " missing: drop leaves these rows out and cuts the episodes there"
)

WAYS_WITH_MISSING_REWARDS = (
    "missing: drop leaves these rows out and cuts the episodes there (hold holds no rewards); where nothing was paid,"
    " write 0"
)


@dataclass(frozen=True)
class TableChoices:
    """What may be said of the cells and rows of a table, before its fields are understood.

    end_reasons: what the texts of a column of reasons mean. missing_words: texts that stand for a missing number,
    besides those that everyone writes. duplicates: of rows whose step occurs twice. words: numbers that the words of a
    column stand for. episode_each: by the dates of the step column, an episode each. observe_time: periods, of
    which the time is observed, by these dates.
    """

    end_reasons: EndReasons | None = None
    missing_words: tuple[str, ...] = ()
    duplicates: Duplicates = "refuse"
    words: Words | None = None
    episode_each: EpisodeEach | None = None
    observe_time: tuple[Period, ...] = ()


AS_IT_STANDS = TableChoices()


class Understanding(TypedDict, total=False):
    """How what was read is understood, whatever its format: keywords of `TransitionDataset.load` and its like."""

    time_limits: TimeLimits
    max_episode_steps: int | None
    dones_are: DonesAre | None
    rewards_are: RewardsAre | None
    rewards_at: RewardsAt
    at_termination: AtTermination | None
    last_rows_are: LastRowsAre
    action_low: Side | None
    action_high: Side | None
    missing: Missing


class Choices(Understanding, total=False):
    """All of it, that of tables besides."""

    end_reasons: EndReasons | None
    missing_words: Sequence[str]
    duplicates: Duplicates
    words: Words | None
    episode_each: EpisodeEach | None
    observe_time: Sequence[Period]


def is_said(choice: Any) -> bool:
    """Whether a choice is another than what is done where nothing is said."""
    if isinstance(choice, str | tuple | list):  # an array cannot be looked for
        return choice not in ("keep", "rewards", "same", "refuse", "truncation", (), [])
    return choice is not None


def checked_periods(periods: Any) -> tuple[Period, ...]:
    """The periods whose time is observed, each once, or a refusal; one may stand without a list."""
    given = [periods] if isinstance(periods, str) else list(periods or ())
    for period in given:
        _require_one("observe_time", period, get_args(Period))
    if len(set(given)) < len(given):
        raise ConfigError("observe_time: names a period twice; keep one")
    return cast(tuple[Period, ...], tuple(given))


def checked_codes(codes: Iterable[Any]) -> tuple[Refused, ...]:
    """The codes of errors to train in spite of, or a refusal."""
    given = tuple(codes)
    for code in given:
        _require_one("accepting", code, get_args(Refused))
    return cast(tuple[Refused, ...], given)


def checked_missing_words(given: Any) -> tuple[str, ...]:
    """The texts, or numbers, that stand for a missing number, or a refusal."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        such = f"[{given!r}]" if isinstance(given, str) else "['ERR', '-9999']"
        raise ConfigError(f"missing_words: must be a list of words, such as {such}")
    words = tuple(given)
    for word in words:
        if isinstance(word, bool) or not isinstance(word, str | Real | date):  # YAML makes dates
            quotes = "; put true, no, null and their like in quotes" if word is None or isinstance(word, bool) else ""
            raise ConfigError(f"missing_words: must be words or numbers, got {shown(word)}{quotes}")
    return tuple(map(str, words))


def _require_one(option: str, word: Any, known: Sequence[str]) -> None:
    if not isinstance(word, str) or word not in known:  # an array cannot be looked for
        meant = did_you_mean(word if isinstance(word, str) else "", known)
        raise ConfigError(f"{option}: {shown(word)} is not known{meant}")
