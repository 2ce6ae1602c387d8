"""The bounds of actions and observations that data were recorded in, as files and environments tell them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import le
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import Float64Array, FloatArray, as_bound, column_extremes, inferred_bounds, rounding_slack
from rl_training.environments import Spaces, env_spaces, make_env, observation_bounds
from rl_training.errors import DataError
from rl_training.reading_choices import Side
from rl_training.wording import amount

if TYPE_CHECKING:
    from rl_training.environments import Env

Numbers: TypeAlias = tuple[float, ...]
_OBSERVED = "actions_observed"
TOLD = ("env_id", "action_low", "action_high", "obs_low", "obs_high", _OBSERVED)  # the names that files tell them under
_LARGEST = 3.3e38  # that float32 holds, and a checkpoint; beyond it there is no limit
_LONGEST_ID = 200  # characters


@dataclass(frozen=True)
class SpaceBounds:
    """Smallest and largest actions `[A]` and observations `[O]`; None where nothing is told, infinite: no limit.

    by_user: the bounds of actions were said by whoever reads the data. An action outside is then refused; bounds that a
    file tells give way to its actions. actions_observed: nobody told these; they are the extremes of a log of which the
    data are a part.
    """

    action_low: Numbers | None = None
    action_high: Numbers | None = None
    obs_low: Numbers | None = None
    obs_high: Numbers | None = None
    by_user: bool = field(default=False, compare=False, kw_only=True)
    actions_observed: bool = field(default=False, compare=False, kw_only=True)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> SpaceBounds | None:
        """From values under the names above, whatever a file holds there: a pair that is not sound, or that limits
        nothing, is passed over."""
        pairs = {
            kind: (_numbers(told.get(f"{kind}_low"), -math.inf), _numbers(told.get(f"{kind}_high"), math.inf))
            for kind in ("action", "obs")
        }
        sound: dict[str, Any] = {
            f"{kind}_{side}": values
            for kind, pair in pairs.items()
            if pair[0] is not None and pair[1] is not None and _is_limit(pair[0], pair[1])
            for side, values in zip(("low", "high"), pair, strict=True)
        }
        return cls(**sound, actions_observed=_is_set(told.get(_OBSERVED))) if sound else None

    @classmethod
    def of_actions(cls, low: npt.ArrayLike, high: npt.ArrayLike, width: int) -> SpaceBounds:
        """Of actions alone, each side a number or `[A]`."""
        sides = (as_bound("action_low", low, width), as_bound("action_high", high, width))
        return cls(*(tuple(side.tolist()) for side in sides))

    def said(self, low: Side, high: Side, actions: Any) -> SpaceBounds:
        """With the bounds of `actions` that the user says, each side a number or one for every column."""
        width = 1 if np.ndim(actions) < 2 else np.shape(actions)[1]
        sides = []
        for name, side in (("action_low", low), ("action_high", high)):
            values = _numbers(list(side) if isinstance(side, Sequence) else [side] * width, math.nan)
            if values is None or not all(map(math.isfinite, values)):
                kind = f"a number that float32 holds (at most {_LARGEST:g})"
                raise DataError(f"{name}: must be {kind}, or one for each of the {amount(width, 'action')}")
            if len(values) != width:
                given = amount(len(values), "value")
                raise DataError(f"{name}: has {given}, and actions have {amount(width, 'column')}; give one for each")
            sides.append(values)
        for column, (least, most) in enumerate(zip(*sides, strict=True)):
            if not least < most:
                raise DataError(f"action_low: {least:g} must be below action_high, {most:g} (column {column})")
        return replace(self, action_low=sides[0], action_high=sides[1], by_user=True, actions_observed=False)

    def marks(self) -> dict[str, bool]:
        """What a file tells beside the numbers: that they are the extremes of a log."""
        return {_OBSERVED: True} if self.actions_observed else {}

    def told(self) -> dict[str, Any]:
        """What there is, by name: `Numbers` each."""
        named = ((name, getattr(self, name)) for name in ("action_low", "action_high", "obs_low", "obs_high"))
        return {name: values for name, values in named if values is not None}

    def to_json(self) -> dict[str, list[float | None] | bool]:
        """What there is as JSON values, which know no infinity: null is no limit. `read` takes it back."""
        sides = {name: [v if math.isfinite(v) else None for v in values] for name, values in self.told().items()}
        return {**sides, **self.marks()}

    def fitted(self, obs: FloatArray, actions: FloatArray) -> tuple[SpaceBounds | None, tuple[str, ...]]:
        """What of it can be true of the data, and a note on what cannot."""
        notes: list[str] = []
        least, most = column_extremes(actions)
        kept = self.fitted_to_actions(least, most)
        if kept != self and self.action_low is not None and self.action_high is not None:
            fault = _misfit(self.action_low, self.action_high, least, most)
            notes.append(f"the action bounds that the data tell are not used: {fault}")
        if self.obs_low is not None and len(self.obs_low) != obs.shape[1]:
            fault = f"they have {amount(len(self.obs_low), 'column')}, and observations {obs.shape[1]}"
            notes.append(f"the observation bounds that the data tell are not used: {fault}")
            kept = replace(kept, obs_low=None, obs_high=None)
        return (kept if kept.told() else None), tuple(notes)

    def fitted_to_actions(self, least: npt.ArrayLike, most: npt.ArrayLike) -> SpaceBounds:
        """Without the bounds of actions where the smallest and largest, `[A]` each, do not keep to them."""
        if self.action_low is None or self.action_high is None or self.by_user:
            return self
        if not _misfit(self.action_low, self.action_high, least, most):
            return self
        return replace(self, action_low=None, action_high=None)

    def of_observations(self, obs: FloatArray | None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """The bounds of observations `[O]`, where they have that width."""
        if obs is None or self.obs_low is None or self.obs_high is None or len(self.obs_low) != obs.shape[1]:
            return None
        return np.array(self.obs_low), np.array(self.obs_high)


class ActionBounds(NamedTuple):
    """Bounds `[A]` to act within, and how much of them the data tell."""

    low: Float64Array
    high: Float64Array
    told: Literal["all", "some", "none"]


def action_bounds(told: SpaceBounds | None, least: npt.ArrayLike, most: npt.ArrayLike) -> ActionBounds:
    """The bounds of actions that come without an environment: those the data tell, else `inferred_bounds` of the
    smallest and largest of each column, within the side that the data tell."""
    inferred = inferred_bounds(least, most)
    if told is None or told.action_low is None or np.shape(told.action_low) != np.shape(least):
        return ActionBounds(*inferred, told="none")
    low, high = np.asarray(told.action_low), np.asarray(told.action_high)
    both = np.isfinite(low) & np.isfinite(high) & (low < high)
    within = np.maximum(low, inferred[0]), np.minimum(high, inferred[1])
    one = ~both & (np.isfinite(low) != np.isfinite(high)) & (within[0] < within[1])
    sides = (np.select([both, one], values) for values in zip((low, high), within, strict=True))
    chosen = [np.where(both | one, side, other) for side, other in zip(sides, inferred, strict=True)]
    return ActionBounds(chosen[0], chosen[1], told="all" if both.all() else "some" if (both | one).any() else "none")


def for_parts(told: SpaceBounds | None, least: npt.ArrayLike, most: npt.ArrayLike) -> SpaceBounds | None:
    """What parts of the data tell: the bounds of all of them, which a part alone would infer more narrowly."""
    low, high, how_much = action_bounds(told, least, most)
    if how_much == "all" or ((low == -1.0).all() and (high == 1.0).all()):  # a part infers the same
        return told
    least, most = tuple(low.tolist()), tuple(high.tolist())
    return replace(told or SpaceBounds(), action_low=least, action_high=most, actions_observed=True)


def require_trained_bounds(said: SpaceBounds | None, spaces: Spaces) -> None:
    """Refuse bounds of actions that the user says, and that are not those networks were trained with: they go on."""
    if said is None or not said.by_user or said.action_low is None or said.action_high is None:
        return
    known = (spaces.action_low, spaces.action_high)
    given = (said.action_low, said.action_high)
    if len(given[0]) == spaces.act_dim and not np.allclose(given, known):
        raise DataError(
            f"dataset.action_low: gives bounds {bounds_in_words(*given)}, and the networks were trained with"
            f" {bounds_in_words(*known)}, which go on; leave them out, or train anew"
        )


def bounds_in_words(low: Numbers, high: Numbers) -> str:
    """Those of every column: `[-1, 1], [0, 5]`."""
    return ", ".join(f"[{least:g}, {most:g}]" for least, most in zip(low, high, strict=True))


def of_environment(env: Env) -> SpaceBounds:
    """The bounds of an open environment."""
    spaces, obs = env_spaces(env), observation_bounds(env)
    low, high = (None, None) if obs is None else obs
    told = {"action_low": spaces.action_low, "action_high": spaces.action_high, "obs_low": low, "obs_high": high}
    return SpaceBounds.read(told) or SpaceBounds()


def read_bounds(env_id: str) -> SpaceBounds:
    """Open an environment, read its bounds and close it."""
    env = make_env(env_id, disable_env_checker=True)
    try:
        return of_environment(env)
    finally:
        env.close()


def told_env_id(value: Any) -> str | None:
    """The name of an environment that a file tells, if it can be one."""
    text = value.item() if isinstance(value, np.ndarray) and value.shape == () else value
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text  # HDF5's text of a fixed length
    return text if isinstance(text, str) and text.isprintable() and 0 < len(text) <= _LONGEST_ID else None


def unsound_bounds(told: Mapping[str, Any]) -> tuple[str, ...]:
    """Notes on bounds that a file tells, under the names above, and that cannot be any."""
    notes = []
    for kind, noun in (("action", "actions"), ("obs", "observations")):
        sides = [told.get(f"{kind}_{side}") for side in ("low", "high")]
        low, high = (_numbers(side, math.inf) for side in sides)
        paired = low is not None and high is not None and len(low) == len(high)
        if any(side is not None for side in sides) and not (paired and all(map(le, low or (), high or ()))):
            must = f"{kind}_low and {kind}_high must be lists of numbers, one for each column, low below high"
            notes.append(f"the bounds of {noun} that the data tell are not used: {must}")
    return tuple(notes)


def _numbers(values: Any, unlimited: float) -> Numbers | None:
    if isinstance(values, Sequence) and not isinstance(values, str):
        values = [unlimited if value is None else value for value in values]
    try:
        array = np.asarray(values)
    except Exception:  # whatever the object itself raises
        return None
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iuf" or np.isnan(array).any():
        return None
    with np.errstate(over="ignore"):
        wide = array.astype(np.float64)
    return tuple(np.where(np.abs(wide) > _LARGEST, np.copysign(np.inf, wide), wide).tolist())


def _is_set(mark: Any) -> bool:
    """Whether a file says yes, whatever it holds there."""
    value = mark[()] if isinstance(mark, np.ndarray) and mark.shape == () else mark
    return isinstance(value, bool | np.bool_) and bool(value)


def _is_limit(low: Numbers, high: Numbers) -> bool:
    limits = any(map(math.isfinite, low + high))
    return limits and len(low) == len(high) and all(a <= b for a, b in zip(low, high, strict=True))


def _misfit(low: Numbers, high: Numbers, smallest: npt.ArrayLike, largest: npt.ArrayLike) -> str:
    found = np.asarray(smallest, dtype=np.float64), np.asarray(largest, dtype=np.float64)
    if len(low) != len(found[0]):
        return f"they have {amount(len(low), 'column')}, and actions {len(found[0])}"
    least, most = np.asarray(low), np.asarray(high)
    slack = rounding_slack(least, most)
    outside = np.flatnonzero((found[0] < least - slack) | (found[1] > most + slack))
    if not outside.size:
        return ""
    column = int(outside[0])
    return f"column {column} has actions outside [{least[column]:g}, {most[column]:g}]"
