"""Words that stand for numbers: `shut` for 0, `open` for 1."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.cli.hints_as_options import in_options
from rl_training.cli.reading_options import Reading, words_entries
from rl_training.data.column_names import named_spaces, require_order
from rl_training.data.dataset_loaders import FileDatasetConfig, infer_spaces
from rl_training.data.formats.cells import numbers_of_words
from rl_training.data.formats.words import proposed, told
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.offline_mixers import mix_datasets
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

    @pytest.mark.usefixtures("either_reader")
    def test_numbers_among_them_have_decimal_commas_too(self, tmp_path: Path) -> None:
        doors = ["shut", "0,5", "open", "-1,25", "shut", "open", "3", "shut"]
        path = write_csv(tmp_path / "log.csv", table() | {"x": [f"{i},5" for i in range(8)], "door": doors}, ";")
        assert read(path).obs[:, 1].tolist() == [0, 0.5, 1, -1.25, 0, 1, 3, 0]

    @pytest.mark.parametrize("truths", [[True, False] * 4, [True, False, None, "open"] * 2])
    def test_truths_of_a_table_go_by_their_words(self, truths: list[Any]) -> None:
        columns = table() | {"door": np.array(truths, dtype=object if None in truths else bool)}
        words = WORDS | {"door": {"true": 5, "false": 2, "open": 7}}
        found = TransitionDataset.from_table(columns, COLUMNS, words=words, missing="hold").obs[:, 1]
        assert found.tolist() == ([5, 2] * 4 if None not in truths else [5, 2, 2, 7] * 2)

    def test_numbers_beside_words_keep_all_digits(self) -> None:
        doors = np.array([0.1234567890123, 10**400, "open", "shut"] * 2, dtype=object)
        found = numbers_of_words("door", doors, {"open": 1.0, "shut": 0.0})
        assert found.tolist() == [0.1234567890123, np.inf, 1.0, 0.0] * 2

    @pytest.mark.parametrize("doors", [["shut", "-9999", "open", "open"], [0.0, -9999.0, 1.0, 1.0]])
    def test_numbers_that_stand_for_nothing(self, doors: list[Any], tmp_path: Path) -> None:
        columns = table() | {"door": doors * 2}
        held = read(write_csv(tmp_path / "log.csv", columns), missing="hold", missing_words=["-9999"])
        assert held.obs[:, 1].tolist() == [0, 0, 1, 1] * 2
        again = TransitionDataset.from_table(columns, COLUMNS, words=WORDS, missing="hold", missing_words=["-9999"])
        assert again.obs[:, 1].tolist() == held.obs[:, 1].tolist()

    @pytest.mark.usefixtures("either_reader")
    def test_a_mark_is_no_word_that_stands_for_its_number(self, tmp_path: Path) -> None:
        columns = table() | {"x": [0, 1, -1, 3] * 2, "door": ["shut", "open", "shut", "-1"] * 2}
        words = {"door": {"shut": -1, "open": 1}, "valve": WORDS["valve"]}
        for dataset in (
            read(write_csv(tmp_path / "log.csv", columns), words, missing="hold", missing_words=["-1"]),
            TransitionDataset.from_table(columns, COLUMNS, words=words, missing="hold", missing_words=["-1"]),
        ):
            assert dataset.obs.tolist() == [[0, -1], [1, 1], [1, -1], [3, -1]] * 2

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

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_column_of_texts_in_few_rows_is_no_measurement_with_gaps(self, ending: str, tmp_path: Path) -> None:
        """As one that tells in last rows why episodes ended: no word of it stands for a missing number."""
        cells = ["", "", "", "late", "", "", "", "late"]
        if ending == "csv":
            path = write_csv(tmp_path / "log.csv", table() | {"door": cells})
        else:
            pandas = pytest.importorskip("pandas", reason="needs pandas")
            path = tmp_path / "log.parquet"
            pandas.DataFrame(table() | {"door": [cell or None for cell in cells]}).to_parquet(path)
        with pytest.raises(DataError) as caught:
            read(path, None)
        assert "'door' holds texts and no numbers: leave it out; what tells why episodes end" in str(caught.value)
        assert "missing_words" not in str(caught.value)

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
            ({"door": {"open": "wide"}}, "words: door: 'open' must stand for a number, got 'wide'"),
            ({"door": {"open": float("nan")}}, "words: door: 'open' must stand for a number, got nan"),
            ({"door": {"1": 0}}, "words: door: '1' is a number itself, and stays one; leave it out"),
            ({"door": {"Open": 1, "open": 0}}, "words: door: 'open' is given two numbers; capitals make no difference"),
            ({"door": {}}, "words: door: names no word"),
            (["door"], "words: must give words their numbers by column: words: {door: {shut: 0, open: 1}}"),
        ],
    )
    def test_of_the_mapping(self, words: Any, complaint: str, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            read(write_csv(tmp_path / "log.csv", table()), words)
        assert complaint in str(caught.value)

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

    def test_a_column_with_the_sign_in_its_name(self) -> None:
        words = {"k=1": {"shut": 0.0}, 'a "b"': {"x=y": 0.1}}
        entries = words_entries(words)
        assert entries == ['"k=1"=shut:0', '"a ""b"""=x=y:0.1']
        assert Reading(words=entries).table_choices().words == words

    @pytest.mark.parametrize(("entries", "twice"), [(["a=x:1,x:2"], "x"), (["a=x:1", "a=y:2"], "a")])
    def test_what_is_given_twice(self, entries: list[str], twice: str) -> None:
        with pytest.raises(ConfigError, match=rf"--words {entries[-1]}: {twice} is given twice"):
            Reading(words=entries).table_choices()

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


