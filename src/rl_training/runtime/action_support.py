"""Whether the data have anything to say about a policy's actions.

Around a state, the actions of the most similar states of other episodes are what the data know. A policy's action is
outside when it is farther from all of them than nearly all of the data's own actions are from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rl_training import streams
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.runtime.acting import Actor, FloatArray

_ASKED = 1_000  # states
_KNOWN = 20_000  # rows among which similar states are looked for
_SIMILAR = 50
_USUAL = 0.99  # of the data's own actions count as inside
_CONTINUED = 5  # similar states, one of which an episode that was cut goes on from
_NEAR = 0.25  # of a deviation in each column: near, however dense the data are
_AT_ONCE = 100
_DRAWS = 8  # actions of each state where the policy is sampled
_CHUNK = 4_096
_JITTER = 1e-3  # of a deviation: among states that are the same, which are called similar is left to chance


def policy_actions(actor: Actor, members: Sequence[int], obs: FloatArray, deterministic: bool) -> FloatArray:
    """What each policy does, in [-1, 1] and as its environment would get it: `[P, S, N, act]`, S draws of each."""
    draws = 1 if deterministic else _DRAWS
    found = np.empty((len(members), draws, len(obs), actor.learner.act_dim), dtype=np.float32)
    for first in range(0, len(obs), _CHUNK):
        rows = np.broadcast_to(obs[first : first + _CHUNK], (len(members), *obs[first : first + _CHUNK].shape))
        for draw in range(draws):
            at = None if deterministic else first * draws + draw
            found[:, draw, first : first + _CHUNK] = one_action(actor, members, rows, at)
    return found


def one_action(actor: Actor, members: Sequence[int], obs: FloatArray, draw: int | None) -> FloatArray:
    """What each policy does in observations of its own, `[P, B, obs]`: in [-1, 1] and as its environment would get it,
    `[P, B, act]`. draw: the number of the noise to sample with; None is the mode."""
    learner, chosen = actor.learner, list(members)
    spread = np.zeros((learner.members, *obs.shape[1:]), dtype=np.float32)
    spread[chosen] = obs
    noise = None
    if draw is not None:
        noise = streams.NoiseStreams(learner.acting_noise(obs.shape[1]), "offline evaluation/").draw(learner.keys, draw)
    answers: FloatArray = actor.transforms.to_unit_actions(actor(spread, noise))[chosen]
    return answers


def rows_like_those_after_cuts(dataset: TransitionDataset, standard: Transforms, seed: int) -> npt.NDArray[np.int64]:
    """For each episode, a row of the first half of another one in a state like that after its last row, `[E]`."""
    rng, ends = np.random.default_rng(seed), dataset.episode_ends
    known = _early(dataset)
    asked, others = (
        (obs + _JITTER * rng.standard_normal(obs.shape)).astype(np.float32)
        for obs in (standard.observations(dataset.next_obs[ends]), standard.observations(dataset.obs[known]))
    )
    similar = _similar(asked, others, dataset.episode_ids[ends], dataset.episode_ids[known], _CONTINUED)
    chosen = similar[np.arange(len(ends)), rng.integers(similar.shape[1], size=len(ends))]
    return np.asarray(known[chosen])


def share_of_lone_cuts(dataset: TransitionDataset, standard: Transforms) -> float:
    """The share of cut episodes after which no state of another episode's first half is near: farther than such states
    nearly all are from one another, and than a part of a deviation."""
    known, ends = _early(dataset), dataset.episode_ends[~dataset.terminations[dataset.episode_ends]]
    if not len(ends):
        return 0.0
    obs, episodes = standard.observations(dataset.obs[known]), dataset.episode_ids

    def nearest(asked: npt.NDArray[np.float32], asked_in: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        found = obs[_similar(asked, obs, asked_in, episodes[known], 1)[:, 0]]
        return np.asarray(np.sqrt(np.square(asked - found).mean(-1, dtype=np.float64)))

    some = spread_rows(len(known), _ASKED)
    usual = float(np.quantile(nearest(obs[some], episodes[known[some]]), _USUAL))
    gaps = nearest(standard.observations(dataset.next_obs[ends]), episodes[ends])
    return float((gaps > max(usual, _NEAR)).mean())


def _early(dataset: TransitionDataset) -> npt.NDArray[np.int64]:
    """Rows of the first halves of episodes, some of them where these are many."""
    lengths = dataset.episode_lengths()
    position = np.arange(len(dataset)) - np.repeat(dataset.episode_ends - lengths + 1, lengths)
    early = np.flatnonzero(2 * position < np.repeat(lengths, lengths))
    return np.asarray(early[spread_rows(len(early), _KNOWN)])


def share_outside(
    actor: Actor,
    members: Sequence[int],
    dataset: TransitionDataset,
    standard: Transforms,
    deterministic: bool = True,
) -> npt.NDArray[np.float64]:
    """For each of the members, the share of states in which its policy leaves the data's actions, `[P]`; the data's
    own: 0.01. Of a policy that is sampled, the share of draws.

    standard: what makes observations comparable across columns.
    """
    asked, known = (spread_rows(len(dataset), most) for most in (_ASKED, _KNOWN))
    obs, actions = standard.observations(dataset.obs), standard.to_unit_actions(dataset.actions)
    chosen = policy_actions(actor, members, dataset.obs[asked], deterministic)
    asked_in, known_in = dataset.episode_ids[asked], dataset.episode_ids[known]
    similar = _similar(obs[asked], obs[known], asked_in, known_in)
    around = actions[known][similar]  # [asked, similar, act]
    own = known_in[similar] == asked_in[:, None]  # where other episodes have too few rows
    compared = ~own.all(-1)
    if not compared.any():
        return np.ones(len(chosen))

    def nearest(of: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        gaps = np.square(around - of[..., :, None, :]).sum(-1, dtype=np.float64)
        return np.asarray(np.sqrt(np.where(own, np.inf, gaps).min(-1)))[..., compared]

    usual = np.quantile(nearest(actions[asked]), _USUAL)
    shares = [np.mean([(nearest(draw) > usual + 1e-6).mean() for draw in draws]) for draws in chosen]
    return np.asarray(shares)


def spread_rows(rows: int, most: int) -> npt.NDArray[np.int64]:
    """So many of them at the most, at equal distances."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))


def _similar(
    asked: npt.NDArray[np.float32],
    known: npt.NDArray[np.float32],
    asked_in: npt.NDArray[np.int64],
    known_in: npt.NDArray[np.int64],
    most: int = _SIMILAR,
) -> npt.NDArray[np.int64]:
    """The rows of `known` most like each of `asked`, of other episodes than its own: `[asked, similar]`."""
    count = min(most, len(known))
    found = []
    for first in range(0, len(asked), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        gaps = np.square(known).sum(-1) - 2.0 * asked[some] @ known.T  # and a constant
        gaps[asked_in[some, None] == known_in] = np.inf
        found.append(np.argpartition(gaps, count - 1, axis=-1)[:, :count])
    return np.concatenate(found)
