"""Every fault a dataset can have is refused with its field, episode and row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.checks import check_action_bounds, inferred_bounds
from rl_training.data.dataset_loaders import infer_spaces
from rl_training.data.doctor.action_checks import find_bounds
from rl_training.data.doctor.raw_checks import CHUNK
from rl_training.data.doctor.subject import Columns, Outside
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError


def sound(rows: int = 10) -> dict[str, Any]:
    """Two episodes, rows 0-3 (terminated) and 4-9 (truncated), O = 3, A = 2."""
    rng = np.random.default_rng(0)
    terminations, truncations = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    terminations[3], truncations[9] = True, True
    return {
        "obs": rng.standard_normal((rows, 3)),
        "actions": rng.uniform(-1, 1, (rows, 2)),
        "rewards": rng.standard_normal(rows),
        "next_obs": rng.standard_normal((rows, 3)),
        "terminations": terminations,
        "truncations": truncations,
        "next_actions": rng.uniform(-1, 1, (rows, 2)),
        "returns_to_go": rng.standard_normal(rows),
    }


def refusal(data: dict[str, Any], **bounds: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_dict(data, **bounds)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "-Inf"), (1e300, "Inf"), (-1e300, "-Inf")]
)
@pytest.mark.parametrize("field", ["obs", "actions", "next_obs", "next_actions"])
def test_matrix_values_must_be_finite(field: str, value: float, kind: str) -> None:
    data = sound()
    data[field][6, 1] = value
    data[field][8, 0] = np.nan  # a later fault is not the one reported
    expected = f"{field}: {kind} at row 6, column 1 (episode 1, step 2); all values must be finite (in float32)"
    assert refusal(data) == expected


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "Inf"), (-np.inf, "-Inf")])
@pytest.mark.parametrize("field", ["rewards", "returns_to_go"])
def test_vector_values_must_be_finite(field: str, value: float, kind: str) -> None:
    data = sound()
    data[field][3] = value
    assert refusal(data) == f"{field}: {kind} at row 3 (episode 0, step 3); all values must be finite (in float32)"


@pytest.mark.parametrize(
    "field", ["actions", "rewards", "next_obs", "terminations", "truncations", "next_actions", "returns_to_go"]
)
def test_lengths_must_be_equal(field: str) -> None:
    data = sound()
    data[field] = data[field][:-1]
    assert refusal(data) == f"{field}: 9 rows, but obs has 10; all fields must have the same length"


def test_the_field_with_another_length_than_all_others_is_blamed() -> None:
    data = sound(72)
    assert refusal(data | {"truncations": np.zeros(2)}).startswith("truncations: 2 rows, but obs has 72; all fields")
    data["obs"] = data["obs"][:-1]
    assert refusal(data).startswith("obs: 71 rows, but actions has 72; all fields")


def test_zero_rows_are_refused() -> None:
    data = {name: values[:0] for name, values in sound().items()}
    assert refusal(data) == "obs: 0 rows; a dataset needs at least one transition"


@pytest.mark.parametrize(("field", "like", "width"), [("next_obs", "obs", 3), ("next_actions", "actions", 2)])
def test_widths_must_agree(field: str, like: str, width: int) -> None:
    data = sound()
    data[field] = np.zeros((10, 5))
    assert refusal(data) == f"{field}: 5 columns, but {like} has {width}; they must be the same"


def test_a_matrix_without_columns_is_refused() -> None:
    data = sound()
    data["obs"] = data["next_obs"] = np.zeros((10, 0))
    assert refusal(data) == "obs: 0 columns; at least one is needed"


@pytest.mark.parametrize(
    ("field", "shape", "expected"),
    [
        ("obs", (10, 3, 1), "[rows, columns] (flat vectors only)"),
        ("rewards", (10, 2), "[rows] or [rows, 1]"),
        ("terminations", (10, 1, 1), "[rows] or [rows, 1]"),
    ],
)
def test_ranks(field: str, shape: tuple[int, ...], expected: str) -> None:
    data = sound()
    data[field] = np.zeros(shape)
    assert refusal(data) == f"{field}: shape {shape}; expected {expected}"


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("field", ["terminations", "truncations"])
def test_flags_must_be_zero_or_one(field: str, dtype: type) -> None:
    data = sound()
    data[field] = data[field].astype(dtype)
    data[field][5] = 2
    assert refusal(data) == f"{field}: 2 at row 5 (episode 1, step 1); flags must be 0 or 1 (or booleans)"


def test_nan_is_no_flag() -> None:
    data = sound()
    data["truncations"] = np.where(np.arange(10) == 0, np.nan, 0.0)
    assert refusal(data) == "truncations: nan at row 0 (episode 0, step 0); flags must be 0 or 1 (or booleans)"


def test_what_is_not_a_number_is_refused() -> None:
    data = sound()
    data["rewards"] = ["high"] * 10
    assert refusal(data) == "rewards: dtype <U4 is not supported; give booleans, integers or floats"
    data["rewards"] = np.array([None] * 10)
    assert refusal(data) == "rewards: dtype object is not supported; give booleans, integers or floats"
    data["rewards"] = [[1.0], [1.0, 2.0]]
    assert refusal(data).startswith("rewards: not a rectangular array of numbers (")


def test_actions_outside_the_bounds_are_refused() -> None:
    data = sound()
    data["actions"][7, 1] = -1.5
    message = refusal(data, action_low=[-2.0, -1.0], action_high=[2.0, 1.0])
    assert message == "actions: -1.5 at row 7, column 1 (episode 1, step 3) is outside the bounds [-1, 1]"
    assert refusal(data, action_low=-1, action_high=1) == message
    assert len(TransitionDataset.from_dict(data, action_low=-2, action_high=2)) == 10


def test_bounds_allow_rounding_of_a_hundred_thousandth_of_the_range() -> None:
    ends = np.array([False])
    check_action_bounds(np.array([[1.0 + 1.9e-5]], dtype=np.float32), -1.0, 1.0, ends)
    with pytest.raises(DataError, match=r"row 0, column 0 \(episode 0, step 0\) is outside the bounds \[-1, 1\]"):
        check_action_bounds(np.array([[1.0 + 2.2e-5]], dtype=np.float32), -1.0, 1.0, ends)


def test_a_bound_on_one_side_holds() -> None:
    """Rounding is a share of the range, which here is infinite: it excuses nothing."""
    actions, ends = np.array([[-3.0], [5.0]], dtype=np.float32), np.zeros(2, dtype=np.bool_)
    check_action_bounds(actions, -3.0, np.inf, ends)
    with pytest.raises(DataError, match=r"actions: -3 at row 0, column 0 .* is outside the bounds \[0, inf\]"):
        check_action_bounds(actions, 0.0, np.inf, ends)


def test_the_bounds_themselves_are_checked() -> None:
    assert refusal(sound(), action_low=[0.0] * 3, action_high=[1.0] * 3) == (
        "action_low: shape (3,), but actions have 2 columns"
    )
    assert refusal(sound(), action_low=[-1, 1], action_high=1) == "action_low 1 must be below action_high 1 in column 1"
    assert refusal(sound(), action_low=-1) == "action_low and action_high are given together or not at all"


def test_a_row_may_be_both_terminated_and_truncated() -> None:
    data = sound()
    data["truncations"][3] = True
    dataset = TransitionDataset.from_dict(data)
    assert dataset.terminations[3]
    assert dataset.truncations[3]
    assert dataset.episode_ends.tolist() == [3, 9]


def test_checking_copies_nothing() -> None:
    rows = 1_000
    obs = np.zeros((rows, 17), dtype=np.float32)
    data = {
        "obs": obs,
        "actions": np.zeros((rows, 6), dtype=np.float32),
        "rewards": np.zeros(rows, dtype=np.float32),
        "next_obs": obs,
        "terminations": np.zeros(rows, dtype=bool),
    }
    assert TransitionDataset.from_dict(data, action_low=-1, action_high=1).obs is obs


@pytest.mark.parametrize(
    ("actions", "low", "high"),
    [
        ([[0.25, -1.0], [0.5, 0.0]], [-1.0, -1.0], [1.0, 1.0]),
        ([[1.0 + 1e-5, 0.5], [0.5, -0.5]], [-1.0, -1.0], [1.0, 1.0]),  # rounding
        ([[1.0 + 1e-4, 0.5], [0.5, -0.5]], [0.5, -0.5], [np.float32(1.0 + 1e-4), 0.5]),
        ([[3.0, 0.0], [-2.0, 1.0]], [-2.0, 0.0], [3.0, 1.0]),
    ],
)
def test_inferred_bounds_are_the_same_everywhere(actions: Any, low: Any, high: Any) -> None:
    values = np.array(actions, dtype=np.float32)
    found = inferred_bounds(values.min(axis=0), values.max(axis=0))
    np.testing.assert_array_equal(found, (low, high))
    column = np.arange(2.0)
    dataset = TransitionDataset(column, values, column, column, column == 1, column == 9)
    spaces = infer_spaces(dataset)
    np.testing.assert_array_equal((spaces.action_low, spaces.action_high), found)
    bounds = find_bounds(values, Columns.of(values), None)
    np.testing.assert_array_equal((bounds.low, bounds.high), found)


def test_entries_outside_bounds_are_counted_over_all_pieces() -> None:
    values = np.zeros((CHUNK + 10, 3), dtype=np.float32)
    values[[7, CHUNK + 1, CHUNK + 1], [2, 0, 1]] = (5.0, -5.0, 5.0)
    outside = Outside.of(values, np.full(3, -1.0), np.ones(3))
    assert outside == Outside(entries=3, rows=2, first=(7, 2))
    values[7] = 0.0
    assert Outside.of(values, np.full(3, -1.0), np.ones(3)).first == (CHUNK + 1, 0)
