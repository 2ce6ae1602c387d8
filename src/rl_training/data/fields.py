"""The fields of a transition and the names files give them."""

from __future__ import annotations

import re
from collections.abc import Container

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
REQUIRED_FIELDS = ("obs", "actions", "rewards", "terminations")
EPISODE_ENDS = "episode_terminals"  # d3rlpy's name for the last row of every episode, however it ended
EPISODE_IDS = "episode_ids"
IGNORED_PREFIXES = ("infos", "metadata")  # side information in D4RL's files
# Marks that files carry beside the fields.
BORDERS_LOST = "borders_lost"  # a saved selection whose rows are no longer whole episodes
DISCRETE_ACTIONS = "discrete_action"  # d3rlpy's: set where actions are the numbers of choices

STEP = "step"  # the number of a row inside its episode; not a field of a transition, but it tells their order
# What columns of other names often hold, without the separators in them.
_NUMBER = "(id|idx|index|no|num|number)?"
_LIKE_IDS = re.compile(f"(ep|eps|episode|traj|trajectory|rollout|run|trial|demo|seq|sequence){_NUMBER}")
_LIKE_STEPS = re.compile(f"(t|step|steps|time|timestep|timesteps|timestamp|frame|tick){_NUMBER}")


def hint(name: str, known: Container[str]) -> str | None:
    """What an unused column or array looks like, by its name, if that is not `known` already."""
    bare = "".join(character for character in name.lower() if character.isalnum())
    for field, like, words in ((EPISODE_IDS, "an episode id", _LIKE_IDS), (STEP, "a step counter", _LIKE_STEPS)):
        if field not in known and words.fullmatch(bare):
            return f"column {name!r} looks like {like}: columns: {{{field}: {name if name.isprintable() else '…'}}}"
    return None
