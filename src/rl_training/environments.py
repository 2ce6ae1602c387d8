"""Gymnasium environments: opening one, and reading the spaces this package trains on (flat Box in, bounded Box out).

Gymnasium is imported inside the functions: training from arrays or files never needs it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.errors import CheckpointError, EnvironmentFailedError, EnvironmentUnsupportedError, did_you_mean
from rl_training.validation import printable, shortened, shown

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

_SUPPORTED_OBSERVATIONS = "supported: a one-dimensional Box (flat vectors only)"
_LONGEST_NAME = 1100  # characters; data have 1000, and a place behind them where a column is wide
_LARGEST = 3.4e38  # that float32 holds
_SUPPORTED_ACTIONS = "supported: a one-dimensional Box with finite bounds (continuous actions only)"


class NamedColumn(NamedTuple):
    """What the data call one value of an observation or of an action, and the smallest and largest they have of it.

    words: those that the data have for numbers of it, with these. time: the column of dates that it is computed from.
    """

    name: str
    low: float
    high: float
    words: tuple[tuple[str, float], ...] = ()
    time: str = ""

    @classmethod
    def of_json(cls, entries: Any, width: int) -> tuple[NamedColumn, ...]:
        """What `to_json` makes of as many columns; none where nothing is told of them."""
        columns = tuple(
            cls(
                str(entry["name"]),
                float(entry["low"]),
                float(entry["high"]),
                tuple((str(word), float(number)) for word, number in dict(entry.get("words", {})).items()),
                str(entry.get("time", "")),
            )
            for entry in entries
        )
        if columns and len(columns) != width:
            raise ValueError(f"{len(columns)} names for {width} values")
        for name, low, high, words, time in columns:
            if max(len(name), len(time)) > _LONGEST_NAME or not all(
                map(math.isfinite, (low, high, *(number for _, number in words)))
            ):
                raise ValueError(f"{name[:40]!r}, {low} to {high} is no column")
            "".join([name, time, *(word for word, _ in words)]).encode()  # half a surrogate pair is a ValueError, too
        return columns

    def to_json(self) -> dict[str, Any]:
        """As JSON values; words and dates only where there are any."""
        plain: dict[str, Any] = {"name": self.name, "low": self.low, "high": self.high}
        plain |= {"words": dict(self.words)} if self.words else {}
        return plain | ({"time": self.time} if self.time else {})


@dataclass(frozen=True)
class Spaces:
    """What a policy sees and what it may do: the width of an observation and the bounds `[A]` of an action.

    obs_columns, action_columns: what the data it learned from call them, where they have names.
    """

    obs_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    obs_columns: tuple[NamedColumn, ...] = ()
    action_columns: tuple[NamedColumn, ...] = ()

    @property
    def act_dim(self) -> int:
        """Width of an action."""
        return len(self.action_low)

    def to_json(self) -> dict[str, Any]:
        """The spaces as JSON values."""
        return {
            "obs_dim": self.obs_dim,
            "action_low": list(self.action_low),
            "action_high": list(self.action_high),
            **self.columns_to_json(),
        }

    def columns_to_json(self) -> dict[str, Any]:
        """The names and ranges, where there are any."""
        columns = {"obs_columns": self.obs_columns, "action_columns": self.action_columns}
        return {kind: [column.to_json() for column in named] for kind, named in columns.items() if named}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spaces:
        """The inverse of `to_json`."""
        try:
            low = tuple(float(value) for value in data["action_low"])
            high = tuple(float(value) for value in data["action_high"])
            seen = NamedColumn.of_json(data.get("obs_columns", ()), int(data["obs_dim"]))
            done = NamedColumn.of_json(data.get("action_columns", ()), len(low))
            spaces = cls(int(data["obs_dim"]), low, high, seen, done)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            reason = shortened(f"{type(error).__name__}: {error}", 200)
            raise CheckpointError(f"spaces: stored value is malformed: {reason}") from error
        if len(low) != len(high):
            raise CheckpointError(f"spaces: action_low has {len(low)} entries, action_high has {len(high)}")
        if not 0 < spaces.obs_dim < 2**31 or not low:
            raise CheckpointError(f"spaces: {spaces.obs_dim} observed values and {len(low)} of an action cannot be")
        if not all(-_LARGEST < least < most < _LARGEST for least, most in zip(low, high, strict=True)):
            raise CheckpointError("spaces: each action_low must be below its action_high, and both finite")
        return spaces


_MISTYPED = 0.85  # of difflib's ratio: a name so like another was meant to be that one
_OWN_WAY = (
    "to use one of your own, call gymnasium.register(…) in a program and load_policy(RUN).evaluate(env_id=…) there"
)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def make_env(env_id: str, **kwargs: Any) -> Env:
    """Open an environment; whatever keeps it from opening is told in one line."""
    import gymnasium

    from rl_training.guarded_environment import GuardedEnvironment, OwnDefaultType, in_words

    if not isinstance(env_id, str):
        raise EnvironmentUnsupportedError(
            f"env_id: must be an environment's name, such as 'Pendulum-v1', got {shown(env_id)}"
        )
    module = env_id.rpartition(":")[0]
    if module and module not in sys.modules:  # Gymnasium would import it, and env_id may be a stranger's
        raise EnvironmentUnsupportedError(
            f"environment {printable(env_id)!r}: no module is imported because a configuration names it; import"
            " it in a program of your own first, or let its package register the environment with Gymnasium"
        )
    try:
        with (default_type := OwnDefaultType()):
            env = gymnasium.make(env_id, **kwargs)
        return GuardedEnvironment(env, env_id, default_type)
    except gymnasium.error.UnregisteredEnv as error:
        suggestion = did_you_mean(env_id, gymnasium.registry)
        reason = suggestion or f": {_one_line(error).removesuffix('.')}"
        if not any(
            SequenceMatcher(None, env_id[:_LONGEST_NAME], known).ratio() > _MISTYPED for known in gymnasium.registry
        ):
            reason += f"; without a simulator, leave env_id out; {_OWN_WAY}"
        raise EnvironmentUnsupportedError(f"unknown environment {env_id!r}{reason}") from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        reason = _one_line(error)
        raise EnvironmentUnsupportedError(f"environment {env_id!r} needs a missing package: {reason}") from error
    except (gymnasium.error.Error, TypeError, ValueError) as error:
        raise EnvironmentUnsupportedError(f"environment {env_id!r} cannot be opened: {_one_line(error)}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise EnvironmentFailedError(f"environment {env_id!r} cannot be opened: {in_words(error)}") from error


def env_spaces(env: Env) -> Spaces:
    """The spaces of an open environment; any that cannot be trained on is refused by name."""
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    obs_dim = _observation_width(name, env.observation_space)
    low, high = _action_bounds(name, env.action_space)
    return Spaces(obs_dim=obs_dim, action_low=low, action_high=high)


def read_spaces(env_id: str) -> Spaces:
    """Open an environment, read its spaces and close it."""
    env = make_env(env_id)
    try:
        return env_spaces(env)
    finally:
        env.close()


def observation_bounds(env: Env) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """The lowest and highest observation `[O]` of an open environment, infinite where there is no limit; None where
    observations are not flat vectors."""
    from gymnasium import spaces

    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return None
    return np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)


def _observation_width(name: str, space: Any) -> int:
    from gymnasium import spaces

    remedy = ""
    if isinstance(space, spaces.Box):
        if len(space.shape) == 1 and space.shape[0] > 0:
            return int(space.shape[0])
        found = f"Box of shape {space.shape}"
        # Flattening pixels would open the door to MLPs on images, which do not learn.
        if len(space.shape) == 2:
            remedy = "; wrap it in gymnasium.wrappers.FlattenObservation"
    else:
        found = _describe(space)
        if isinstance(space, spaces.Dict | spaces.Tuple) and space.is_np_flattenable:
            remedy = "; wrap it in gymnasium.wrappers.FlattenObservation"
    raise EnvironmentUnsupportedError(
        f"environment {name!r}: observation space is {found}; {_SUPPORTED_OBSERVATIONS}{remedy}"
    )


def _action_bounds(name: str, space: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    from gymnasium import spaces

    def refuse(found: str, remedy: str = "") -> EnvironmentUnsupportedError:
        return EnvironmentUnsupportedError(
            f"environment {name!r}: action space is {found}; {_SUPPORTED_ACTIONS}{remedy}"
        )

    if not isinstance(space, spaces.Box):
        raise refuse(_describe(space))
    if len(space.shape) != 1 or space.shape[0] == 0:
        raise refuse(f"Box of shape {space.shape}")
    if not np.issubdtype(space.dtype, np.floating):
        raise refuse(f"Box of dtype {space.dtype}")
    low, high = np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)
    for column, (least, most) in enumerate(zip(low, high, strict=True)):
        if not (np.isfinite(least) and np.isfinite(most)):
            remedy = "; wrap it in gymnasium.wrappers.RescaleAction or ClipAction with finite bounds"
            raise refuse(f"a Box with bounds [{least:g}, {most:g}] in dimension {column}", remedy)
        if least >= most:
            raise refuse(f"a Box with low {least:g} >= high {most:g} in dimension {column}")
    return tuple(low.tolist()), tuple(high.tolist())


def _describe(space: Any) -> str:
    """A space in at most a short line: nested spaces can print as pages."""
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"a {type(space).__name__} space"
