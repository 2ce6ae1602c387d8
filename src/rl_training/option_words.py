"""Options of reading data as messages name them, and how a name of the user's is told from one: it stands in quotes."""

from __future__ import annotations

import re

# Those that messages name alone, too: "give action_low and action_high".
NAMED_ALONE = (
    *("dones_are", "max_episode_steps", "end_reasons", "action_low", "action_high"),
    *("episode_each", "observe_time", "last_rows_are"),
)
# Those that are only named with what to say: "missing: drop".
NAMED_WITH_VALUES = (
    *("columns", "rewards_are", "rewards_at", "at_termination"),
    *("missing", "duplicates", "missing_words", "words", "download"),
)
_LIKE_AN_OPTION = re.compile(rf"\b(?:(?:{'|'.join(NAMED_ALONE)})\b|(?:{'|'.join(NAMED_WITH_VALUES)}): )")
# What messages quote: texts, in either way, and commands.
QUOTED = r"(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)", r'(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)', r"`[^`]*`"
_WHOLE_QUOTES = re.compile("|".join(QUOTED))
_OPENS_A_QUOTE = re.compile(r"(?<!\w)['\"`]|['\"`](?!\w)")


def needs_quotes(name: str) -> bool:
    """Whether a user's name or text, put into a message as it is, would read as an option, or as one end of a quote."""
    return bool(_LIKE_AN_OPTION.search(name) or _OPENS_A_QUOTE.search(_WHOLE_QUOTES.sub("", name)))
