"""Fitted Q evaluation of trained policies: every policy and the behaviour, on every resample of the episodes, at once.

The equations are in `algorithms/evaluation/fitted_q.py`. Here: the resamples, the policies' actions, the fit, and what
is measured of it. P policies stand before the behaviour, so each of the R repeats has P + 1 columns. Everything that
leaves here is in units of the raw reward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Batch
from rl_training.algorithms.evaluation.fitted_q import FittedQ, FittedQParams
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import discounted_returns_to_go
from rl_training.data.transforms import TransformConfig, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError
from rl_training.runtime.acting import Actor, FloatArray
from rl_training.runtime.engine import Engine, choose_device, choose_mode, set_arithmetic
from rl_training.runtime.sources import BATCH_STREAM, OfflineSource
from rl_training.validation import Section

Values = npt.NDArray[np.float64]

_DRAWS = 8  # actions kept for each state where the policy is sampled
_CHUNK = 4_096  # rows of every member at once, however many episodes there are
_MOST_CHECKED = 20_000  # rows that TD errors are looked at in
_NEARLY_ALL = (0.01, 0.99)
_PARTS = 10  # of the fit, after each of which the values are read


class OfflineEvaluationConfig(Section):
    """How much work an estimate is."""

    updates: int = Field(5_000, ge=10, description="updates of every fit")
    repeats: int = Field(5, ge=2, le=64, description="resamples of the episodes, each fitted anew")
    seed: int = Field(0, ge=0, lt=2**30, description="of the resamples, the first weights and the batches")
    device: str = Field("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")


@dataclass(frozen=True)
class FittedValues:
    """What the fits say; axis P + 1 is the policies, then the behaviour."""

    gamma: float
    starts: Values  # [R, P + 1, E]: Q where every episode begins, at the action of the policy
    weights: Values  # [R, E]: how often each episode is in each resample, as shares
    course: Values  # [parts, R, P + 1]: the value after each part of the fit
    td_errors: Values  # [2, R, P + 1]: root mean square on episodes in the resample, and on those that are not
    extremes: Values  # [2, R, P + 1]: between which the Q of nearly all rows lie
    allowed: tuple[float, float]  # what discounted rewards of this data can add up to
    returns: Values  # [E]: discounted return of each episode; cut-off ones go on with the behaviour's fitted value

    @property
    def repeats(self) -> Values:
        """V̂ of every repeat, at the starts of its own episodes: `[R, P + 1]`."""
        return np.asarray((self.starts * self.weights[:, None, :]).sum(-1))

    @property
    def values(self) -> Values:
        """V̂, the mean over the repeats at the starts of all episodes: `[P + 1]`."""
        return np.asarray(self.starts.mean((0, 2)))


class EpisodeBootstrap(OfflineSource):
    """Batches of rows of resampled episodes: those of a repeat are the same for each of its members."""

    def __init__(
        self, transitions: PackedTransitions, ends: Tensor, resamples: Tensor, next_actions: Tensor, columns: int
    ) -> None:
        """ends: last row of each episode, `[E]`; resamples: episodes of each repeat, `[R, E]`; next_actions: of each
        policy, drawn S times for each row, `[P, S, N, act]`; columns: P + 1."""
        super().__init__(transitions)
        lengths = torch.diff(ends, prepend=ends.new_tensor([-1]))
        self._first = (ends - lengths + 1)[resamples]  # [R, E]
        self._until = lengths[resamples].cumsum(-1)  # [R, E], rows of the resample up to an episode's end
        self._before = self._until - lengths[resamples]
        self._actions = next_actions
        self._columns = columns

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        own = keys[:: self._columns]
        position = streams.integers(own, BATCH_STREAM, clock, size, self._until[:, -1:])
        episode = torch.searchsorted(self._until, position, right=True)
        rows = self._first.gather(1, episode) + position - self._before.gather(1, episode)
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
class _Logged:
    """The data of one evaluation. scale: what rewards were divided by, so that values are of the size of one."""

    data: TransitionDataset
    source: EpisodeBootstrap
    start_obs: Tensor  # [E, obs]
    start_actions: Tensor  # [S, P + 1, E, act]
    resamples: Tensor  # [R, E]
    scale: float


def fit_values(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    *,
    gamma: float,
    deterministic: bool,
    on_part: Callable[[int], None] = lambda updates: None,
) -> FittedValues:
    """Evaluate the policies of these members on whole episodes; `on_part` is told how many updates are done."""
    products = torch.get_float32_matmul_precision()  # a run that trains in this process has its own
    try:
        return _fitted(actor, members, dataset, settings, gamma, deterministic, on_part)
    finally:
        torch.set_float32_matmul_precision(products)


def _fitted(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    gamma: float,
    deterministic: bool,
    on_part: Callable[[int], None],
) -> FittedValues:
    device = torch.device(choose_device(settings.device))
    logged = _prepare(actor, members, dataset, settings, device, gamma, deterministic)
    columns, updates = len(members) + 1, settings.updates
    seeds = [settings.seed + repeat for repeat in range(settings.repeats) for _ in range(columns)]
    params = FittedQParams(gamma=gamma)
    data = logged.data
    learner = FittedQ(data.obs_dim, data.act_dim, params, seeds=seeds, total_updates=updates, device=device)
    set_arithmetic(learner, "fp32")
    engine = Engine(learner, logged.source, choose_mode("auto", updates, device))
    weights = _shares(logged.resamples)
    course, done = [], 0
    for part in range(1, _PARTS + 1):
        count = updates * part // _PARTS - done
        engine.run(done, count)
        done += count
        starts = _start_values(learner, logged, columns)
        course.append((starts * weights[:, None, :]).sum(-1))
        on_part(done)
    errors, extremes, after = _checks(learner, logged, columns)
    return FittedValues(
        gamma,
        starts,
        weights,
        np.stack(course),
        errors,
        extremes,
        _allowed(data, gamma),
        discounted_returns_to_go(data.rewards, data.episode_ends, gamma, after)[_first_rows(data)],
    )


def _prepare(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    settings: OfflineEvaluationConfig,
    device: torch.device,
    gamma: float,
    deterministic: bool,
) -> _Logged:
    data = _episodes(dataset)
    returns = discounted_returns_to_go(data.rewards, data.episode_ends, gamma)
    scale = float(returns.std()) or float(np.abs(returns).max()) or 1.0
    bounds = actor.transforms
    # Standardised whatever the run did: this network is not the policy's, which sees its observations as it always did.
    standard = TransformConfig(normalise_observations=True, reward_scale=1.0 / scale)
    transforms = fit_transforms(data, Spaces(data.obs_dim, bounds.action_low, bounds.action_high), standard)
    first = _first_rows(data)

    def tensor(values: npt.NDArray[np.float32]) -> Tensor:
        return torch.tensor(values, device=device)

    rng = np.random.default_rng(settings.seed)
    resamples = torch.tensor(rng.integers(len(first), size=(settings.repeats, len(first))), device=device)
    following, at_start = (_actions(actor, members, obs, deterministic) for obs in (data.next_obs, data.obs[first]))
    taken = transforms.to_unit_actions(data.actions[first])
    source = EpisodeBootstrap(
        PackedTransitions.from_dataset(
            replace(data, returns_to_go=(returns / scale).astype(np.float32)), transforms, device
        ),
        torch.tensor(data.episode_ends, device=device),
        resamples,
        tensor(following),
        len(members) + 1,
    )
    chosen = np.concatenate((at_start, np.broadcast_to(taken, (1, *at_start.shape[1:]))))
    return _Logged(
        data,
        source,
        tensor(transforms.observations(data.obs[first])),
        tensor(chosen).transpose(0, 1).contiguous(),
        resamples,
        scale,
    )


def _episodes(dataset: TransitionDataset) -> TransitionDataset:
    """Whole episodes with the action that follows each row, and no row without a successor."""
    if not dataset.whole_episodes:
        raise DataError("offline evaluation needs whole episodes; these rows were sampled or reordered")
    if dataset.n_episodes < 2:
        raise DataError("offline evaluation needs several episodes; these data have one (see `rl-training data check`)")
    complete = dataset if dataset.next_actions is not None else dataset.with_next_actions()
    return replace(complete, mixture=None, part_ids=None, returns_to_go=None).usable()


def _first_rows(data: TransitionDataset) -> npt.NDArray[np.int64]:
    return np.asarray(data.episode_ends - data.episode_lengths() + 1)


def _actions(actor: Actor, members: Sequence[int], obs: FloatArray, deterministic: bool) -> FloatArray:
    """What each policy does, in [-1, 1] and as its environment would get it: `[P, S, N, act]`, S draws of each."""
    learner, draws = actor.learner, 1 if deterministic else _DRAWS
    found = np.empty((len(members), draws, len(obs), learner.act_dim), dtype=np.float32)
    for first in range(0, len(obs), _CHUNK):
        rows = obs[first : first + _CHUNK]
        spread = np.broadcast_to(rows, (learner.members, *rows.shape))
        for draw in range(draws):
            noise = None
            if not deterministic:
                noises = streams.NoiseStreams(learner.acting_noise(len(rows)), "offline evaluation/")
                noise = noises.draw(learner.keys, first * draws + draw)
            answers = actor.transforms.to_unit_actions(actor(spread, noise))
            found[:, draw, first : first + _CHUNK] = answers[list(members)]
    return found


def _shares(resamples: Tensor) -> Values:
    """How often each episode is in each resample, `[R, E]`, as shares of one."""
    episodes = resamples.shape[1]
    return np.stack([np.bincount(row, minlength=episodes) for row in resamples.cpu().numpy()]) / episodes


def _start_values(learner: FittedQ, logged: _Logged, columns: int) -> Values:
    """Q where every episode begins, `[R, P + 1, E]`, mean over the policy's draws, in raw units."""
    repeats, found = learner.members // columns, []
    for first in range(0, len(logged.start_obs), _CHUNK):
        part = slice(first, first + _CHUNK)
        obs = logged.start_obs[part].expand(learner.members, -1, -1)
        draws = [learner.values(obs, actions[:, part].repeat(repeats, 1, 1)) for actions in logged.start_actions]
        found.append(torch.stack(draws).mean(0).double().cpu().numpy() * logged.scale)
    return np.concatenate(found, axis=-1).reshape(repeats, columns, -1)


