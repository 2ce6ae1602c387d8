"""Numbers that stand for nothing, as columns hold them and as they are written."""

from __future__ import annotations

import numpy as np
import pytest

from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats.cells import numbers
from rl_training.data.formats.tables import read_table
from rl_training.data.settling import settle
from rl_training.errors import ConfigError
from rl_training.reading_choices import apart


def test_a_mark_is_found_in_a_column_that_rounds_it() -> None:
    found = numbers("x", np.array([1.0, -99.9, 3.0], dtype=np.float32), missing=["-99.9"])
    assert np.isnan(found).tolist() == [False, True, False]


def test_a_number_in_yaml_keeps_all_its_digits() -> None:
    config = FileDatasetConfig(path="log.csv", missing_words=[-99999.99, -9999])
    assert config.missing_words == ["-99999.99", "-9999"]


def test_one_text_is_no_list_of_words() -> None:
    with pytest.raises(ConfigError, match="missing_words: must be a list of words"):
        apart({"missing_words": "-9999"})
    assert apart({"missing_words": [-9999]})[0].missing_words == ("-9999",)  # type: ignore[list-item]


def test_held_values_are_there_before_rewards_move() -> None:
    """The observation after the first row is missing: it is held, and the first row stays."""
    table = {
        "obs": np.array([1.0, np.nan, 3.0, 4.0]),
        "action": np.zeros(4),
        "reward": np.array([0.0, 1.0, 2.0, 3.0]),
        "terminal": np.zeros(4),
        "timeout": np.array([0, 0, 0, 1]),
    }
    settled = settle(read_table(table), missing="hold", rewards_at="next")
    assert np.asarray(settled.arrays["obs"]).ravel().tolist() == [1.0, 1.0, 3.0]
    assert np.asarray(settled.arrays["next_obs"]).ravel().tolist() == [1.0, 3.0, 4.0]


def test_flags_tell_recorded_episodes_apart_where_the_step_runs_on() -> None:
    rows = 12
    step = np.arange(rows) + (np.arange(rows) > 4)  # a gap inside the third episode
    table = {
        "obs": np.arange(rows, dtype=float),
        "action": np.zeros(rows),
        "reward": np.ones(rows),
        "terminal": np.zeros(rows),
        "timeout": np.arange(rows) % 2 == 1,
        "t": step,
    }
    raw = read_table(table, {"step": "t"})
    assert raw.recorded is not None
    assert len(np.unique(raw.recorded.episodes)) == rows // 2
