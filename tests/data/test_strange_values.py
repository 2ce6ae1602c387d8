"""What a program hands over in place of plain arrays, and cells that come near to numbers: taken, or told in a line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats.cells import BadCellsError
from rl_training.data.formats.raw import RawData
from rl_training.data.resolution import coarse_columns
from rl_training.data.value_looks import counts_up, only_grows
from rl_training.errors import DataError

ROWS = 4
IDS = np.array(["é".encode()] * 2 + [b"\xff", b"\xfe"])  # the last two are no UTF-8, and not the same


def arrays(**changes: Any) -> dict[str, Any]:
    given = {"obs": np.ones((ROWS, 2)), "actions": np.linspace(-1, 1, ROWS), "rewards": np.arange(ROWS) * 1.0}
    return given | {"terminations": np.arange(ROWS) == ROWS - 1} | changes


def table(**changes: Any) -> dict[str, Any]:
    return {"obs": np.arange(4.0), "action": np.arange(4) * 0.1, "reward": np.arange(4.0)} | changes


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Unwilling:
    """As a lazy array whose file is gone."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise KeyError("gone")


class Broken:
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, place: int) -> Any:
        raise ZeroDivisionError("no row")


class TestTensors:
    @pytest.mark.parametrize(
        "given",
        [
            torch.arange(4.0, requires_grad=True),
            torch.nn.Parameter(torch.arange(4.0)),
            list(torch.arange(4.0, requires_grad=True)),
            torch.complex(torch.zeros(4), -torch.arange(4.0)).conj().imag,  # of which torch only notes the sign
        ],
        ids=["gradient", "parameter", "list", "sign"],
    )
    def test_are_taken_for_their_numbers(self, given: Any) -> None:
        assert TransitionDataset.from_dict(arrays(rewards=given)).rewards.tolist() == [0.0, 1.0, 2.0, 3.0]
        done = np.arange(4) == 3
        assert TransitionDataset.from_table(table(reward=given, done=done)).rewards.tolist() == [0.0, 1.0, 2.0, 3.0]

    def test_of_complex_numbers(self) -> None:
        conjugate = torch.zeros(ROWS, dtype=torch.complex64).conj()
        said = refusal(lambda: TransitionDataset.from_dict(arrays(rewards=conjugate)))
        assert said == "rewards: dtype complex64 is not supported; give booleans, integers or floats"


class TestObjects:
    @pytest.mark.parametrize("given", [Unwilling(), Broken(), [Unwilling()] * ROWS], ids=["array", "rows", "list"])
    def test_that_raise_themselves(self, given: Any) -> None:
        of_fields = refusal(lambda: TransitionDataset.from_dict(arrays(rewards=given)))
        assert of_fields.startswith("rewards: not a rectangular array of numbers (")
        of_bounds = refusal(lambda: TransitionDataset.from_dict(arrays(), action_low=given, action_high=1))
        assert of_bounds.startswith("action_low: not a rectangular array of numbers (")
        of_columns = refusal(lambda: TransitionDataset.from_table(table(reward=given)))
        assert of_columns.startswith("column 'reward': cannot be read (")
        done = np.arange(4) == 3
        said = refusal(lambda: TransitionDataset.from_table(table(done=done), action_low=given, action_high=1))
        assert said.startswith("action_low: must be text, numbers, or lists of them, got ")


class TestBounds:
    @pytest.mark.parametrize("wrong", ["a", {}, 1j, 10**400, [None]], ids=["text", "dict", "complex", "huge", "none"])
    def test_that_are_no_numbers(self, wrong: Any) -> None:
        said = refusal(lambda: TransitionDataset.from_dict(arrays(), action_low=-1, action_high=wrong))
        assert said.startswith("action_high: must be a number, or one for each action, got ")

    def test_of_any_size(self) -> None:
        with warnings.catch_warnings(action="error"):
            wide = TransitionDataset.from_dict(arrays(), action_low=-1e308, action_high=np.longdouble("1e4000"))
        assert wide.bounds is not None
        assert (wide.bounds.action_low, wide.bounds.action_high) == ((-1e308,), (np.inf,))

    def test_an_action_is_seen_to_lie_outside(self) -> None:
        actions = np.array([100, 100.2, 101.0001, 101])
        said = refusal(lambda: TransitionDataset.from_dict(arrays(actions=actions), action_low=100, action_high=101))
        assert said == "actions: 101.0001 at row 2, column 0 (episode 0, step 2) is outside the bounds [100, 101]"


