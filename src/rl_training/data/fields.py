"""The fields of a transition and the names files give them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from difflib import get_close_matches
from typing import Any

from rl_training.data.guess_words import folded
from rl_training.yaml_dialect import proposed

FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "obs": ("observations", "observation"),
    "actions": ("action", "act"),
    "rewards": ("reward", "rew"),
    "next_obs": ("next_observations", "next_observation", "new_obs", "obs_next"),
    "terminations": ("termination", "terminals", "terminal", "terminated", "terminateds", "dones", "done"),
    "truncations": ("truncation", "truncated", "truncateds", "timeouts", "timeout"),
    "next_actions": ("next_action",),
    "returns_to_go": (),
    "has_next_obs": (),
    "part_ids": (),
    # How logs tell where episodes end; both become terminations and truncations when they are read.
    "episode_terminals": (),
    "episode_ids": ("episode_id", "eps_id", "episode"),
}
FIELD_OF = {alias: name for name, aliases in FIELD_ALIASES.items() for alias in (name, *aliases)}
PARTS = "part_ids"  # of a mixture, in files of this package alone
REQUIRED_FIELDS = ("obs", "actions", "rewards", "terminations")
EPISODE_ENDS = "episode_terminals"  # d3rlpy's name for the last row of every episode, however it ended
EPISODE_IDS = "episode_ids"
TELL_ENDS = ("terminations", "truncations", EPISODE_ENDS, EPISODE_IDS)
IGNORED_PREFIXES = ("infos", "metadata")  # side information in D4RL's files
# Marks that files carry beside the fields.
BORDERS_LOST = "borders_lost"  # a saved selection whose rows are no longer whole episodes
DISCRETE_ACTIONS = "discrete_action"  # d3rlpy's: set where actions are the numbers of choices


def are_parts(names: Container[str]) -> bool:
    """Whether `part_ids` among these names are those of a mixture that was saved here, with flags as they are written
    here; elsewhere they may be the numbers of workpieces."""
    written = (("terminations", "truncations"), ("terminals", "timeouts"))  # the latter in HDF5
    return any(all(flag in names for flag in flags) for flags in written)


def missing_fields(given: Container[str]) -> list[str]:
    """The required fields that are not among the given ones; ends of episodes may be told in place of terminations."""
    ends_known = EPISODE_IDS in given or EPISODE_ENDS in given
    return [name for name in REQUIRED_FIELDS if name not in given and not (name == "terminations" and ends_known)]


def what_is_missing(missing: list[str], given: Mapping[str, Any]) -> str:
    """One line on required fields that were not given, or are None."""
    none = [str(key) for key, value in given.items() if value is None and FIELD_OF.get(key) in missing]
    if none:
        are = "is None; give an array of it" if len(none) == 1 else "are None; give arrays of them"
        return f"dataset: {', '.join(none)} {are}, one row per transition"
    return f"dataset lacks {', '.join(missing)}; found {', '.join(map(str, given)) or 'nothing'}"


TO_FILL_IN = "TODO"  # stands in a mapping of columns for what its user must still say
STEP = "step"  # the number of a row inside its episode; not a field of a transition, but it tells their order
FILE_NAME = "file_name"  # stands for the file of each row, where a folder has several and no column of that name
END_REASONS = "end_reasons"  # text that says why an episode ended; no field either, it becomes the flags
# What columns of other names often hold, without the separators in them.
_NUMBER = "(id|idx|index|no|num|number|nr|nummer|numero)?"
_LIKE_IDS = re.compile(
    "(ep|eps|episode|traj|trajectory|rollout|run|trial|demo|seq|sequence|trip|session|game|match|patient|batch|flight"
    "|cycle|case|stay|admission|encounter|lauf|durchlauf|versuch|versuchs|durchgang|fahrt|spiel|chargen|essai|episodio"
    f"|ensayo){_NUMBER}"
)
_PERHAPS_IDS = re.compile(f"(charge|lot|los){_NUMBER}")
_UNIT = "(s|sec|secs|seconds|ms|us|ns|min|mins|minutes|h|hours|utc|local)?"
_LIKE_STEPS = re.compile(
    "(t|step|steps|time|timestep|timesteps|timestamp|timestamps|frame|tick|ts|datetime|date|elapsed|schritt|zeitschritt"
    f"|zeit|zeitstempel|datum|uhrzeit|pas|tiempo|paso|fecha){_NUMBER}{_UNIT}"
)
_PERHAPS_STEPS = re.compile(
    "(turn|move|minute|minutes|hour|hours|day|days|sample|row|n|i|k|count|counter|index|minuten|stunde|stunden|tag|tage"
    f"|zeile|zaehler|takt|heure|jour|hora){_NUMBER}"
)

_ALIKE = 0.9  # of difflib's ratio: a letter or two of a long name


def _bare(name: str) -> str:
    return "".join(character for character in folded(name) if character.isalnum())


def looks_like(name: str) -> str | None:
    """`episode_ids` or `step`, if a name is one that columns of them often have."""
    bare = _bare(name)
    return EPISODE_IDS if _LIKE_IDS.fullmatch(bare) else STEP if _LIKE_STEPS.fullmatch(bare) else None


def may_be_ids(name: str) -> bool:
    """Whether a column with this name may tell episodes apart; `Charge` is a batch in German."""
    return _PERHAPS_IDS.fullmatch(_bare(name)) is not None


def may_be_step(name: str) -> bool:
    """Whether a column with this name may count steps; `hour` may as well be the time of the day."""
    return _PERHAPS_STEPS.fullmatch(_bare(name.rpartition("/")[2])) is not None


def leaving(field: str | None) -> str:
    """What to say besides of a column that is wrong for a field which it was taken for by its name alone."""
    return "" if field is None else f"; if it is something else, columns: {{{field}: []}} leaves it alone"


def hint(name: str, known: Container[str]) -> str | None:
    """What an unused column or array looks like, by its name, if that is not `known` already."""
    for field, like in ((EPISODE_IDS, "an episode id"), (STEP, "a step counter")):
        if field not in known and looks_like(name) == field:
            return f"column {name!r} looks like {like}: columns: {proposed(field, name)}"
    absent = [alias for alias, field in FIELD_OF.items() if field not in known and field != PARTS]
    for alias in get_close_matches(name.lower(), absent, 1, _ALIKE):
        return f"column {name!r} looks like {FIELD_OF[alias]}: columns: {proposed(FIELD_OF[alias], name)}"
    return None
