"""Texts of a log in a `dataset:` section: YAML takes some of them for numbers and truths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl_training.data.fields import END_REASONS, FIELD_ALIASES, FIELD_OF, STEP, TO_FILL_IN
from rl_training.data.formats.end_reasons import checked as checked_reasons
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.reward_terms import with_points
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import checked as checked_words
from rl_training.data.termination_rewards import NAME as AT_TERMINATION
from rl_training.data.termination_rewards import checked as checked_rewards
from rl_training.errors import ConfigError, DataError
from rl_training.reading_choices import SIGNS_OF_REWARDS, checked_missing_words, checked_periods
from rl_training.validation import shown
from rl_training.yaml_dialect import inline


def rewards_meant(given: Any) -> Any:
    """Whether higher or lower is better, which nobody but the user knows where `rl-training init` asks."""
    if isinstance(given, str) and given == TO_FILL_IN:
        raise ValueError(f"is still {TO_FILL_IN}; say {SIGNS_OF_REWARDS}")
    return given


def columns_by_field(given: Any) -> Any:
    """Names of columns by field; of rewards several are added up."""
    before: Any = None  # the field above
    for field, names in given.items() if isinstance(given, dict) else ():
        if names is None:
            raise ValueError(_without_names(str(field), before, given))
        before = field
        if isinstance(names, dict):
            several = "; of rewards several are added up: [sales, -cost, 0.3*kWh]" if field == "rewards" else ""
            raise ValueError(f"{field}: must be a column's name or a list of names, got {shown(names)}{several}")
        listed = names if isinstance(names, list) else []
        place = next((place for place, name in enumerate(listed) if not isinstance(name, str)), None)
        if place is not None:
            # The first alone: YAML has lost the sign of a -0.
            pointed = next((word for word in with_points(listed) if "*" in word and word not in listed), None)
            way = f"; write decimals with a point, {pointed}" if pointed and field == "rewards" else ""
            raise ValueError(f"{field}.{place}: must be a column's name, got {shown(listed[place])}{way}")
    return given


def _without_names(field: str, before: Any, given: Mapping[Any, Any]) -> str:
    """What is said of a key without a value, as `{obs: speed, angle}` makes one of the second name. before: the field
    above it."""
    known = (*FIELD_OF, STEP, END_REASONS)
    if field in known:
        return f"{field}: is empty; name the column, or columns, that hold it, or leave it out"
    if before is None:
        return f"{field}: names no column, and is no field; fields are {', '.join(FIELD_ALIASES)}"
    names = given[before] if isinstance(given[before], list) else [given[before]]
    several = [*names, *(str(key) for key, value in given.items() if value is None and key not in known)]
    return f"{field}: names no column; if it is one of {before}, several are a list: {before}: {inline(several)}"


def missing_texts(given: Any) -> Any:
    """Words that stand for a missing number, -9999 among them."""
    try:
        return list(checked_missing_words(given))
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("missing_words: ")) from None


def period_alone(given: Any) -> Any:
    """One period may stand without a list; none stands twice."""
    try:
        return list(checked_periods(given)) if isinstance(given, str | list) else given
    except (ConfigError, TypeError) as error:
        raise ValueError(str(error).removeprefix("observe_time: ")) from None


def reasons_by_text(given: Any) -> Any:
    """What the texts of a column of reasons mean."""
    if not isinstance(given, dict):
        return given
    texts = _by_text(given)
    try:
        checked_reasons(texts)
    except DataError as error:
        raise ValueError(str(error).removeprefix("end_reasons: ")) from None
    return texts


def rewards_by_text(given: Any) -> Any:
    """What terminating adds to a reward, by the texts of reasons or for all."""
    texts = _by_text(given) if isinstance(given, dict) else given
    try:
        checked_rewards(texts)
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{AT_TERMINATION}: ")) from None
    return texts


def words_by_column(given: Any) -> Any:
    """Numbers that the words of columns stand for."""
    mapped = isinstance(given, dict) and all(isinstance(words, dict) for words in given.values())
    texts = {str(column): _by_text(words) for column, words in given.items()} if mapped else given
    try:
        checked_words(texts)
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{WORDS}: ").removeprefix(f"{WORDS}.")) from None
    return texts


def _by_text(given: dict[Any, Any]) -> dict[str, Any]:
    """2 is the text 2; of yes and no it cannot be told what the log has."""
    if any(isinstance(text, bool) for text in given):
        raise ValueError("YAML takes yes, no, on and off for true and false; put the text in quotes")
    return {text_of(text): value for text, value in given.items()}
