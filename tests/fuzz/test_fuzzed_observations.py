"""Whatever is handed to `predict`: an action of the right shape for finite numbers, else one line."""

from __future__ import annotations

import io
import random
import sqlite3
from collections import UserList, deque
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mutations import is_answered, mutated
from rl_training.cli.observation_files import read_observations
from rl_training.errors import DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.runtime.trainer import train
from small_runs import small_config

FUZZ = settings(
    derandomize=True, deadline=None, database=None, max_examples=300, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def policy(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    return load_policy(train(small_config(data_file, tmp_path_factory.mktemp("runs"), "iql")).run.path)


def holds_itself(width: int) -> list[Any]:
    """A list of so many times itself."""
    made: list[Any] = []
    made += [made] * width
    return made


class Unwilling:
    """As a lazy array whose file is gone."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise KeyError("gone")


class ListOfItsOwn(list[float]):
    """One that is not gone through as lists are."""

    def __iter__(self) -> Any:
        raise OSError("gone")


class OfItsOwn:
    """What has entries by number, and is no list."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: int) -> Any:
        return self._entries[place]


def of_database() -> list[sqlite3.Row]:
    """Rows that tell their names, and go through their values."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        return list(database.execute("select 3.0 as y, 0.1 as x union all select 1.0, 0.9"))


class NamesOfItsOwn(dict[str, float]):
    def __iter__(self) -> Any:
        raise OSError("gone")


REFUSED: dict[str, Any] = {
    "nothing": None,
    "a number": 1.0,
    "a text": "1 2 3",
    "numbers as text": ["1", "2", "3"],
    "text in an array": np.array(["1", "2", "3"]),
    "bytes": b"abc",
    "a mapping": {"obs": [1, 2, 3]},
    "a set": {1, 2, 3},
    "a generator": iter([1, 2, 3]),
    "objects": np.array([1, 2, 3], dtype=object),
    "records": np.zeros(3, [("a", "f4")]),
    "dates": np.zeros(3, "M8[s]"),
    "complex": np.zeros(3, complex),
    "NaN": [float("nan")] * 3,
    "infinite": np.full((2, 3), np.inf),
    "beyond float32": [1e300] * 3,
    "beyond any float": [10**400] * 3,
    "too short": [1.0, 2.0],
    "too long": np.zeros((2, 4)),
    "no values": np.zeros((3, 0)),
    "three axes": np.zeros((1, 1, 3)),
    "rows of two lengths": [[1, 2, 3], [1, 2]],
    "deep lists": [[[1.0]]],
    "a list that holds itself": holds_itself(1),
    "a list that holds itself twice": holds_itself(2),
    "one of them inside a row": [1.0, 2.0, holds_itself(2)],
    "more than the memory": np.broadcast_to(np.float32(0), (10**12, 3)),
    "a tensor with a gradient": torch.zeros(3, requires_grad=True),
    "a tensor of nothing": torch.zeros(3, device="meta"),
    "a sparse tensor": torch.zeros(3).to_sparse(),
    "a class": float,
    "what raises itself": Unwilling(),
}


@pytest.mark.parametrize("obs", REFUSED.values(), ids=REFUSED)
def test_is_refused(obs: Any, policy: LoadedPolicy) -> None:
    assert not is_answered(lambda: policy.predict(obs), "")
    with pytest.raises(DataError, match=r"^obs: "):
        policy.predict(obs)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    """Of a table whose columns have names."""
    folder = tmp_path_factory.mktemp("named")
    rows = [f"{row / 50},{row % 5},{row % 3 - 1},1,{int(row % 10 == 9)}" for row in range(50)]
    (folder / "log.csv").write_text("\n".join(["x,y,u,r,crashed", *rows]) + "\n")
    columns = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "crashed"}
    section = {"source": "file", "path": str(folder / "log.csv"), "columns": columns}
    return load_policy(train(small_config(None, folder, dataset=section)).run.path)


class TestByName:
    def test_whatever_their_order(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        x, y = np.array([0.1, 0.9]), np.array([3.0, 1.0])
        expected = named.predict(np.stack([x, y], axis=1))
        assert (named.predict(np.stack([y, x], axis=1)) != expected).all()
        frame = pd.DataFrame({"y": y, "time": ["a", "b"], "x": x})
        for rows in (frame, {"y": y, "x": x}, {"y": y.tolist(), "x": x.tolist()}, pd.DataFrame(np.stack([x, y], 1))):
            np.testing.assert_array_equal(named.predict(rows), expected)
        for row in (frame[["y", "x"]].iloc[0], {"y": 3.0, "x": 0.1}):
            np.testing.assert_allclose(named.predict(row), expected[0], rtol=1e-6)

    def test_rows_in_a_list_have_names_as_well(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"y": [3.0, 1.0], "x": [0.1, 0.9]})
        expected = named.predict(frame)
        rows = [row for _, row in frame.iterrows()]
        for several in (rows, tuple(rows), frame.to_dict("records"), list(frame.itertuples(index=False))):
            np.testing.assert_array_equal(named.predict(several), expected)
        np.testing.assert_allclose(named.predict(next(frame.itertuples(index=False))), expected[0], rtol=1e-6)
        by_place = [pd.Series(row) for row in ([0.1, 3.0], [0.9, 1.0])]
        np.testing.assert_array_equal(named.predict(by_place), expected)
        with pytest.raises(DataError, match="obs: row 1 has no names of columns, and others have; give all with them"):
            named.predict([rows[0], [0.9, 1.0]])
        with pytest.raises(DataError, match="obs: lacks y; the policy sees x, y"):
            named.predict([rows[0], rows[1].rename({"y": "z"})])

    def test_series_with_other_rows_are_not_put_together(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        x, y = pd.Series([0.1, 0.9]), pd.Series([1.0, 3.0], index=[1, 0])
        with pytest.raises(
            DataError, match=r"obs: y has another index than x; give pandas.DataFrame\(obs\), where rows"
        ):
            named.predict({"x": x, "y": y})
        expected = named.predict(pd.DataFrame({"x": x, "y": y}))
        np.testing.assert_array_equal(named.predict({"x": x, "y": y.sort_index()}), expected)
        np.testing.assert_array_equal(named.predict({"x": x, "y": [3.0, 1.0]}), expected)

    def test_by_position_where_the_policy_has_no_names(self, policy: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        columns = policy.checkpoint.spaces.obs_columns
        assert not columns
        assert policy.predict(pd.DataFrame({"c": [1.0], "b": [0.0], "a": [0.5]})).shape == (1, 1)

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"x": 1.0}, "obs: lacks y; the policy sees x, y; the data have x"),
            ({"x": 1.0, "Y": 2.0}, "obs: lacks y; the policy sees x, y; did you mean 'Y'?"),
            ({"x": 1.0, "y": 2.0, "z": 3.0}, "obs: no column 'z'; the policy sees x, y"),
            ({"x": [1.0], "y": [2.0, 3.0]}, "obs: must have as many numbers for each name; the policy sees x, y"),
            ({"x": holds_itself(2), "y": 1.0}, "obs: must have as many numbers for each name; the policy sees x, y"),
            ({"x": "a", "y": 1.0}, "obs: x: 'a' is not a number"),
            ([{"x": 1.0, "y": 1.0}, {"x": 1.0, "y": "b"}], "obs: y: 'b' in row 1 is not a number"),
            ({"x": [1.0, None], "y": [1.0, 2.0]}, "obs: x: no number in row 1; a policy acts on numbers alone"),
            ({"x": "1.5", "y": 1.0}, "obs: must be numbers, one row per observation"),
            (NamesOfItsOwn({"x": 1.0, "y": 1.0}), "obs: its names cannot be told; the policy sees x, y"),
            ({"x": np.ma.masked_array([1.0], [True]), "y": [1.0]}, "obs: value 0 (x) of row 0 is masked"),
        ],
    )
    def test_refused(self, given: Any, told: str, named: LoadedPolicy) -> None:
        assert not is_answered(lambda: named.predict(given), told)
        with pytest.raises(DataError) as refused:
            named.predict(given)
        assert str(refused.value).startswith(told)

    def test_tables_with_other_names(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame([[0.1, 1.0]], columns=["a", "b"])
        with pytest.raises(DataError, match=r"^obs: lacks x, y; the policy sees x, y; the data have a, b$"):
            named.predict(frame)
        with pytest.raises(DataError, match="obs: two columns are named 'x'; leave in the one that the policy sees"):
            named.predict(pd.DataFrame([[0.1, 1.0, 2.0]], columns=["x", "y", "x"]))

    def test_whatever_holds_the_rows(self, named: LoadedPolicy) -> None:
        """Lists, and all else that numpy goes through as through a list, which loses the names."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"y": [3.0, 1.0], "x": [0.1, 0.9]})
        expected = named.predict(frame)
        rows = [row for _, row in frame.iterrows()]
        for several in (deque(rows), UserList(rows), OfItsOwn(rows), list(frame.itertuples()), deque(of_database())):
            np.testing.assert_array_equal(named.predict(cast(Any, several)), expected)
        np.testing.assert_allclose(named.predict(next(frame.itertuples())), expected[0], rtol=1e-6)
        with pytest.raises(DataError, match=r"obs: value 1 \(y\) of row 0 is masked"):
            named.predict(deque([np.ma.masked_array([1.0, 2.0], [False, True])]))

    def test_names_are_names_whatever_their_kind(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame([[3.0, 7.0, 0.1]], columns=["y", 1, "x"])
        np.testing.assert_array_equal(named.predict(frame), named.predict([[0.1, 3.0]]))
        with pytest.raises(DataError, match=r"^obs: lacks x; the policy sees x, y; the data have y, 1$"):
            named.predict(frame.iloc[:, :2])
        levels = pd.MultiIndex.from_tuples([("a", "y"), ("a", "x")])
        for rows in (frame[["y", "x"]].set_axis(levels, axis=1), frame[["y", "x"]].set_axis(levels, axis=1).iloc[0]):
            with pytest.raises(DataError, match=r"^obs: lacks x, y; .*\('a', 'y'\)"):
                named.predict(rows)

    def test_words_are_named_with_their_column(self, named: LoadedPolicy) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"y": ["3", "1", "ERR"], "note": ["a", "b", "c"], "x": [0.1, 0.9, 0.5]})
        for rows in (frame, frame[["x", "y"]], frame[["x", "y"]].to_dict("list"), [row for _, row in frame.iterrows()]):
            with pytest.raises(DataError, match=r"^obs: y: 'ERR' in row 2 is not a number$"):
                named.predict(rows)
        with pytest.raises(DataError, match=r"^obs: y: 'ERR' is not a number$"):
            named.predict(frame[["x", "y"]].iloc[2])
        when = pd.DataFrame({"x": [0.1], "y": pd.to_datetime(["2024-01-01"])})
        with pytest.raises(DataError, match=r"^obs: y: '2024-01-01T00:00:00.*' in row 0 is not a number$"):
            named.predict(when)

    @pytest.mark.parametrize("make", ["itself", "shared", "deep", "deque"])
    def test_nesting_is_refused_at_once(self, make: str, named: LoadedPolicy) -> None:
        nested: Any = [{"x": 1.0, "y": 1.0}]
        if make == "itself":
            nested.append(nested)
        if make == "deque":
            nested = deque(nested)
            nested += [nested, nested]
        for _ in range(2_000 * (make in ("shared", "deep"))):
            nested = [nested, nested, {"x": 1.0, "y": 1.0}] if make == "shared" else [nested]
        with pytest.raises(DataError, match=r"^obs: lists inside lists inside lists; expected"):
            named.predict(nested)


@pytest.mark.parametrize("given", [ListOfItsOwn([1.0, 2.0, 3.0]), [ListOfItsOwn([1.0, 2.0, 3.0])]])
def test_lists_that_cannot_be_gone_through(given: Any, policy: LoadedPolicy) -> None:
    is_answered(lambda: policy.predict(given), "")


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_observations_at_all_have_no_actions(deterministic: bool, policy: LoadedPolicy) -> None:
    assert policy.predict(np.zeros((0, 3)), deterministic=deterministic).shape == (0, 1)


@pytest.mark.parametrize("draw", ["x", None, 1.5, -1, 2**63, [1]])
def test_what_is_no_draw(draw: Any, policy: LoadedPolicy) -> None:
    assert not is_answered(lambda: policy.predict([1, 2, 3], deterministic=False, draw=draw), "")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@FUZZ
@given(obs=anything, deterministic=st.booleans())
def test_any_object(policy: LoadedPolicy, obs: Any, deterministic: bool) -> None:
    is_answered(lambda: policy.predict(obs, deterministic=deterministic), repr(obs))


@FUZZ
@given(obs=arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
def test_any_array(policy: LoadedPolicy, obs: Any) -> None:
    is_answered(lambda: policy.predict(obs), repr(obs))


@FUZZ
@given(obs=arrays.arrays(np.float64, st.tuples(st.integers(0, 5), st.just(3)), elements=st.floats(-1e38, 1e38)))
def test_finite_numbers_have_actions_within_bounds(policy: LoadedPolicy, obs: Any) -> None:
    actions = policy.predict(obs)
    assert actions.shape == (len(obs), 1)
    assert (np.abs(actions) <= 2.0).all()  # Pendulum's


@pytest.mark.parametrize("seed", range(4))
def test_damaged_arrays(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 3), dtype=chance.choice(("<f4", ">f8", "<i8"))))
    for case in range(300):
        (tmp_path / "o.npy").write_bytes(mutated(whole.getvalue(), chance))
        is_answered(lambda: read_observations(tmp_path / "o.npy"), f"seed {seed}, case {case}")
