"""Which column holds the reward, and whether it is a cost, guessed from names and from where values stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from rl_training.data.formats.names import listed
from rl_training.data.guess_words import (
    EARNED,
    LIKE_REWARD,
    REWARD,
    SPENT,
    WHOLE_REWARD,
    first_of,
    is_cost,
    is_energy,
    is_lateness,
    is_money,
    is_reward,
    is_surely_cost,
    may_cost,
    words_in,
)
from rl_training.data.guesses import Guess
from rl_training.data.value_looks import only_grows
from rl_training.reading_choices import RewardsAre

_WORTH = ("0.24", "0.02", "1.5")  # of a unit, in an example


def guess_rewards(
    columns: Mapping[str, npt.NDArray[Any]], named: Sequence[str], late: Sequence[str]
) -> tuple[Guess | None, RewardsAre | None]:
    """One of these columns of numbers, `[K]` each, or candidates for it, and `costs` where its name tells that.

    named: what the reader takes for it; late: what stands in last rows of episodes alone.
    """
    if len(named) == 1:
        return Guess("rewards", (named[0],), "so named", found_by_name=True), None
    found = [name for name in columns if is_reward(name)]
    whole = [name for name in found if WHOLE_REWARD & set(words_in(name))]
    chosen = found if len(found) == 1 else whole
    if len(chosen) == 1:
        word = first_of(chosen[0], REWARD)
        why = f"{word!r} in the name" if len(found) == 1 else "the whole reward, by its name"
        return Guess("rewards", (chosen[0],), why), None
    if found:
        return Guess("rewards", (), "more than one may hold the reward", tuple((name,) for name in found)), None
    lateness = [name for name in late if is_lateness(name)]
    costs = dict.fromkeys(name for name in columns if is_cost(name) or name in lateness)
    money = [name for name in columns if is_money(name) and name not in costs]
    spent = {*costs, *money}
    likely = [name for name in columns if name in spent or first_of(name, LIKE_REWARD) is not None]
    if len(late) == 1 and set(likely) <= set(late) and late[0] not in spent:
        why = "it stands in last rows of episodes only, as a score of the whole does; 0 in all others"
        return Guess("rewards", (late[0],), why), None
    likely = list(dict.fromkeys([*likely, *late]))
    if not likely:
        return None, None
    if len(likely) == 1 and is_surely_cost(likely[0]) and not only_grows(columns[likely[0]]):
        return Guess("rewards", (likely[0],), "the only one that is named like a cost"), "costs"
    why = "it may be the reward of each step, or a running sum"
    paid = [name for name in likely if name in costs or (name in money and first_of(name, SPENT) is not None)]
    gains = [name for name in likely if name not in paid]
    sums = [(*gains, *(f"-{name}" for name in paid))] if paid and gains else []
    together = ", or a sum with costs taken off, if gains and costs belong together" if sums else ""
    if sums and not any(name not in money or first_of(name, LIKE_REWARD | EARNED) for name in gains):
        # Money that no word calls a gain is as like as not paid.
        every = tuple(name for name in likely if name in gains or name in paid)
        sums, together = [every, *sums], f", or the sum of all, if {listed(gains)} {_is(gains)} paid, too{together}"
    energy = [name for name in columns if is_energy(name) and name not in likely] if lateness and not gains else []
    if energy:
        sums, likely = [(*energy, *paid)], [*likely, *energy]
        together = f", or a sum, if {listed(energy)} is paid for, too"
    if costs:
        why = f"{listed(costs)} looks like a cost, where lower is better: name it and say rewards_are: costs{together}"
    elif money:
        looks = "looks" if len(money) == 1 else "look"
        why = f"{listed(money)} {looks} like money; if it is a cost, where lower is better, say rewards_are: costs"
        why += together
    elif late:
        why = f"{listed(late)} stand in last rows of episodes only, as scores of the whole do"
    return Guess("rewards", (), why, (*sums, *((name,) for name in likely))), None


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def weighted_sum(guess: Guess) -> list[str]:
    """An example of rewards that are a sum, of the first candidates where they may be one: `[0.24*kWh, 0.02*late]`."""
    if guess.field != "rewards" or not guess.candidates:
        return []
    several = next((columns for columns in guess.candidates if len(columns) > 1), None)
    likely = several or [name for (name,) in guess.candidates if may_cost(name)]
    if any(name.startswith("-") for name in likely) or all(map(is_money, likely)):  # money needs no such numbers
        return []
    terms = [f"{worth}*{name}" for worth, name in zip(_WORTH, likely, strict=False)]
    return terms if len(terms) > 1 else []


def distance_wanted(guess: Guess, others: Sequence[Guess]) -> list[str]:
    """An example of rewards for a log that has none, of what is seen and done: `[abs(T - 20), 0.1*square(valve)]`."""
    if guess.field != "rewards" or any(is_cost(name) or is_money(name) for (name, *_) in guess.candidates):
        return []
    first = {g.field: next(iter((*g.columns, *(name for names in g.candidates for name in names))), "") for g in others}
    seen, done = first.get("obs"), first.get("actions")
    return [f"abs({seen} - 20)", *([f"0.1*square({done})"] if done and done != seen else [])] if seen else []
