"""What to say of data that are a single episode, or few to judge by."""

from __future__ import annotations

import math

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.wording import WARNING, amount

FEWEST_EPISODES = 10  # that an estimate without a simulator is made of
_OFTEN_TOO_FEW = 50  # episodes: fits on resamples of fewer often differ too much to be trusted
_LARGER = 0.4  # a share that leaves more to train on than it sets aside
ONE_EPISODE = (
    "the data are a single episode: a policy learns from what went differently in several, and judging one"
    " (held-out data, evaluate --offline) takes several as well"
)


def of_one_episode(dataset: TransitionDataset) -> list[str]:
    """A notice where there is but one, and what makes it one where no row says so."""
    if not dataset.whole_episodes or dataset.n_episodes > 1:
        return []
    if not (dataset.terminations | dataset.truncations).any():
        return [f"no row of the data ends an episode (terminations, truncations): all {len(dataset):,} count as one"]
    return [ONE_EPISODE]


def to_judge_by(aside: int, whole: int) -> str | None:
    """What to say where too few of so many episodes are set aside for an estimate of a policy, or often too few."""
    if aside >= FEWEST_EPISODES:
        more = round(_LARGER * whole)
        if aside >= _OFTEN_TOO_FEW or more <= aside:
            return None
        told = f"{amount(aside, 'episode')} set aside are often too few to judge a policy by"
        return f"{told}: --held-out {_LARGER:g} sets {more:,} aside"
    told = f"{amount(aside, 'episode')} set aside: too few to judge by, as evaluate --offline needs {FEWEST_EPISODES}"
    if whole < 2 * FEWEST_EPISODES:
        return f"{told}; record more"
    share = math.ceil(100 * FEWEST_EPISODES / whole) / 100
    return f"{WARNING}{told}; --held-out {share:g} sets as many aside"
