"""An environment whose failures are told as its own: what it raises, that it ends the process, where in an episode."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np

from rl_training.errors import EnvironmentFailedError, RLTrainingError

_LONGEST = 300  # characters of what an environment says of its failure


class GuardedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes everything on; whatever a call raises becomes one line that names the environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self.name = name
        self._shape = self.observation_space.shape
        self._steps = 0  # of the episode that is played

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        try:
            obs, info = self.env.reset(seed=seed, options=options)
            self._require_shape(obs)
        except (Exception, SystemExit) as error:
            self._fail(f"at reset (seed {seed})", error)
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
            self._require_shape(obs)
            return obs, float(reward), bool(terminated), bool(truncated), info
        except (Exception, SystemExit) as error:
            self._fail(f"at step {self._steps} of an episode", error)

    def _require_shape(self, obs: Any) -> None:
        if np.shape(obs) != self._shape:
            raise ValueError(f"an observation of shape {np.shape(obs)}, where its space has {self._shape}")

    def close(self) -> None:
        """What was wanted of it is done by now, or its real failure has been told."""
        try:
            self.env.close()
        except (Exception, SystemExit) as error:
            warnings.warn(f"environment {self.name!r} could not be closed: {in_words(error)}", stacklevel=2)

    def _fail(self, where: str, error: BaseException) -> NoReturn:
        if isinstance(error, RLTrainingError):
            raise error
        raise EnvironmentFailedError(f"environment {self.name!r} failed {where}: {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """What was raised and where, for a program that is not ours: `ValueError: too deep (pool.py, line 12)`."""
    if isinstance(error, SystemExit):
        text = f"it called sys.exit({'' if error.code is None else error.code!r})"
    else:
        said = " ".join(str(error).split())[:_LONGEST]
        text = f"{type(error).__name__}{f': {said}' if said else ''}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text
