"""Whether the data have anything to say about a policy's actions.

Around a state, the actions of the most similar states of other episodes are what the data know. A policy's action is
outside when it is farther from all of them than nearly all of the data's own actions are from theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.runtime.acting import Actor

_ASKED = 1_000  # states
_KNOWN = 20_000  # rows among which similar states are looked for
_SIMILAR = 50
_USUAL = 0.99  # of the data's own actions count as inside
_AT_ONCE = 100


def share_outside(actor: Actor, dataset: TransitionDataset, standard: Transforms) -> npt.NDArray[np.float64]:
    """For each member, the share of states in which its policy leaves the data's actions, `[M]`; the data's own: 0.01.

    standard: what makes observations comparable across columns.
    """
    asked, known = (_spread(len(dataset), most) for most in (_ASKED, _KNOWN))
    obs, actions = standard.observations(dataset.obs), standard.to_unit_actions(dataset.actions)
    raw = dataset.obs[asked]
    chosen = standard.to_unit_actions(actor(np.broadcast_to(raw, (actor.learner.members, *raw.shape))))
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
    return np.asarray((nearest(chosen) > usual + 1e-6).mean(-1))


def _spread(rows: int, most: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))


def _similar(
    asked: npt.NDArray[np.float32],
    known: npt.NDArray[np.float32],
    asked_in: npt.NDArray[np.int64],
    known_in: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """The rows of `known` most like each of `asked`, of other episodes than its own: `[asked, similar]`."""
    count = min(_SIMILAR, len(known))
    found = []
    for first in range(0, len(asked), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        gaps = np.square(known).sum(-1) - 2.0 * asked[some] @ known.T  # and a constant
        gaps[asked_in[some, None] == known_in] = np.inf
        found.append(np.argpartition(gaps, count - 1, axis=-1)[:, :count])
    return np.concatenate(found)
