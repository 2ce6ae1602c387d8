"""What terminating earns or costs, where the log does not say it: added to the rewards of the rows that terminate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import FIELD_OF
from rl_training.data.flags import complete_flags, resolve_names
from rl_training.data.formats.end_reasons import text_of
from rl_training.data.formats.names import first_of
from rl_training.data.formats.raw import RawData
from rl_training.data.guess_words import is_energy, may_cost
from rl_training.errors import DataError, did_you_mean
from rl_training.reading_choices import AtTermination, EndReasons
from rl_training.validation import printable, shown
from rl_training.wording import WARNING, amount
from rl_training.yaml_dialect import proposed

NAME = "at_termination"


def checked(given: Any) -> float | dict[str, float]:
    """The number for every termination, or those by text, in small letters."""
    if not isinstance(given, Mapping):
        return _number(given, NAME)
    if not given:
        raise DataError(f"{NAME}: no text is given; say {{crash: -100}}, or one number for every termination")
    found: dict[str, float] = {}
    for text, value in given.items():
        if value is None and text_of(text).isdecimal():
            raise DataError(
                f"{NAME}: {shown(text)} has no number: decimals are written with a point, {{crash: -100.5}}"
            )
        number = _number(value, f"{NAME}: {shown(text)}")
        if found.setdefault(text_of(text).casefold(), number) != number:
            raise DataError(f"{NAME}: {shown(text)} is given two numbers; capitals make no difference")
    return found


def _number(given: Any, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise DataError(f"{what}: must be a number, or one for each reason, {{crash: -100}}, got {shown(given)}")
    try:
        number = float(given)
    except OverflowError:  # of an integer with hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{what}: must be finite, got {shown(given)}")
    return number


def check_reasons(given: AtTermination | None, reasons: EndReasons | None) -> None:
    """Refuse texts that no row terminates with, by what is said of them."""
    if not isinstance(given, Mapping):
        return
    if reasons is None:
        raise DataError(
            f"{NAME}: tells reasons apart, so say which column holds them, columns: {{end_reasons: …}}, and what they"
            " mean; or give one number for every termination"
        )
    ending = [text_of(text) for text, meaning in reasons.items() if meaning == "termination"]
    folded = {text.casefold() for text in ending}
    if not ending:
        known = first_of(printable(text_of(text)) for text in reasons)
        raise DataError(f"{NAME}: no reason means termination yet; say so in end_reasons, of one of {known}")
    for text in given:
        if text_of(text).casefold() not in folded:
            meant = did_you_mean(str(text), ending) or f"; these are: {first_of(map(printable, ending))}"
            said = {text_of(reason).casefold() for reason in reasons}
            later = proposed(text_of(text), "termination")
            way = "" if text_of(text).casefold() in said else f"; if it may yet come, say so: end_reasons: {later}"
            raise DataError(f"{NAME}: {shown(text)} is none of end_reasons that mean termination{meant}{way}")


def with_termination_rewards(raw: RawData, given: AtTermination, *, costs: bool) -> RawData:
    """`raw`, whose flags are settled, with `given` added where an episode terminates, in the sign that the file's own
    rewards have: as a cost where these are `costs`, whose negative the rewards already are."""
    added = checked(given)
    key = next((name for name in raw.arrays if FIELD_OF.get(name) == "rewards"), None)
    flags = complete_flags(resolve_names(raw.arrays)).get("terminations")
    if key is None or flags is None or np.asarray(raw.arrays[key]).dtype.kind not in "biuf":
        return raw  # for the checks to complain about
    rewards, ends = np.array(raw.arrays[key], dtype=np.float64), np.asarray(flags).reshape(-1) != 0
    if rewards.shape != ends.shape:
        return raw
    rows = np.flatnonzero(ends)
    extra = np.full(len(rows), added) if isinstance(added, float) else _by_reason(raw, rows, added)
    extra = -extra if costs else extra
    rewards[rows] += extra
    written = {text_of(text).casefold(): text_of(text) for text in given} if isinstance(given, Mapping) else {}
    of_each = {} if isinstance(added, float) else {written[text]: value for text, value in added.items()}
    told = f"{added:g}" if isinstance(added, float) else first_of(f"{printable(t)} {v:g}" for t, v in of_each.items())
    changed = amount(int(np.count_nonzero(extra)), "termination")
    note = f"{told} added to the {'cost' if costs else 'reward'} of {changed}"
    if (extra > 0).any():
        sign = "above zero, as costs are" if costs else "below zero"
        note = f"{WARNING}{note}: ending is rewarded. {_perhaps_costs(raw)}Right where the end is the goal; a failure"
        note += f" takes a number {sign}"
    gone = [name for name in raw.arrays if FIELD_OF.get(name) == "returns_to_go"]
    note += "; the file's returns_to_go are of other rewards, and left out" if gone else ""
    arrays = {name: values for name, values in raw.arrays.items() if name not in gone} | {key: rewards}
    places = dict(zip(raw.in_table(rows).tolist(), extra.tolist(), strict=True))
    return replace(raw, arrays=arrays, notes=(*raw.notes, note), added_at_ends=places)


def _perhaps_costs(raw: RawData) -> str:
    """What to say where rewards are named like costs and nobody has said which they are."""
    name = raw.column_in_file("rewards", None)
    if name is None or raw.rewards_are is not None or raw.signs_told or not (may_cost(name) or is_energy(name)):
        return ""
    return f"If {printable(name)} is a cost, say rewards_are: costs. "


def _by_reason(raw: RawData, rows: npt.NDArray[np.int64], added: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """What each of these terminations is given for its reason; nothing where that has no number."""
    if raw.end_texts is None:
        raise DataError(
            f"{NAME}: no column says why episodes ended; give one number for every termination, or name that column,"
            " columns: {end_reasons: …}"
        )
    check_reasons(added, raw.end_reasons)
    return np.array([added.get((raw.end_text(row) or "").casefold(), 0.0) for row in rows.tolist()])
