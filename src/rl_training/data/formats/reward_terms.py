"""Rewards that are a sum of a table's columns: `[Erlös_EUR, -Kosten_EUR]`, `0.3*kWh` with what one unit is worth, or
`-abs(T - 20)` with how far one is from where it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import BoolArray
from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.cells import DECLARED
from rl_training.data.formats.names import LONGEST_NAME, doubled, listed, suggest
from rl_training.data.formats.raw import Arrays, RewardParts
from rl_training.data.formats.reward_measures import Measure, measure_of, number_of
from rl_training.data.guess_words import is_surely_cost, may_cost
from rl_training.errors import ColumnsError, DataError
from rl_training.validation import printable, shown
from rl_training.wording import WARNING
from rl_training.yaml_dialect import inline

_SIGNS = {"+": 1.0, "-": -1.0, "\N{MINUS SIGN}": -1.0}
_COMMA = re.compile(r"(?<![^,+-])(\d{1,20}),(\d{1,20} ?\*)")  # a decimal one
_IF_ALL_ARE = "; where all of them are costs, say rewards_are: costs"
_IF_LESS_IS_BETTER = "; where less of it is better, say rewards_are: costs"
_CURRENCIES = str.maketrans({"€": "EUR", "$": "USD", "£": "GBP"})
_FORM = "a part of a sum is written cost, -cost or 0.31*kWh, a distance abs(T - 20)"


@dataclass(frozen=True)
class Term:
    """A column, or what is measured of one, and what one unit of it is worth. column: the text of either. is_priced:
    whether a number was given, if only 1."""

    column: str
    weight: float = 1.0
    measure: Measure | None = None
    is_priced: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it is read from."""
        return (self.column,) if self.measure is None else self.measure.columns

    def values(self, parts: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.float64]:
        """`[N]`, without its weight, from the numbers of its columns."""
        return parts[self.column].astype(np.float64) if self.measure is None else self.measure.values(parts)

    def text(self, *, first: bool) -> str:
        """`- 0.3*kWh`, without a plus where it is the first."""
        size = "" if abs(self.weight) == 1.0 else f"{abs(self.weight)!r}*".replace(".0*", "*")
        sign = ("-" if first else "- ") if self.weight < 0 else "" if first else "+ "
        return f"{sign}{size}{printable(self.column)}"


def told(terms: Sequence[Term]) -> str:
    """`Erlös_EUR - Kosten_EUR`."""
    return " ".join(term.text(first=not place) for place, term in enumerate(terms))


def note_on_sum(sum_told: str) -> str:
    """What is said of rewards that are a sum, as `told` has it."""
    return f"rewards are {sum_told}"


def doubts_on_sum(terms: Sequence[Term], column: Callable[[str], npt.NDArray[np.generic]]) -> list[str]:
    """What may not be meant, and what no row tells. column: its numbers, by its name."""
    return [*_distances(terms), *_added_costs(terms, column), *_idle(terms, column)]


def _distances(terms: Sequence[Term]) -> list[str]:
    """A warning where distances from where things should be, and what is named like a cost, are all that is gained."""
    measured = [term for term in terms if term.measure is not None]
    if not measured or any(term.weight < 0 or (term.measure is None and not may_cost(term.column)) for term in terms):
        return []
    return [f"{WARNING}rewards grow with {printable(measured[0].column)}{_IF_LESS_IS_BETTER}"]


def _idle(terms: Sequence[Term], column: Callable[[str], npt.NDArray[np.generic]]) -> list[str]:
    """A warning where a part of a sum is always 0: what it would cost or earn is in no row."""
    several = terms if len(terms) > 1 else ()
    values = [(term.column, term.values({name: column(name) for name in term.columns})) for term in several]
    idle = [name for name, found in values if not np.nan_to_num(found).any()]
    if not idle:
        return []
    told_as, verb = listed(repr(printable(name)) for name in idle), "is" if len(idle) == 1 else "are"
    return [
        f"{WARNING}{told_as} {verb} 0 wherever it is told: these data do not show what leads to anything else, so that"
        " neither training nor an estimate without a simulator can mind it"
    ]


def notes_on_sums(notes: Sequence[str], rewards_are: str | None) -> tuple[str, ...]:
    """What still holds, once it is said what rewards are: all of them costs, or gains as they stand."""
    settled = {None: (), "costs": (_IF_ALL_ARE, _IF_LESS_IS_BETTER)}.get(rewards_are, (_IF_LESS_IS_BETTER,))
    return tuple(note for note in notes if not note.endswith(settled))


