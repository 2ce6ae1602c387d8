"""What to say of data that are a single episode."""

from __future__ import annotations

from rl_training.data.offline_dataset import TransitionDataset

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
