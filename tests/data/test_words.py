"""Words that stand for numbers: `shut` for 0, `open` for 1."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.cli.reading_options import Reading, in_options
from rl_training.data.column_names import named_spaces
from rl_training.data.dataset_loaders import FileDatasetConfig, infer_spaces
from rl_training.data.formats.words import proposed, told
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.runtime.config import TrainConfig

COLUMNS: dict[str, Any] = {"obs": ["x", "door"], "actions": "valve", "rewards": "r", "episode_ids": "run"}
WORDS = {"door": {"Shut": 0, "open": 1}, "valve": {"low": -1.5, "high": 2}}
DOORS = ["shut", "open", "OPEN", "shut", " shut", "open", "0.5", "open"]


def table() -> dict[str, list[Any]]:
    valves = ["low", "high"] * 4
    return {"run": [0] * 4 + [1] * 4, "x": list(range(8)), "door": DOORS, "valve": valves, "r": [1] * 8}


def write_csv(path: Path, columns: dict[str, list[Any]], separator: str = ",") -> Path:
    rows = [separator.join(columns), *(separator.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


def read(path: Path, words: Any = WORDS, **said: Any) -> TransitionDataset:
    return TransitionDataset.load(path, columns=COLUMNS, words=words, **said)


def require(dataset: TransitionDataset) -> None:
    assert dataset.obs[:, 1].tolist() == [0, 1, 1, 0, 0, 1, 0.5, 1]
    assert dataset.actions[:, 0].tolist() == [-1.5, 2] * 4


@pytest.fixture(params=["with pyarrow", "without"])
def either_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr("rl_training.data.formats.csv._read_fast", lambda *_: None)


class TestReading:
    @pytest.mark.usefixtures("either_reader")
    def test_of_csv(self, tmp_path: Path) -> None:
        require(read(write_csv(tmp_path / "log.csv", table())))

    @pytest.mark.usefixtures("either_reader")
    def test_words_keep_a_comma_where_decimals_have_one(self, tmp_path: Path) -> None:
        columns = table() | {"x": [f"{i},5" for i in range(8)], "door": ["ajar, a bit", "shut"] * 4}
        path = write_csv(tmp_path / "log.csv", columns, ";")
        dataset = read(path, WORDS | {"door": {"ajar, a bit": 0.25, "shut": 0}})
        assert dataset.obs[:2].tolist() == [[0.5, 0.25], [1.5, 0.0]]

    @pytest.mark.usefixtures("either_reader")
    def test_true_and_false_may_have_other_numbers(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "log.csv", table() | {"door": ["true", "false"] * 4})
        assert read(path, WORDS | {"door": {"true": 5, "false": 2}}).obs[:2, 1].tolist() == [5, 2]

    def test_of_parquet_and_tables(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(table()), tmp_path / "log.parquet")
        require(read(tmp_path / "log.parquet"))
        require(TransitionDataset.from_table(table(), COLUMNS, words=WORDS))

    @pytest.mark.usefixtures("either_reader")
    def test_what_is_missing_stays_missing(self, tmp_path: Path) -> None:
        doors = ["shut", "open", "", "n/a", "shut", "ERR", "none", "open"]
        path = write_csv(tmp_path / "log.csv", table() | {"door": doors})
        held = read(path, missing="hold", missing_words=["err"])
        assert held.obs[:, 1].tolist() == [0, 1, 1, 1, 0, 0, 0, 1]
        words = WORDS | {"door": {"shut": 0, "open": 1, "none": 2, "n/a": 3, "": 4, "ERR": 5}}
        assert read(path, words).obs[:, 1].tolist() == [0, 1, 4, 3, 0, 5, 2, 1]

    @pytest.mark.usefixtures("either_reader")
    def test_an_unknown_word_is_refused_with_its_row_and_the_known_ones(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "log.csv", table() | {"door": ["shut", "open", "broken", *DOORS[3:]]})
        with pytest.raises(DataError) as caught:
            read(path)
        none = "column 'door': 'broken' at row 2 is none of its words, shut, open"
        assert f"{none}; say its number, words: {{door: {{broken: …}}}} (line 4)" in str(caught.value)
        assert "--words 'door=broken:…'" in in_options(str(caught.value))
        write_csv(path, table() | {"door": ["shut", "opn", *DOORS[2:]]})
        with pytest.raises(DataError, match="is none of its words, shut, open; did you mean 'open'\\?"):
            read(path)

    def test_without_them_they_are_proposed(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "log.csv", table() | {"door": ["shut", "open"] * 4, "valve": list("abcdefgh")})
        with pytest.raises(DataError) as caught:
            read(path, None)
        assert "words: {door: {shut: 0, open: 1}}, or leave it out" in str(caught.value)
        assert "'valve' holds text in most rows: write numbers in its place, such as 0 and 1" in str(caught.value)


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            ({"dor": {"open": 1}}, "words: no column 'dor'; did you mean 'door'?"),
            ({"run": {"open": 1}}, "words: column 'run' is read for its texts or steps, not as numbers; leave it out"),
            ({"door": {"open": "wide"}}, "words.door: 'open' must stand for a number, got 'wide'"),
            ({"door": {"open": float("nan")}}, "words.door: 'open' must stand for a number, got nan"),
            ({"door": {"1": 0}}, "words.door: '1' is a number itself, and stays one; leave it out"),
            ({"door": {"Open": 1, "open": 0}}, "words.door: 'open' is given two numbers; capitals make no difference"),
            ({"door": {}}, "words.door: names no word"),
            (["door"], "words: must give words their numbers by column: words: {door: {shut: 0, open: 1}}"),
        ],
    )
    def test_of_the_mapping(self, words: Any, complaint: str, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            read(write_csv(tmp_path / "log.csv", table()), words)
        assert f": {complaint}" in str(caught.value)

    def test_an_archive_has_no_columns_of_words(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "log.npz", obs=np.zeros((2, 1)))
        with pytest.raises(DataError, match=r"words: is for the text of a table's column \(CSV, Parquet\)"):
            TransitionDataset.load(tmp_path / "log.npz", words=WORDS)


class TestSection:
    def test_words_that_yaml_takes_for_truths(self) -> None:
        values = "{algo: bc, dataset: {source: file, path: a.csv, words: {pump: {on: 1, 'off': 0}}}}"
        with pytest.raises(ConfigError, match=r"dataset\.words: YAML takes yes, no, on and off for true and false"):
            TrainConfig.parse(yaml_dialect.read(values))

    def test_a_mistake_has_its_place(self) -> None:
        values = {"algo": "bc", "dataset": {"source": "file", "path": "a.csv", "words": {"door": {"open": "wide"}}}}
        with pytest.raises(ConfigError, match=r"dataset\.words: door: 'open' must stand for a number, got 'wide'"):
            TrainConfig.parse(values)

    def test_options_say_the_same(self) -> None:
        given = Reading(words=["door=shut:0,open:1", 'sky="a: few, far:0.5",none:-2'])
        words = {"door": {"shut": 0.0, "open": 1.0}, "sky": {"a: few, far": 0.5, "none": -2.0}}
        assert given.table_choices().words == words == FileDatasetConfig(path="a.csv", words=words).words
        assert given.options() == ["--words", "door=shut:0,open:1", "--words", 'sky="a: few, far:0.5",none:-2']
        assert in_options("say words: {door: {shut: 0, open: 1}}, or") == "say --words door=shut:0,open:1, or"

    @pytest.mark.parametrize("entry", ["door", "door=", "door=open", "door=open:wide", "=open:1"])
    def test_an_option_that_says_none(self, entry: str) -> None:
        with pytest.raises(ConfigError, match="must give words their numbers, such as door=shut:0,open:1"):
            Reading(words=[entry]).table_choices()


class TestKept:
    @pytest.mark.parametrize("name", ["made.csv", "made.parquet", "made.npz", "made.h5"])
    def test_in_a_file_that_is_written(self, name: str, tmp_path: Path) -> None:
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        first = read(write_csv(tmp_path / "log.csv", table()))
        with warnings.catch_warnings(action="ignore"):  # CSV has no place for them
            first.save(tmp_path / name)
        again = TransitionDataset.load(tmp_path / name)
        for dataset in (first, again):
            spaces = named_spaces(infer_spaces(dataset), dataset)
            assert spaces.obs_columns[1].words == (("Shut", 0.0), ("open", 1.0))
            assert spaces.obs_columns[0].words == ()
            assert [column.name for column in (*spaces.obs_columns, *spaces.action_columns)] == ["x", "door", "valve"]
            assert Spaces.from_json(spaces.to_json()) == spaces

    def test_a_stored_number_that_is_none(self) -> None:
        column = {"name": "x", "low": 0.0, "high": 1.0, "words": {"open": float("inf")}}
        spaces = {"obs_dim": 1, "action_low": [0], "action_high": [1], "obs_columns": [column]}
        with pytest.raises(CheckpointError, match="is no column"):
            Spaces.from_json(spaces)

    @pytest.mark.parametrize("strange", [None, 3, "open", {"door": 1}, {"door": {"open": None}}])
    def test_what_another_program_tells_is_left_alone(self, strange: Any) -> None:
        assert told(strange) == {}


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["open", "shut"], {"shut": 0, "open": 1}),
        (["ON", "off"], {"off": 0, "ON": 1}),
        (["auf", "zu"], {"zu": 0, "auf": 1}),
        (["ja", "nein"], {"nein": 0, "ja": 1}),
        (["an", "aus"], {"aus": 0, "an": 1}),
        (["red", "Blue"], {"Blue": 0, "red": 1}),
        (["heat", "cool", "dry"], {"cool": 0, "dry": 1, "heat": 2}),
    ],
)
def test_pairs_are_known_and_others_go_by_the_alphabet(words: list[str], numbers: dict[str, int]) -> None:
    found, is_pair = proposed(words)
    assert list(found.items()) == list(numbers.items())
    assert is_pair == (len(words) == 2 and "red" not in words)
