"""What sums of rewards are called and which sign they have where they are shown: costs, where the user's file has
costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl_training.data.formats.reward_terms import Term, split_terms, told
from rl_training.data.provenance import as_costs, readings, reward_columns
from rl_training.experiment.statistics import Estimate
from rl_training.validation import printable

if TYPE_CHECKING:
    from rl_training.runtime.config import TrainConfig
    from rl_training.runtime.run_directory import RunDirectory

_SAYS_NO_MORE = ("cost", "costs", "reward", "rewards")  # names of columns that are no unit
_UNIT = re.compile(r"(?i:eur|euros?|usd|gbp|chf|dollars?|pounds?)|[€$£¥]|[kMG]?(?:Wh|J|g)|[kM]?(?:EUR|€|\$)")
_LONGEST_UNIT = 30  # characters at the end of a name, with brackets and blanks
_UNIT_LAST = re.compile(  # `price [EUR]`, `price_EUR`
    r"[\[(]\s*+([^\[\]()]{1,12}?)\s*[\])]$|(?<=[\s_])([A-Z€$£¥%][A-Za-z€$£¥%/]{0,5})$"
)


@dataclass(frozen=True)
class Shown:
    """As returns, higher is better, or as costs, lower is better; unit: what they are counted in. with_ends: whether
    `at_termination` was added to what the file has, so that the unit is not all they are. name: what the user's file
    calls them, where that is no unit."""

    costs: bool = False
    unit: str | None = None
    with_ends: bool = False
    name: str | None = None

    @property
    def counted_in(self) -> str | None:
        """`eur`, or `eur and at_termination`."""
        return self.unit if self.unit is None or not self.with_ends else f"{self.unit} and at_termination"

    @property
    def noun(self) -> str:
        return "cost" if self.costs else "return"

    @property
    def named(self) -> str:
        """`cost, eur`, or `cost (Kosten)`."""
        return self.noun + self._more

    @property
    def _more(self) -> str:
        if self.counted_in is not None:
            return f", {self.counted_in}"
        return "" if self.name is None else f" ({self.name})"

    @property
    def axis(self) -> str:
        """`cost, eur (lower is better)`."""
        return f"{self.named} ({'lower' if self.costs else 'higher'} is better)"

    @property
    def behind(self) -> str:
        """` eur`, or ` (eur and at_termination)`, to follow a number."""
        if self.unit is None:
            return ""
        return f" ({self.counted_in})" if self.with_ends else f" {self.unit}"

    def title(self, of: str) -> str:
        """`Cost of a step, eur`, and `Reward of a step` where there are no costs; of an episode, its return."""
        noun = "Cost" if self.costs else "Return" if of == "an episode" else "Reward"
        return f"{noun} of {of}{self._more}"

    def number(self, reward: float) -> float:
        """A sum of rewards as it is shown."""
        return 0.0 - reward if self.costs else reward

    def values(self, rewards: Any) -> Any:
        """The same of an array."""
        return 0.0 - rewards if self.costs else rewards

    def ends(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The lower and the higher end of a span of rewards as they are shown."""
        return (self.values(high), self.values(low)) if self.costs else (low, high)

    def estimate(self, found: Estimate) -> Estimate:
        if not self.costs:
            return found
        low, high = (None if end is None else self.number(end) for end in (found.high, found.low))
        return Estimate(self.number(found.value), low, high)


RETURNS = Shown()


def shown_as(section: Any, facts: Mapping[str, Any]) -> Shown:
    """By a run's `dataset:` section and what run.json says of where the data come from: costs that were negated an odd
    number of times."""
    said = as_costs(section, facts)
    added = any(bool(choices.get("at_termination")) for choices in readings(section, facts))
    if not said:
        return Shown(with_ends=added)
    terms = _terms(said[-1].get("columns"))
    units = {_unit(term.column) if abs(term.weight) == 1.0 and term.measure is None else None for term in terms}
    unit = units.pop() if len(units) == 1 else None
    return Shown(True, unit, added, _name(terms[0].column) if unit is None and len(terms) == 1 else None)


def added_up(section: Any, facts: Mapping[str, Any]) -> str | None:
    """The column of the user's file whose sums are shown, where no unit says what they are: `Total $/h`."""
    said = [terms for choices in readings(section, facts) if (terms := _terms(choices.get("columns")))]
    if not said or told(said[-1]).lower() in _SAYS_NO_MORE or shown_as(section, facts).unit is not None:
        return None
    return told(said[-1])


def _terms(columns: Any) -> tuple[Term, ...]:
    """What was said of the columns whose sum the rewards are, one of them most often."""
    return split_terms(named) if (named := reward_columns(columns)) else ()


def _unit(name: str) -> str | None:
    """What a column's name says costs are counted in: the unit at its end, `EUR` of `cost of interval EUR`, or all of
    it, where that is one. Sums of a rate, `EUR/h`, are not counted in it."""
    last = _UNIT_LAST.search(name[-_LONGEST_UNIT:])
    unit = name if last is None else last[1] or last[2]
    is_unit = last is not None or _UNIT.fullmatch(name) is not None
    return printable(unit) if is_unit and "/" not in unit else None


def _name(name: str) -> str | None:
    """What a column is called, where that says more than that it has costs, and is no rate's unit."""
    return None if not name or name.lower() in _SAYS_NO_MORE or "/" in name else printable(name)


def shown_of(config: TrainConfig, run: RunDirectory | None) -> Shown:
    """The same by a run's configuration and its run.json, if it has one."""
    section = None if config.dataset is None else config.dataset.model_dump(mode="json")
    facts = None if run is None else run.describe().get("dataset")
    return shown_as(section, facts if isinstance(facts, Mapping) else {})


def common(found: Sequence[Shown]) -> Shown:
    """Of numbers that stand together: as returns, unless all are costs."""
    if not found or not all(one.costs for one in found):
        return RETURNS
    return found[0] if len(set(found)) == 1 else Shown(True)