def _checks(learner: FittedQ, logged: _Logged, columns: int) -> tuple[Values, Values, Values]:
    """TD errors (in, out of the resample), extremes of Q, and the behaviour's value after each episode's last row."""
    data, source, repeats = logged.data, logged.source, learner.members // columns
    rows = np.unique(np.linspace(0, len(data) - 1, min(len(data), _MOST_CHECKED)).astype(np.int64))
    inside = torch.zeros(repeats, data.n_episodes, device=learner.device)
    inside.scatter_(1, logged.resamples, 1.0)
    sums, counts = np.zeros((2, repeats, columns)), np.zeros((2, repeats, 1))
    parts = []
    episode_ids = torch.tensor(data.episode_ids, device=learner.device)
    for some in torch.tensor(rows, device=learner.device).split(_CHUNK):
        batch = _batch_at(source, some, repeats)
        errors = learner.td_errors(batch).square().view(repeats, columns, -1)
        parts.append(learner.values(batch.obs, batch.actions).view(repeats, columns, -1).cpu().numpy())
        known = inside[:, episode_ids[some]].unsqueeze(1)
        for side, share in enumerate((known, 1.0 - known)):
            sums[side] += (errors * share).sum(-1).double().cpu().numpy()
            counts[side] += share.sum(-1).double().cpu().numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample may have every episode
        td_errors = np.sqrt(sums / counts) * logged.scale
    extremes = np.quantile(np.concatenate(parts, axis=-1), _NEARLY_ALL, axis=-1) * logged.scale
    return td_errors, extremes, _values_after(learner, logged, columns)


