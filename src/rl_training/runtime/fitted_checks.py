"""What is fitted on, and what is read off the fits: values at starts and cuts, TD errors, extremes.

Rows of a repeat are the same for each of its columns (the policies, then the behaviour).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Batch
from rl_training.algorithms.evaluation.fitted_q import FittedQ
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.sources import BATCH_STREAM, OfflineSource

Values = npt.NDArray[np.float64]

_CHUNK = 4_096  # rows of every member at once, however many episodes there are
_MOST_CHECKED = 20_000  # rows that TD errors are looked at in, of whole episodes
_FEWEST_CHECKED = 30  # episodes
_NEARLY_ALL = (0.01, 0.99)


class ResampledEpisodes(OfflineSource):
    """Batches of rows of resampled episodes, of each repeat its own."""

    def __init__(self, transitions: PackedTransitions, ends: Tensor, resamples: Tensor) -> None:
        """ends: last row of each episode, `[E]`; resamples: episodes of each repeat, `[R, E]`."""
        super().__init__(transitions)
        lengths = torch.diff(ends, prepend=ends.new_tensor([-1]))
        self._first = (ends - lengths + 1)[resamples]  # [R, E]
        self._until = lengths[resamples].cumsum(-1)  # [R, E], rows of the resample up to an episode's end
        self._before = self._until - lengths[resamples]

    def draw_rows(self, keys: Tensor, clock: Tensor, size: int) -> Tensor:
        """`[R, size]` rows of the data, for the repeats with these `keys`."""
        position = streams.integers(keys, BATCH_STREAM, clock, size, self._until[:, -1:])
        episode = torch.searchsorted(self._until, position, right=True)
        return self._first.gather(1, episode) + position - self._before.gather(1, episode)

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        return self.transitions.gather(self.draw_rows(keys, clock, size))


class EpisodeBootstrap(ResampledEpisodes):
    """The same for each of a repeat's members, who differ in the action that follows."""

    def __init__(
        self, transitions: PackedTransitions, ends: Tensor, resamples: Tensor, next_actions: Tensor, columns: int
    ) -> None:
        """next_actions: of each policy, drawn S times for each row, `[P, S, N, act]`; columns: P + 1."""
        super().__init__(transitions, ends, resamples)
        self._actions = next_actions
        self._columns = columns

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        own = keys[:: self._columns]
        rows = self.draw_rows(own, clock, size)
        drawn = streams.integers(own, BATCH_STREAM + 1, clock, size, self._actions.shape[1])
        return self.with_actions(self.transitions.gather(rows), rows, drawn)

    def with_actions(self, batch: Batch, rows: Tensor, drawn: Tensor) -> Batch:
        """A batch `[R, B]` for each of the repeats' columns, `[R·(P + 1), B]`, with the next action of each."""
        policies, draws, count, width = self._actions.shape
        offsets = torch.arange(policies, device=rows.device).view(-1, 1) * draws * count
        places = offsets + (drawn * count + rows).unsqueeze(1)  # [R, P, B]
        chosen = self._actions.reshape(-1, width).index_select(0, places.flatten()).view(*places.shape, width)
        assert batch.next_actions is not None
        following = torch.cat((chosen, batch.next_actions.unsqueeze(1)), dim=1).flatten(0, 1)
        spread = {
            name: values.repeat_interleave(self._columns, dim=0)
            for name, values in batch._asdict().items()
            if values is not None
        }
        return Batch(**spread | {"next_actions": following})


@dataclass(frozen=True)
class Logged:
    """The data of one evaluation. scale: what rewards were divided by, so that values are of the size of one."""

    data: TransitionDataset
    source: EpisodeBootstrap
    start_obs: Tensor  # [E, obs]
    start_actions: Tensor  # [S, P + 1, E, act]
    resamples: Tensor  # [R, E]
    scale: float
    lone_cuts: float = 0.0  # share of the cuts that nothing in the data is like


def start_values(learner: FittedQ, logged: Logged, columns: int) -> Values:
    """Q where every episode begins, `[R, P + 1, E]`, mean over the policy's draws, in raw units."""
    repeats, found = learner.members // columns, []
    for first in range(0, len(logged.start_obs), _CHUNK):
        part = slice(first, first + _CHUNK)
        obs = logged.start_obs[part].expand(learner.members, -1, -1)
        draws = [learner.values(obs, actions[:, part].repeat(repeats, 1, 1)) for actions in logged.start_actions]
        found.append(torch.stack(draws).mean(0).double().cpu().numpy() * logged.scale)
    return np.concatenate(found, axis=-1).reshape(repeats, columns, -1)


