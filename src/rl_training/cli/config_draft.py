"""The text of the configuration that `rl-training init` writes: every value with the reason for it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_training import yaml_dialect
from rl_training.cli.day_proposals import DayProposal
from rl_training.cli.recommendation import Recommendation
from rl_training.data.fields import END_REASONS, EPISODE_ENDS, EPISODE_IDS, STEP, TO_FILL_IN
from rl_training.data.formats.names import first_of, listed
from rl_training.data.formats.words import PAIR, proposed
from rl_training.data.guess_words import may_cost
from rl_training.data.guesses import Guess, Guesses
from rl_training.data.reason_guesses import ReasonGuess, example_of_failure
from rl_training.data.reward_guesses import distance_wanted, weighted_sum
from rl_training.data.transforms import RETURN_SPAN
from rl_training.reading_choices import SIGNS_OF_REWARDS, Duplicates, Ending, LastRowsAre
from rl_training.runtime.presets import presets
from rl_training.validation import printable
from rl_training.wording import amount

_WIDTH = 100
_LONGEST_KEY = 1000  # characters; YAML reads a longer one only where it is marked as a key
_WITHOUT_CRITICS = ("bc", "awr")
_WEIGHING = ("iql", "awac", "crr")  # by exp of advantages; AWR standardises them first
_MOST_SPOKEN = 10  # columns that are named one by one
_LAYERNORM = "layernorm"  # a preset that several algorithms have
_NEEDED = ("obs", "actions", "rewards")
ENDS = ("terminations", "dones", END_REASONS, EPISODE_ENDS, EPISODE_IDS, STEP)
_MEANINGS = {
    "obs": "what the policy sees before it acts; what it sets goes to actions",
    "actions": "what was done, in its own units",
    "rewards": "of each step, higher is better",
    "next_obs": "the true successor",
    "next_actions": "the action that followed",
    "terminations": "1 where the task ended and nothing follows",
    "truncations": "1 where the episode was cut, as by a time limit",
    "dones": "1 at the end of an episode of either kind; which kind is judged by the lengths (docs/data.md)",
    END_REASONS: "says why an episode ended; what its texts mean stands below",
    EPISODE_IDS: "tells episodes apart",
    STEP: "the number of a row in its episode",
}


@dataclass(frozen=True)
class Draft:
    """What is known of the data, and what is proposed for them."""

    source: dict[str, Any]  # the dataset section without its columns
    found: str
    guesses: Guesses
    patterns: dict[str, str]
    notes: tuple[str, ...]
    algo: str
    recommended: Recommendation
    env_id: str | None
    env_note: str
    reasons: Mapping[str, ReasonGuess] = field(default_factory=dict)  # by the texts that say why episodes ended
    observed: tuple[tuple[str, float, float], ...] = ()  # actions with their smallest and largest, if bounds are open
    switches: tuple[str, ...] = ()  # of which actions a wide range was never recorded, in words
    incomplete: str = ""  # how many rows lack a value, in words
    by_position: tuple[str, ...] = ()  # where columns have no names: what each begins with, in words
    unused: tuple[str, ...] = ()  # the columns that are left, in words
    is_table: bool = False
    looked_at: str = ""  # the rows that were, in words, where nothing is known of the others
    missing_words: tuple[str, ...] = ()  # that stand for a missing number, most likely
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by column, in how many rows each stands
    days: DayProposal | None = None
    duplicates: Duplicates = "refuse"

    @property
    def end_reasons(self) -> dict[str, Ending]:
        """What the texts mean, as far as their words tell."""
        return {text: guess.meaning for text, guess in self.reasons.items() if guess.meaning is not None}

    @property
    def unclear_reasons(self) -> list[str]:
        return [text for text in self.reasons if text and text not in self.end_reasons]

    @property
    def to_fill_in(self) -> list[str]:
        """Places in the file that are marked."""
        columns = [f"dataset.columns.{guess.field}" for guess in self.missing]
        columns += ["dataset.rewards_are"] if self.sign_is_open else []
        return columns + [f"dataset.{END_REASONS}.{printable(text)}" for text in self.unclear_reasons]

    @property
    def last_rows_are(self) -> LastRowsAre:
        """Terminations, where ids alone tell of ends and episodes have their only reward there."""
        told = {guess.field for guess in self.guesses.fields if guess.is_clear}
        by_ids = EPISODE_IDS in told and told.isdisjoint({*ENDS, "truncations"} - {EPISODE_IDS, STEP})
        return "termination" if self.guesses.scored_at_ends and by_ids else "truncation"

    @property
    def sign_is_open(self) -> bool:
        """Whether what may be the reward may as well be a cost, by its name."""
        wanted = [guess for guess in self.missing if guess.field == "rewards"]
        return any(may_cost(name) for guess in wanted for columns in guess.candidates for name in columns)

    @property
    def missing(self) -> list[Guess]:
        """Fields that must be filled in before anything can be trained."""
        told = {guess.field for guess in self.guesses.fields if guess.is_clear}
        ends_known = bool(told & set(ENDS))
        return [
            guess
            for guess in self.guesses.unclear
            if guess.field in _NEEDED or (guess.field in ENDS and not ends_known and guess is self._first_end)
        ]

    @property
    def _first_end(self) -> Guess | None:
        return next((guess for guess in self.guesses.unclear if guess.field in ENDS), None)

    @property
    def mapping(self) -> dict[str, str | list[str]]:
        """The columns that a reader must be told of."""
        return {g.field: self.value_of(g) for g in self.guesses.fields if g.is_clear and not g.found_by_name}

    def value_of(self, guess: Guess) -> str | list[str]:
        if guess.field in self.patterns:
            return self.patterns[guess.field]
        return guess.columns[0] if len(guess.columns) == 1 else list(guess.columns)

    def text(self, place: str) -> str:
        """The file, which will lie in this place."""
        shown = f"rl-training config show {printable(shlex.quote(place))}"
        lines = _comment(f"Written by `rl-training init`. Every value may be changed; every option: {shown}.")
        looked_at = f" Guesses look at {self.looked_at}." if self.looked_at else ""
        lines += _comment(f"Data: {self.found}.{looked_at}")
        if self.to_fill_in:
            lines += _comment(f"Only you can tell: {', '.join(self.to_fill_in)}. Training needs all of them.")
        lines += ["", *self._algorithm(), "", *self._dataset(), "", *self._run()]
        return "\n".join(lines) + "\n"

    def _algorithm(self) -> list[str]:
        own = self.recommended
        if self.algo == own.algo:
            why = _comment(f"{self.algo}: {own.why}. Others: rl-training algos; which one: docs/choosing.md.")
        else:
            why = _comment(f"As asked for. Recommended for these data: {own.algo} ({own.why}).")
        return [*why, f"algo: {self.algo}", *self._preset()]

    def _preset(self) -> list[str]:
        """LayerNorm, where the algorithm has it; IQL takes it, unless there are no returns for its scaling to span."""
        if _LAYERNORM not in presets(self.algo):
            return []
        if self.algo != "iql" or self.recommended.spread == 0.0:
            return [f"# preset: {_LAYERNORM}  # often better, at little cost: docs/choosing.md"]
        why = "LayerNorm in the value of states and a constant rate of the actor: steadier where training is short;"
        why += " without it a policy may end far worse than a clone (docs/choosing.md). With bc or awr: null."
        return [*_comment(why), f"preset: {_LAYERNORM}"]

    def _dataset(self) -> list[str]:
        lines = ["dataset:"]
        lines += [f"  {key}: {yaml_dialect.inline(value)}" for key, value in self.source.items()]
        if "path" in self.source:
            lines[-1] += "  # a relative path starts where the command is run"
        if self.by_position:
            lines += _comment("The file has no header line; its columns, by position, begin with:", "  ")
            lines += [line for column in self.by_position for line in _comment(column, "  ")]
        mapped = [guess for guess in self.guesses.fields if not guess.found_by_name]
        named = [guess for guess in self.guesses.fields if guess.found_by_name]
        for guess in named:
            lines += _comment(f"{guess.field}: {_spoken(guess.columns)}, found by name", "  ")
        if mapped:
            active = [guess for guess in mapped if guess.is_clear or guess in self.missing]
            lines.append("  columns:  # which columns hold which field" if active else "  # columns:")
            for guess in mapped:
                lines += self._column(guess, active=guess in active)
            lines += [f"    # {key}: COLUMN  # {about}" for key, about in self._undecided()]
        if self.guesses.rewards_are is not None:
            lines.append(f"  rewards_are: {self.guesses.rewards_are}  # lower is better; if higher is, say rewards")
        elif self.sign_is_open:
            lines.append(f"  rewards_are: {TO_FILL_IN}  # {SIGNS_OF_REWARDS}")
        elif any(guess.field == "rewards" for guess in self.missing):
            lines.append("  # rewards_are: costs  # if lower is better")
        if self.guesses.dones_are is not None:
            lines.append(f"  dones_are: {self.guesses.dones_are}  # of what ends an episode, the data mark only this")
        if self.last_rows_are == "termination":
            lines.append("  last_rows_are: termination  # episodes are scored there, so that they are over")
        lines += [] if self.days is None else self.days.lines()
        if self.missing_words:
            words = yaml_dialect.inline(list(self.missing_words))
            lines.append(f"  missing_words: {words}  # among numbers: guessed to stand for a missing one")
        if self.incomplete:
            lines.append(f"  # missing: drop  # {self.incomplete} lack a value: this leaves them out, and cuts there")
            lines.append("  # missing: hold  # or: the last value before is taken, as suits slow sensors")
        if self.duplicates == "drop":
            about = "rows that repeat the row before, their step included, are left out; refuse stops at them"
            lines.append(f"  duplicates: drop  # {about}")
        lines += [*self._words(), *self._reasons(), *self._bounds()]
        if self.unused:
            lines += _comment(f"Not used: {first_of(self.unused)}. Add to obs what the policy should see.", "  ")
        for note in self.notes:
            lines += _comment(f"Note: {note}.", "  ")
        return lines

    def _undecided(self) -> list[tuple[str, str]]:
        """What only a table has and no column was found for, while something is still to be said of it."""
        if not self.is_table or not self.missing:
            return []
        told = {guess.field for guess in self.guesses.fields}
        wanted = [key for key in (EPISODE_IDS, STEP) if key not in told]
        flagged = any(g.is_clear for g in self.guesses.fields if g.field in ("terminations", "truncations", "dones"))
        if not flagged and END_REASONS not in told:
            wanted.append(END_REASONS)
        return [(key, _MEANINGS[key]) for key in wanted]

    def _reasons(self) -> list[str]:
        """What each text means, a line each."""
        if not any(self.reasons):
            asked = self.is_table and any(guess.field in ENDS for guess in self.missing)
            return ["  # end_reasons: {crash: termination, timeout: truncation}  # of texts"] if asked else []
        about = (
            "termination: the task ended there; truncation: cut from outside, as by a time limit; ongoing: it goes on"
        )
        lines = [
            f"  {END_REASONS}:",
            *_comment(f"{about}. Guessed from the words, or as said; rows of each are counted.", "    "),
        ]
        for text, guess in self.reasons.items():
            if text:
                meaning = self.end_reasons.get(text, TO_FILL_IN)
                key = yaml_dialect.inline(text)
                head = [f"    {key}:"] if len(key) <= _LONGEST_KEY else [f"    ? {key}", "    :"]
                lines += [*head[:-1], f"{head[-1]} {meaning}  # {_counted(guess)}"]
        if empty := self.reasons.get(""):
            lines += _comment(f"{amount(empty.rows, 'row')} say nothing: the episode goes on", "    ")
        return lines + self._failures()

    def _words(self) -> list[str]:
        """The numbers of words, a line for each column; of more than two words they are left to whoever knows them."""
        if not self.words:
            return []
        about = "Numbers that the words of a column stand for, once it is among obs or actions; any others will do"
        entries = {name: proposed(own) for name, own in self.words.items()}
        active = any(len(numbers) <= PAIR for numbers, _ in entries.values())
        lines = [*_comment(f"{about}.", "  "), "  words:" if active else "  # words:"]
        for name, (numbers, is_pair) in entries.items():
            entry = f"{yaml_dialect.inline(name)}: {yaml_dialect.inline(numbers)}"
            rows = ", ".join(f"{printable(word)} {self.words[name][word]:,}" for word in numbers)
            if len(numbers) > PAIR:
                lines += _comment(
                    f"{printable(name)}: {len(numbers)} words ({rows} rows); numbers say that one lies between others,"
                    " which words need not do. If they have an order, give it; else write a column of 0 and 1 of each:",
                    "    ",
                )
                lines.append(f"    # {entry}")
            else:
                why = "" if is_pair else "; guessed by the alphabet"
                lines.append(f"    {entry}  # rows: {rows}{why}")
        return lines

    def _failures(self) -> list[str]:
        """What a failure costs, to be said where the rewards do not."""
        meanings = {text: self.end_reasons.get(text, "termination") for text in self.reasons if text}  # or still to say
        shown = example_of_failure(text for text, meaning in meanings.items() if meaning == "termination")
        if shown is None:
            return []
        cost = 100 if self.guesses.rewards_are == "costs" else -100
        about = "If one of these is a failure, and the rewards do not say so: what it costs (of costs, above zero)."
        return [*_comment(about, "  "), f"  # at_termination: {yaml_dialect.inline({shown: cost})}"]

    def _bounds(self) -> list[str]:
        """The bounds of actions, to be said by who knows them."""
        if not self.observed and not self.env_id and any(guess.field == "actions" for guess in self.missing):
            about = "Bounds of the actions, which a policy never leaves, if you know them: one number or one for each"
            return [*_comment(f"{about}.", "  "), *(f"  # action_{side}: NUMBER" for side in ("low", "high"))]
        if not self.observed or self.env_id:
            return []
        seen = ", ".join(f"{printable(name)} {low:g} to {high:g}" for name, low, high in self.observed)
        seen += f", in {self.looked_at}" if self.looked_at else ""
        lines = _comment(
            "Bounds of the actions, which a policy never leaves: [-1, 1] where all lie inside, else what was observed"
            f" ({seen}). If you know the true ones, say them, one number or one for each action:",
            "  ",
        )
        for side, place in (("action_low", 1), ("action_high", 2)):
            values = [float(f"{entry[place]:g}") for entry in self.observed]
            lines.append(f"  # {side}: {yaml_dialect.inline(values[0] if len(values) == 1 else values)}")
        return lines

    def _column(self, guess: Guess, *, active: bool) -> list[str]:
        about = _MEANINGS[guess.field]
        if guess.field == "rewards" and self.guesses.rewards_are == "costs":
            about = "what each step costs, as rewards_are says below"
        candidates = []
        for columns in guess.candidates[:12]:
            value = columns[0] if len(columns) == 1 else list(columns)
            candidates.append(f"    # candidate: {guess.field}: {yaml_dialect.inline(value)}")
        if guess.is_clear:
            said = _comment(f"{about}; guessed: {guess.why}", "    ")
            return [*said, *candidates, f"    {self._entry(guess.field, guess)}"]
        lines = [*_comment(f"{'To say' if active else 'Unclear'}: {about}; {guess.why}.", "    "), *candidates]
        if weighted := weighted_sum(guess) if self.is_table else []:
            about = "Several are added up, each times what one unit of it is worth:"
            lines += [*_comment(about, "    "), f"    # {guess.field}: {yaml_dialect.inline(weighted)}"]
        if wanted := distance_wanted(guess, self.guesses.fields) if self.is_table and not weighted else []:
            about = "If no column holds it, say how far things are from where they should be (rewards_are: costs):"
            lines += [*_comment(about, "    "), f"    # {guess.field}: {yaml_dialect.inline(wanted)}"]
        return [*lines, f"    {guess.field}: {TO_FILL_IN}"] if active else lines

    def _entry(self, field: str, guess: Guess) -> str:
        return f"{field}: {yaml_dialect.inline(self.value_of(guess))}"

    def _run(self) -> list[str]:
        updates = self.recommended.updates
        lines = _comment(self.env_note)
        lines += [f"env_id: {yaml_dialect.inline(self.env_id)}" if self.env_id else "# env_id: Hopper-v5"]
        lines += ["", "# Gradient updates: enough to see whether it learns; papers train for 1,000,000."]
        lines += [f"total_timesteps: {updates}"]
        if self.env_id:
            lines += [f"eval_interval: {updates // 10}  # updates between evaluations in the environment"]
        lines += ["seed: 0  # [0, 1, 2] trains three members together; report several", ""]
        lines += ["transforms:", "  normalise_observations: true  # columns may have different units"]
        lines += [*self._reward_scale(), *self._snapping()]
        if self.algo not in _WITHOUT_CRITICS:
            why = "Critics begin at the mean return of the data: from zero it is a long way (some 60,000 updates)."
            lines += ["", *_comment(why), "initial_values: data"]
        lines += ["", f"# Parameters of the algorithm, and their defaults: rl-training algos {self.algo}"]
        return [*lines, "algo_kwargs: {}"]

    def _reward_scale(self) -> list[str]:
        """Rewards on the scale that exponential weights expect, where they are not."""
        spread = self.recommended.spread
        if self.algo not in _WEIGHING or spread == 0.0 or (spread is not None and 0.5 < spread / RETURN_SPAN < 2.0):
            return []
        why = "Weights of actions are exp of an advantage in units of the reward: where rewards are small they are"
        why += f" all about 1, and the data are imitated. This makes the returns span {RETURN_SPAN:,.0f}."
        if spread is None:
            why += " Leave it out if all episodes return the same."
        return [*_comment(why, "  "), "  reward_range_scaling: true"]

    def _snapping(self) -> list[str]:
        """No averages of switches."""
        if not self.switches:
            return []
        why = f"As of a switch: {listed(self.switches)}. Where a policy would average, it acts on the nearer side then."
        return [*_comment(why, "  "), "  snap_actions: true"]


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    printable = "".join(c if c.isprintable() else " " for c in text)
    return textwrap.wrap(
        printable, _WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False, break_on_hyphens=False
    )


def _counted(guess: ReasonGuess) -> str:
    """`44 rows; all after 96 rows, as by a time limit`."""
    return amount(guess.rows, "row") + (f"; {guess.why}" if guess.why else "")


def described_reason(guess: ReasonGuess) -> str:
    """What a text means, for the terminal."""
    meaning = guess.meaning or f"{TO_FILL_IN}: termination, truncation or ongoing?"
    return f"({amount(guess.rows, 'row')}): {meaning}" + (f" ({guess.why})" if guess.why else "")


def _spoken(columns: Sequence[str]) -> str:
    """`s_0 … s_3 (4 columns)`."""
    numbered = all(name[-1:].isdecimal() for name in columns)
    if len(columns) < 4 or (len(columns) <= _MOST_SPOKEN and not numbered):
        return listed(columns)
    return f"{listed(columns[:1])} … {listed(columns[-1:])} ({len(columns)} columns)"


def described(guess: Guess) -> str:
    """A guess in one line, for the terminal."""
    if guess.is_clear:
        return f"{_spoken(guess.columns)} ({guess.why})"
    choices = " or ".join(_spoken(own) if len(own) == 1 else f"[{_spoken(own)}]" for own in guess.candidates[:4])
    choices += f" or {len(guess.candidates) - 4} more" if len(guess.candidates) > 4 else ""
    return f"{TO_FILL_IN}: {choices or 'no column looks like it'} ({guess.why})"
