"""The dataset at its edges: one row, one episode, nothing selected, rows that are no longer whole episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset, infer_spaces, mix_datasets
from rl_training.data.dataset_loaders import data_notices
from rl_training.data.formats import columns
from rl_training.data.offline_mixers import Mixture
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import manager
from rl_training.runtime.trainer import Trainer
from small_runs import small_config


def rows(count: int, **changes: Any) -> TransitionDataset:
    """Episodes of three rows, which terminate; the last may be cut off without a flag."""
    column = np.arange(count, dtype=np.float64)
    given = {
        "obs": np.stack((column, -column), 1),
        "actions": np.linspace(-1, 1, count)[:, None] if count > 1 else np.zeros((1, 1)),
        "rewards": np.ones(count),
        "next_obs": np.stack((column + 1, -column - 1), 1),
        "terminations": column % 3 == 2,
    }
    return TransitionDataset.from_dict(given | changes)


def refusal(function: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestSampledRows:
    @pytest.fixture
    def sampled(self) -> TransitionDataset:
        return rows(12).sample(5, np.random.default_rng(0))

    @pytest.mark.parametrize("what", ["episode_returns", "episode_lengths", "summary", "episode_ids", "n_episodes"])
    def test_have_no_episodes(self, what: str, sampled: TransitionDataset) -> None:
        def ask() -> None:
            value = getattr(sampled, what)
            if callable(value):
                value()

        expected = f"{what}: the rows were sampled or reordered; compute it on the whole dataset first"
        assert refusal(ask) == expected

    def test_can_still_be_counted_and_told_apart(self, sampled: TransitionDataset) -> None:
        assert sampled.row_summary() == {
            "transitions": 5,
            "usable": 5,
            "terminations": int(sampled.terminations.sum()),
            "truncations": 0,
            "obs_dim": 2,
            "act_dim": 1,
            "fingerprint": sampled.fingerprint(),
        }
        assert repr(sampled).startswith("TransitionDataset(5 transitions, sampled or reordered, obs 2, actions 1,")
        assert data_notices(sampled, None) == []

    def test_are_refused_from_a_column_directory_too(self, sampled: TransitionDataset, tmp_path: Path) -> None:
        columns.write(sampled, tmp_path / "log")
        opened = TransitionDataset.load(tmp_path / "log")
        assert refusal(opened.summary).startswith("summary: the rows were sampled or reordered")
        assert opened.row_summary() == sampled.row_summary()

    def test_can_be_trained_on(self, sampled: TransitionDataset, tmp_path: Path) -> None:
        config = small_config(None, tmp_path, "td3_bc")
        assert Trainer(config, dataset=sampled).plan()[0] == "data: 5 transitions (sampled)"
        run = manager.start(config, dataset=sampled).run
        assert run.describe()["dataset"] == sampled.row_summary()


class TestOneRow:
    @pytest.mark.parametrize("ends", [True, False])
    def test_is_an_episode(self, ends: bool, tmp_path: Path) -> None:
        one = rows(1, terminations=[ends], rewards=[2.5])
        facts = one.summary()
        assert (facts["transitions"], facts["episodes"], facts["length_mean"]) == (1, 1, 1.0)
        assert facts["return_mean"] == facts["return_min"] == facts["return_max"] == 2.5
        assert one.select(np.array([0])).fingerprint() == one.fingerprint()
        assert one.select(np.array([True])).whole_episodes
        columns.write(one, tmp_path / "log")
        assert TransitionDataset.load(tmp_path / "log").summary() == facts

    def test_can_be_mixed(self) -> None:
        mixed = mix_datasets({"a": rows(1), "b": rows(1)}, {"a": 1, "b": 3})
        assert mixed.episode_lengths().tolist() == [1, 1]
        assert mixed.mixture == Mixture(("a", "b"), (0.25, 0.75))
        assert mixed.summary()["transitions"] == 2

    def test_and_one_part(self) -> None:
        mixed = mix_datasets({"a": rows(7)}, {"a": 5}, exact=True)
        assert mixed.mixture == Mixture(("a",), (1.0,), exact=True)
        assert mixed.episode_lengths().tolist() == [3, 3, 1]
        assert mixed.fingerprint() != rows(7).fingerprint()


class TestSelecting:
    @pytest.mark.parametrize(
        ("chosen", "complaint"),
        [
            ([], "rows: none are selected; a dataset needs at least one transition"),
            ([False] * 6, "rows: none are selected; a dataset needs at least one transition"),
            ([True] * 5, "rows: a mask of shape (5,), but the dataset has 6 rows"),
            (3, "rows: give a mask or integers [n], not int64 of shape ()"),
            ([[0, 1]], "rows: give a mask or integers [n], not int64 of shape (1, 2)"),
            ([0.0, 1.0], "rows: give a mask or integers [n], not float64 of shape (2,)"),
            ([0, 6], "rows: indices 0 to 6; the dataset has 0 to 5"),
            ([-1], "rows: indices -1 to -1; the dataset has 0 to 5"),
        ],
    )
    def test_what_cannot_be(self, chosen: Any, complaint: str) -> None:
        assert refusal(rows(6).select, np.array(chosen)) == complaint

    @pytest.mark.parametrize("size", [0, -1])
    def test_no_rows_are_no_sample(self, size: int) -> None:
        message = refusal(rows(6).sample, size, np.random.default_rng(0))
        assert message == f"batch_size: must be at least 1, is {size}"

    def test_one_episode(self) -> None:
        part = rows(9).select(np.arange(3, 6))
        assert (part.n_episodes, part.whole_episodes, part.summary()["return_mean"]) == (1, True, 3.0)

    def test_a_selection_is_no_column_directory(self, tmp_path: Path) -> None:
        columns.write(rows(9), tmp_path / "log")
        opened = TransitionDataset.load(tmp_path / "log")
        assert opened.folder == tmp_path / "log"
        assert opened.with_next_actions().folder == opened.folder  # all its rows still
        assert opened.select(np.arange(3)).folder is None
        assert opened.sample(3, np.random.default_rng(0)).folder is None
        assert mix_datasets({"a": opened, "b": rows(3)}).folder is None


class TestMixing:
    @pytest.mark.parametrize(
        ("weights", "complaint"),
        [
            ({"a": 1, "b": 0}, "mixture: weights must be positive numbers, got {'a': 1, 'b': 0}"),
            ({"a": 1, "b": -1}, "mixture: weights must be positive numbers, got {'a': 1, 'b': -1}"),
            ({"a": 1, "b": float("nan")}, "mixture: weights must be positive numbers, got {'a': 1, 'b': nan}"),
            ({"a": 1, "b": float("inf")}, "mixture: weights must be positive numbers, got {'a': 1, 'b': inf}"),
            ({"a": 1, "b": "2"}, "mixture: weights must be positive numbers, got {'a': 1, 'b': '2'}"),
            ({"a": 1e300, "b": 1e-300}, "mixture: the weight of b, 1e-300, is nothing beside 1e+300"),
            ({"a": 1}, "mixture: weights for ['a'], but the parts are ['a', 'b']"),
            ({"a": 1, "b": 1, "c": 1}, "mixture: weights for ['a', 'b', 'c'], but the parts are ['a', 'b']"),
        ],
    )
    def test_weights_that_cannot_be(self, weights: dict[str, Any], complaint: str) -> None:
        assert refusal(mix_datasets, {"a": rows(6), "b": rows(3)}, weights) == complaint

    def test_weights_need_not_sum_to_one(self) -> None:
        for weight in (0.9, 1e308):
            mixed = mix_datasets({"a": rows(6), "b": rows(3)}, {"a": weight, "b": weight})
            assert mixed.mixture == Mixture(("a", "b"), (0.5, 0.5))

    @pytest.mark.parametrize("shares", [(0.8, 0.8), (0.2, 0.2), (1.5, -0.5), (1.0, 0.0), (float("nan"), 1.0), (1.0,)])
    def test_shares_do(self, shares: tuple[float, ...]) -> None:
        assert refusal(Mixture, ("a", "b"), shares).startswith("mixture: ")

    def test_no_parts(self) -> None:
        assert refusal(mix_datasets, {}) == "mixture: needs at least one part"

    def test_other_widths(self) -> None:
        wide = rows(3, obs=np.zeros((3, 4)), next_obs=np.zeros((3, 4)))
        message = "mixture: b has 4 observation and 1 action columns, a has 2 and 1"
        assert refusal(mix_datasets, {"a": rows(6), "b": wide}) == message
        broad = rows(3, actions=np.zeros((3, 2)))
        message = "mixture: b has 2 observation and 2 action columns, a has 2 and 1"
        assert refusal(mix_datasets, {"a": rows(6), "b": broad}) == message

    def test_bounds_are_those_of_all_parts(self) -> None:
        wider = rows(3, actions=[[-2.0], [0.0], [3.0]])
        spaces = infer_spaces(mix_datasets({"a": rows(6), "b": wider}))
        assert (spaces.action_low, spaces.action_high) == ((-2.0,), (3.0,))
        spaces = infer_spaces(mix_datasets({"a": rows(6, actions=np.full((6, 1), 0.5)), "b": rows(3)}))
        assert (spaces.action_low, spaces.action_high) == ((-1.0,), (1.0,))

    @pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64, ">f4"])
    def test_other_types_become_one(self, dtype: Any) -> None:
        def typed(kind: Any) -> TransitionDataset:
            values = np.arange(6).astype(kind)
            matrix = np.stack((values, values), 1)
            return rows(6, obs=matrix, next_obs=matrix, actions=values[:, None] * 0, rewards=values)

        mixed = mix_datasets({"a": rows(6), "b": typed(dtype)})
        assert all(mixed.to_dict()[name].dtype == np.float32 for name in ("obs", "actions", "rewards", "next_obs"))
        assert mixed.fingerprint() == mix_datasets({"a": rows(6), "b": typed(np.float32)}).fingerprint()

    def test_the_environment_is_kept_where_parts_agree(self) -> None:
        def recorded(env_id: str | None) -> TransitionDataset:
            given = rows(6)
            object.__setattr__(given, "env_id", env_id)
            return given

        assert mix_datasets({"a": recorded("Hopper-v4"), "b": recorded(None)}).env_id == "Hopper-v4"
        mixed = mix_datasets({"a": recorded("Hopper-v4"), "b": recorded("Walker2d-v4")})
        assert mixed.env_id is None
        assert mixed.notes == ("the parts were recorded in different environments: a in Hopper-v4, b in Walker2d-v4",)

    def test_sampled_parts_stay_sampled(self) -> None:
        mixed = mix_datasets({"a": rows(6), "b": rows(6).sample(4, np.random.default_rng(0))})
        assert not mixed.whole_episodes
        assert mixed.row_summary()["transitions"] == 10
        assert refusal(mixed.summary).startswith("summary: the rows were sampled")
