"""Numbers that stand for nothing, as columns hold them and as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rl_training import yaml_dialect
from rl_training.cli.hints_as_options import in_options
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.formats import read_table
from rl_training.data.formats.cells import may_stand_for_missing, numbers
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.reading_options import ReadingOptions
from rl_training.data.settling import settle
from rl_training.errors import ConfigError, DataError
from rl_training.validation import explain


def test_a_mark_is_found_in_a_column_that_rounds_it() -> None:
    found = numbers("x", np.array([1.0, -99.9, 3.0], dtype=np.float32), missing=["-99.9"])
    assert np.isnan(found).tolist() == [False, True, False]


def test_a_number_in_yaml_keeps_all_its_digits() -> None:
    config = FileDatasetConfig(path="log.csv", missing_words=[-99999.99, -9999])
    assert config.missing_words == ["-99999.99", "-9999"]


def test_one_text_is_no_list_of_words() -> None:
    with pytest.raises(ConfigError, match="missing_words: must be a list of words"):
        ReadingOptions.of({"missing_words": "-9999"})
    assert ReadingOptions.of({"missing_words": [-9999]}).table_choices().missing_words == ("-9999",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([["a"]], "must be words or numbers, got ['a']"),
        ([{"a": "b"}], "must be words or numbers, got {'a': 'b'}"),
        (["a", None], "must be words or numbers, got None; put true, no, null and their like in quotes"),
        ([True], "must be words or numbers, got True; put true, no, null and their like in quotes"),
        ("ERR", "must be a list of words, such as ['ERR']"),
        ({"a": "b"}, "must be a list of words, such as ['ERR', '-9999']"),
        (5, "must be a list of words, such as ['ERR', '-9999']"),
    ],
)
def test_what_is_no_word(given: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ReadingOptions.of({"missing_words": given})
    assert str(caught.value) == f"missing_words: {told}"
    with pytest.raises(ValidationError) as refused:
        FileDatasetConfig(path="log.csv", missing_words=given)
    assert explain(refused.value, FileDatasetConfig) == f"missing_words: {told}"


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


@pytest.mark.parametrize(
    ("word", "as_key", "as_option"),
    [
        ("n/v", "[n/v]", "n/v"),
        ("k.A.", "[k.A.]", "k.A."),
        ("#WERT!", "['#WERT!']", "'#WERT!'"),
        ("--", "[--]", "--"),
        ("sensor off", "[sensor off]", "'sensor off'"),
    ],
)
def test_a_word_that_is_no_number_is_named_as_it_is_declared(
    word: str, as_key: str, as_option: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{word if t == 4 else t},0,1,{t == 9:d}" for t in range(10)]
    path.write_text("\n".join(["obs,action,reward,terminated", *rows]))
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    way = "; if it stands for a missing value, say "
    assert str(caught.value).partition(way)[2] == f"missing_words: {as_key}, and missing: hold or drop"
    assert in_options(str(caught.value)).partition(way)[2] == f"--missing-words {as_option}, and --missing hold or drop"
    assert len(TransitionDataset.load(path, missing_words=yaml_dialect.read(as_key), missing="drop")) == 9


@pytest.mark.parametrize("cell", ["-3 °C", "12,5 bar", "<0.5", "2024-01-01"])
def test_a_number_with_something_beside_it_is_no_word_for_nothing(cell: str) -> None:
    assert not may_stand_for_missing(cell)


def test_a_single_word_in_the_first_row_may_be_either() -> None:
    with pytest.raises(DataError) as caught:
        read_table({"obs": np.array(["n/v", "1"]), "action": np.zeros(2), "reward": np.ones(2), "done": np.ones(2)})
    assert str(caught.value) == (
        "column 'obs': 'n/v' at row 0 is not a number; if that row holds units, leave it out;"
        " if it stands for a missing value, say missing_words: [n/v], and missing: hold or drop"
    )