@dataclass(frozen=True)
class Checks:
    """What is measured of a fit beside its values, in raw units."""

    td_errors: Values  # [2, R, P + 1]: root mean square on episodes in the resample, and on those that are not
    left_out: Values  # [R, P + 1]: Σ γ^t (y - Q) of an episode, mean over those not in the resample; NaN if none
    extremes: Values  # [2, R, P + 1]: between which the Q of nearly all rows lie
    after: Values  # [R, P + 1, E]: value after each episode's last row; 0 if it terminated


def check(learner: FittedQ, logged: Logged, columns: int) -> Checks:
    """On whole episodes, spread over the data where these are many."""
    data, source, repeats = logged.data, logged.source, learner.members // columns
    device, gamma, lengths = learner.device, learner.params.gamma, data.episode_lengths()
    chosen = _some_episodes(lengths)
    first = data.episode_ends - lengths + 1
    rows = np.concatenate([np.arange(first[one], data.episode_ends[one] + 1) for one in chosen])
    episode = torch.tensor(np.repeat(np.arange(len(chosen)), lengths[chosen]), device=device)
    weight = torch.tensor(gamma ** (rows - np.repeat(first[chosen], lengths[chosen])), device=device)
    inside = torch.zeros(repeats, data.n_episodes, device=device, dtype=torch.float64)
    inside = inside.scatter_(1, logged.resamples, 1.0)[:, torch.tensor(chosen, device=device)]
    squares, signed = (torch.zeros(repeats, columns, len(chosen), device=device, dtype=torch.float64) for _ in range(2))
    parts = []
    for place in torch.arange(len(rows), device=device).split(_CHUNK):
        batch = _batch_at(source, torch.tensor(rows, device=device)[place], repeats)
        errors = learner.td_errors(batch).double().view(repeats, columns, -1)
        squares.index_add_(2, episode[place], errors.square())
        signed.index_add_(2, episode[place], errors * weight[place])
        parts.append(learner.values(batch.obs, batch.actions).view(repeats, columns, -1).cpu().numpy())
    known = inside.unsqueeze(1).cpu().numpy()
    size, sums = lengths[chosen], squares.cpu().numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample may have every episode
        td_errors = np.stack([np.sqrt((sums * of).sum(-1) / (size * of).sum(-1)) for of in (known, 1.0 - known)])
        left_out = (signed.cpu().numpy() * (1.0 - known)).sum(-1) / (1.0 - known).sum(-1)
    extremes = np.quantile(np.concatenate(parts, axis=-1), _NEARLY_ALL, axis=-1)
    scale = logged.scale
    return Checks(td_errors * scale, left_out * scale, extremes * scale, _values_after(learner, logged, columns))


def _some_episodes(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As many as have about the most rows that are looked at, and some in any case."""
    most = max(_FEWEST_CHECKED, int(_MOST_CHECKED / lengths.mean()))
    return np.unique(np.linspace(0, len(lengths) - 1, min(len(lengths), most)).astype(np.int64))


def _values_after(learner: FittedQ, logged: Logged, columns: int) -> Values:
    """What each column is worth after each episode's last row, `[R, P + 1, E]`."""
    repeats, found = learner.members // columns, []
    for some in torch.tensor(logged.data.episode_ends, device=learner.device).split(_CHUNK):
        batch = _batch_at(logged.source, some, repeats)
        assert batch.next_actions is not None
        values = learner.values(batch.next_obs, batch.next_actions).view(repeats, columns, -1)
        found.append(values.double().cpu().numpy())
    alive = ~logged.data.terminations[logged.data.episode_ends]
    return np.asarray(np.concatenate(found, axis=-1) * logged.scale * alive)


def _batch_at(source: EpisodeBootstrap, rows: Tensor, repeats: int) -> Batch:
    """These rows for every member."""
    spread = rows.expand(repeats, -1)
    return source.with_actions(source.transitions.gather(spread), spread, torch.zeros_like(spread))