def _added_costs(terms: Sequence[Term], column: Callable[[str], npt.NDArray[np.generic]]) -> list[str]:
    """A warning where a cost, by its name, is added to what is gained; one below zero was taken off before."""
    added = [term.column for term in terms if term.weight > 0 and term.measure is None]
    gained = [name for name in added if not may_cost(name)]
    costs = [name for name in added if is_surely_cost(name)] if gained else []
    meant = [name for name in costs if bool(np.any(column(name).astype(np.float64) > 0))]
    if not meant:
        return []
    signs = {term.column: replace(term, weight=-term.weight) for term in terms if term.column in meant}
    written = inline([(signs.get(term.column, term)).text(first=True) for term in terms])
    verb = "is named like a cost, and is" if len(meant) == 1 else "are named like costs, and are"
    told_as = listed(repr(printable(name)) for name in meant)
    way = f"to take off what is paid, write columns: {{rewards: {written}}}"
    return [f"{WARNING}{told_as} {verb} added to {printable(gained[0])!r}; {way}{_IF_ALL_ARE}"]


def doubts_on_units(terms: Sequence[Term], units: Mapping[str, str]) -> list[str]:
    """A warning where columns of several units are added up without a number that makes them one."""
    bare = [term.column for term in terms if term.measure is None and not term.is_priced]
    known = {name: units[name] for name in bare if units.get(name)}
    if len({_normal(unit) for unit in known.values()}) < 2:
        return []
    counted = " and ".join(f"{printable(name)!r} in {printable(unit)}" for name, unit in known.items())
    return [
        f"{WARNING}what is added up for the rewards is counted in different units, {counted}; say what one unit is"
        f" worth, as in 0.3*{printable(list(known)[-1])}, or leave out what the other counts already"
    ]


def _normal(unit: str) -> str:
    """`EUR`, `[EUR]` and `€` alike."""
    return unit.strip("[]() ").translate(_CURRENCIES)


def split_terms(words: Sequence[str], names: Container[str] | None = None) -> tuple[Term, ...]:
    """What a mapping names for the rewards. names: the table's columns, each taken as it is called."""
    return tuple(Term(word) if names is not None and word in names else _term(word, names) for word in words)


def _term(word: str, names: Container[str] | None) -> Term:
    """A sign, a number and a star, each where it is there, and a column or a measure of one."""
    signed = word.strip()
    sign = _SIGNS.get(signed[:1])
    rest = signed if sign is None else signed[1:].lstrip()
    number, star, column = rest.partition("*")
    weight = number_of(number.strip()) if star and column.strip() else None
    if weight is not None:
        return replace(_measured(column.strip(), (sign or 1.0) * weight, names), is_priced=True)
    return _measured(rest, sign or 1.0, names) if rest else Term(word)


def _measured(text: str, weight: float, names: Container[str] | None) -> Term:
    measure = None if names is not None and text in names else measure_of(text, names)
    return Term(text, weight) if measure is None else Term(measure.text(), weight, measure)


def with_terms(columns: Mapping[str, list[str]], names: Sequence[str]) -> tuple[dict[str, list[str]], tuple[Term, ...]]:
    """The mapping with the rewards' columns alone, and the terms, where they are a sum; else as it was, and none."""
    known = frozenset(names)  # there may be as many terms as columns
    key = next((key for key in columns if FIELD_OF.get(key) == "rewards"), None)
    if key is None or (len(columns[key]) == 1 and not _is_term(columns[key][0], known)):
        return dict(columns), ()
    terms = split_terms(columns[key], known)
    for word, term in zip(columns[key], terms, strict=True):
        if not term.columns:
            raise DataError(f"columns.{key}: {shown(word)} names no column")
        if (unknown := next((name for name in term.columns if name not in known), None)) is not None:
            if pointed := with_points(columns[key]):
                written = f"columns: {{{key}: {inline(pointed)}}}"
                no_column = f"columns.{key}: no column {shown(unknown)}"
                raise ColumnsError(f"{no_column}; write decimals with a point: {written}")
            hint = _as_list(key, word, names) if term.measure is None else _in_measure(unknown, names)
            raise ColumnsError(f"columns.{key}: no column {shown(unknown)}{hint}")
        if not np.isfinite(term.weight) or not term.weight:
            raise DataError(f"columns.{key}: {shown(word)}: a unit must be worth a finite number other than 0")
    if (twice := doubled(term.column for term in terms)) is not None:
        raise DataError(f"columns.{key}: {shown(twice)} is given twice")
    if len(terms) == 1 and terms[0].weight < 0:
        lone = replace(terms[0], weight=-terms[0].weight).text(first=True)
        raise DataError(
            f"columns.{key}: {shown(columns[key][0])} is taken off from nothing; where lower is better, say"
            f" columns: {inline({key: lone})} and rewards_are: costs"
        )
    return {**columns, key: list(dict.fromkeys(name for term in terms for name in term.columns))}, terms


