"""Mixtures: what is kept, what is drawn, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training import streams
from rl_training.data import TransitionDataset, mix_datasets
from rl_training.data.batch import PackedTransitions
from rl_training.data.dataset_loaders import MixtureDatasetConfig, load_dataset, with_absolute_paths
from rl_training.data.formats import columns
from rl_training.data.offline_mixers import batch_counts
from rl_training.data.space_bounds import SpaceBounds
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError, DataError

PLAIN = Transforms(None, None, 1.0, 0.0, (-1.0,), (1.0,))
STREAM = streams.stream_id("batch")


def part(rows: int, value: float, **changes: Any) -> TransitionDataset:
    """`rows` transitions that can be told by their reward; the last episode is cut off without a flag."""
    given = {
        "obs": np.zeros((rows, 2)),
        "actions": np.linspace(-1, 1, rows)[:, None],
        "rewards": np.full(rows, value),
        "next_obs": np.zeros((rows, 2)),
        "terminations": np.arange(rows) == rows // 2,
    }
    return TransitionDataset.from_dict(given | changes)


def drawn(mixed: TransitionDataset, updates: int = 400, size: int = 100) -> np.ndarray[Any, Any]:
    """Rewards of every row drawn, `[updates, size]`."""
    packed = PackedTransitions.from_dataset(mixed, PLAIN)
    keys = streams.member_keys([3])
    return np.stack([packed.gather(packed.indices(keys, STREAM, u, size)).rewards[0].numpy() for u in range(updates)])


class TestShares:
    def test_by_rows_unless_weights_are_given(self) -> None:
        mixed = mix_datasets({"a": part(300, 1.0), "b": part(100, 2.0)})
        assert mixed.mixture is not None
        assert mixed.mixture.shares == (0.75, 0.25)

    def test_by_weight_on_average(self) -> None:
        share = (drawn(mix_datasets({"a": part(300, 1.0), "b": part(10, 2.0)}, {"a": 1, "b": 3})) == 2.0).mean(1)
        assert share.mean() == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 40_000) ** 0.5)
        assert share.std() == pytest.approx((0.75 * 0.25 / 100) ** 0.5, rel=0.15)

    def test_exactly_in_every_batch(self) -> None:
        rewards = drawn(mix_datasets({"a": part(30, 1.0), "b": part(10, 2.0)}, {"a": 1, "b": 3}, exact=True), 50)
        assert ((rewards == 2.0).sum(1) == 75).all()

    def test_within_a_part_draws_are_uniform(self) -> None:
        mixed = mix_datasets({"a": part(4, 1.0), "b": part(8, 2.0)}, {"a": 1, "b": 1})
        packed = PackedTransitions.from_dataset(mixed, PLAIN)
        keys = streams.member_keys([3])
        index = torch.cat([packed.indices(keys, STREAM, u, 100) for u in range(800)]).flatten()
        counts = np.bincount(index.numpy(), minlength=12)
        np.testing.assert_allclose(counts[:4], 10_000, rtol=0.06)
        np.testing.assert_allclose(counts[4:], 5_000, rtol=0.08)

    def test_are_a_function_of_seed_and_update(self) -> None:
        mixed = mix_datasets({"a": part(30, 1.0), "b": part(10, 2.0)}, {"a": 1, "b": 1})
        packed = PackedTransitions.from_dataset(mixed, PLAIN)
        among = packed.indices(streams.member_keys([5, 3]), STREAM, torch.tensor(7), 50)
        assert torch.equal(among[1], packed.indices(streams.member_keys([3]), STREAM, 7, 50)[0])

    @pytest.mark.parametrize(
        ("shares", "size", "counts"),
        [
            ((0.5, 0.5), 256, [128, 128]),
            ((0.5, 0.5), 3, [2, 1]),
            ((0.999, 0.001), 10, [9, 1]),
            ((1 / 3, 1 / 3, 1 / 3), 256, [86, 85, 85]),
            ((0.7, 0.2, 0.1), 4, [2, 1, 1]),
        ],
    )
    def test_rounded(self, shares: tuple[float, ...], size: int, counts: list[int]) -> None:
        assert batch_counts(shares, size) == counts

    def test_a_batch_smaller_than_the_parts(self) -> None:
        with pytest.raises(ConfigError, match="batch_size: 1 is too small for 2 parts with exact shares"):
            batch_counts((0.5, 0.5), 1)


class TestFields:
    def test_episodes_do_not_go_on_into_the_next_part(self) -> None:
        mixed = mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)})
        assert mixed.episode_lengths().tolist() == [4, 2, 3, 1]
        assert mixed.truncations.nonzero()[0].tolist() == [5, 9]

    def test_next_actions_are_kept_and_completed(self) -> None:
        have = part(6, 1.0, next_actions=np.full((6, 1), 0.5))
        mixed = mix_datasets({"a": have, "b": part(4, 2.0)})
        assert mixed.next_actions is not None
        assert (mixed.next_actions[:6] == 0.5).all()
        np.testing.assert_array_equal(mixed.next_actions[6:], part(4, 2.0).with_next_actions().next_actions)

    def test_returns_are_kept_where_all_have_them(self) -> None:
        parts = {"a": part(6, 1.0).with_returns_to_go(0.9), "b": part(4, 2.0).with_returns_to_go(0.9)}
        returns = mix_datasets(parts).returns_to_go
        assert returns is not None
        np.testing.assert_array_equal(returns, np.concatenate([p.returns_to_go for p in parts.values()]))  # type: ignore[arg-type]
        partly = mix_datasets(parts | {"c": part(4, 3.0)})
        assert partly.returns_to_go is None
        assert partly.notes == ("returns_to_go are dropped: c has none",)

    def test_unknown_successors_are_kept_apart(self) -> None:
        given = part(6, 1.0).to_dict()
        del given["next_obs"]
        mixed = mix_datasets({"a": TransitionDataset.from_dict(given), "b": part(4, 2.0)}, {"a": 1, "b": 1})
        packed = PackedTransitions.from_dataset(mixed, PLAIN)
        assert [(p.start, p.rows) for p in packed.parts] == [(0, 5), (5, 4)]

    def test_fingerprints_see_shares_and_data(self) -> None:
        one = mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}, {"a": 1, "b": 1})
        same = mix_datasets({"x": part(6, 1.0), "y": part(4, 2.0)}, {"x": 2, "y": 2})
        assert one.fingerprint() == same.fingerprint()
        others = [
            mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}, {"a": 1, "b": 2}),
            mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}, {"a": 1, "b": 1}, exact=True),
            mix_datasets({"a": part(6, 1.5), "b": part(4, 2.0)}, {"a": 1, "b": 1}),
        ]
        assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 4

    def test_rows_of_other_widths(self) -> None:
        wide = part(4, 2.0, obs=np.zeros((4, 3)), next_obs=np.zeros((4, 3)))
        with pytest.raises(DataError, match="mixture: b has 3 observation and 1 action columns, a has 2 and 1"):
            mix_datasets({"a": part(6, 1.0), "b": wide})

    @pytest.mark.parametrize("weights", [{"a": 1.0}, {"a": 1.0, "b": 0.0}, {"a": 1.0, "b": float("nan")}])
    def test_weights(self, weights: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match="mixture: weights"):
            mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}, weights)

    def test_nothing_left_of_a_part(self) -> None:
        given = {name: values[:1] for name, values in part(6, 1.0).to_dict().items() if name != "next_obs"}
        mixed = mix_datasets({"a": TransitionDataset.from_dict(given), "b": part(4, 2.0)}, {"a": 1, "b": 1})
        with pytest.raises(DataError, match="mixture: nothing of a is left to train on"):
            PackedTransitions.from_dataset(mixed, PLAIN)


class TestSection:
    def test_of_files_and_generated_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        part(6, 1.0).save(tmp_path / "a.npz")
        monkeypatch.chdir(tmp_path)
        section = {"source": "mixture", "parts": [{"dataset": "a.npz"}, {"dataset": "a.npz"}], "exact": True}
        config = MixtureDatasetConfig.model_validate(section)
        mixed = load_dataset(config, None, None)
        assert mixed.mixture is not None
        assert mixed.mixture.names == ("a.npz (part 1)", "a.npz (part 2)")
        absolute = with_absolute_paths(config)
        monkeypatch.chdir("/")
        assert load_dataset(absolute, None, None).fingerprint() == mixed.fingerprint()

    def test_a_mixture_of_mixtures_is_refused(self) -> None:
        inner = mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}, {"a": 9, "b": 1})
        with pytest.raises(ConfigError, match="mixture: x is a mixture itself; name its parts here"):
            mix_datasets({"x": inner, "y": part(4, 3.0)})

    def test_a_mixture_is_not_written(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="a mixture is not written: its shares would be lost"):
            mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}).save(tmp_path / "m.npz")
        with pytest.raises(DataError, match="a mixture is not written: its shares would be lost"):
            columns.write(mix_datasets({"a": part(6, 1.0), "b": part(4, 2.0)}), tmp_path / "m")
        assert list(tmp_path.iterdir()) == []

    def test_names_that_cannot_be_told_apart(self, tmp_path: Path) -> None:
        part(6, 1.0).save(tmp_path / "a.npz")
        named = [{"dataset": tmp_path / "a.npz", "name": n} for n in ("a", "a", "a (part 1)")]
        with pytest.raises(ConfigError, match=r"dataset\.parts: names must differ"):
            load_dataset(MixtureDatasetConfig.model_validate({"parts": named}), None, None)

    def test_weights_for_all_or_none(self) -> None:
        parts = [{"dataset": "a.npz", "weight": 1.0}, {"dataset": "b.npz"}]
        with pytest.raises(ValueError, match="give every part a weight, or none"):
            MixtureDatasetConfig.model_validate({"parts": parts})


class TestBounds:
    def test_of_the_parts_that_tell_them(self) -> None:
        told = part(10, 1.0, actions=np.linspace(-2, 2, 10)[:, None])
        told = replace(told, bounds=SpaceBounds((-2.0,), (2.0,)))
        mixed = mix_datasets({"a": part(10, 1.0), "b": told})
        assert (mixed.bounds, mixed.notes) == (SpaceBounds((-2.0,), (2.0,)), ())

    def test_that_differ(self) -> None:
        a, b = (replace(part(10, 1.0), bounds=SpaceBounds((-n,), (n,), (0.0, 0.0), (n, n))) for n in (2.0, 3.0))
        mixed = mix_datasets(
            {"a": a, "b": replace(b, bounds=replace(b.bounds, action_low=(-2.0,), action_high=(2.0,)))}
        )
        assert mixed.bounds == SpaceBounds((-2.0,), (2.0,))
        assert mixed.notes == ("the observation bounds that the parts tell are not used: they differ",)

    def test_that_another_part_does_not_keep(self) -> None:
        told = replace(part(10, 1.0), bounds=SpaceBounds((-1.0,), (1.0,)))
        mixed = mix_datasets({"a": told, "b": part(10, 1.0, actions=np.full((10, 1), 5.0))})
        said = "the action bounds that the data tell are not used: column 0 has actions outside [-1, 1]"
        assert (mixed.bounds, mixed.notes) == (None, (said,))


def test_shares_count_the_rows_that_are_trained_on() -> None:
    known = np.arange(100) % 2 == 0
    mixed = mix_datasets({"a": part(100, 1.0, has_next_obs=known), "b": part(150, 2.0)})
    assert mixed.mixture is not None
    assert mixed.mixture.shares == (0.25, 0.75)
    empty = mix_datasets({"a": part(9, 1.0, has_next_obs=np.zeros(9, dtype=bool)), "b": part(9, 2.0)})
    with pytest.raises(DataError, match="mixture: nothing of a is left to train on"):
        PackedTransitions.from_dataset(empty, PLAIN)
