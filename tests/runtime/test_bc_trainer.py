"""%BC: which episodes are the best, on their true borders, and that nothing else is cloned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.experiment import manager
from rl_training.runtime.bc_trainer import best_episodes
from rl_training.runtime.trainer import trainer_for
from small_runs import digest, files_under, small_config


def episodes(returns: list[float], lengths: list[int], ends: str) -> TransitionDataset:
    """Episodes of these returns (all of it earned in the last row) and lengths; `ends` has a t, u or c for each:
    terminated, truncated, or cut off by the end of the data. Row i of episode e observes (e, i)."""
    obs = np.array([(e, i) for e, length in enumerate(lengths) for i in range(length)], dtype=np.float32)
    last = np.cumsum(lengths) - 1
    rewards, terminated, truncated = (np.zeros(len(obs)) for _ in range(3))
    rewards[last] = returns
    for row, end in zip(last, ends, strict=True):
        terminated[row], truncated[row] = end == "t", end == "u"
    return TransitionDataset(obs, obs[:, :1] / 10, rewards, obs + 0.5, terminated == 1, truncated == 1)


def kept(dataset: TransitionDataset, fraction: float) -> list[int]:
    """Numbers of the episodes kept, each of which must be there as a whole and in its own order."""
    best = best_episodes(dataset, fraction)
    numbers = sorted(set(best.obs[:, 0].astype(int).tolist()))
    whole = [row for row in dataset.obs.tolist() if row[0] in numbers]
    assert best.obs.tolist() == whole
    assert best.whole_episodes
    assert best.n_episodes == len(numbers)
    return numbers


def test_the_best_by_return_in_their_own_order() -> None:
    dataset = episodes([3.0, -1.0, 7.0, 5.0, 0.0], [2, 3, 1, 4, 2], "tutut")
    assert kept(dataset, 0.2) == [2]
    assert kept(dataset, 0.4) == [2, 3]
    assert kept(dataset, 0.6) == [0, 2, 3]
    assert kept(dataset, 1.0) == [0, 1, 2, 3, 4]
    assert best_episodes(dataset, 0.6).obs[:, 0].tolist() == [0, 0, 2, 3, 3, 3, 3]


def test_a_share_is_rounded_down_but_at_least_one_episode_is_kept() -> None:
    dataset = episodes([3.0, -1.0, 7.0, 5.0, 0.0], [2, 3, 1, 4, 2], "ttttt")
    assert kept(dataset, 0.39) == [2]
    assert kept(dataset, 0.01) == [2]
    assert kept(episodes([-5.0], [3], "c"), 0.1) == [0]


@pytest.mark.parametrize(("fraction", "count"), [(0.29, 29), (0.57, 57), (0.1, 10), (0.58, 58), (0.07, 7)])
def test_a_share_that_is_whole_loses_nothing_to_rounding(fraction: float, count: int) -> None:
    """0.29 times 100 is a little less than 29 in binary."""
    assert len(kept(episodes(list(range(100)), [2] * 100, "t" * 100), fraction)) == count


def test_of_equals_the_earlier_is_kept() -> None:
    dataset = episodes([1.0, 2.0, 2.0, 2.0, 1.0], [2] * 5, "tutut")
    assert kept(dataset, 0.2) == [1]
    assert kept(dataset, 0.4) == [1, 2]
    assert kept(dataset, 0.8) == [0, 1, 2, 3]


def test_returns_are_neither_discounted_nor_averaged_over_the_length() -> None:
    """A long episode that earns late beats a short one that earns at once."""
    dataset = episodes([10.0, 9.0], [400, 1], "tt")
    assert kept(dataset, 0.5) == [0]


def test_an_episode_cut_off_by_the_end_of_the_data_counts() -> None:
    dataset = episodes([1.0, 2.0, 8.0], [3, 2, 2], "tuc")
    assert kept(dataset, 0.34) == [2]
    assert kept(dataset, 0.67) == [1, 2]


def test_true_borders_where_lengths_differ() -> None:
    """CORL cuts the stream into equal chunks; the border here lies after one row, five rows and two rows."""
    dataset = episodes([100.0, 1.0, 50.0], [1, 5, 2], "utu")
    assert best_episodes(dataset, 0.67).obs.tolist() == [[0, 0], [2, 0], [2, 1]]


def test_every_field_comes_along() -> None:
    dataset = episodes([1.0, 5.0], [2, 3], "tu").with_next_actions()
    best = best_episodes(dataset, 0.5)
    for name, values in best.to_dict().items():
        np.testing.assert_array_equal(values, dataset.to_dict()[name][2:5])
    assert best.truncations.tolist() == [False, False, True]


def test_training_sees_those_rows_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dataset = episodes(rng.normal(size=20).tolist(), rng.integers(1, 9, 20).tolist(), "tu" * 10)
    best = set(np.argsort(dataset.episode_returns())[-5:].tolist())
    config = small_config(None, tmp_path, "bc", algo_kwargs={"best_fraction": 0.25})
    loop = trainer_for("bc")(config, dataset=dataset).prepare()
    source, learner = loop.engine.source, loop.actor.learner
    drawn: set[int] = set()
    for update in range(200):
        drawn |= set(source.batch(learner.keys, torch.tensor(update), 8).obs[..., 0].flatten().int().tolist())
    assert drawn == best


def test_a_run_on_the_best_is_a_run_on_those_episodes_alone(tmp_path: Path) -> None:
    dataset = episodes([3.0, -1.0, 7.0, 5.0, 0.0], [2, 3, 1, 4, 2], "tutut")
    runs = {"all": (dataset, 1.0), "chosen": (dataset, 0.4), "alone": (best_episodes(dataset, 0.4), 1.0)}
    states = {}
    for name, (data, fraction) in runs.items():
        config = small_config(None, tmp_path, "bc", name=name, algo_kwargs={"best_fraction": fraction})
        states[name] = digest(manager.start(config, dataset=data).actor.learner.state())
    assert states["chosen"] == states["alone"] != states["all"]


def test_observations_are_normalised_by_the_episodes_that_are_cloned(tmp_path: Path) -> None:
    """By hand: the kept ones observe (2, 0) and (3, 0) to (3, 3)."""
    dataset = episodes([3.0, -1.0, 7.0, 5.0, 0.0], [2, 3, 1, 4, 2], "tutut")
    values = {"algo_kwargs": {"best_fraction": 0.4}, "transforms": {"normalise_observations": True}}
    parts = trainer_for("bc")(small_config(None, tmp_path, "bc", **values), dataset=dataset).assemble()
    assert parts.transforms.obs_mean == pytest.approx((14 / 5, 6 / 5), rel=1e-12)
    assert parts.transforms.obs_std == pytest.approx((0.4 + 1e-3, 1.36**0.5 + 1e-3), rel=1e-9)
    assert parts.dataset is not None
    assert parts.dataset.n_episodes == dataset.n_episodes  # all of it is reported


def test_an_epoch_is_a_pass_over_the_episodes_that_are_cloned(tmp_path: Path) -> None:
    """Of 60 rows in 5 episodes the two best have 8 and 16: 24 rows are 3 batches of 8, all 60 would be 8."""
    dataset = episodes([3.0, -1.0, 7.0, 5.0, 0.0], [10, 20, 8, 16, 6], "tutut")
    values = {"n_epochs": 4, "total_timesteps": None, "algo_kwargs": {"best_fraction": 0.4}}
    result = manager.start(small_config(None, tmp_path, "bc", **values), dataset=dataset)
    assert (result.progress.updates_per_epoch, result.progress.updates, result.progress.epoch) == (3, 12, 4.0)
    whole = small_config(None, tmp_path, "bc", **{**values, "name": "whole", "algo_kwargs": {}})
    assert manager.start(whole, dataset=dataset).progress.updates == 4 * 8


def test_the_run_remembers_the_data_it_was_given(tmp_path: Path) -> None:
    dataset = episodes([3.0, -1.0], [2, 3], "tu")
    config = small_config(None, tmp_path, "bc", algo_kwargs={"best_fraction": 0.5})
    facts = manager.start(config, dataset=dataset).run.describe()["dataset"]
    assert (facts["episodes"], facts["fingerprint"]) == (2, dataset.fingerprint())
    assert manager.resume(tmp_path / "run", total_timesteps=25, dataset=dataset).progress.steps == 25


def test_sampled_rows_have_no_best_episodes() -> None:
    sampled = episodes([3.0, -1.0], [2, 3], "tu").sample(10, np.random.default_rng(0))
    with pytest.raises(DataError, match="the rows were sampled or reordered"):
        best_episodes(sampled, 0.5)


def test_sampled_rows_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    sampled = episodes([3.0, -1.0], [2, 3], "tu").sample(10, np.random.default_rng(0))
    config = small_config(None, tmp_path, "bc", algo_kwargs={"best_fraction": 0.5})
    with pytest.raises(DataError, match="the rows were sampled or reordered"):
        manager.start(config, dataset=sampled)
    assert files_under(tmp_path) == {}
