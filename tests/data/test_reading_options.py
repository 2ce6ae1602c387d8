"""What Python says of how data are read is held to the same rules as a `dataset:` section."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError

from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.reading_options import ReadingOptions
from rl_training.errors import ConfigError, DataError, ReadingError
from rl_training.reading_choices import Choices
from rl_training.validation import explain

ROWS = 12
COLUMNS = {"obs": "x", "actions": "u", "rewards": "cost", "episode_ids": "run", "step": "t"}
Reader = Callable[..., TransitionDataset]


def table() -> pd.DataFrame:
    rows = np.arange(ROWS)
    return pd.DataFrame({"run": rows // 4, "t": rows % 4, "x": rows * 0.5, "u": np.sin(rows), "cost": rows * 1.0})


@pytest.fixture(params=["load", "from_table"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    """Either way to read the same table."""
    if request.param == "from_table":
        return lambda **said: TransitionDataset.from_table(table(), COLUMNS, **said)
    table().to_csv(tmp_path / "log.csv", index=False)
    return lambda **said: TransitionDataset.load(tmp_path / "log.csv", columns=COLUMNS, **said)


def refused(read: Reader, **said: Any) -> str:
    with pytest.raises(ReadingError) as caught:
        read(**said)
    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, DataError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_option_is_checked() -> None:
    assert set(ReadingOptions.model_fields) == set(Choices.__annotations__)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("reward_are", "; did you mean 'rewards_are'?"),
        ("reward_at", "; did you mean 'rewards_at'?"),
        ("action_lo", "; did you mean 'action_low'?"),
        ("obs", "; the names of columns go into columns={'obs': …}"),
        ("step", "; the names of columns go into columns={'step': …}"),
        ("column", "; did you mean 'columns'?"),
        ("nosuch", f"; choose from {', '.join(sorted([*ReadingOptions.model_fields, 'columns']))}"),
    ],
)
def test_a_misspelt_option_is_refused(read: Reader, name: str, meant: str) -> None:
    assert refused(read, **{name: "costs"}) == f"{name}: no such option{meant}"


@pytest.mark.parametrize(
    ("option", "wrong", "told"),
    [
        ("rewards_are", "cost", "must be 'rewards' or 'costs', got 'cost'; did you mean 'costs'?"),
        ("rewards_at", "Next", "must be 'same' or 'next', got 'Next'; did you mean 'next'?"),
        ("missing", "Drop", "must be 'refuse', 'drop' or 'hold', got 'Drop'; did you mean 'drop'?"),
        ("time_limits", "D4RL", "must be 'keep' or 'd4rl', got 'D4RL'; did you mean 'd4rl'?"),
        ("duplicates", True, "must not be true; choose from refuse, drop"),
        (
            "last_rows_are",
            "truncated",
            "must be 'truncation' or 'termination', got 'truncated'; did you mean 'truncation'?",
        ),
        ("last_rows_are", None, "must be 'truncation' or 'termination', got None"),
        ("max_episode_steps", -3, "must be at least 1, got -3"),
        ("max_episode_steps", 0, "must be at least 1, got 0"),
        ("max_episode_steps", 12.5, "must be a whole number, got 12.5"),
        ("max_episode_steps", True, "must not be true"),
        ("dones_are", "end", "must be 'terminations', 'truncations' or 'ends', got 'end'; did you mean 'ends'?"),
        ("observe_time", 5, "must be a list, got 5; write [5]"),
        (
            "missing_words",
            np.ma.masked,
            "must be text, numbers, or lists of them, got an object of type MaskedConstant",
        ),
    ],
)
def test_a_value_that_is_not_known_is_refused(read: Reader, option: str, wrong: Any, told: str) -> None:
    assert refused(read, **{option: wrong}) == f"{option}: {told}"


def test_it_is_said_as_of_a_section(read: Reader) -> None:
    with pytest.raises(ValidationError) as caught:
        FileDatasetConfig(path="log.csv", rewards_are="cost")
    assert refused(read, rewards_are="cost") == explain(caught.value, FileDatasetConfig)


class _Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise KeyError("no array")

    def __len__(self) -> int:
        raise ValueError("no length")


WRONG: list[Any] = [_Unreadable(), [_Unreadable()], {"a": _Unreadable()}, object(), pd.NA, pd.NaT, torch.zeros(0), type]
WRONG += [np.array([]), np.zeros(3, [("a", "f4")]), np.void(b"abc"), pd.DataFrame(), pd.Series([1, 2]), {"a"}, range(3)]
WRONG += [np.ma.masked, np.zeros(2, "M8[s]"), 10**400, 1e400, "\ud800", b"a", memoryview(b"a"), [[[]]], lambda: 0]
WRONG += [torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(), iter([object()]), [[1], [2, 3]], (), float("nan")]


@pytest.mark.parametrize("option", sorted(ReadingOptions.model_fields))
def test_nothing_foreign_is_raised(option: str) -> None:
    told: list[str] = []
    for wrong in WRONG:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                TransitionDataset.from_table(table(), COLUMNS, **{option: wrong})
        except (ConfigError, DataError) as error:
            told.append(str(error))
    assert told
    assert not [line for line in told if "\n" in line]


@pytest.mark.parametrize(
    "bound",
    [np.array([2.0]), np.array(2), np.float32(2), np.int64(2), torch.tensor([2.0]), pd.Series([2.0]), (2,), [2], 2],
)
def test_bounds_of_every_kind_are_taken(read: Reader, bound: Any) -> None:
    bounds = read(action_low=-bound if hasattr(bound, "dtype") else -2.0, action_high=bound).bounds
    assert bounds is not None
    assert (bounds.action_low, bounds.action_high) == ((-2.0,), (2.0,))


def test_what_is_written_down_is_what_was_understood(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "log.csv", index=False)
    said = {
        "missing_words": ("ERR", -9),
        "action_low": np.array([-1.0]),
        "action_high": np.float32(1),
        "missing": "drop",
    }
    made = TransitionDataset.load(tmp_path / "log.csv", columns=COLUMNS, **said).provenance  # type: ignore[arg-type]
    assert made is not None
    told = {"missing": "drop", "missing_words": ["ERR", "-9"], "action_low": [-1.0], "action_high": 1.0}
    assert dict(made.options) == {"columns": COLUMNS} | told


def test_a_code_that_is_not_known_is_not_accepted(read: Reader) -> None:
    with pytest.raises(
        ConfigError, match=r"accepting: 'successors.copy' is not known; did you mean 'successors.copied'"
    ):
        read().accepting("successors.copy")
    with pytest.raises(ConfigError, match=r"accepting: 5 is not known; choose from flags.overlap, flags.two-rows, "):
        read().accepting(5)  # type: ignore[arg-type]
    assert read().accepting("successors.copied").accepted == ("successors.copied",)
