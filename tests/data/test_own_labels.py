"""Series and DataFrames say themselves which value belongs where; by place nothing is taken against their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError, ReadingError

ROWS = 6
X, U = np.arange(ROWS) * 1.0, np.linspace(-1, 1, ROWS)
COLUMNS = {"obs": ["x", "y"], "actions": ["valve", "pump"], "rewards": "r", "terminations": "crashed"}


def fields(**changes: Any) -> dict[str, Any]:
    obs = pd.DataFrame({"x": X, "y": 100 + X})
    made = {"obs": obs, "actions": pd.DataFrame({"valve": 10 * U, "pump": U}), "rewards": pd.Series(X)}
    return made | {"next_obs": obs + 1, "terminations": np.arange(ROWS) == ROWS - 1} | changes


def frame() -> pd.DataFrame:
    ends = np.arange(ROWS) == ROWS - 1
    return pd.DataFrame({"x": X, "y": 100 + X, "valve": 10 * U, "pump": U, "r": X, "crashed": ends})


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestRows:
    def test_fields_whose_rows_are_others(self) -> None:
        way = "; give a pandas.DataFrame, where rows are put together by it, or arrays"
        turned = pd.Series(X).sort_values(ascending=False)
        said = refusal(lambda: TransitionDataset.from_dict(fields(rewards=turned)))
        assert said == f"rewards has another index than obs{way}"
        said = refusal(lambda: TransitionDataset.from_dict(fields(next_obs=fields()["next_obs"][::-1])))
        assert said == f"next_obs has another index than obs{way}"
        assert (TransitionDataset.from_dict(fields(rewards=turned.to_numpy())).rewards == X[::-1]).all()

    def test_next_steps_may_begin_one_later(self) -> None:
        table, now, later = frame(), slice(0, ROWS - 1), slice(1, ROWS)
        obs = table[["x", "y"]]
        own = {"actions": table[["valve", "pump"]][now], "rewards": table.r[now], "terminations": table.crashed[later]}
        own["terminations"] = own["terminations"].to_numpy()
        dataset = TransitionDataset.from_dict({"obs": obs[now], "next_obs": obs[later], **own})
        np.testing.assert_array_equal(dataset.next_obs, dataset.obs + 1)

    def test_a_table_of_series(self) -> None:
        table = {name: frame()[name] for name in frame()}
        assert (TransitionDataset.from_table(table, COLUMNS).actions[:, 1] == U.astype(np.float32)).all()
        table["pump"] = table["pump"].sort_values(ascending=False)
        assert refusal(lambda: TransitionDataset.from_table(table, COLUMNS)).startswith("pump has another index than x")


class TestColumns:
    def test_next_observations_in_the_order_of_observations(self) -> None:
        swapped = fields(next_obs=fields()["next_obs"][["y", "x"]])
        np.testing.assert_array_equal(
            TransitionDataset.from_dict(swapped).next_obs, TransitionDataset.from_dict(fields()).next_obs
        )
        swapped["next_observations"] = swapped.pop("next_obs")
        assert (TransitionDataset.from_dict(swapped).next_obs[:, 0] == X + 1).all()

    def test_a_name_at_another_place(self) -> None:
        other = fields()["next_obs"].set_axis(["y", "z"], axis=1)
        said = refusal(lambda: TransitionDataset.from_dict(fields(next_obs=other)))
        assert said == "next_obs: columns are y, z, and those of obs x, y; give the same"
        rows = [row for _, row in fields()["next_obs"][["y", "x"]].iterrows()]
        said = refusal(lambda: TransitionDataset.from_dict(fields(next_obs=rows)))
        assert said == "next_obs: columns are y, x, and those of obs x, y; give the same"
        named = fields()["next_obs"].set_axis(["next_x", "next_y"], axis=1)
        assert (TransitionDataset.from_dict(fields(next_obs=named)).next_obs[:, 0] == X + 1).all()


class TestBounds:
    limits = pd.DataFrame({"pump": [-5.0, 5.0], "valve": [-50.0, 50.0]}, index=["low", "high"])

    @property
    def said(self) -> dict[str, Any]:
        return {"action_low": self.limits.loc["low"], "action_high": self.limits.loc["high"]}

    def test_by_the_names_of_actions(self) -> None:
        for dataset in (
            TransitionDataset.from_table(frame(), COLUMNS, **self.said),
            TransitionDataset.from_dict(fields(), **self.said),
        ):
            assert dataset.bounds is not None
            assert dataset.bounds.action_low == (-50.0, -5.0)
            assert dataset.bounds.action_high == (50.0, 5.0)

    def test_names_that_are_not_those_of_actions(self) -> None:
        def from_table(columns: Any = COLUMNS, **said: Any) -> TransitionDataset:
            return TransitionDataset.from_table(frame(), columns, **(self.said | said))

        way = "; give a list in the order of actions"
        said = refusal(lambda: from_table(action_low=self.limits["pump"]))
        assert said == f"action_low: is for low, high by name, and actions are valve, pump{way}"
        unknown = {name: columns for name, columns in COLUMNS.items() if name != "actions"}
        said = refusal(lambda: from_table(unknown))
        assert said == f"action_low: is for pump, valve by name, and no columns of actions are named here{way}"
        arrays = fields(actions=np.stack([10 * U, U], axis=1))
        for call in (
            lambda: TransitionDataset.from_dict(arrays, **self.said),
            lambda: TransitionDataset.from_dict(arrays).check_bounds(**self.said),
        ):
            assert refusal(call) == said
        counted = from_table(action_low=pd.Series([-50.0, -5.0]), action_high=pd.Series([50.0, 5.0]))
        assert counted.bounds is not None
        assert counted.bounds.action_low == (-50.0, -5.0)

    @pytest.mark.parametrize("kind", [set, frozenset])
    def test_a_set_has_no_order(self, kind: Any) -> None:
        with pytest.raises(ReadingError, match=r"^action_low: a set has no order, got .*; give a list$"):
            TransitionDataset.from_table(frame(), COLUMNS, action_low=kind([-50.0, -5.0]), action_high=[50.0, 5.0])
        TransitionDataset.from_table(frame(), COLUMNS, missing_words=kind(["ERR", "n/a"]))
