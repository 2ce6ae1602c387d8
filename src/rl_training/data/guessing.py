"""Which columns of a table, or arrays of a file, hold which field, guessed from their names and first values.

A guess says why. What the names leave open is not decided here: it is handed over with its candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.control_guesses import with_others_alike
from rl_training.data.fields import (
    DISCRETE_ACTIONS,
    END_REASONS,
    EPISODE_ENDS,
    EPISODE_IDS,
    FIELD_OF,
    IGNORED_PREFIXES,
    STEP,
    looks_like,
    may_be_ids,
    may_be_step,
)
from rl_training.data.flags import DONES
from rl_training.data.formats.names import listed, split_number
from rl_training.data.guess_words import (
    COST,
    FLAGS,
    LIKE_REWARD,
    LIKELY,
    PLAIN,
    REWARD,
    TRIPS,
    first_of,
    is_control,
    is_cost,
    is_message,
    is_money,
    may_be_control,
    words_in,
)
from rl_training.data.guesses import Guess, Guesses
from rl_training.data.name_series import is_next, ordered, without_next
from rl_training.data.reason_guesses import by_rows, column_of_reasons
from rl_training.data.reward_guesses import guess_rewards
from rl_training.data.value_looks import (
    at_ends,
    borders_of,
    counts_by_one,
    counts_up,
    is_flag,
    is_in_blocks,
    is_time,
    is_whole,
    marked_ends,
    names_several,
    starts_at_ends,
    tells_apart,
    together,
)
from rl_training.reading_choices import DonesAre, RewardsAre
from rl_training.validation import shown

Columns = Mapping[str, npt.NDArray[Any]]

_BY_NAME_ALONE = ("returns_to_go", "has_next_obs", "part_ids", EPISODE_ENDS)  # nobody else has them
_MARKED = 2  # ends that a flag of any name marks at least; one row may be an end by chance
_NO_ENDS = "nothing marks where episodes end; a column with 1 in the last row of each would"


def guess_fields(
    columns: Columns, *, exact_names: bool = False, units: Mapping[str, str] = MappingProxyType({})
) -> Guesses:
    """Guess from the columns' names and their first rows.

    exact_names: whether the reader finds only arrays with exactly a field's name, as in `.npz` and HDF5 files.
    units: of columns, as far as the file tells them.
    """
    usable = {name: values for name, values in columns.items() if name and not name.startswith(IGNORED_PREFIXES)}
    read_anyway = {name for name in usable if FIELD_OF.get(name) in _BY_NAME_ALONE or name == DISCRETE_ACTIONS}
    table = _Table({name: values for name, values in usable.items() if name not in read_anyway}, exact_names, units)
    reasons = table.reasons()
    ends = table.ends(beside_reasons=reasons is not None)
    if EPISODE_ENDS in read_anyway:
        ends.append(Guess(EPISODE_ENDS, (EPISODE_ENDS,), "so named", found_by_name=True))
    ids = table.named_once(EPISODE_IDS) or (None if ends else table.only_block())
    if reasons is None and not ends:
        reasons = table.reasons_by_rows(ids)
    order = [ids, table.named_once(STEP) or table.counter(ids, None if reasons else ends)]
    if reasons is None:
        ends += table.ends_by_rows(order, ends)
    late = table.known_late(ids, ends)
    rewards = table.rewards(late)
    actions = table.matrix("actions")
    obs = table.matrix("obs")
    following = [table.successor("next_obs", obs), table.successor("next_actions", actions)]
    fields = [obs or table.unclear("obs"), actions or table.unclear("actions"), rewards or table.unclear("rewards")]
    fields += [guess for guess in (*following, reasons, *ends, *order) if guess is not None]
    only_cuts = [g for g in fields if g.field == "truncations" and g.is_clear]
    if only_cuts and len(ends) == 1 and order[0] is None and reasons is None:
        # A log needs a flag of terminations or ids of episodes; a flag of cuts alone is one of ends, all of one kind.
        cuts = replace(only_cuts[0], field="dones", why="it marks cuts, and nothing else ends", found_by_name=False)
        fields[fields.index(only_cuts[0])] = cuts
    scored = LIKE_REWARD | COST | REWARD
    binary = tuple((name,) for name in table.free if is_flag(usable[name]) and first_of(name, scored) is None)
    if binary and not ends and reasons is None and ids is not None and ids.is_clear and not table.exact_names:
        fields.append(Guess("terminations", (), "if one of these marks it, say so; else every episode is cut", binary))
    if not any(guess is not None for guess in (reasons, *ends, *order)):
        blocks = table.blocks()
        if blocks and not binary:
            fields.append(
                Guess(EPISODE_IDS, (), "no name tells episodes apart, but these stay the same for a while", blocks)
            )
        else:
            fields.append(Guess("terminations", (), _NO_ENDS, binary))
    open_to = {name for guess in fields for columns in guess.candidates for name in columns}
    left = tuple(name for name in table.free if name not in open_to)
    dones_are: DonesAre | None = "truncations" if only_cuts and only_cuts[0] not in fields else None
    return Guesses(tuple(fields), left, dones_are, table.rewards_are, tuple(late))


class _Table:
    """The columns, and those that no field has taken yet."""

    def __init__(self, columns: Columns, exact_names: bool, units: Mapping[str, str]) -> None:
        self.columns = columns
        self.exact_names = exact_names
        self.units = units
        self.hardly_seen: dict[str, str] = {}  # what may be a control, or brought about by one, and why
        self.free = list(columns)
        self.rewards_are: RewardsAre | None = None

    def _take(self, guess: Guess) -> Guess:
        taken = set(guess.columns)
        self.free = [name for name in self.free if name not in taken]
        return guess

    def _numeric(self) -> list[str]:
        return [name for name in self.free if self._holds_numbers(name)]

    def _holds_numbers(self, name: str) -> bool:
        return self.columns[name].dtype.kind in "biuf"

    def _alias(self, name: str, field: str) -> bool:
        """Whether the reader takes a column for a field by its name alone."""
        if self.exact_names:
            return FIELD_OF.get(name) == field
        plain = name.strip().lower()
        return FIELD_OF.get(plain) == field or FIELD_OF.get(split_number(plain)[0]) == field

    def matrix(self, field: str) -> Guess | None:
        """Observations or actions: the columns of one word, or all that look like it."""
        present = [name for name in self._numeric() if not is_next(name, self.columns)]
        by_name = [name for name in present if self._alias(name, field)]
        if by_name:
            return self._take(Guess(field, ordered(by_name), "so named", found_by_name=True))
        groups: dict[str, list[str]] = {}
        for name in present:
            word = first_of(name, PLAIN[field])
            if word is not None and not (field == "obs" and first_of(name, PLAIN["actions"] - {"a", "u"})):
                groups.setdefault(word.rstrip("s") or word, []).append(name)
        if len(groups) == 1:
            ((word, names),) = groups.items()
            return self._take(Guess(field, ordered(names), f"{word!r} in the name"))
        if groups:
            several = tuple(ordered(names) for names in groups.values())
            return Guess(field, (), f"more than one may hold the {_spoken(field)}", several)
        controls = dict.fromkeys(name for name in present if is_control(name))
        likely = list(controls)
        if field == "obs":
            likely = [name for name in present if first_of(name, LIKELY["obs"]) is not None and name not in controls]
        if not likely:
            return None
        kind = "measurements" if field == "obs" else "controls"
        others = set(present) - set(likely)
        rest = [name for name in self._unclaimed() if name in others]
        if field == "obs" and rest:  # a policy that does not see what it should learns nothing of use
            either = {*likely, *rest}
            whole = tuple(name for name in present if name in either)
            verb = "is" if len(likely) == 1 else "are"
            why = f"{listed(likely)} {verb} named like {kind}, but {listed(rest)} may be needed, too"
            why = "; ".join([why, *filter(None, self.hardly_seen.values())])
            seen = tuple(name for name in whole if not may_be_control(name) and name not in self.hardly_seen)
            return Guess(field, (), why, tuple(dict.fromkeys((seen or whole, whole, tuple(likely)))))
        guess = self._take(Guess(field, tuple(likely), f"named like {kind}"))
        if field == "actions":
            guess, self.hardly_seen = with_others_alike(guess, self.columns, self._unclaimed(), self.units)
        return guess

    def _unclaimed(self) -> list[str]:
        """Numbers that may be seen or done: neither flags nor scores, and not always the same."""
        scores = LIKE_REWARD | COST | REWARD
        return [
            name
            for name in self._numeric()
            if not is_flag(self.columns[name])
            and not first_of(name, scores)
            and not is_cost(name, sure=True)
            and not is_money(name)
            and not is_next(name, self.columns)
            and bool((self.columns[name] != self.columns[name][:1]).any())
        ]

    def successor(self, field: str, of: Guess | None) -> Guess | None:
        """`next_obs` or `next_actions`: as many columns as what they follow, with a word such as `next`."""
        base = field.removeprefix("next_")
        names = [name for name in self._numeric() if self._alias(name, field)]
        if names:
            return self._take(Guess(field, ordered(names), "so named", found_by_name=True))
        if of is None or not of.is_clear:
            return None
        marked = [name for name in self._numeric() if is_next(name, self.columns)]
        bare = {without_next(name): name for name in marked}
        pairs = [bare.get(without_next(name)) for name in of.columns]
        if all(pairs):
            return self._take(
                Guess(field, tuple(name for name in pairs if name), "the same names, and a word for next")
            )
        words = PLAIN.get(base, set())
        single = [name for name in marked if first_of(name, words) is not None]
        if single and self._width(single) == self._width(of.columns):
            return self._take(Guess(field, ordered(single), "a word for next in the name"))
        return None

    def _width(self, names: Iterable[str]) -> int:
        return sum(int(np.prod(self.columns[name].shape[1:], dtype=int)) for name in names)

    def rewards(self, late: Sequence[str]) -> Guess | None:
        """One column; what merely resembles a reward is left to the user. late: see `known_late`."""
        numeric = {name: self.columns[name] for name in self._numeric() if self.columns[name].ndim == 1}
        named = [name for name in numeric if self._alias(name, "rewards") and split_number(name)[1] is None]
        guess, self.rewards_are = guess_rewards(numeric, named, late)
        if guess is not None:
            self._take(guess)
        scores = set(late)
        self.free = [name for name in self.free if name not in scores]
        return guess

    def known_late(self, ids: Guess | None, ends: Sequence[Guess]) -> list[str]:
        """Numbers in last rows of episodes alone: told when all is done, they are scores, and nothing to act on."""
        flags = [self.columns[guess.columns[0]] for guess in ends if guess.is_clear]
        if ids is not None and ids.is_clear:
            episodes = self.columns[ids.columns[0]]
        elif flags and all(flag.dtype.kind in "biuf" for flag in flags):
            episodes = np.r_[0, np.cumsum(np.any([flag != 0 for flag in together(*flags)], axis=0))[:-1]]
        else:
            return []
        gappy = [
            name for name in self._numeric() if self.columns[name].dtype.kind == "f" and self.columns[name].ndim == 1
        ]
        return [name for name in gappy if at_ends(self.columns[name], episodes)]

    def reasons(self) -> Guess | None:
        """A column, or an array, of text that says why episodes ended."""
        words = {name: words_in(name) for name in self.free}
        name = column_of_reasons({name: self.columns[name] for name in self.free}, words)
        return None if name is None else self._take(Guess(END_REASONS, (name,), "by its name and its texts"))

    def reasons_by_rows(self, ids: Guess | None) -> Guess | None:
        episodes = self.columns[ids.columns[0]] if ids is not None and ids.is_clear else None
        guess = None if self.exact_names else by_rows({name: self.columns[name] for name in self.free}, episodes)
        return self._take(guess) if guess is not None and guess.is_clear else guess

    def only_block(self) -> Guess | None:
        """The one column of whole numbers or text that stays the same for a while and never comes back to a value."""
        known = REWARD | LIKE_REWARD | COST | LIKELY["obs"] | LIKELY["actions"] | PLAIN["obs"] | PLAIN["actions"]
        found = [name for (name,) in self.blocks() if first_of(name, known) is None]
        found = [n for n in found if (is_whole if self._holds_numbers(n) else names_several)(self.columns[n])]
        if self.exact_names or len(found) != 1:
            return None
        return self._take(Guess(EPISODE_IDS, (found[0],), "it stays the same for a while, and no value comes back"))

    def ends(self, *, beside_reasons: bool) -> list[Guess]:
        """Flags of ends; two of one kind leave it open. Beside reasons, only what marks ends of either kind."""
        found = []
        for field, words in FLAGS.items():
            if beside_reasons and field != "dones":
                continue
            flags = [name for name in self.free if is_flag(self.columns[name])]
            named = [name for name in flags if self._alias_of_end(name, field)]
            chosen = named or [name for name in flags if first_of(name, words) is not None]
            if len(chosen) == 1:
                why = "so named" if named else f"{first_of(chosen[0], words)!r} in the name, 0 or 1 in the rows"
                found.append(self._take(Guess(field, (chosen[0],), why, found_by_name=bool(named))))
            elif chosen:
                found.append(Guess(field, (), "more than one may mark it", tuple((name,) for name in chosen)))
        return sorted(found, key=lambda guess: ("terminations", "truncations", "dones").index(guess.field))

    def ends_by_rows(self, order: Sequence[Guess | None], named: Sequence[Guess]) -> list[Guess]:
        """A flag of another name that is set in last rows of episodes alone, where no name marks what ends them."""
        if any(guess.field in ("terminations", "dones", EPISODE_ENDS) for guess in named):
            return []
        ids, step = (self.columns[g.columns[0]] if g is not None and g.is_clear else None for g in order)
        borders = borders_of(ids, step)
        if borders is None:
            return []
        marked = {name: marked_ends(self.columns[name], borders) for name in self.free if is_flag(self.columns[name])}
        worded = [name for name, ends in marked.items() if ends and first_of(name, TRIPS)]
        chosen = worded or [name for name, ends in marked.items() if ends >= _MARKED]
        if len(chosen) != 1:
            several = tuple((name,) for name in chosen)
            return [Guess("terminations", (), "each is 1 in last rows of episodes only", several)] if chosen else []
        (name,) = chosen
        ends = int(borders.sum())
        why = f"1 in last rows of episodes only, {marked[name]:,} of {ends:,}"
        if marked[name] == ends and not named and not worded:
            return [self._take(Guess("dones", (name,), why))]
        return [self._take(Guess("terminations", (name,), f"{why}; if it marks cuts, call it truncations"))]

    def _alias_of_end(self, name: str, field: str) -> bool:
        plain = name if self.exact_names else name.strip().lower()
        if field == "dones":
            return plain in DONES
        return FIELD_OF.get(plain) == field and plain not in DONES

    def named_once(self, field: str) -> Guess | None:
        """Episode ids or step numbers."""
        single = [name for name in self.free if self.columns[name].ndim == 1]
        if field == EPISODE_IDS:
            named = [name for name in single if self._alias(name, EPISODE_IDS) and split_number(name)[1] is None]
        else:
            named = [name for name in single if not self.exact_names and name.strip().lower() in (STEP, "t")]
            single = [name for name in single if is_time(name, self.columns[name])]
        chosen = named or [name for name in single if self._looks_like(name) == field]
        if field == STEP and len(chosen) > 1:  # any of them will do: whole numbers rather than a clock
            counters = [name for name in chosen if is_whole(self.columns[name])]
            chosen = (counters or chosen)[:1]
        if field == STEP and not chosen:
            numeric = set(self._numeric())
            chosen = [name for name in single if name not in numeric]
        if len(chosen) == 1:
            like = "an episode" if field == EPISODE_IDS else "a step counter"
            is_clock = field == STEP and not self._holds_numbers(chosen[0])
            why = "so named" if named else "a date with a time in every row" if is_clock else f"named like {like}"
            return self._take(Guess(field, (chosen[0],), why, found_by_name=bool(named)))
        if chosen:
            return Guess(field, (), "more than one looks like it", tuple((name,) for name in chosen))
        return None

    def _looks_like(self, name: str) -> str | None:
        """By its name; a word with another meaning, as the charge of a battery, counts where its values are ids."""
        ids = may_be_ids(name) and is_in_blocks(self.columns[name])
        return EPISODE_IDS if ids else looks_like(name)

    def counter(self, ids: Guess | None, ends: Sequence[Guess] | None) -> Guess | None:
        """A column that counts the rows of every episode, whatever its name; ends: the flags it must agree with."""
        episodes = self.columns[ids.columns[0]] if ids is not None and ids.is_clear else None
        found = [name for name in self._numeric() if counts_up(self.columns[name], episodes)]
        if episodes is None:
            found = [name for name in found if may_be_step(name) or self._counts_rows(name, ends)]
        if len(found) == 1:
            return self._take(Guess(STEP, (found[0],), "it counts the rows of every episode"))
        named = [name for name in self._numeric() if may_be_step(name) and tells_apart(self.columns[name], episodes)]
        if len(named) == 1:
            return self._take(Guess(STEP, (named[0],), "no number twice in an episode, and named like a time"))
        return None

    def _counts_rows(self, name: str, ends: Sequence[Guess] | None) -> bool:
        """Whether a column of any name counts by one, and starts again where the flags have episodes end."""
        if ends is None or first_of(name, PLAIN["obs"] | PLAIN["actions"] | REWARD) is not None:
            return False
        flags = {guess.field: self.columns.get(guess.columns[0]) for guess in ends if guess.is_clear}
        return counts_by_one(self.columns[name]) and starts_at_ends(self.columns[name], flags)

    def unclear(self, field: str) -> Guess:
        """A field that no name points to: everything that is left may be it."""
        single = field == "rewards"
        rest = [name for name in self._numeric() if self.columns[name].ndim == 1] if single else self._unclaimed()
        several: tuple[tuple[str, ...], ...] = tuple((name,) for name in rest) if single or not rest else (tuple(rest),)
        for name in self.free:
            if not self._holds_numbers(name) and (self._alias(name, field) or first_of(name, PLAIN.get(field, set()))):
                text = shown(str(self.columns[name][0])) if len(self.columns[name]) else "text"
                why = f"column {name!r} holds text, {text}; give numbers, one column for each, or lists in Parquet"
                if field == "actions":
                    why += "; a choice between words cannot be learned here"
                return Guess(field, (), why, several)
        why = f"no name points to the {_spoken(field)}"
        if seen := tuple(name for name in rest if field == "obs" and self.hardly_seen and name not in self.hardly_seen):
            why = "; ".join([why, *filter(None, self.hardly_seen.values())])
            several = (seen, *several)
        controls = dict.fromkeys(name for name in rest if not single and may_be_control(name))
        if controls and len(controls) < len(rest):
            chosen = tuple(controls if field == "actions" else (name for name in rest if name not in controls))
            why += f", but {listed(controls)} {'is' if len(controls) == 1 else 'are'} named like a control: check"
            return Guess(field, (), why, (chosen, *several))
        return Guess(field, (), why, several)

    def blocks(self) -> tuple[tuple[str], ...]:
        """Columns that stay the same for some rows and never come back to a value, as ids of episodes do."""
        return tuple((name,) for name in self.free if is_in_blocks(self.columns[name]) and not is_message(name))


def _spoken(field: str) -> str:
    return {"obs": "observations", "rewards": "reward"}.get(field, field)
