"""Lines that do not fit their header: what is wrong is told once, and what to do about it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats.peek import peek
from rl_training.data.formats.reward_terms import doubts_on_units, split_terms
from rl_training.errors import DataError

TITLE = "Export; plant 7; 4.11.2025"
HEADER = "batch;when;T tank;pressure;valve;cost;status"
UNITS = ";;°C;bar;%;€/h;"
COLUMNS = {"obs": ["T tank", "pressure"], "actions": "valve", "rewards": "cost", "episode_ids": "batch", "step": "when"}


def rows(count: int = 40) -> list[str]:
    return [f"{n // 10};2025-01-{1 + n // 10:02} 0{n % 10}:00;{n}.5;0.{n};{n}.25;1.{n};runs" for n in range(count)]


def refusal(path: Path, lines: Sequence[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError) as error:
        TransitionDataset.load(path, columns=COLUMNS)
    return str(error.value).removeprefix(f"{path}: ")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.csv"


def test_a_separator_that_changes(log: Path) -> None:
    changed = [line.replace(";", ",") for line in rows()[20:]]
    told = refusal(log, [TITLE, HEADER, UNITS, *rows()[:20], *changed])
    assert told == "from line 24 on cells are separated by commas, above by semicolons; write all of them alike"
    told = refusal(log, [HEADER, *rows()[:20], changed[0], *rows()[21:]])
    assert told == "in line 22 cells are separated by commas, above by semicolons; write all of them alike"


def test_a_separator_that_changes_in_one_line_above_others_that_are_short(log: Path) -> None:
    """It was said to change from there on, though no other line has it."""
    short = [line.rpartition(";")[0] for line in rows()[21:]]
    told = refusal(log, [HEADER, *rows()[:20], rows()[20].replace(";", ","), *short])
    assert told == "in line 22 cells are separated by commas, above by semicolons; write all of them alike"
    told = refusal(log, [HEADER, *rows()[:20], rows()[20].replace(";", ",")])
    assert told == "in line 22 cells are separated by commas, above by semicolons; write all of them alike"


@pytest.mark.parametrize("kind", ["another separator", "too short"])
def test_what_follows_a_line_that_does_not_fit_is_not_kept(kind: str, log: Path) -> None:
    """To word one line of an error, twice the file lay in memory."""
    odd = [line.replace(";", ",") if kind == "another separator" else line.rpartition(";")[0] for line in rows()]
    log.write_text("\n".join([HEADER, *rows(), *odd * 2_000]) + "\n")
    tracemalloc.start()
    with pytest.raises(DataError) as error:
        TransitionDataset.load(log, columns=COLUMNS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    told = {
        "another separator": "from line 42 on cells are separated by commas, above by semicolons",
        "too short": "(nor do 79,999 other lines fit: 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54 and 79,987 more)",
    }
    assert told[kind] in str(error.value)
    assert peak < 10 * 2**20


def test_a_separator_that_changes_beyond_what_is_looked_at_first(log: Path) -> None:
    many = [*rows() * 50, *(line.replace(";", ",") for line in rows() * 50)]
    log.write_text("\n".join([HEADER, *many]) + "\n")
    (note,) = [note for note in peek(log, 100).notes if "separated by commas" in note]
    assert note.startswith("cells of its last lines are separated by commas, and those above by semicolons")


@pytest.mark.parametrize("above", [[], [TITLE]], ids=["alone", "below a title"])
def test_a_header_with_another_separator(above: list[str], log: Path) -> None:
    told = refusal(log, [*above, HEADER.replace(";", ","), *rows()])
    line = 1 + len(above)
    assert (
        told == f"line {line} separates names by commas, and cells below are separated by semicolons; write both alike"
    )


def test_rows_that_end_with_a_separator_below_a_title(log: Path) -> None:
    told = refusal(log, [TITLE, HEADER, UNITS, *(f"{line};" for line in rows())])
    assert told.startswith("line 4 has 8 values, but the header names 7 columns")
    assert told.endswith("each line ends with a separator: end the header with one, too")
    with pytest.raises(DataError, match="end the header with one, too"):
        peek(log, 100)


@pytest.mark.parametrize("above", [[], [TITLE.replace(";", ",")]], ids=["alone", "below a title"])
def test_decimals_with_commas_between_cells_with_commas(above: list[str], log: Path) -> None:
    lines = [line.replace(".", ",").replace(";", ",") for line in (HEADER, UNITS, *rows())]
    told = refusal(log, [*above, *lines])
    assert told.endswith(
        "has 11 values, but the header names 7 columns: decimals seem to have commas, as cells; export it with"
        " semicolons between cells, or with decimal points"
    )
    with pytest.raises(DataError, match="decimals seem to have commas"):
        peek(log, 100)


def test_a_header_and_its_units_alone(log: Path) -> None:
    assert refusal(log, [TITLE, HEADER, UNITS]) == "has a header, but no rows"


def test_two_files_one_after_another(log: Path) -> None:
    told = refusal(log, [TITLE, HEADER, UNITS, *rows()[:20], TITLE, HEADER, UNITS, *rows()[20:]])
    assert told == ("a second header at line 25: two files one after another? Split them, or delete lines 24 to 26")


def test_a_second_file_with_the_same_columns(log: Path) -> None:
    """Its header makes text of every column."""
    told = refusal(log, [TITLE, HEADER, *rows()[:20], HEADER, *rows()[20:]])
    assert told == "line 23 repeats the header: leave it out (a second file behind the first)"
    thrice = refusal(log, [HEADER, *rows()[:20], HEADER, *rows()[20:30], HEADER, *rows()[30:]])
    assert thrice == "lines 22, 33 repeat the header: leave them out (other files behind the first)"


@pytest.mark.parametrize("last", ["Summe;;;;;57.5;", "Total:;;;;;57.5;"])
def test_a_line_of_totals(last: str, log: Path) -> None:
    told = refusal(log, [HEADER, *rows(), last])
    assert told == f"the last line, {last!r}, looks like one of totals: delete it"
    assert told in peek(log, 10).notes


def test_an_id_that_is_called_total_is_none(log: Path) -> None:
    log.write_text("\n".join([HEADER, *rows(), "Total;2025-02-01 00:00;1.5;0.1;2.5;1.0;runs"]) + "\n")
    assert TransitionDataset.load(log, columns=COLUMNS).n_episodes == 5


def test_rewards_of_several_units_are_doubted(log: Path) -> None:
    log.write_text("\n".join([HEADER, UNITS, *rows()]) + "\n")
    bare = TransitionDataset.load(log, columns={**COLUMNS, "obs": "T tank", "rewards": ["cost", "-pressure"]})
    assert [note for note in bare.notes if "different units" in note] == [
        "warning: what is added up for the rewards is counted in different units, 'cost' in €/h and 'pressure' in bar;"
        " say what one unit is worth, as in 0.3*pressure, or leave out what the other counts already"
    ]
    weighed = TransitionDataset.load(log, columns={**COLUMNS, "obs": "T tank", "rewards": ["1*cost", "-0.3*pressure"]})
    assert not any("different units" in note for note in weighed.notes)


def test_units_that_are_written_in_two_ways_are_one() -> None:
    terms = split_terms(["revenue", "-cost", "-rent"])
    assert doubts_on_units(terms, {"revenue": "EUR", "cost": "€", "rent": "[EUR]"}) == []
    assert len(doubts_on_units(terms, {"revenue": "EUR", "cost": "€/h"})) == 1
