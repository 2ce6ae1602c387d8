"""What was guessed of a table: a field, the columns that hold it, and why."""

from __future__ import annotations

from dataclasses import dataclass

from rl_training.reading_choices import DonesAre, RewardsAre


@dataclass(frozen=True)
class Guess:
    """A field (or `dones`, `step`) and its columns; none where it is unclear, with the candidates for it."""

    field: str
    columns: tuple[str, ...]
    why: str
    candidates: tuple[tuple[str, ...], ...] = ()
    found_by_name: bool = False  # the reader finds it without being told

    @property
    def is_clear(self) -> bool:
        return bool(self.columns)


@dataclass(frozen=True)
class Guesses:
    """Every field that was found or is needed, in the order of a transition, and the columns left over."""

    fields: tuple[Guess, ...]
    left: tuple[str, ...]
    dones_are: DonesAre | None = None  # where the names tell what the only flag of ends means
    rewards_are: RewardsAre | None = None  # where the name of the rewards tells that they are costs
    late: tuple[str, ...] = ()  # columns of numbers that stand in last rows of episodes alone

    def column_of(self, field: str) -> str | None:
        """The one column of a field that was found."""
        return next((guess.columns[0] for guess in self.fields if guess.field == field and guess.is_clear), None)

    @property
    def scored_at_ends(self) -> bool:
        """Whether the reward, or what may be it, is one of a whole episode, which its last row has."""
        rewards = [guess for guess in self.fields if guess.field == "rewards"]
        names = {name for guess in rewards for columns in (guess.columns, *guess.candidates) for name in columns}
        return not names.isdisjoint(self.late)

    @property
    def unclear(self) -> list[Guess]:
        return [guess for guess in self.fields if not guess.is_clear]