class TestIds:
    def test_of_bytes_are_text(self, tmp_path: Path) -> None:
        given = TransitionDataset.from_table(table(episode=IDS))
        assert given.episode_lengths().tolist() == [2, 1, 1]
        assert TransitionDataset.from_table(pd.DataFrame(table()).assign(episode=list(IDS))).n_episodes == 3
        np.savez(tmp_path / "log.npz", **table(run=IDS))
        read = TransitionDataset.load(tmp_path / "log.npz", columns={"episode_ids": "run"})
        assert read.episode_lengths().tolist() == [2, 1, 1]
        said = refusal(lambda: TransitionDataset.from_table(table(episode=np.array([b"a", b"a", b"", b"b"]))))
        assert said == "column 'episode': row 2 has no episode"

    @pytest.mark.parametrize("cell", [("a", 1), ["a", 1], np.arange(2)], ids=["tuple", "list", "array"])
    def test_of_several_values(self, cell: Any) -> None:
        frame = pd.DataFrame(table()).assign(episode=[cell] * 4)
        said = refusal(lambda: TransitionDataset.from_table(frame))
        assert said == f"column 'episode': row 0 holds {cell!r}; the episode of a row is one number or name"

    def test_of_several_kinds(self) -> None:
        mixed = np.array([1, 1, "a", "a"], dtype=object)
        said = refusal(lambda: TransitionDataset.from_dict(arrays(episode_ids=mixed)))
        assert said == "episode_ids: must be numbers or names, all of one kind"


def test_a_missing_word_of_a_dictionary_that_is_full() -> None:
    """128 words are all that int8 counts: there is no number left for a missing one."""
    full = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(np.arange(128.0)))
    given = pa.table(table(reward=full, done=np.arange(4) == 3))
    assert TransitionDataset.from_table(given, missing="drop").rewards.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("text", "kind"), [("1.0000000001", np.float64), ("1.0000001", np.float32)])
def test_a_flag_that_is_nearly_one(text: str, kind: type) -> None:
    flags = np.array([0, 0, float(text), 1], dtype=kind)
    said = refusal(lambda: TransitionDataset.from_dict(arrays(terminations=flags)))
    assert said.startswith(f"terminations: {text} at row 2 ")
    found = examine(RawData(arrays(terminations=flags), "arrays")).findings
    assert any(f"neither 0 nor 1 (the first is {text})" in finding.what for finding in found)


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("(5)", "; write negative numbers with a sign, -5"),
        ("($4.5)", "; write negative numbers with a sign, -$4.5"),
        ("(1,234.50)", "; write negative numbers with a sign, -1234.50"),
        ("(-5)", "; write numbers without brackets"),
        ("(1,2)", "; give one column per value (obs_0, obs_1, …)"),
        ("(1,234)", "; give one column per value (obs_0, obs_1, …)"),  # which may be two
        ("[5]", "; give one column per value (obs_0, obs_1, …)"),
        ("-1,5", "; write decimals with a point"),
        ("--7", ""),
        ("²", ""),
        (",", ""),
    ],
)
def test_advice_on_a_cell(cell: str, advice: str) -> None:
    assert BadCellsError("x", {3: cell}).told() == f"column 'x': {cell!r} at row 3 is not a number{advice}"


class TestNumbersWithoutEnd:
    """No warning of numpy: what float32 does not hold is refused where it is checked, with its place."""

    @pytest.mark.parametrize("value", [1e200, 1e308, -1e308, np.longdouble("1e4000")])
    def test_a_column_that_may_be_coarse(self, value: Any) -> None:
        column = np.array([1.0, value, -value, 3.0, value], dtype=np.asarray(value).dtype)
        with warnings.catch_warnings(action="error"):
            assert coarse_columns({"obs": column}) == ()

    def test_the_largest_of_float32(self) -> None:
        with warnings.catch_warnings(action="error"):
            assert coarse_columns({"obs": np.full(5, float(np.finfo(np.float32).max))}) == ()

    def test_one_among_rows_that_are_not_looked_at(self) -> None:
        column = 1e9 + np.arange(10_000) * 1e-3
        rows = np.unique(np.linspace(0, len(column) - 2, 4_096).astype(np.int64))
        column[np.setdiff1d(np.arange(len(column)), [*rows, *(rows + 1)])[0]] = 1e200
        with warnings.catch_warnings(action="error"):
            assert [found.column for found in coarse_columns({"obs": column})] == [0]

    def test_a_column_that_may_count(self) -> None:
        column = np.array([1e308, -1e308] * 4)
        with warnings.catch_warnings(action="error"):
            assert not counts_up(column, None)
            assert not only_grows(column)
            assert not only_grows(np.full(8, np.inf))