class TestOtherNumbers:
    """Data whose words stand for other numbers are other data."""

    @pytest.fixture
    def datasets(self) -> list[TransitionDataset]:
        turned = {"door": {"shut": 1, "open": 0}, "valve": WORDS["valve"]}
        return [TransitionDataset.from_table(table(), COLUMNS, words=words) for words in (WORDS, turned)]

    def test_are_not_given_to_a_policy(self, datasets: list[TransitionDataset]) -> None:
        spaces = named_spaces(infer_spaces(datasets[0]), datasets[0])
        require_order(datasets[0], spaces, "a.csv")
        said = "a.csv: words of 'door' stand for shut 1, open 0, and the policy was trained on Shut 0, open 1;"
        with pytest.raises(DataError, match=f"{said} write the data anew with the words of the run"):
            require_order(datasets[1], spaces, "a.csv")

    def test_are_not_mixed(self, datasets: list[TransitionDataset]) -> None:
        one, other = datasets
        assert len(mix_datasets({"a": one, "b": one})) == 2 * len(one)
        said = "mixture: b: words of 'door' stand for shut 1, open 0, and those of a are Shut 0, open 1;"
        with pytest.raises(DataError, match=f"{said} write the data anew with the words of a"):
            mix_datasets({"a": one, "b": other})

    @pytest.mark.parametrize("name", ["Door", "gate"])
    def test_whatever_their_column_is_called(self, name: str, datasets: list[TransitionDataset]) -> None:
        columns = {name if known == "door" else known: cells for known, cells in table().items()}
        words = {name: {"shut": 1, "open": 0}, "valve": WORDS["valve"]}
        other = TransitionDataset.from_table(columns, COLUMNS | {"obs": ["x", name]}, words=words)
        said = f"words of '{name}' stand for shut 1, open 0, and"
        with pytest.raises(DataError, match=f"mixture: b: {said} those of a are Shut 0, open 1"):
            mix_datasets({"a": datasets[0], "b": other})
        with pytest.raises(DataError, match=f"b.csv: {said} the policy was trained on Shut 0, open 1"):
            require_order(other, named_spaces(infer_spaces(datasets[0]), datasets[0]), "b.csv")

    def test_of_columns_without_names(self, datasets: list[TransitionDataset]) -> None:
        """Nothing is called otherwise there, but their words are known."""
        places = {name: f"column_{place}" for place, name in enumerate(table())}
        columns = {places[name]: cells for name, cells in table().items()}
        mapping = COLUMNS | {"obs": [places["x"], places["door"]]}
        mapping |= {field: places[name] for field, name in COLUMNS.items() if field != "obs"}
        unnamed, turned = (
            TransitionDataset.from_table(columns, mapping, words={places["door"]: doors, places["valve"]: valves})
            for doors, valves in ((WORDS["door"], WORDS["valve"]), ({"shut": 1, "open": 0}, WORDS["valve"]))
        )
        mixed = mix_datasets({"a": unnamed, "b": datasets[0]})
        assert mixed.notes == ()
        spaces = named_spaces(infer_spaces(mixed), mixed)
        assert [column.name for column in spaces.obs_columns] == ["x", "door"]
        for known in (unnamed, datasets[0]):
            with pytest.raises(DataError, match="mixture: b: words of 'column_2' stand for shut 1, open 0"):
                mix_datasets({"a": known, "b": turned})

    def test_are_not_given_to_a_policy_of_a_mixture(self, datasets: list[TransitionDataset]) -> None:
        """It knows the names of the first part that has some, and the words of all."""
        silent = TransitionDataset.from_dict(datasets[0].to_dict())
        more = {"door": {"shut": 0, "Ajar": 0.5}, "valve": WORDS["valve"]}
        ajar = TransitionDataset.from_table(table() | {"door": ["shut", "ajar"] * 4}, COLUMNS, words=more)
        mixed = mix_datasets({"silent": silent, "a": datasets[0], "b": ajar})
        spaces = named_spaces(infer_spaces(mixed), mixed)
        assert [column.name for column in (*spaces.obs_columns, *spaces.action_columns)] == ["x", "door", "valve"]
        assert spaces.obs_columns[1].words == (("Shut", 0.0), ("open", 1.0), ("Ajar", 0.5))
        assert require_order(ajar, spaces, "a.csv") == []
        said = "words of 'door' stand for shut 1, open 0, and the policy was trained on Shut 0, open 1, Ajar 0.5"
        with pytest.raises(DataError, match=said):
            require_order(datasets[1], spaces, "a.csv")
        turned = TransitionDataset.from_table(table(), COLUMNS | {"obs": ["door", "x"]}, words=WORDS)
        with pytest.raises(DataError, match="obs are door, x, in that order, and the policy was trained on x, door"):
            require_order(turned, spaces, "a.csv")

    def test_columns_in_another_order_are_not_mixed(self, datasets: list[TransitionDataset]) -> None:
        turned = TransitionDataset.from_table(table(), COLUMNS | {"obs": ["door", "x"]}, words=WORDS)
        said = "mixture: b: obs are door, x, in that order, and those of a are x, door; write the data anew with"
        with pytest.raises(DataError, match=f"{said} --columns obs=…, in the order of a"):
            mix_datasets({"a": datasets[0], "b": turned})

    def test_columns_that_only_partly_agree(self) -> None:
        """One that is common stands in another place: refused; what is called otherwise in its place: told."""
        columns = table() | {"a": [0] * 8, "b": list(range(8))}
        one, turned, other = (
            TransitionDataset.from_table(columns, COLUMNS | {"obs": obs}, words=WORDS)
            for obs in (["x", "door", "a"], ["door", "x", "b"], ["x", "door", "b"])
        )
        with pytest.raises(
            DataError, match="mixture: q: obs are door, x, b, in that order, and those of p are x, door, a"
        ):
            mix_datasets({"p": one, "q": turned})
        told = "mixture: q: the observations have other names than in p: b for a; taken for the same"
        assert told in mix_datasets({"p": one, "q": other}).notes
        spaces = named_spaces(infer_spaces(one), one)
        assert require_order(other, spaces, "q") == [
            "q: the observations have other names than in the run: b for a; taken for the same"
        ]
        assert require_order(one, spaces, "p") == []

    def test_every_part_is_held_to_all_before_it(self) -> None:
        """The first has other names, and capitals make no difference."""
        columns = table() | {"a": [0] * 8, "b": [1] * 8, "X": [2] * 8, "Door": [3] * 8}
        p, q, r = (
            TransitionDataset.from_table(columns, COLUMNS | {"obs": obs}, words=WORDS)
            for obs in (["a", "b"], ["x", "door"], ["Door", "X"])
        )
        with pytest.raises(DataError, match="mixture: r: obs are Door, X, in that order, and those of q are x, door"):
            mix_datasets({"p": p, "q": q, "r": r})

    @pytest.mark.parametrize(("ending", "told"), [("csv", "the files beside them tell"), ("parquet", "they tell")])
    def test_are_not_one_folder(
        self, ending: str, told: str, datasets: list[TransitionDataset], tmp_path: Path
    ) -> None:
        if ending == "parquet":
            pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra `parquet` has it)")
        with warnings.catch_warnings(action="ignore"):
            for name, dataset in zip("ab", datasets, strict=True):
                dataset.save(tmp_path / "log" / f"{name}.{ending}")
        said = f"a.{ending} and b.{ending} were written with words that stand for other numbers, as {told}"
        with pytest.raises(DataError, match=said):
            TransitionDataset.load(tmp_path / "log")
        with warnings.catch_warnings(action="ignore"):
            datasets[0].save(tmp_path / "log" / f"b.{ending}")
        assert len(TransitionDataset.load(tmp_path / "log")) == 2 * len(datasets[0])
