"""How a file or a table is read: what may be said of it in a `dataset:` section and in Python, checked in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from numbers import Number
from pathlib import PurePath
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from rl_training.data.checks import require_order
from rl_training.data.fields import FIELD_OF, STEP
from rl_training.data.own_labels import actions_in, bound_by_name
from rl_training.data.section_texts import (
    missing_texts,
    period_alone,
    reasons_by_text,
    rewards_by_text,
    rewards_meant,
    words_by_column,
)
from rl_training.data.termination_rewards import check_reasons
from rl_training.errors import DataError, ReadingError, did_you_mean
from rl_training.reading_choices import (
    Choices,
    DonesAre,
    Duplicates,
    Ending,
    EpisodeEach,
    LastRowsAre,
    Missing,
    Period,
    RewardsAre,
    RewardsAt,
    TableChoices,
    TimeLimits,
    Understanding,
    is_said,
)
from rl_training.validation import Section, explain, kind_of

TIME_LIMITS: TimeLimits = Field(
    default="keep", description="d4rl: drop rows at a time limit and take every successor from the next row."
)
MAX_EPISODE_STEPS: int | None = Field(
    default=None, ge=1, description="Where the data mark no truncations: rows after which an episode was cut."
)
SaidOfRewards = Annotated[RewardsAre | None, BeforeValidator(rewards_meant)]
REWARDS_ARE = Field(
    default=None, description="costs: lower is better in the data, and every reward is the negative of them."
)
REWARDS_AT: RewardsAt = Field(
    default="same", description="next: a step's reward stands in the row after it; last rows have none and go."
)
AT_TERMINATION = Field(
    default=None,
    description="Added to the reward of a row that terminates, or to its cost: a number, or by reason {crash: -100}.",
)
MISSING: Missing = Field(
    default="refuse",
    description="Empty cells, NaN: drop leaves out their rows and cuts there; hold takes the last value before.",
)


class ReadingOptions(Section):
    """All that may be said of it but the columns, which are checked against those that there are."""

    time_limits: TimeLimits = TIME_LIMITS
    max_episode_steps: int | None = MAX_EPISODE_STEPS
    dones_are: DonesAre | None = Field(
        default=None, description="What a plain dones flag means; ends: either kind, another flag tells which."
    )
    rewards_are: SaidOfRewards = REWARDS_ARE
    rewards_at: RewardsAt = REWARDS_AT
    at_termination: Annotated[float | dict[str, float], BeforeValidator(rewards_by_text)] | None = AT_TERMINATION
    end_reasons: Annotated[dict[str, Ending], BeforeValidator(reasons_by_text)] | None = Field(
        default=None,
        description="What each text of the column columns.end_reasons means: {goal: termination, timeout: truncation}.",
    )
    action_low: float | list[float] | None = Field(
        default=None, description="The smallest action there can be: one number, or one for each; none: as observed."
    )
    action_high: float | list[float] | None = Field(
        default=None, description="The largest action there can be, as action_low; data outside are refused."
    )
    missing: Missing = MISSING
    missing_words: Annotated[list[str], BeforeValidator(missing_texts)] = Field(
        default=[], description="What else stands for a missing number in a table: [ERR, '-9999']."
    )
    words: Annotated[dict[str, dict[str, float]], BeforeValidator(words_by_column)] | None = Field(
        default=None, description="Numbers that the words of a table's columns stand for: {door: {shut: 0, open: 1}}."
    )
    duplicates: Duplicates = Field(
        default="refuse", description="drop: leave out rows of a table that are copies of the row of the same step."
    )
    episode_each: EpisodeEach | None = Field(
        default=None, description="By the dates of a table's step column, every hour, day, week or month is an episode."
    )
    observe_time: Annotated[list[Period], BeforeValidator(period_alone)] = Field(
        default=[], description="Observe the time by these dates, as sine and cosine: [day], [day, week, year]."
    )
    last_rows_are: LastRowsAre = Field(
        default="truncation", description="What the last row of an episode is that ends by its id or date alone."
    )

    @model_validator(mode="after")
    def _known_reasons_and_bounds_in_order(self) -> ReadingOptions:
        try:
            check_reasons(self.at_termination, self.end_reasons)
            if self.action_low is not None and self.action_high is not None:
                require_order(self.action_low, self.action_high)
        except DataError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _both_bounds(self) -> ReadingOptions:
        if (self.action_low is None) != (self.action_high is None):
            raise ValueError("action_low and action_high are given together or not at all")
        return self

    @classmethod
    def of(cls, said: Mapping[str, Any], columns: object = None) -> ReadingOptions:
        """From the keywords of a caller in Python, or a refusal: what is misspelt must not be left out in silence.
        columns: which of them hold which field, as far as that is said."""
        known = ["columns", *cls.model_fields]
        if (strange := next((name for name in said if name not in known), None)) is not None:
            way = f"; the names of columns go into columns={{{strange!r}: …}}" if strange in (*FIELD_OF, STEP) else ""
            meant = way or did_you_mean(strange, known) or f"; choose from {', '.join(sorted(known))}"
            raise ReadingError(f"{strange}: no such option{meant}")
        try:
            return cls.model_validate({name: _plain(name, choice, columns) for name, choice in said.items()})
        except ValidationError as error:
            raise ReadingError(explain(error, cls)) from None

    def every(self) -> Choices:
        """All of them, by their names."""
        return cast(Choices, {name: getattr(self, name) for name in Choices.__annotations__})

    def said(self) -> Choices:
        """Those by which something is done."""
        return cast(Choices, {name: choice for name, choice in self.every().items() if is_said(choice)})

    def understanding(self) -> Understanding:
        """How what was read is understood, whatever its format."""
        return cast(Understanding, {name: getattr(self, name) for name in Understanding.__annotations__})

    def table_choices(self) -> TableChoices:
        """What is said of a table's cells and rows."""
        return TableChoices(
            self.end_reasons,
            tuple(self.missing_words),
            self.duplicates,
            self.words,
            self.episode_each,
            tuple(self.observe_time),
        )


_WITHOUT_ORDER = ("missing_words",)  # options to whom it makes no difference
_PLAIN = (str, bytes, Number, date, PurePath, type(None))  # what YAML knows, and what is written out without harm


def _plain(name: str, choice: Any, columns: object) -> Any:
    """A choice as YAML would hand it over, which knows neither arrays nor tuples."""
    if isinstance(choice, set | frozenset) and name not in _WITHOUT_ORDER:
        raise ReadingError(f"{name}: a set has no order, got {kind_of(choice)}; give a list")
    if name in ("action_low", "action_high"):
        choice = bound_by_name(name, choice, actions_in(columns))
    try:
        return _in_lists(choice)
    except Exception as error:  # whatever the object itself raises
        raise ReadingError(f"{name}: must be text, numbers, or lists of them, got {kind_of(choice)}") from error


def _in_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_lists(one) for key, one in value.items()}
    if hasattr(value, "tolist"):  # of numpy, pandas, torch
        if (told := value.tolist()) is None:
            raise TypeError("masked, which would be no choice at all")
        return told
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_in_lists(one) for one in value]
    if not isinstance(value, _PLAIN):
        raise TypeError("not plain")
    return value
