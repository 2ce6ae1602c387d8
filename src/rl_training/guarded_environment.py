"""An environment whose failures are told as its own: what it raises, that it ends the process, where in an episode."""

from __future__ import annotations

import math
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np

from rl_training.errors import EnvironmentFailedError, RLTrainingError

_LARGEST = 3.4e38  # that float32 holds
_LONGEST = 300  # characters of what an environment says of its failure


class OwnDefaultType:
    """torch's default type as an environment has set it for itself: within this it holds, outside never.

    A simulator may compute in float64; networks that are built and checkpoints that are judged beside it do not. A
    default device of the program's holds within this, too, though training goes without."""

    def __init__(self) -> None:
        self._own: Any = None  # none yet
        self._modes: Any = None
        self._within: Any = None
        self._outside: Any = None

    def __enter__(self) -> None:
        torch = sys.modules.get("torch")
        self._outside = self._within = None if torch is None else torch.get_default_dtype()
        if torch is not None and self._own not in (None, self._outside):
            self._within = self._own
            torch.set_default_dtype(self._own)
        if torch is not None and torch._C._is_torch_function_all_disabled():
            self._modes = torch._C._EnableTorchFunction()
            self._modes.__enter__()

    def __exit__(self, *_: object) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return
        if self._modes is not None:
            self._modes.__exit__(None, None, None)
            self._modes = None
        outside = torch.float32 if self._outside is None else self._outside  # it was imported within
        left = torch.get_default_dtype()
        if left is not self._within:
            self._own = left
        if left is not outside:
            torch.set_default_dtype(outside)


class GuardedEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes everything on; whatever a call raises becomes one line that names the environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, default_type: OwnDefaultType) -> None:
        """default_type: within which it was made."""
        super().__init__(env)
        self.name = name
        self._default_type = default_type
        self._shape = self.observation_space.shape
        self._steps = 0  # of the episode that is played

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        try:
            with self._default_type:
                obs, info = self.env.reset(seed=seed, options=options)
            self._require_numbers(obs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(f"at reset (seed {seed})", error)
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        try:
            with self._default_type:
                obs, reward, terminated, truncated, info = self.env.step(action)
            self._require_numbers(obs)
            reward = _number(reward, "a reward", "a number is")
            if _LARGEST < abs(reward) < math.inf:
                raise ValueError(f"a reward of {reward:g}, which float32 does not hold")
            return obs, reward, _flag(terminated, "terminated"), _flag(truncated, "truncated"), info
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(f"at step {self._steps} of an episode", error)

    def _require_numbers(self, obs: Any) -> None:
        values = np.asarray(obs)
        if values.shape != self._shape:
            raise ValueError(f"an observation of shape {values.shape}, where its space has {self._shape}")
        if values.dtype.kind not in "biuf":
            raise ValueError(f"an observation of {values.dtype}, where numbers are expected")

    def close(self) -> None:
        """What was wanted of it is done by now, or its real failure has been told."""
        try:
            self.env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            warnings.warn(f"environment {self.name!r} could not be closed: {in_words(error)}", stacklevel=2)

    def _fail(self, where: str, error: BaseException) -> NoReturn:
        if isinstance(error, RLTrainingError):
            raise error
        raise EnvironmentFailedError(f"environment {self.name!r} failed {where}: {in_words(error)}") from error


def _flag(value: Any, name: str) -> bool:
    """What is true or false, or 1 or 0. Anything is either to Python: NaN and `"False"` are true."""
    if isinstance(value, bool):
        return value
    expected = "true or false are"
    if (number := _number(value, name, expected)) not in (0.0, 1.0):
        raise ValueError(f"{name} of {number:g}, where {expected} expected")
    return bool(number)


def _number(value: Any, what: str, expected: str) -> float:
    answer = np.asarray(value)
    if answer.dtype.kind not in "biuf":
        raise ValueError(f"{what} of {_said(repr, value)} ({type(value).__name__}), where {expected} expected")
    return float(answer.item())


def in_words(error: BaseException) -> str:
    """What was raised and where, for a program that is not ours: `ValueError: too deep (pool.py, line 12)`."""
    if isinstance(error, SystemExit):
        text = f"it called sys.exit({'' if error.code is None else _said(repr, error.code)})"
    else:
        said = _said(str, error)
        text = f"{type(error).__name__}{f': {said}' if said else ''}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else text


def _said(put: Callable[[Any], str], value: Any) -> str:
    """What the value says of itself, in one line, if it can."""
    try:
        return " ".join(put(value).split())[:_LONGEST]
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
