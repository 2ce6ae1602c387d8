"""What is done to observations, rewards and actions before a network sees them, and undone in `predict`.

Fitted once on the dataset, stored in the checkpoint. Scores are always reported on the raw reward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from rl_training.data.action_gaps import ActionGap, Gaps, find_gaps, snap
from rl_training.data.checks import FloatArray
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.statistics import mean_and_deviation
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.validation import Section, shortened

# IQL (Kostrikov et al. 2021) rescales MuJoCo rewards so that episode returns span 1000.
RETURN_SPAN = 1000.0
_LEAST_SPREAD = 1e-30  # whose reciprocal float32 holds

ACTION_EDGE = 1e-5  # dataset actions are kept this far inside ±1, where atanh is finite (IQL, RLPD, jaxrl)


class TransformConfig(Section):
    """The `transforms:` section: which transforms to fit."""

    normalise_observations: bool = Field(
        default=False, description="Scale observations to zero mean and unit deviation over the dataset."
    )
    observation_eps: float = Field(default=1e-3, gt=0.0, description="Added to each observation's standard deviation.")
    reward_scale: float = Field(default=1.0, gt=0.0, description="Factor on every reward: r' = scale * r + shift.")
    reward_shift: float = Field(default=0.0, description="Added to every reward after scaling: r' = scale * r + shift.")
    reward_range_scaling: bool = Field(
        default=False,
        description="Also scale rewards by 1000 / (largest - smallest episode return), as IQL does on MuJoCo tasks.",
    )
    reward_clip: tuple[float, float] | None = Field(
        default=None, description="Lowest and highest reward the networks see, after scale and shift."
    )
    snap_actions: bool = Field(
        default=False,
        description="Move an action between the settings of a switch, where no recorded one lies, to the nearer one.",
    )

    @model_validator(mode="after")
    def _clips_upwards(self) -> TransformConfig:
        if self.reward_clip is not None and not self.reward_clip[0] < self.reward_clip[1]:
            raise ValueError("reward_clip must be [lowest, highest], the lower first")
        return self


@dataclass(frozen=True)
class Transforms:
    """`s' = (s - obs_mean) / obs_std`, `r' = clip(reward_scale * r + reward_shift)`, actions to and from [-1, 1].

    `obs_std` is the divisor itself, epsilon included. None for both observation statistics leaves observations as
    they are. The methods take and return numpy arrays with any leading axes, float32 out.
    """

    obs_mean: tuple[float, ...] | None
    obs_std: tuple[float, ...] | None
    reward_scale: float
    reward_shift: float
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    reward_clip: tuple[float, float] | None = None
    action_gaps: Gaps = ()  # in the environment's units; a policy's actions are moved out of them

    def __post_init__(self) -> None:
        if (self.obs_mean is None) != (self.obs_std is None):
            raise ValueError("obs_mean and obs_std are given together or not at all")
        if self.obs_mean is not None and self.obs_std is not None and len(self.obs_mean) != len(self.obs_std):
            raise ValueError(f"obs_mean has {len(self.obs_mean)} entries, obs_std has {len(self.obs_std)}")
        if len(self.action_low) != len(self.action_high):
            raise ValueError(f"action_low has {len(self.action_low)} entries, action_high {len(self.action_high)}")

    @cached_property
    def _standardisation(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        if self.obs_mean is None or self.obs_std is None:
            return None
        return np.asarray(self.obs_mean, dtype=np.float64), np.asarray(self.obs_std, dtype=np.float64)

    @cached_property
    def _action_bounds(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        return np.asarray(self.action_low, dtype=np.float64), np.asarray(self.action_high, dtype=np.float64)

    def observations(self, x: npt.ArrayLike) -> FloatArray:
        """Raw observations `[..., O]` to what the networks see."""
        if self._standardisation is None:
            return np.asarray(x, dtype=np.float32)
        mean, divisor = self._standardisation
        # In float64: a mean far larger than the deviation would otherwise lose the digits that matter.
        return ((np.asarray(x, dtype=np.float64) - mean) / divisor).astype(np.float32)

    def rewards(self, r: npt.ArrayLike) -> FloatArray:
        """Raw rewards `[...]` to the training signal."""
        scaled = self.reward_scale * np.asarray(r, dtype=np.float64) + self.reward_shift
        if self.reward_clip is not None:
            scaled = np.clip(scaled, *self.reward_clip)
        return np.asarray(scaled, dtype=np.float32)

    @property
    def pure_reward_scale(self) -> float | None:
        """The factor on rewards, where nothing else is done to them: sums of the networks' rewards are then raw ones
        times this."""
        return self.reward_scale if self.reward_shift == 0.0 and self.reward_clip is None else None

    def to_unit_actions(self, a: npt.ArrayLike) -> FloatArray:
        """Environment actions `[..., A]` to [-1, 1], clipped `ACTION_EDGE` inside: all networks see the same action."""
        low, high = self._action_bounds
        unit = 2.0 * (np.asarray(a, dtype=np.float64) - low) / (high - low) - 1.0
        return np.asarray(np.clip(unit, -1.0 + ACTION_EDGE, 1.0 - ACTION_EDGE), dtype=np.float32)

    def from_unit_actions(self, a: npt.ArrayLike) -> FloatArray:
        """Actions in [-1, 1], `[..., A]`, to the environment's range: clipped into its bounds, moved out of gaps."""
        low, high = self._action_bounds
        actions = low + 0.5 * (np.asarray(a, dtype=np.float64) + 1.0) * (high - low)
        return snap(np.asarray(np.minimum(np.maximum(actions, low), high), dtype=np.float32), self.action_gaps)

    def as_done(self, a: FloatArray) -> FloatArray:
        """Actions in [-1, 1], `[..., A]`, as they are carried out: moved out of gaps, else as they are."""
        return self.to_unit_actions(self.from_unit_actions(a)) if self.action_gaps else a

    def to_json(self) -> dict[str, Any]:
        """The transforms as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Transforms:
        """The inverse of `to_json`."""

        def numbers(name: str) -> tuple[float, ...]:
            return tuple(float(value) for value in data[name])

        try:
            return cls(
                obs_mean=None if data["obs_mean"] is None else numbers("obs_mean"),
                obs_std=None if data["obs_std"] is None else numbers("obs_std"),
                reward_scale=float(data["reward_scale"]),
                reward_shift=float(data["reward_shift"]),
                action_low=numbers("action_low"),
                action_high=numbers("action_high"),
                reward_clip=None if data["reward_clip"] is None else _pair(data["reward_clip"]),
                action_gaps=tuple(_gap(*stored) for stored in data.get("action_gaps", ())),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            reason = shortened(f"{type(error).__name__}: {error}", 200)
            raise CheckpointError(f"transforms: stored value is malformed: {reason}") from error

    def require_widths(self, spaces: Spaces) -> None:
        """Refuse stored transforms that are not for these spaces, or not of finite numbers."""
        widths = {"obs_mean": spaces.obs_dim, "obs_std": spaces.obs_dim}
        widths |= {"action_low": spaces.act_dim, "action_high": spaces.act_dim}
        for name, value in asdict(self).items():
            if name == "action_gaps":
                continue
            numbers = value if isinstance(value, tuple) else () if value is None else (value,)
            if value is not None and len(numbers) != widths.get(name, len(numbers)):
                raise CheckpointError(f"transforms.{name}: has {len(numbers)} entries, expected {widths[name]}")
            if not all(math.isfinite(number) and abs(number) < 3.4e38 for number in numbers):  # what float32 holds
                raise CheckpointError(f"transforms.{name}: is not finite")
        if self.obs_std is not None and not min(self.obs_std) > 0.0:
            raise CheckpointError("transforms.obs_std: must be above 0")
        for column, low, high in self.action_gaps:
            if not (0 <= column < spaces.act_dim and -3.4e38 < low < high < 3.4e38):
                raise CheckpointError(f"transforms.action_gaps: [{column}, {low:g}, {high:g}] is no range of an action")


def fit_transforms(dataset: TransitionDataset, spaces: Spaces, config: TransformConfig) -> Transforms:
    """Fit the configured transforms: observation statistics over `obs`, reward range over raw episode returns."""
    mean: tuple[float, ...] | None = None
    divisor: tuple[float, ...] | None = None
    if config.normalise_observations:
        centre, deviation = mean_and_deviation(dataset.obs)
        mean, divisor = tuple(centre.tolist()), tuple((deviation + config.observation_eps).tolist())
    scale = config.reward_scale
    if config.reward_range_scaling:
        scale *= _range_scale(dataset)
    return _that_can_be_stored(
        Transforms(
            obs_mean=mean,
            obs_std=divisor,
            reward_scale=scale,
            reward_shift=config.reward_shift,
            action_low=spaces.action_low,
            action_high=spaces.action_high,
            reward_clip=config.reward_clip,
            action_gaps=_gaps_inside(dataset, spaces) if config.snap_actions else (),
        ),
        spaces,
    )


def _that_can_be_stored(transforms: Transforms, spaces: Spaces) -> Transforms:
    """Refuse what no checkpoint could be loaded with, before anything is trained on it."""
    try:
        transforms.require_widths(spaces)
    except CheckpointError as error:
        cure = "leave out columns or rows whose values stand for nothing, or the transform that asks for it"
        raise DataError(
            f"{error}: values of the data, or of the configuration, are too large or too small; {cure}"
        ) from None
    return transforms


def divisor_of(spread: float) -> float:
    """What brings values that spread so far to a spread of 1, as far as float32 can; 1 where nothing spreads."""
    return max(spread or 1.0, _LEAST_SPREAD)


def _gaps_inside(dataset: TransitionDataset, spaces: Spaces) -> Gaps:
    """No further than the bounds, which recorded actions may leave by a hair."""
    bounds = list(zip(spaces.action_low, spaces.action_high, strict=True))
    gaps = [
        ActionGap(column, *(min(max(end, bounds[column][0]), bounds[column][1]) for end in (low, high)))
        for column, low, high in find_gaps(dataset.actions)
    ]
    return tuple(gap for gap in gaps if gap.low < gap.high)


def transforms_without_data(spaces: Spaces, config: TransformConfig) -> Transforms:
    """What can be done to observations, rewards and actions that are yet to come."""
    if config.normalise_observations or config.reward_range_scaling or config.snap_actions:
        raise ConfigError("transforms: statistics of a dataset are asked for, but there is no dataset")
    scale, shift, clip = config.reward_scale, config.reward_shift, config.reward_clip
    return _that_can_be_stored(
        Transforms(None, None, scale, shift, spaces.action_low, spaces.action_high, clip), spaces
    )


def _range_scale(dataset: TransitionDataset) -> float:
    if not dataset.whole_episodes:
        raise DataError("reward_range_scaling: needs whole episodes in order; the rows were sampled or reordered")
    returns = dataset.episode_returns()
    span = float(returns.max() - returns.min())
    if span <= 0.0:
        raise DataError(
            f"rewards: all {len(returns)} episode returns equal {returns[0]:g}, so reward_range_scaling has no range;"
            " turn it off"
        )
    return RETURN_SPAN / span


def _pair(stored: Any) -> tuple[float, float]:
    low, high = map(float, stored)
    return low, high


def _gap(column: Any, low: Any, high: Any) -> ActionGap:
    return ActionGap(int(column), float(low), float(high))
