"""Where a policy's episodes end in models of the dynamics, beside where those of the data did.

A fit of Q knows what follows the states of the data. A policy that is led elsewhere step by step, and halts short of
the only places where anything ever ended, is valued by what the network makes up there, in every resample alike. A
model that foretells when left-out episodes end need not know rare costs to show that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training.runtime.action_support import spread_rows
from rl_training.runtime.fitted_checks import Values
from rl_training.runtime.modelled_world import World

_FEWEST, _MOST = 20, 2_000  # episodes that terminate: fewer do not tell where one may; more need not be compared
_LEAD = 5  # steps before a recorded end, from which models are to foretell it
_OVER = 0.5  # probability of going on
_USUAL = 0.99  # of the recorded ends are so near to another one
_LEAST_UNIT = 1e-3  # of a deviation over all rows


@dataclass(frozen=True)
class ModelledEnds:
    """Shares of the episodes of each policy, `[P]`, in all models together: those that end where no recorded one did,
    and those that go on for longer than any recorded one (NaN where the horizon is nearer).

    foretold: of left-out episodes, those whose end comes within a step of the recorded one; NaN where there are none.
    cut: of the recorded episodes, those that did not terminate and might have gone on.
    """

    elsewhere: Values
    endless: Values
    foretold: float
    cut: float = 0.0


class EndWatch:
    """Looks on while policies are played, from `shape` [R, P, starts] states at a time."""

    def __init__(self, world: World, shape: tuple[int, int, int]) -> None:
        data = world.data
        self._alive = torch.ones(shape, dtype=torch.bool, device=world.device)
        self._last: list[list[Tensor]] = [[] for _ in range(shape[1])]
        self._ends = data.episode_ends[data.terminations[data.episode_ends]]
        self._longest = int(data.episode_lengths().max())
        self._world, self._taken = world, 0
        self._endless = np.full(shape[1], np.nan)

    def see(self, obs: Tensor, going_on: Tensor) -> None:
        """obs: before the step, `[R, P, starts, obs]`; going_on: the probability of that after it."""
        ended = self._alive & (going_on <= _OVER)
        for policy, rows in enumerate(self._last):
            rows.append(obs[:, policy][ended[:, policy]])
        self._alive = self._alive & ~ended
        self._taken += 1
        if self._taken == self._longest:
            self._endless = self._alive.double().mean((0, 2)).cpu().numpy()

    def judged(self) -> ModelledEnds | None:
        """None where too few recorded episodes terminate."""
        if len(self._ends) < _FEWEST:
            return None
        ends = self._ends[spread_rows(len(self._ends), _MOST)]
        foretold, modelled = _left_out(self._world, ends)
        recorded = _Recorded(self._world, ends, modelled)
        played = self._alive[:, 0].numel() if len(self._last) else 1
        elsewhere = np.array([recorded.elsewhere(torch.cat(rows)) / played for rows in self._last])
        cut = 1.0 - len(self._ends) / self._world.data.n_episodes
        return ModelledEnds(elsewhere, self._endless, foretold, cut)


class _Recorded:
    """The last states of episodes that terminated, in units that tell them apart: a column's deviation among them, or
    how far it goes in the last step, if that is more.

    modelled: where the models have left-out episodes end. No policy is held to ends more exact than these.
    """

    def __init__(self, world: World, ends: npt.NDArray[np.int64], modelled: Tensor) -> None:
        rows = torch.tensor(ends, device=world.device)
        last, steps = world.obs[rows].double(), world.last_steps(rows).double()
        unit = torch.maximum(last.std(0, unbiased=False), steps.square().mean(0).sqrt())
        self._unit = unit.clamp(min=_LEAST_UNIT)
        self._known = last / self._unit
        usual = [_gaps(self._known, self._known, among_themselves=True), self._from_known(modelled)]
        self._usual = max(float(torch.quantile(gaps, _USUAL)) for gaps in usual if len(gaps))

    def elsewhere(self, states: Tensor) -> int:
        """How many of these states are far from every recorded end."""
        return int((self._from_known(states) > self._usual).sum())

    def _from_known(self, states: Tensor) -> Tensor:
        return _gaps(states.double() / self._unit, self._known)


def _gaps(asked: Tensor, known: Tensor, *, among_themselves: bool = False) -> Tensor:
    """How far each is from the nearest that is known, `[N]`."""
    gaps = torch.cdist(asked, known) / math.sqrt(max(1, known.shape[1]))
    return (gaps.fill_diagonal_(math.inf) if among_themselves else gaps).amin(1)


def _left_out(world: World, ends: npt.NDArray[np.int64]) -> tuple[float, Tensor]:
    """The share of left-out episodes that each model ends where they did, give or take a step, from some steps before
    and by the recorded actions; and the states `[N, obs]` in which it does."""
    data = world.data
    begins = np.maximum(ends - _LEAD + 1, 0)
    ends = ends[(ends >= _LEAD - 1) & world.unbroken(begins, ends)]
    shape = (world.repeats, len(ends))
    own = data.episode_ids[ends]
    left_out = torch.tensor(np.stack([~np.isin(own, episodes) for episodes in world.resamples.numpy()]))
    obs = world.obs[torch.tensor(ends - _LEAD + 1, device=world.device)].expand(*shape, -1)
    alive, right, last = left_out.to(world.device), 0, []
    for step in range(_LEAD + 1):
        rows = torch.tensor(np.minimum(ends - _LEAD + 1 + step, ends), device=world.device)
        before = obs
        obs, _, going_on = world.outcome(obs, world.actions[rows].expand(*shape, -1))
        over = alive & (going_on <= _OVER)
        if step >= _LEAD - 2:
            right += int(over.sum())
            last.append(before[over])
        alive = alive & ~over
    return (right / int(left_out.sum()) if left_out.any() else math.nan), torch.cat(last)
