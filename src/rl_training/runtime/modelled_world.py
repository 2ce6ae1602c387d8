"""Models of the dynamics as a place to act in: what follows a state and an action, near what the data have seen.

The equations are in `algorithms/evaluation/dynamics.py`. One model for each of the R resamples that the fits of Q have,
so that each leaves out episodes, which it can be held to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training.algorithms.evaluation.dynamics import Dynamics, DynamicsParams, Outcome
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, Transforms, divisor_of, fit_transforms
from rl_training.environments import Spaces
from rl_training.runtime.engine import Engine, choose_device, set_arithmetic
from rl_training.runtime.fitted_checks import ResampledEpisodes
from rl_training.runtime.fitted_evaluation import OfflineEvaluationConfig, draw_resamples

_UPDATES, _SHARE_OF_UPDATES = 2_000, 0.4  # at most so many, and so much of a fit's
_SAME = 1e-3  # of a deviation
_BEYOND = 0.1  # by how much of its range in the data a column may leave it


class World:
    """The models, from standardised observations to such, with raw rewards; and the data they are of."""

    def __init__(self, data: TransitionDataset, bounds: Transforms, settings: OfflineEvaluationConfig) -> None:
        self.data, self.repeats = data, settings.repeats
        self.device = torch.device(choose_device(settings.device))
        rewards = data.rewards.astype(np.float64)
        scale = 1.0 / divisor_of(float(rewards.std()))
        standard = TransformConfig(
            normalise_observations=True, reward_scale=scale, reward_shift=-scale * float(rewards.mean())
        )
        self.transforms = fit_transforms(data, Spaces(data.obs_dim, bounds.action_low, bounds.action_high), standard)
        self.resamples = draw_resamples(data.n_episodes, settings)
        packed = PackedTransitions.from_dataset(data, self.transforms, self.device)
        every = packed.gather(torch.arange(len(packed), device=self.device).unsqueeze(0))
        self.obs, self.actions = every.obs[0], every.actions[0]
        follows = (every.next_obs[0, :-1] - every.obs[0, 1:]).abs().amax(-1) < _SAME
        inside = np.diff(data.episode_ids) == 0
        self._breaks = np.concatenate(([0], np.cumsum(~(follows.cpu().numpy() & inside))))  # before each row
        states = torch.cat((every.obs[0], every.next_obs[0]))
        low, high = states.amin(0), states.amax(0)
        self._low, self._high = low - _BEYOND * (high - low), high + _BEYOND * (high - low)
        self._rewards = (float(rewards.min()), float(rewards.max()))
        self._clocks = _Clocks(every.obs[0], every.next_obs[0])
        self._steps = every.next_obs[0] - every.obs[0]
        self._learner = self._fit(packed, self._steps, settings)

    def _fit(self, packed: PackedTransitions, steps: Tensor, settings: OfflineEvaluationConfig) -> Dynamics:
        updates = max(1, min(_UPDATES, int(_SHARE_OF_UPDATES * settings.updates)))
        learner = Dynamics(
            self.data.obs_dim,
            self.data.act_dim,
            DynamicsParams(terminates=bool(self.data.terminations.any())),
            seeds=[settings.seed + repeat for repeat in range(settings.repeats)],
            total_updates=updates,
            device=self.device,
        )
        learner.measure_in(steps)
        set_arithmetic(learner, "fp32")
        ends = torch.tensor(self.data.episode_ends, device=self.device)
        Engine(learner, ResampledEpisodes(packed, ends, self.resamples.to(self.device))).run(0, updates)
        return learner

    def outcome(self, obs: Tensor, actions: Tensor) -> Outcome:
        """What follows, each model its own rows `[R, B]`, kept near what the data have seen."""
        after, rewards, alive = self._learner.outcome(obs, actions)
        raw = (rewards.double() - self.transforms.reward_shift) / self.transforms.reward_scale
        near = torch.minimum(torch.maximum(self._clocks.restarted(after), self._low), self._high)
        return Outcome(near, raw.clamp(*self._rewards), alive.double())

    def unbroken(self, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the rows from one to the other were recorded one after another."""
        return np.asarray(self._breaks[last] == self._breaks[first])

    def last_steps(self, rows: Tensor) -> Tensor:
        """How far the state goes in each of these rows, `[N, obs]`."""
        return self._steps[rows]

    def raw(self, obs: Tensor) -> npt.NDArray[np.float32]:
        """Observations as they were recorded."""
        seen = obs.double().cpu().numpy()
        mean, divisor = np.asarray(self.transforms.obs_mean), np.asarray(self.transforms.obs_std)
        return np.asarray(seen * divisor + mean, dtype=np.float32)


class _Clocks:
    """Columns that always move alike. Where episodes were cut, they begin anew, as the fits of Q have it: no row tells
    what a later time would mean, and the last one would stand still."""

    def __init__(self, obs: Tensor, next_obs: Tensor) -> None:
        steps = next_obs - obs
        step = steps.mean(0)
        self._forwards, self._backwards = (
            (sign * step > 0.0) & (steps.std(0, unbiased=False) < _SAME * step.abs()) for sign in (1.0, -1.0)
        )
        self._low, self._high, self._half = obs.amin(0), obs.amax(0), 0.5 * step.abs()

    def restarted(self, obs: Tensor) -> Tensor:
        """`[..., obs]` as they are, but for a time that no row has."""
        obs = torch.where(self._forwards & (obs > self._high + self._half), self._low, obs)
        return torch.where(self._backwards & (obs < self._low - self._half), self._high, obs)
