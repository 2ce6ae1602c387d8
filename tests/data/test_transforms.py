"""Transforms: fitted numbers worked out by hand, ranges, and what a checkpoint stores of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, Transforms, divisor_of, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError, DataError

SPACES = Spaces(obs_dim=2, action_low=(-2.0, 0.0), action_high=(2.0, 10.0))


def dataset(rewards: tuple[float, ...] = (1.0, 2.0, 5.0, 7.0)) -> TransitionDataset:
    """Episodes of rows 0-1 and 2-3; observation means 3 and 10, deviations sqrt(5) and 0."""
    return TransitionDataset.from_dict(
        {
            "obs": [[0.0, 10.0], [2.0, 10.0], [4.0, 10.0], [6.0, 10.0]],
            "actions": np.zeros((4, 2)),
            "rewards": rewards,
            "next_obs": np.full((4, 2), 1e6),  # must not enter the statistics
            "terminations": [0, 1, 0, 1],
        }
    )


def test_observation_statistics() -> None:
    config = TransformConfig(normalise_observations=True, observation_eps=0.5)
    transforms = fit_transforms(dataset(), SPACES, config)
    assert transforms.obs_mean == (3.0, 10.0)
    assert transforms.obs_std == pytest.approx((5**0.5 + 0.5, 0.5), rel=1e-12)
    normalised = transforms.observations([[3.0, 10.0], [3.0 + 5**0.5 + 0.5, 11.0]])
    np.testing.assert_allclose(normalised, [[0.0, 0.0], [1.0, 2.0]], rtol=1e-6)
    assert normalised.dtype == np.float32


def test_statistics_of_values_far_from_zero_keep_their_digits() -> None:
    far = Transforms((1e6,), (0.25,), 1.0, 0.0, (-1.0,), (1.0,))
    assert far.observations(np.array([1e6 + 0.25], dtype=np.float32)).tolist() == [1.0]


def test_nothing_is_changed_by_default() -> None:
    transforms = fit_transforms(dataset(), SPACES, TransformConfig())
    assert transforms == Transforms(None, None, 1.0, 0.0, SPACES.action_low, SPACES.action_high)
    assert transforms.observations([[1.5, -2.0]]).tolist() == [[1.5, -2.0]]
    assert transforms.rewards([1.5, -2.0]).tolist() == [1.5, -2.0]


def test_rewards_are_scaled_then_shifted() -> None:
    transforms = fit_transforms(dataset(), SPACES, TransformConfig(reward_scale=2.0, reward_shift=-1.0))
    assert transforms.rewards(np.array([0.0, 3.0], dtype=np.float32)).tolist() == [-1.0, 5.0]


def test_range_scaling_makes_returns_span_a_thousand() -> None:
    data = dataset()  # returns 3 and 12
    transforms = fit_transforms(data, SPACES, TransformConfig(reward_range_scaling=True))
    assert transforms.reward_scale == pytest.approx(1000 / 9)
    scaled = transforms.rewards(data.rewards)
    assert scaled[2:].sum() - scaled[:2].sum() == pytest.approx(1000.0, rel=1e-6)
    doubled = fit_transforms(data, SPACES, TransformConfig(reward_range_scaling=True, reward_scale=2.0))
    assert doubled.reward_scale == pytest.approx(2000 / 9)


def test_range_scaling_needs_a_range() -> None:
    with pytest.raises(DataError, match=r"^rewards: all 2 episode returns equal 3, so reward_range_scaling has no"):
        fit_transforms(dataset((1.0, 2.0, 0.0, 3.0)), SPACES, TransformConfig(reward_range_scaling=True))


def test_actions_between_bounds_and_unit_range() -> None:
    transforms = fit_transforms(dataset(), SPACES, TransformConfig())
    edge = np.float32(1.0 - 1e-5)  # where atanh is still finite
    np.testing.assert_array_equal(
        transforms.to_unit_actions([[-2.0, 0.0], [2.0, 10.0], [1.0, 5.0]]), [[-edge, -edge], [edge, edge], [0.5, 0]]
    )
    np.testing.assert_array_equal(transforms.to_unit_actions([3.0, -1.0]), [edge, -edge])
    assert transforms.from_unit_actions([[-1.0, -1.0], [1.0, 1.0], [0.5, 0.0]]).tolist() == [[-2, 0], [2, 10], [1, 5]]
    assert transforms.from_unit_actions([1.5, -7.0]).tolist() == [2.0, 0.0]


def test_actions_come_back_within_float32_and_inside_the_bounds() -> None:
    low, high = np.float32(-0.1), np.float32(0.3)
    transforms = Transforms(None, None, 1.0, 0.0, (float(low),), (float(high),))
    actions = np.random.default_rng(0).uniform(low, high, (1000, 1)).astype(np.float32)
    back = transforms.from_unit_actions(transforms.to_unit_actions(actions))
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, actions, atol=1e-7)
    edges = transforms.from_unit_actions([[-1.0], [1.0]])
    assert edges[0, 0] == low
    assert edges[1, 0] == high


@pytest.mark.parametrize("normalise", [True, False])
def test_json_round_trip_is_exact(normalise: bool) -> None:
    config = TransformConfig(normalise_observations=normalise, reward_scale=0.1, reward_shift=-1 / 3)
    transforms = fit_transforms(dataset(), SPACES, config)
    assert Transforms.from_json(json.loads(json.dumps(transforms.to_json()))) == transforms


def test_malformed_json_is_one_line() -> None:
    stored = fit_transforms(dataset(), SPACES, TransformConfig()).to_json()
    with pytest.raises(CheckpointError, match=r"^transforms: stored value is malformed: KeyError: 'reward_scale'$"):
        Transforms.from_json({name: v for name, v in stored.items() if name != "reward_scale"})
    with pytest.raises(CheckpointError, match="action_low has 1 entries, action_high 2"):
        Transforms.from_json(stored | {"action_low": [0.0]})
    with pytest.raises(CheckpointError, match="given together or not at all"):
        Transforms.from_json(stored | {"obs_mean": [0.0, 0.0]})


@pytest.mark.parametrize(
    "wrong", [{"observation_eps": 0.0}, {"reward_scale": -1.0}, {"reward_shift": float("nan")}, {"normalize": True}]
)
def test_configuration_is_validated(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TransformConfig.model_validate(wrong)


def test_rewards_are_clipped_after_scale_and_shift() -> None:
    transforms = Transforms(None, None, 2.0, -1.0, (-1.0,), (1.0,), reward_clip=(-3.0, 3.0))
    assert transforms.rewards([-5.0, 0.0, 1.5, 10.0]).tolist() == [-3.0, -1.0, 2.0, 3.0]
    assert Transforms.from_json(transforms.to_json()) == transforms


def test_a_clip_is_given_lowest_first() -> None:
    with pytest.raises(ValueError, match=r"reward_clip must be \[lowest, highest\], the lower first"):
        TransformConfig(reward_clip=(1.0, -1.0))


def test_transforms_that_overflow_are_refused_with_their_row() -> None:
    given = dataset((1.0, 2.0, 5.0, 7.0))
    known = np.array([False, True, True, True])
    steep = Transforms(None, None, 1e38, 0.0, SPACES.action_low, SPACES.action_high)
    said = r"^rewards: inf at row 2 \(episode 1, step 0\) once transforms are applied; all values must be"
    with pytest.raises(DataError, match=said):
        PackedTransitions.from_dataset(replace(given, has_next_obs=known), steep)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (TransformConfig(normalise_observations=True), "obs_mean"),
        (TransformConfig(reward_clip=(-3.4e38, 3.4e38)), "reward_clip"),
    ],
)
def test_what_no_checkpoint_could_hold_is_refused_before_training(config: TransformConfig, named: str) -> None:
    largest = np.full((4, 2), np.finfo(np.float32).max, dtype=np.float32)
    given = replace(dataset(), obs=largest)
    with pytest.raises(DataError, match=rf"transforms.{named}: is not finite: values of the data, or of the"):
        fit_transforms(given, SPACES, config)


def test_rewards_of_next_to_nothing_are_divided_by_what_float32_holds() -> None:
    assert (divisor_of(0.0), divisor_of(2.0), divisor_of(1e-44)) == (1.0, 2.0, 1e-30)
    assert TransformConfig(reward_scale=1.0 / divisor_of(1e-44)).reward_scale == pytest.approx(1e30)
