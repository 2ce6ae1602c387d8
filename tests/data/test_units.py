"""Numbers that are written with a unit, and with commas between thousands, with pyarrow and without."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import csv
from rl_training.data.formats.peek import peek
from rl_training.data.formats.units import Quantity, quantity_of
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
    ("text", "number", "unit"),
    [
        ("$25.29", "25.29", "$"),
        ("-$25.29", "-25.29", "$"),
        ("€ -3", "-3", "€"),
        ("1,234,567.5 EUR", "1234567.5", "EUR"),
        ("12 %", "12", "%"),
        ("12\u202f%", "12", "%"),
        ("21.5°C", "21.5", "°C"),
        ("3.4 kWh", "3.4", "kWh"),
        ("7 m3/h", "7", "m3/h"),
        ("7 µg/m³", "7", "µg/m³"),
        ("1e3 W", "1e3", "W"),
        ("1e3", "1e3", ""),
    ],
)
def test_a_number_and_its_unit(text: str, number: str, unit: str) -> None:
    assert quantity_of(text) is not None
    assert quantity_of(text)[:2] == Quantity(number, unit, False, False)[:2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kWh",
        "0x1f",
        "12:30",
        "2024-03-31",
        "31.03.2024",
        "L-4232",
        "$3 USD",
        "1,2",
        "٣ kg",
        "1.2.3",
        "--5 %",
        "nan(1)",
    ],
)
def test_what_is_none(text: str) -> None:
    assert quantity_of(text) is None


class TestColumns:
    def test_have_one(self, tmp_path: Path) -> None:
        assert rewards_of(tmp_path / "a.csv", ["$1.50", "-$2.00", "$1,204.25"]) == [1.5, -2.0, 1204.25]
        notes = TransitionDataset.load(tmp_path / "a.csv").notes
        assert "column 'reward': numbers are written with '$', which is left out" in notes

    def test_decimals_with_commas(self, tmp_path: Path) -> None:
        euros = [f"{i}\t{i % 3}\t{reward}\t{int(i == 2)}" for i, reward in enumerate(["1,50 €", "-2,00 €", "0,25 €"])]
        dataset = TransitionDataset.load(write(tmp_path / "a.csv", HEADER, *euros))
        assert dataset.rewards.tolist() == [1.5, -2.0, 0.25]
        lines = [row.replace(".", ",", 1) for row in rows(["1,50 €"])] + ["1,5\t1\t1.204 €\t1"]
        told = refusal(write(tmp_path / "c.csv", HEADER, *lines))
        assert told.startswith("column 'reward': '1.204 €' at row 1 is not a number")

    def test_several_are_refused(self, tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(["20 °C", "70 °F"])))
        advice = "numbers of a column must all have the same unit, or none"
        cells = "(line 2, 2 such cells: '20 °C' 1, '70 °F' 1)"
        assert told == f"column 'reward': '20 °C' at row 0 is not a number; {advice} {cells}"
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(["20", "70 %"])))
        assert told.startswith(
            "column 'reward': '70 %' at row 1 is not a number; numbers of a column must all have the"
        )

    def test_one_in_some_parts_of_a_file_only_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csv, "_ROWS_AT_A_TIME", 2)
        for rewards in (["20 %", "30 %", "4", "5"], ["4", "5", "20 %", "30 %"]):
            told = refusal(write(tmp_path / "a.csv", HEADER, *rows(rewards)))
            assert "no unit, rows before it have '%'" in told or "must all have the same unit, or none" in told

    def test_of_two_files_must_agree(self, tmp_path: Path) -> None:
        write(tmp_path / "a.csv", HEADER, *rows(["20 °C", "30 °C"]))
        write(tmp_path / "b.csv", HEADER, *rows(["20 °F", "30 °F"]))
        assert "'20 °F' at row 0 is not a number; numbers of a column must all have the same unit" in refusal(tmp_path)

    def test_of_a_frame(self) -> None:
        frame = pd.DataFrame({"obs": ["1 bar", "2 bar"], "action": [0.0, 1.0], "reward": [1, 2], "done": [0, 1]})
        assert TransitionDataset.from_table(frame).obs.ravel().tolist() == [1.0, 2.0]


class TestThousands:
    def test_where_a_point_shows_what_commas_are(self, tmp_path: Path) -> None:
        assert rewards_of(tmp_path / "a.csv", ["1,204", "87.5", "-1,000"]) == [1204.0, 87.5, -1000.0]

    def test_where_nothing_shows_it_they_are_refused(self, tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", HEADER, *rows(["$1,204", "$87"])))
        assert "'$1,204' at row 0 is not a number; write thousands without a comma, and decimals with a point" in told


def test_a_first_look_sees_numbers(tmp_path: Path) -> None:
    rewards = [f"${i + 1}.00" for i in range(40)]
    rewards[7] = "--"
    path = write(tmp_path / "a.csv", "pos\tvalve\tTotal $/h\tend", *rows(rewards))
    read = words_as_missing(peek(path, 40).columns)
    assert read.words == ("--",)
    assert read.columns["Total $/h"][[0, 39]].tolist() == [1.0, 40.0]
