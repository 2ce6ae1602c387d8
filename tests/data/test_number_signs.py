"""Numbers that are written with a currency, per cent, or commas between thousands, with pyarrow and without."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import csv
from rl_training.data.formats.peek import peek
from rl_training.data.formats.signs import Amount, amount_of
from rl_training.data.missing_marks import words_as_missing
from rl_training.errors import DataError

pytest.importorskip("pyarrow")
HEADER = "obs\taction\treward\tdone"


@pytest.fixture(params=[True, False], autouse=True)
def with_pyarrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    return str(caught.value).removeprefix(f"{path}: ")


def rows(rewards: list[str]) -> list[str]:
    return [f"{i}.5\t{i % 3}\t{reward}\t{int(i == len(rewards) - 1)}" for i, reward in enumerate(rewards)]


def rewards_of(path: Path, rewards: list[str]) -> list[float]:
    return TransitionDataset.load(write(path, HEADER, *rows(rewards))).rewards.tolist()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$25.29", Amount("25.29", "$", False, False)),
        ("-$25.29", Amount("-25.29", "$", False, False)),
        ("€ -3", Amount("-3", "€", False, False)),
        ("25.29\u202f€", Amount("25.29", "€", False, False)),
        ("CHF 7.", Amount("7.", "CHF", False, False)),
        ("$1,204.50", Amount("1204.50", "$", True, True)),
        ("1,234,567 EUR", Amount("1234567", "EUR", True, True)),
        ("$1,204", Amount("1204", "$", True, False)),
        ("1.5", Amount("1.5", "", False, False)),
        ("66.6%", Amount("66.6", "%", False, False)),
        ("-5 %", Amount("-5", "%", False, False)),
    ],
)
def test_an_amount(text: str, amount: Amount) -> None:
    assert amount_of(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "0,125",
        "$0,125",
        "1,2",
        "12,34",
        "1,2345",
        "$3 USD",
        "--5 €",
        "٣ €",
        "1.2.3 €",
        "% 5",
        "5 % EUR",
        "3 kWh",
        "1e3 €",
    ],
)
def test_what_is_none(text: str) -> None:
    assert amount_of(text) is None


class TestColumns:
    def test_have_one(self, tmp_path: Path) -> None:
        assert rewards_of(tmp_path / "a.csv", ["$1.50", "-$2.00", "$1,204.25"]) == [1.5, -2.0, 1204.25]
        notes = TransitionDataset.load(tmp_path / "a.csv").notes
        assert "column 'reward': numbers are read without '$' and commas between thousands" in notes

    def test_what_later_rows_show_holds_for_those_before(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rl_training.data.formats.csv._ROWS_AT_A_TIME", 2)
        lines = [f"{i};{i % 3};{reward};{int(i == 3)}" for i, reward in enumerate(["1,204", "1", "2", "1,204.50"])]
        path = write(tmp_path / "a.csv", HEADER.replace("\t", ";"), *lines)
        for has_pyarrow in (True, False):
            if not has_pyarrow:
                monkeypatch.setitem(sys.modules, "pyarrow", None)
            assert TransitionDataset.load(path).rewards.tolist() == [1204.0, 1.0, 2.0, 1204.5]

    def test_decimals_with_commas(self, tmp_path: Path) -> None:
        euros = [f"{i}\t{i % 3}\t{reward}\t{int(i == 2)}" for i, reward in enumerate(["1,50 €", "-2,00 €", "0,25 €"])]
        dataset = TransitionDataset.load(write(tmp_path / "a.csv", HEADER, *euros))
        assert dataset.rewards.tolist() == [1.5, -2.0, 0.25]
        told = refusal(write(tmp_path / "b.csv", HEADER, "1,5\t1\t1,50 €\t0", "1,5\t1\t1.204 €\t1"))
        assert told.startswith("column 'reward': '1.204 €' at row 1 is not a number")

    def test_words_with_numbers_in_them_stay_words(self, tmp_path: Path) -> None:
        lines = ["obs;mode;reward;done", "1,5;1.5 bar;1;0", "2,5;2.0 bar;1;1"]
        words = {"mode": {"1.5 bar": 0, "2.0 bar": 1}}
        dataset = TransitionDataset.load(write(tmp_path / "a.csv", *lines), columns={"actions": "mode"}, words=words)
        assert dataset.actions.ravel().tolist() == [0.0, 1.0]

    @pytest.mark.parametrize("cells", [["$20", "€20"], ["20", "$20"], ["$20", "20"]])
    def test_several_are_refused(self, cells: list[str], tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(cells)))
        assert "is not a number; all numbers of a column must have the same currency, or none (line " in told

    @pytest.mark.parametrize("cell", ["5 ‰", "20 °c", "3.4 kwh", "7 min"])
    def test_other_units_are_refused(self, cell: str, tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows([cell, cell])))
        assert f"{cell!r} at row 0 is not a number; write numbers alone, and their unit into the header" in told

    def test_per_cent(self, tmp_path: Path) -> None:
        assert rewards_of(tmp_path / "a.csv", ["66.5%", "-0.5 %"]) == [66.5, -0.5]
        notes = TransitionDataset.load(tmp_path / "a.csv").notes
        assert "column 'reward': numbers are read without '%'" in notes
        commas = [f"{i}\t{i % 3}\t{reward}\t{int(i == 1)}" for i, reward in enumerate(["66,5%", "7,5 %"])]
        assert TransitionDataset.load(write(tmp_path / "b.csv", HEADER, *commas)).rewards.tolist() == [66.5, 7.5]

    @pytest.mark.parametrize("cells", [["5%", "0.05"], ["0.05", "5%"], ["5%", "5 €"]])
    def test_per_cent_and_plain_numbers_do_not_mix(self, cells: list[str], tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(cells)))
        assert "is not a number; all numbers of a column must have the same sign, or none (line " in told

    @pytest.mark.parametrize("missing", [[], ["n/a"], [""]])
    @pytest.mark.parametrize("first", [["$20", "$30"], ["0.2", "0.3"]])
    def test_parts_of_a_file_must_agree(
        self, first: list[str], missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(csv, "_ROWS_AT_A_TIME", 2)
        second = {"$20": ["0.2", "0.3"], "0.2": ["$20", "$30"]}[first[0]]
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows([*first, second[0], *(missing or second[1:])])))
        assert "the currency at row 2 is" in told or "must have the same currency, or none" in told

    @pytest.mark.parametrize("second", [["€20", "€30"], ["0.2", "n/a"], ["0.2", ""], ["0.2", "0.3"]])
    def test_files_of_a_folder_must_agree(self, second: list[str], tmp_path: Path) -> None:
        write(tmp_path / "a.csv", HEADER, *rows(["$20", "$30"]))
        write(tmp_path / "b.csv", HEADER, *rows(second))
        assert "that of rows before it '$'; write all numbers of a column alike" in refusal(tmp_path)

    def test_of_a_frame(self) -> None:
        frame = pd.DataFrame({"obs": ["$1", "$2"], "action": [0.0, 1.0], "reward": [1, 2], "done": [0, 1]})
        assert TransitionDataset.from_table(frame).obs.ravel().tolist() == [1.0, 2.0]


class TestThousands:
    def test_where_a_number_shows_what_commas_are(self, tmp_path: Path) -> None:
        assert rewards_of(tmp_path / "a.csv", ["1,204", "87.5", "-1,000.5"]) == [1204.0, 87.5, -1000.5]

    @pytest.mark.parametrize("cells", [["$1,204", "$87"], ["1,250", "1.5"], ["0,125", "1.5"], ["1,250", "0,375", "2."]])
    def test_where_nothing_shows_it_they_are_refused(self, cells: list[str], tmp_path: Path) -> None:
        assert "is not a number" in refusal(write(tmp_path / "a.csv", HEADER, *rows(cells)))

    def test_advice(self, tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(["$1,204", "$87"])))
        assert "'$1,204' at row 0 is not a number; write thousands without a comma, and decimals with a point" in told


def test_a_first_look_sees_numbers(tmp_path: Path) -> None:
    rewards = [f"${i + 1}.00" for i in range(40)]
    rewards[7] = "--"
    path = write(tmp_path / "a.csv", "pos\tvalve\tTotal $/h\tend", *rows(rewards))
    read = words_as_missing(peek(path, 40).columns)
    assert read.words == ("--",)
    assert read.columns["Total $/h"][[0, 39]].tolist() == [1.0, 40.0]
