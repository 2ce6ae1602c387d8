"""Where episodes end, by the conventions of different logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.flags import cut_at_time_limit, d4rl_conversion
from rl_training.data.formats import RawData
from rl_training.errors import DataError


def arrays(rows: int = 8, **changes: Any) -> dict[str, Any]:
    given = {
        "obs": np.arange(rows, dtype=np.float32)[:, None],
        "actions": np.zeros((rows, 1)),
        "rewards": np.ones(rows),
        "terminations": np.isin(np.arange(rows), [2]),
    }
    return given | changes


class TestEpisodeIds:
    def test_tell_where_episodes_end(self) -> None:
        dataset = TransitionDataset.from_dict(arrays(eps_id=[5, 5, 5, 7, 7, 1, 1, 1]))
        assert dataset.episode_lengths().tolist() == [3, 2, 3]
        assert dataset.terminations.nonzero()[0].tolist() == [2]
        assert dataset.truncations.nonzero()[0].tolist() == [4, 7]

    def test_may_be_names(self) -> None:
        dataset = TransitionDataset.from_dict(arrays(episode=list("aaabbccc")))
        assert dataset.episode_lengths().tolist() == [3, 2, 3]

    def test_without_any_other_flag(self) -> None:
        given = arrays(episode_ids=[0, 0, 0, 0, 1, 1, 1, 1])
        del given["terminations"]
        assert TransitionDataset.from_dict(given).truncations.nonzero()[0].tolist() == [3, 7]

    def test_out_of_order(self) -> None:
        with pytest.raises(DataError, match="episode_ids: episode 0 goes on at row 5 after another one; sort rows"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0, 1, 1, 0, 0, 0]))

    def test_not_a_number(self) -> None:
        with pytest.raises(DataError, match="episode_ids: NaN at row 3; every row needs its episode"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0, np.nan, np.nan, 1, 1, 1]))

    def test_of_no_rows(self) -> None:
        with pytest.raises(DataError, match="obs: 0 rows"):
            TransitionDataset.from_dict({name: values[:0] for name, values in arrays(episode_ids=np.arange(8)).items()})

    def test_of_another_length(self) -> None:
        with pytest.raises(DataError, match="terminations: 8 rows, but 3 tell where episodes end"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0]))


class TestTimeLimit:
    def test_cuts_within_episodes(self) -> None:
        given = cut_at_time_limit(arrays(rows=10), 3)
        assert given["truncations"].nonzero()[0].tolist() == [5, 8]

    def test_not_where_truncations_are_known(self) -> None:
        with pytest.raises(DataError, match="max_episode_steps: the data mark their truncations themselves"):
            cut_at_time_limit(arrays(timeouts=np.arange(8) == 5), 3)

    def test_through_the_loader(self) -> None:
        dataset = TransitionDataset.from_raw(RawData(arrays(rows=10), "test"), max_episode_steps=3)
        assert dataset.episode_lengths().tolist() == [3, 3, 3, 1]
        assert dataset.origin == "test"


class TestD4RLConversion:
    def test_is_the_loop_it_stands_for(self) -> None:
        """Against the loop of `qlearning_dataset`, written out."""
        rng = np.random.default_rng(0)
        rows = 200
        terminals = rng.random(rows) < 0.05
        timeouts = (rng.random(rows) < 0.05) & ~terminals
        given = arrays(rows, terminations=terminals, timeouts=timeouts, rewards=rng.normal(size=rows))
        kept, successors = [], []
        for i in range(rows - 1):
            if timeouts[i]:
                continue
            kept.append(i)
            successors.append(given["obs"][i + 1])
        dataset = TransitionDataset.from_dict(d4rl_conversion(given))
        np.testing.assert_array_equal(dataset.obs, given["obs"][kept])
        np.testing.assert_array_equal(dataset.next_obs, np.stack(successors))
        np.testing.assert_array_equal(dataset.terminations, terminals[kept])
        np.testing.assert_allclose(dataset.rewards, given["rewards"][kept].astype(np.float32))

    def test_keeps_the_borders(self) -> None:
        dataset = TransitionDataset.from_dict(d4rl_conversion(arrays(timeouts=np.arange(8) == 5)))
        assert dataset.episode_lengths().tolist() == [3, 2, 1]
