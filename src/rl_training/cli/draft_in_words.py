"""What `rl-training init` says on the terminal: what it found, what it wrote, and what to do next."""

from __future__ import annotations

from pathlib import Path

from rl_training.cli.config_draft import Draft, described, described_reason
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import beside
from rl_training.cli.word_columns import numbers_of
from rl_training.data.fields import END_REASONS, TO_FILL_IN
from rl_training.data.formats.names import first_of, listed
from rl_training.data.formats.words import in_words
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.paths import free_names, in_shell
from rl_training.reading_choices import SIGNS_OF_REWARDS
from rl_training.validation import printable

_ENOUGH = 20  # episodes: a quarter of fewer tells little


def tell_draft(draft: Draft, output: Path, dataset: TransitionDataset | None) -> None:
    """On the terminal. dataset: as the file reads it; none where something is left to be done first."""
    lines = [draft.found]
    if draft.by_position:
        lines += ["  no header line; columns by position begin with", *(f"    {line}" for line in draft.by_position)]
    for guess in draft.guesses.fields:
        lines += beside(f"  {guess.field}", described(guess), 16)
        for text, reason in draft.reasons.items() if guess.field == END_REASONS else ():
            lines += beside("", f"{printable(text) or 'empty'} {described_reason(reason)}", 18)
    if draft.missing_words:
        words = listed(draft.missing_words)
        lines += beside(
            "  missing_words", f"{words} (a few cells among numbers; guessed to stand for missing ones)", 16
        )
    if draft.guesses.rewards_are is not None:
        lines += beside("  rewards_are", f"{draft.guesses.rewards_are} (lower is better)", 16)
    elif draft.sign_is_open:
        lines += beside("  rewards_are", f"{TO_FILL_IN}: {SIGNS_OF_REWARDS}?", 16)
    if draft.days is not None and draft.days.is_clear:
        lines += beside("  episode_each", f"day ({draft.days.why})", 16)
        lines += beside("  observe_time", "day (as sin_day and cos_day, behind obs)", 16)
    elif draft.days is not None:
        lines += beside("  days", "episode_each: day and observe_time: [day] may suit, see the comment there", 16)
    for name, numbers in numbers_of(draft.words).items():
        lines += beside("  words", f"{printable(name)}: {in_words(numbers)}", 16)
    if draft.unused:
        lines += beside("  not used", first_of(draft.unused), 16)
    for note in draft.notes:
        lines += beside("  note", note, 16)
    lines += beside("  algorithm", f"{draft.recommended.algo} ({draft.recommended.why})", 16)
    lines.append(f"written: {output}")
    if draft.to_fill_in:
        lines.append(f"to fill in: {', '.join(draft.to_fill_in)} in {output}, marked {TO_FILL_IN}")
    lines += _next_steps(draft, in_shell(output), dataset)
    tell("\n".join(lines))


def _next_steps(draft: Draft, config: str, dataset: TransitionDataset | None) -> list[str]:
    steps = [f"data check -c {config}"]
    if draft.env_id is None and (dataset is None or _is_worth_splitting(dataset)):
        rest, aside = free_names("train.csv", "aside.csv")
        steps.append(f"data split -c {config} -o {rest} {aside}  # no simulator: some episodes to judge by")
        steps += [f"train -c {config} --set dataset={rest}", f"evaluate RUN --offline --data {aside}"]
    else:
        steps.append(f"train -c {config}")
    first = "then: " if draft.to_fill_in else "next: "
    return [f"{' ' * len(first) if at else first}rl-training {step}" for at, step in enumerate(steps)]


def _is_worth_splitting(dataset: TransitionDataset) -> bool:
    """Whether there are episodes to spare, and none were set aside yet."""
    if dataset.provenance is not None and dataset.provenance.split() is not None:
        return False
    return dataset.whole_episodes and dataset.n_episodes >= _ENOUGH
