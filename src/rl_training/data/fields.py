"""The fields of a transition and the names files give them."""

from __future__ import annotations

FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "obs": ("observations", "observation"),
    "actions": ("action",),
    "rewards": ("reward",),
    "next_obs": ("next_observations", "next_observation"),
    "terminations": ("termination", "terminals", "terminal", "terminated", "dones", "done"),
    "truncations": ("truncation", "truncated", "timeouts", "timeout"),
    "next_actions": ("next_action",),
    "returns_to_go": (),
    "has_next_obs": (),
}
FIELD_OF = {alias: name for name, aliases in FIELD_ALIASES.items() for alias in (name, *aliases)}
REQUIRED_FIELDS = ("obs", "actions", "rewards", "terminations")
EPISODE_ENDS = "episode_terminals"  # d3rlpy's name for the last row of every episode, however it ended
IGNORED_PREFIXES = ("infos", "metadata")  # side information in D4RL's files