def only_measured(terms: Sequence[Term]) -> set[str]:
    """Columns of which rewards count no more than a measure: they may well be observed."""
    measured = {name for term in terms if term.measure is not None for name in term.columns}
    return measured - {term.column for term in terms}


def with_points(words: Sequence[object]) -> list[str]:
    """`[0.24*kWh]` of `0,24*kWh`, in one piece or in the two that a list makes of it; nothing of anything else."""
    joined = ",".join(str(word).strip() for word in words)
    pointed = _COMMA.sub(r"\1.\2", joined)
    return pointed.split(",") if pointed != joined and len(joined) <= LONGEST_NAME else []


def _is_term(word: str, names: Container[str]) -> bool:
    """Whether a word that is no column is one with a sign or a number before it, or a sum that was meant as one."""
    if word in names:
        return False
    meant, term = bool(_meant(word, names) or with_points([word])), _term(word, names)
    is_one = term.measure is not None or term.column in names
    return meant or is_one or _number_last(word, names) is not None


def _as_list(key: str, word: str, names: Sequence[str]) -> str:
    """What a column that is not there was perhaps meant to be: a sum in one text, a number behind it, or another
    name."""
    if meant := _meant(word, names):
        return f"; several are added up in a list: columns: {{{key}: {inline(meant)}}}"
    if (first := _number_last(word, names)) is not None:
        return f"; write the number first: {first}"
    form = f"; {_FORM}" if "*" in word or any(sign in word for sign in _SIGNS) else ""
    return suggest(_term(word, names).column[:LONGEST_NAME], names) + form


def _in_measure(unknown: str, names: Sequence[str]) -> str:
    """The same of a side of a measure: a decimal comma, the beginning of the next one, or another name."""
    if number_of(unknown.replace(",", ".", 1)) is not None:
        return "; write decimals with a point"
    if "(" in unknown or ")" in unknown:
        return "; several are added up in a list, as in [-abs(T - 20), -0.1*square(u)]"
    return suggest(unknown[:LONGEST_NAME], names)


def _number_last(word: str, names: Container[str]) -> str | None:
    """`0.31*kWh` of `kWh*0.31`."""
    before, _, number = word.rpartition("*")
    column = _term(before, names)
    if not all(name in names for name in column.columns) or number_of(number.strip()) is None:
        return None
    return f"{'-' if column.weight < 0 else ''}{number.strip()}*{column.column}"


def _meant(word: str, names: Container[str]) -> list[str]:
    """`[a, -b]` of `a - b` or `a-b`, where both are columns; nothing of anything else."""
    if len(word) > LONGEST_NAME:
        return []
    for parts in (word.split(), list(_at_signs(word))):
        found: list[list[str]] = [[]]
        for part in parts:
            if part in _SIGNS and found[-1]:
                found.append([])
            found[-1].append(part)
        texts = ["".join(words[:2]).removeprefix("+") + "".join(f" {word}" for word in words[2:]) for words in found]
        if len(texts) > 1 and all(name in names for text in texts for name in _term(text, names).columns):
            return texts
    return []


def _at_signs(word: str) -> Iterator[str]:
    """A text in parts, each sign one of them."""
    start = 0
    for place, letter in enumerate(word):
        if letter in _SIGNS:
            yield from (word[start:place].strip(), letter)
            start = place + 1
    yield word[start:].strip()


def summed(terms: Sequence[Term], parts: Arrays) -> tuple[npt.NDArray[np.float64], RewardParts | None]:
    """The rewards, `[N]`, missing where any part is, and of several parts what is still open where one is: an empty
    cell may add nothing, as the ends of episodes tell, and one that was named as missing never does."""
    total: npt.NDArray[np.float64] = np.zeros(0)
    empty: dict[str, BoolArray] = {}
    for place, term in enumerate(terms):
        if (lists := next((name for name in term.columns if parts[name].ndim != 1), None)) is not None:
            raise DataError(f"column {lists!r}: holds lists; rewards are added up of single numbers")
        values = term.values(parts)
        nothing = np.isnan(values)
        if len(terms) > 1:
            empty |= {term.column: nothing} if nothing.any() else {}
            named = np.any([parts[name] == DECLARED for name in term.columns], axis=0)
            values = np.where(named, np.nan, np.where(nothing, 0.0, values))
        total = term.weight * values if not place else total + term.weight * values
    if not empty and (len(terms) == 1 or not np.isnan(total).any()):
        return total, None
    lacking = np.logical_or.reduce([*empty.values()]) if empty else np.zeros(len(total), dtype=np.bool_)
    return np.where(lacking, np.nan, total), RewardParts(total, empty)