def _values_after(learner: FittedQ, logged: _Logged, columns: int) -> Values:
    """What the behaviour is worth after each episode's last row, mean over the repeats, `[E]`: 0 if it terminated."""
    repeats, found = learner.members // columns, []
    for some in torch.tensor(logged.data.episode_ends, device=learner.device).split(_CHUNK):
        batch = _batch_at(logged.source, some, repeats)
        assert batch.next_actions is not None
        values = learner.values(batch.next_obs, batch.next_actions).view(repeats, columns, -1)
        found.append(values[:, -1].mean(0).double().cpu().numpy())
    alive = ~logged.data.terminations[logged.data.episode_ends]
    return np.asarray(np.concatenate(found) * logged.scale * alive)


def _batch_at(source: EpisodeBootstrap, rows: Tensor, repeats: int) -> Batch:
    """These rows for every member."""
    spread = rows.expand(repeats, -1)
    return source.with_actions(source.transitions.gather(spread), spread, torch.zeros_like(spread))


def _allowed(data: TransitionDataset, gamma: float) -> tuple[float, float]:
    """The least and the most that discounted rewards of this size can add up to; nothing comes after a termination."""
    low, high = float(data.rewards.min()), float(data.rewards.max())
    if data.terminations.any():
        low, high = min(low, low / (1.0 - gamma)), max(high, high / (1.0 - gamma))
    else:
        low, high = low / (1.0 - gamma), high / (1.0 - gamma)
    return low, high
