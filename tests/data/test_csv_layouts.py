"""CSV as other programs leave it: packed, without a header, with remarks above the table."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import csv_text, recognise
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError

LINES = [f"{i}.5,{-i},0.25,{i},{int(i == 4)}" for i in range(8)]
MAPPED = {"obs": ["column_0", "column_1"], "actions": "column_2", "rewards": "column_3", "terminations": "column_4"}


@pytest.fixture(params=["pyarrow", "plain"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    return str(request.param)


def text(*above: str) -> str:
    return "\n".join([*above, *LINES]) + "\n"


HEADER = "obs_0,obs_1,action,reward,terminal"


def plain(tmp_path: Path) -> TransitionDataset:
    (tmp_path / "plain.csv").write_text(text(HEADER))
    return TransitionDataset.load(tmp_path / "plain.csv")


class TestPacked:
    def test_gzip_is_read_as_it_is(self, tmp_path: Path) -> None:
        for name in ("log.csv.gz", "log"):
            (tmp_path / name).write_bytes(gzip.compress(text(HEADER).encode()))
            dataset = TransitionDataset.load(tmp_path / name)
            assert dataset.fingerprint() == plain(tmp_path).fingerprint()
            assert dataset.origin == "CSV, separated by commas, packed with gzip"

    def test_a_fault_is_told_by_its_row(self, tmp_path: Path) -> None:
        packed = gzip.compress(text(HEADER).replace("5.5", "five").encode())
        (tmp_path / "log.csv.gz").write_bytes(packed)
        with pytest.raises(DataError, match=r"column 'obs_0': 'five' at row 5 is not a number"):
            TransitionDataset.load(tmp_path / "log.csv.gz")

    def test_a_bomb_is_refused_while_it_is_measured(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "log.csv.gz").write_bytes(gzip.compress((HEADER + "\n" + "0,0,0,0,0\n" * 400_000).encode()))
        monkeypatch.setattr("rl_training.data.formats.limits._ALWAYS_FINE", 2**20)
        monkeypatch.setattr(csv_text, "_BETWEEN_CHECKS", 2**20)
        with pytest.raises(DataError, match=r"of values but stores .* packed to mislead"):
            TransitionDataset.load(tmp_path / "log.csv.gz")

    @pytest.mark.parametrize("change", [lambda data: data[:-20], lambda data: data[:-6] + b"\0" * 6])
    def test_damage_gives_a_line(self, change: object, tmp_path: Path) -> None:
        many = text(HEADER, *LINES * 100)
        (tmp_path / "log.csv.gz").write_bytes(change(gzip.compress(many.encode())))  # type: ignore[operator]
        with pytest.raises(DataError, match=r"is packed with gzip, and damaged or cut off \(.*\); pack it again"):
            TransitionDataset.load(tmp_path / "log.csv.gz")

    def test_what_is_packed_must_be_a_table(self, tmp_path: Path) -> None:
        (tmp_path / "log.gz").write_bytes(gzip.compress(b"{}"))
        with pytest.raises(DataError, match="what is compressed with gzip here is no CSV; unpack it first"):
            recognise(tmp_path / "log.gz")


@pytest.mark.parametrize("member", ["xl/workbook.xml", "content.xml"])
def test_a_workbook_is_named(member: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        archive.writestr(member, "<a/>")
    with pytest.raises(DataError, match=r"is the workbook of a spreadsheet; save its sheet as CSV \(UTF-8\)"):
        TransitionDataset.load(tmp_path / "log.xlsx")


def test_a_damaged_workbook_by_the_name_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"PK\x03\x04" + bytes(range(200)))
    with pytest.raises(DataError, match=r"is none: perhaps a damaged workbook; save its sheet as CSV \(UTF-8\)"):
        TransitionDataset.load(tmp_path / "log.csv")


class TestHeaders:
    @pytest.mark.parametrize("blank", ["\u00a0", "\u202f"])
    def test_blanks_that_do_not_break(self, blank: str, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(HEADER.replace("action", f"fan{blank}speed")))
        assert recognise(tmp_path / "log.csv") == "csv"
        dataset = TransitionDataset.load(tmp_path / "log.csv", columns={"actions": f"fan{blank}speed"})
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()

    @pytest.mark.parametrize("header", ['obs_0,obs_1,"action', '"obs_0'])
    def test_a_name_of_two_lines_is_told(self, header: str, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(header, '(m/s)",reward,terminal,other'))
        told = r'line 1: a quote \("\) is opened and not closed in the same line; write what it holds, such as the name'
        with pytest.raises(DataError, match=told):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_a_sign_for_inches_is_no_quote(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(HEADER.replace("action", 'action 5"')))
        mapped = {"actions": 'action 5"'}
        assert (
            TransitionDataset.load(tmp_path / "log.csv", columns=mapped).fingerprint() == plain(tmp_path).fingerprint()
        )

    def test_without_one_columns_go_by_position(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text())
        dataset = TransitionDataset.load(tmp_path / "log.csv", columns=MAPPED)
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()
        assert dataset.notes == (
            "there is no header line: columns are called by their position, column_0, column_1, …",
        )

    def test_positions_as_pandas_writes_them_are_names(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("0,1,2,3,4"))
        mapped = {"obs": ["0", "1"], "actions": "2", "rewards": "3", "terminations": "4"}
        dataset = TransitionDataset.load(tmp_path / "log.csv", columns=mapped)
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()

    @pytest.mark.parametrize(
        ("lines", "has_names"),
        [
            (["2024-03-01 08:00;T1;0,5;3;", "2024-03-01 08:01;T1;0,7;4;goal"], False),
            (["run,7,0.5", "run,8,0.25"], False),
            (["name,1,2,3", "a,0.5,0.25,1"], True),
            (["x,y,time", "1,2,3"], True),
            (["x,2024,y", "1,2,3"], True),
            (["x,y,note", "a,b,c"], True),
            (["1.5,2.5"], False),
        ],
    )
    def test_what_names_columns(self, lines: list[str], has_names: bool, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("\n".join(lines))
        assert csv_text.layout_of(tmp_path / "log.csv").has_names is has_names

    def test_remarks_above_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("# exported on Monday", "", HEADER))
        dataset = TransitionDataset.load(tmp_path / "log.csv")
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()
        assert "2 lines of remarks above the table left out" in dataset.notes

    @pytest.mark.parametrize(
        "above",
        [
            ["# exported 2024-01-01"],
            ["# exported 2024-01-01", "# by me"],
            ["# exported, 2024-01-01, by, me, again"],
            ["  # exported, 2024-01-01, by, me, again", "", "# and checked"],
            ["# a remark of some length"] * 400,
        ],
        ids=["one", "two", "as many commas", "blanks", "many"],
    )
    def test_no_remark_is_taken_for_the_header(self, above: list[str], tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text(text(*above, HEADER))
        dataset = TransitionDataset.load(path)
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()
        assert list(peek(path, 10).columns) == HEADER.split(",")
        path.write_text(text(*above, HEADER).replace("5.5,-5,", "5.5,"))
        with pytest.raises(DataError, match=f"line {len(above) + 7} has 4 values, but the header names 5 columns"):
            TransitionDataset.load(path)

    def test_a_header_with_a_hash_below_a_remark(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("# on, Monday, by, me, again", "#x,y,action,reward,terminal"))
        assert csv_text.layout_of(tmp_path / "log.csv").names == ["#x", "y", "action", "reward", "terminal"]

    def test_nothing_but_remarks(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("# exported 2024-01-01\n# by me\n")
        with pytest.raises(DataError, match=r"log.csv: holds nothing but remarks \(lines that begin with #\)$"):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_more_remarks_than_are_looked_through(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("# exported 2024-01-01\n" * 50_000 + text(HEADER))
        with pytest.raises(DataError, match=r"its first 1,001 lines are remarks \(#\), too many to look for a table"):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_a_header_that_begins_with_a_bracket(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(HEADER.replace("obs_0", "[s]")))
        assert csv_text.layout_of(tmp_path / "log.csv").names[0] == "[s]"
        assert recognise(tmp_path / "log.csv") == "csv"

    @pytest.mark.parametrize(
        "json", ["[1, 2]", "[[1], [2]]", '[{"x": 1}, {"x": 2}]', "[[1,2],[3,4]]", "[1]", '["a"], 1']
    )
    def test_a_list_of_json_is_none(self, json: str, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(json)
        with pytest.raises(DataError, match="it is JSON"):
            recognise(tmp_path / "log.csv")

    def test_units_below_the_header_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(HEADER, "m,°C,%,-,-"))
        dataset = TransitionDataset.load(tmp_path / "log.csv")
        assert dataset.fingerprint() == plain(tmp_path).fingerprint()
        assert "the line below the header is taken for units: m,°C,%,-,-" in dataset.notes

    @pytest.mark.parametrize(
        ("line", "is_one"),
        [
            (";°C;;EUR;", True),
            (";°C;%;-;", True),
            (";m/s2;;m3;", True),
            (";°C;;;", False),  # one word alone may stand for a value that could not be measured
            ("01.01.2024;err;err;err;", False),
            (";err;err;5;", False),
            (";-;-;-;", False),
            (";a remark of more than twenty letters;EUR;EUR;", False),
        ],
    )
    def test_units_may_have_holes(self, line: str, is_one: bool, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(f"Zeit;Temperatur;Stufe;Kosten;Grund\n{line}\n02.01.2024;1,5;2;3,5;\n")
        layout = csv_text.layout_of(tmp_path / "log.csv")
        assert (layout.units is not None) is is_one
        assert peek(tmp_path / "log.csv", 10).rows == (1 if is_one else 2)

    def test_units_that_were_not_recognised_are_asked_for(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(HEADER, "m,0,0,0,0"))
        with pytest.raises(DataError, match=r"'m' at row 0 is not a number; if that row holds units, leave it out"):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_columns_of_one_name(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text("obs,action,reward,done,obs,x,x\n1,2,3,0,1,5,6\n2,3,4,1,2,7,8\n")
        notes = TransitionDataset.load(path).notes
        assert "two columns are named 'obs'; they hold the same, and one is read" in notes
        assert "two columns are named 'x'; they are not used" in notes
        assert peek(path, 10).notes == (
            "two columns are named 'obs'; they hold the same, and one is read",
            "two columns are named 'x'; they differ: give each its own name before one is used",
        )
        (tmp_path / "log.csv").write_text(text(HEADER, "NA,NA,NA,NA,NA"))
        with pytest.raises(DataError, match=r"'NA' at row 0 is not a number; a missing value"):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_a_header_may_begin_with_a_hash(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("#x,y,action,reward,terminal"))
        assert TransitionDataset.load(tmp_path / "log.csv", columns={"obs": ["#x", "y"]}).obs_dim == 2

    @pytest.mark.parametrize(
        "above",
        [
            ["Plant,7"],
            ["Export plant,7,,,"],
            ["Site,7", "", "Made,2025-11-04", "Shift,early"],
            ["position,,command,,"],  # groups of columns
        ],
    )
    def test_titles_of_several_cells_are_left_out(self, above: list[str], tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text(*above, HEADER))
        dataset = TransitionDataset.load(tmp_path / "log.csv")
        (tmp_path / "plain.csv").write_text(text(HEADER))
        assert np.array_equal(dataset.obs, TransitionDataset.load(tmp_path / "plain.csv").obs)
        assert f"{len(above)} line{'s' * (len(above) > 1)} of remarks above the table left out" in dataset.notes

    def test_a_header_that_lacks_a_name_is_no_title(self, tmp_path: Path) -> None:
        """As R's write.table leaves out the name of the rows' numbers."""
        (tmp_path / "log.csv").write_text(text(HEADER.partition(",")[2]))
        with pytest.raises(DataError, match=r"line 2 has 5 values, but the header names 4 columns"):
            TransitionDataset.load(
                tmp_path / "log.csv", columns={"obs": "obs_1", "actions": "action", "rewards": "reward"}
            )

    def test_a_title_as_long_as_the_header_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("Plant,7,early,shift", HEADER))
        with pytest.raises(DataError, match=r"the data have Plant, 7"):
            TransitionDataset.load(tmp_path / "log.csv")
        columns = {"obs": "Plant", "actions": "7", "rewards": "7", "terminations": "early"}
        with pytest.raises(
            DataError, match=r"line 2 has 5 values, but the header names 4 columns; .*if lines of remarks"
        ):
            TransitionDataset.load(tmp_path / "log.csv", columns=columns)

    def test_rows_are_counted_below_it(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(text("# a remark", HEADER).replace("3.5", "nan"))
        with pytest.raises(DataError, match=r"obs: NaN at row 3, column 'obs_0'"):
            TransitionDataset.load(tmp_path / "log.csv")
        assert np.isfinite(plain(tmp_path).obs).all()
