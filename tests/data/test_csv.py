"""CSV: separators, words, encodings and mistakes, with pyarrow and without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

HEADER = "obs_0,obs_1,action,reward,terminal,timeout"
LINES = [f"{i}.5,{-i},0.25,{i},{'true' if i == 4 else 'False'},{int(i == 8)}" for i in range(12)]


@pytest.fixture(params=["pyarrow", "plain"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    return request.param


def write(path: Path, *lines: str, encoding: str = "utf-8", end: str = "\n") -> Path:
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def expected() -> TransitionDataset:
    rows = np.arange(12)
    return TransitionDataset.from_dict(
        {
            "obs": np.stack([rows + 0.5, -rows], axis=1),
            "actions": np.full((12, 1), 0.25),
            "rewards": rows,
            "terminations": rows == 4,
            "truncations": rows == 8,
        }
    )


class TestReading:
    @pytest.mark.parametrize(("separator", "name"), [(",", "commas"), (";", "semicolons"), ("\t", "tabs")])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_separators(self, separator: str, name: str, end: str, tmp_path: Path) -> None:
        lines = [line.replace(",", separator) for line in [HEADER, *LINES]]
        dataset = TransitionDataset.load(write(tmp_path / "log.txt", *lines, end=end))
        assert dataset.fingerprint() == expected().fingerprint()
        assert dataset.origin == f"CSV, separated by {name}"
        assert dataset.notes == ("obs from obs_0 … obs_1 (2 columns)",)

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
    def test_a_byte_order_mark_is_no_part_of_a_name(self, encoding: str, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", HEADER, *LINES, encoding=encoding)
        assert TransitionDataset.load(path).fingerprint() == expected().fingerprint()

    def test_quotes_empty_lines_spaces_and_no_last_newline(self, tmp_path: Path) -> None:
        header = ",".join(f' "{name}"'.strip() for name in HEADER.split(","))
        quoted = [",".join(f'"{cell}"' for cell in line.split(",")) for line in LINES]
        path = tmp_path / "a.csv"
        path.write_text("\n".join([header, *quoted[:6], "", *quoted[6:]]))
        assert TransitionDataset.load(path).fingerprint() == expected().fingerprint()

    def test_names_beyond_ascii_and_a_mapping(self, tmp_path: Path) -> None:
        lines = [f"{i},{i},0,0" for i in range(3)]
        path = write(tmp_path / "a.csv", "größe;µ;r;ende".replace(";", ","), *lines)
        mapping: Any = {"obs": "größe", "actions": "µ", "rewards": "r", "terminations": "ende"}
        assert TransitionDataset.load(path, columns=mapping).obs[2].tolist() == [2.0]

    def test_names_of_episodes(self, tmp_path: Path) -> None:
        lines = [f"{i},0,0,{'001' if i < 2 else '1'}" for i in range(5)]
        dataset = TransitionDataset.load(write(tmp_path / "a.csv", "obs,action,reward,episode", *lines))
        assert dataset.episode_lengths().tolist() == [2, 3]

    def test_an_index_column_without_a_name(self, tmp_path: Path) -> None:
        lines = [f"{i},{line}" for i, line in enumerate(LINES)]
        path = write(tmp_path / "a.csv", f",{HEADER}", *lines)
        assert TransitionDataset.load(path).fingerprint() == expected().fingerprint()

    def test_digits_are_read_as_python_reads_them(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).normal(size=500).astype(np.float32)
        lines = [f"{value:.9g},{value:.9g},1e-3,{i % 100 == 99:d}" for i, value in enumerate(values)]
        dataset = TransitionDataset.load(write(tmp_path / "a.csv", "obs,action,reward,terminal", *lines))
        np.testing.assert_array_equal(dataset.obs[:, 0], values)


WAY = "; where it is missing, missing: hold or drop goes on"


AS_UTF8 = " save it as UTF-8, or: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"


class TestRefusals:
    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            (
                "1,2,x,0,0,0",
                "column 'action': 'x' at row 2 is not a number (line 4);"
                " if it stands for a missing value, say missing_words: [x], and missing: hold or drop",
            ),
            (
                "1,,0,0,0,0",
                "obs: NaN at row 2, column 'obs_1' (episode 0, step 2); all values must be finite (in float32)" + WAY,
            ),
            (
                "1,2,0,inf,0,0",
                "rewards: Inf at row 2, column 'reward' (episode 0, step 2); all values must be finite (in float32)"
                + WAY,
            ),
            (
                "1,2,0,0,,0",
                "terminations: nan at row 2, column 'terminal' (episode 0, step 2); flags must be 0 or 1 (or booleans)",
            ),
            (
                "1,2,0,0,3,0",
                "terminations: 3 at row 2, column 'terminal' (episode 0, step 2); flags must be 0 or 1 (or booleans)",
            ),
            ("1,2,0,0,maybe,0", "column 'terminal': 'maybe' at row 2 is not a number (line 4)"),
            ("1,2,0,2024-01-01,0,0", "column 'reward': '2024-01-01' at row 2 is not a number (line 4)"),
            ("1,2,0", "line 4 has 3 values, but the header names 6 columns; complete it, or delete the line"),
            ("1,2,0,0,0,0,0", "line 4 has 7 values, but the header names 6 columns; correct it, or delete the line"),
        ],
    )
    def test_cells(self, line: str, complaint: str, tmp_path: Path) -> None:
        rows = ["0,0,0,0,0,0", "1,0,0,0,0,0", line, "2,0,0,0,0,0"]
        assert refusal(write(tmp_path / "a.csv", HEADER, *rows)) == complaint

    def test_all_lines_of_another_width_are_told(self, tmp_path: Path) -> None:
        rows = ["0,0,0,0,0,0", "1,2,0", "1,0,0,0,0,0", "1,2,0", "1,2"]
        assert refusal(write(tmp_path / "a.csv", HEADER, *rows)) == (
            "line 3 has 3 values, but the header names 6 columns (nor do 2 other lines fit: 5, 6)"
            "; complete it, or delete the line"
        )

    @pytest.mark.parametrize("below", ['"1,0,0,0,0,0', '"1"x,0,0,0,0,0'])
    def test_what_comes_first_is_told_first(self, below: str, tmp_path: Path) -> None:
        rows = ["0,0,0,0,0,0", "1,2,0", "1,0,0,0,0,0", "1,2", below, "1,0"]
        assert refusal(write(tmp_path / "a.csv", HEADER, *rows)) == (
            "line 3 has 3 values, but the header names 6 columns (nor does 1 other line fit: 5)"
            "; complete it, or delete the line"
        )

    def test_decimal_commas(self, tmp_path: Path) -> None:
        """Among numbers with a point, and where they could be thousands; elsewhere they are read."""
        path = write(tmp_path / "a.csv", "obs;action;reward;terminal", "0,5;0.5;0;0")
        assert refusal(path) == "column 'obs': '0,5' at row 0 is not a number; write decimals with a point (line 2)"
        path = write(tmp_path / "b.csv", "obs;action;reward;terminal", "1,500;0;0;0")
        assert refusal(path) == "column 'obs': '1,500' at row 0 is not a number; write decimals with a point (line 2)"

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (
                b"1,2,3\n4,5,6\n",
                "lacks obs, actions, rewards, terminations (or episode_ids); the data have column_0, column_1,"
                " column_2; say which columns hold them with columns: {obs: …}; the first line holds values, not"
                " names, so columns go by position",
            ),
            (
                b"Plant 7\tMonday\nobs\taction\treward\tdone\n",
                "lacks obs, actions, rewards, terminations (or episode_ids); the data have Plant 7, Monday; say which"
                " columns hold them with columns: {obs: …}",
            ),
            (b",,\n1,2,3\n", "the first line must name the columns; it is ',,'"),
            (
                b"obs,action,reward,done,obs\n1,2,3,0,4\n",
                "two columns are named 'obs'; give each its own name (line 2 has '1' and '4')",
            ),
            (b"obs,action,reward,done\n", "has a header, but no rows"),
            (
                "obs,größe\n1,2\n".encode("latin-1"),
                "is not UTF-8 text (byte 0xf6, which Windows writes for 'ö');" + AS_UTF8,
            ),
            ("obs,action\n1,2\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
            ("obs,action\n1,2\n".encode("utf-32"), "is UTF-32 text; save it as UTF-8"),
            (b"\0\0\xfe\xff" + "obs,action\n1,2\n".encode("utf-32-be"), "is UTF-32 text; save it as UTF-8"),
            (
                b"obs,action,reward,done\n0,0,0,0\n0,\xe4,0,0\n",
                "is not UTF-8 text (byte 0xe4, which Windows writes for 'ä');" + AS_UTF8,
            ),
            (b"obs," + b"x" * 2**20, "the first line is longer than 1 MiB; it must name the columns"),
            (
                b"obs,velocity\n1,2\n",
                "lacks actions, rewards, terminations (or episode_ids); the data have obs, velocity;"
                " say which columns hold them with columns: {actions: …}",
            ),
        ],
    )
    def test_files(self, content: bytes, complaint: str, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(content)
        assert refusal(path) == complaint

    def test_an_open_quote(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", HEADER, *LINES, '1,2,"0,0,0,0')
        assert refusal(path)

    @pytest.mark.parametrize("closing", ["", '"shut" again'])
    def test_an_open_quote_in_the_last_column_swallows_no_rows(self, closing: str, tmp_path: Path) -> None:
        """A remark that begins with one, and the next that has one, or none."""
        remarks = ["", '"door shut', *[""] * 5, closing, ""]
        lines = [f"{row},0,0,0,{remark}" for row, remark in enumerate(remarks)]
        said = "cannot be read as CSV" if closing else 'line 3: a quote (") is opened and never closed'
        assert said in refusal(write(tmp_path / "a.csv", "obs,action,reward,done,remark", *lines))

    @pytest.mark.parametrize("hex_number", ["0x10", "0XfF", "-0x1", "0xFFFFFFFFFFFFFFFF"])
    def test_numbers_in_hex(self, hex_number: str, tmp_path: Path) -> None:
        lines = [f"{value},0,0,0" for value in (hex_number, 1, 2)]
        told = refusal(write(tmp_path / "a.csv", "obs,action,reward,done", *lines))
        assert told.startswith(f"column 'obs': '{hex_number}' at row 0 is not a number")

    def test_damage_gives_a_line(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", HEADER, *LINES)
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        lines: list[str] = []
        for place in rng.integers(0, len(whole), 200).tolist():
            damaged = bytearray(whole)
            damaged[place] ^= int(rng.integers(1, 256))
            path.write_bytes(damaged)
            try:
                TransitionDataset.load(path)
            except DataError as error:
                lines.append(str(error))
        assert lines
        assert not any("\n" in line for line in lines)


def test_lines_within_a_cell_are_no_rows(tmp_path: Path) -> None:
    """Of a file of several blocks, wherever these are cut."""
    remark = '"it was said:\n9,9,9,0,no\nand\n9,9,9,0,yes"'
    lines = [f"{row % 7},0,0,0,{remark if row % 50 == 0 else 'x' * 60}" for row in range(40_000)]
    dataset = TransitionDataset.load(write(tmp_path / "a.csv", "obs,action,reward,done,remark", *lines))
    assert (len(dataset), dataset.obs.max()) == (40_000, 6.0)


def test_times_with_and_without_a_zone(tmp_path: Path) -> None:
    times = ["2026-01-01T10:00:00", "2026-01-01T10:30:00+02:00"]
    lines = [f"1,{time},{row},0,0,0" for row, time in enumerate(times)]
    path = write(tmp_path / "a.csv", "episode,when,obs,action,reward,done", *lines)
    said = "column 'when': some times have a time zone and others none, as at row 1"
    assert said in refusal(path, columns={"step": "when"})


@pytest.mark.parametrize("remark", ["10x", "0x1f", '5" pipe', '"a, b"', "nan(1)"])
def test_what_nobody_reads_slows_nothing_down(
    remark: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.csv", f"{HEADER},remark 0x1f", *(f"{line},{remark}" for line in LINES))
    if reader == "pyarrow":
        monkeypatch.setattr("rl_training.data.formats.csv._read_plainly", None)
    assert TransitionDataset.load(path).fingerprint() == expected().fingerprint()


def test_quotes_within_a_cell_are_part_of_it(tmp_path: Path) -> None:
    lines = [f"{row},0,0,{why}" for row, why in enumerate(['a "b"', '5" pipe', ' "x"', '"say ""x"""'])]
    path = write(tmp_path / "a.csv", "obs,action,reward,why", *lines)
    meanings: Any = dict.fromkeys(('a "b"', '5" pipe', '"x"', 'say "x"'), "termination")
    dataset = TransitionDataset.load(path, columns={"end_reasons": "why"}, end_reasons=meanings)
    assert dataset.terminations.tolist() == [True] * 4


@pytest.mark.parametrize(
    ("earlier", "later", "said"),
    [
        ("2026-01-01T10:30:00-02:00", "2026-01-01T11:00:00", "some times have a time zone and others none"),
        ("2026-01-01T11:00:00", "2026-01-01T10:30:00Z", "some times have a time zone and others none"),
        ("2026-01-01T11:00:00", "7", "some rows hold times and others numbers"),
        ("7", "11:00:00", "some rows hold times and others numbers"),
    ],
)
class TestTimesOfSeveralKinds:
    """However the rows are shared out among files and parts of them, they are ordered together."""

    COLUMNS = "episode,when,obs,action,reward,done"

    def test_in_files_of_a_folder(self, earlier: str, later: str, said: str, tmp_path: Path) -> None:
        (tmp_path / "log").mkdir()
        for name, time in (("a", earlier), ("b", later)):
            write(tmp_path / "log" / f"{name}.csv", self.COLUMNS, f"1,{time},0,0,0,0")
        told = refusal(tmp_path / "log", columns={"step": "when"})
        assert f"b.csv: column 'when': {said}, as at row 0; write all" in told

    def test_in_parts_of_a_file(
        self, earlier: str, later: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rl_training.data.formats.csv._ROWS_AT_A_TIME", 2)
        monkeypatch.setattr("rl_training.data.formats.csv._read_fast", lambda *_: None)
        lines = [f"{row},{time},0,0,0,0" for row, time in enumerate([earlier, earlier, later])]
        told = refusal(write(tmp_path / "a.csv", self.COLUMNS, *lines), columns={"step": "when"})
        assert f"column 'when': {said}, as at row 2; write all" in told


def test_a_minus_that_only_looks_like_one(tmp_path: Path) -> None:
    """As Swedish and Norwegian programs write it."""
    path = write(tmp_path / "a.csv", "obs,action,reward,done", "1,0,0,0", "\u22121.5,0,0,0")
    told = refusal(path)
    assert "at row 1 is not a number; its minus is another sign that looks alike: write - (line 3)" in told
    assert "missing_words" not in told


class TestSteps:
    COLUMNS = "run,t,x,u,r"
    MAPPING: ClassVar = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "run", "step": "t"}

    def test_a_mistake_among_numbers_is_named(self, tmp_path: Path) -> None:
        """Not the first cell, which is no date."""
        lines = [f"{row // 4},{row % 4 if row != 6 else '2?'},{row},0,0" for row in range(12)]
        told = refusal(write(tmp_path / "a.csv", self.COLUMNS, *lines), columns=self.MAPPING)
        assert told == "column 't': '2?' at row 6 is not a number (line 8)"

    def test_a_header_that_comes_again(self, tmp_path: Path) -> None:
        """As of files that were put one behind another."""
        lines = [f"{row // 4},{row % 4},{row},0,0" for row in range(12)]
        told = refusal(write(tmp_path / "a.csv", self.COLUMNS, *lines, self.COLUMNS, *lines), columns=self.MAPPING)
        assert "line 14 repeats the header: leave it out (a second file behind the first)" in told
        assert "missing" not in told

    def test_what_comes_first_in_dates_is_told_further_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In another part of the file, or in another file: every day has one."""
        monkeypatch.setattr("rl_training.data.formats.csv._ROWS_AT_A_TIME", 5)
        days = [f"0,{day:02}/05/2024 08:00:00,{day},0,0" for day in range(9, 16)]
        whole = write(tmp_path / "a.csv", self.COLUMNS, *days)
        (tmp_path / "log").mkdir()
        for day in days:
            write(tmp_path / "log" / f"{day[2:4]}.csv", self.COLUMNS, day)
        for path in (whole, tmp_path / "log"):
            assert TransitionDataset.load(path, columns=self.MAPPING).obs[:, 0].tolist() == [*range(9, 16)]
        write(whole, self.COLUMNS, *days[:3])
        assert "days or months may come first, and no row tells which" in refusal(whole, columns=self.MAPPING)


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        (
            "x,u,done",
            "1,0.5,0,0",
            "if it has no name for the first column (R writes it so), put one there; if lines of",
        ),
        (
            "x,u,done",
            "1,5,0,0",
            "if it has no name for the first column (R writes it so), put one there; if decimals have commas, as cells,"
            " export it with semicolons between cells, or with decimal points; if lines of",
        ),
        ("x,u,done", "1,0,0, ", "each line ends with a separator: end the header with one, too"),
        ("x,u,done", "1,0,0,0,0", "if lines of remarks stand above the header"),
    ],
)
def test_a_header_with_fewer_names_than_values(header: str, row: str, said: str, tmp_path: Path) -> None:
    assert f"but the header names 3 columns; {said}" in refusal(
        write(tmp_path / "a.csv", header, row, row),
        columns={"obs": "x", "actions": "u", "rewards": "u"},
        dones_are="ends",
    )


def test_what_only_some_take_for_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "obs,action,reward,done", "1,0,0,0", "nan(1),0,0,0")
    assert "'nan(1)' at row 1 is not a number" in refusal(path)


class TestDecimalCommas:
    COLUMNS = "obs;action;reward;done"

    @pytest.mark.parametrize("thousand", ["1.234", '"1.234"', " 1.234", "1.234 ", "-1.5"])
    @pytest.mark.parametrize("late", [False, True])
    def test_a_point_beside_them_is_refused(self, thousand: str, late: bool, tmp_path: Path) -> None:
        """It may be a thousand, and is 1.234 to no one who writes 0,5; wherever in the file."""
        rows = [f"{row % 10},5;0,1;1,25;0" for row in range(100_000 if late else 9)]
        told = refusal(write(tmp_path / "a.csv", self.COLUMNS, *rows, f"0,5;0,1;{thousand};0"))
        plain = thousand.strip('"')
        assert (
            f"column 'reward': '{plain}' at row {len(rows)} is not a number; decimals have commas in this file" in told
        )

    def test_most_of_them_say_which_it_is(self, tmp_path: Path) -> None:
        told = refusal(write(tmp_path / "a.csv", self.COLUMNS, "0.5;0.5;1.5;0", "0.5;0.5;1,5;0"))
        assert told.startswith("column 'reward': '1,5' at row 1 is not a number; write decimals with a point")

    def test_a_cell_is_told_as_it_is_written(self, tmp_path: Path) -> None:
        lines = [f"{row};1.234.567,{row};0,5;0" for row in range(3)]
        told = refusal(write(tmp_path / "a.csv", "obs_0;obs_1;action;done", *lines), columns={"rewards": "obs_0"})
        assert told.startswith("column 'obs_1': '1.234.567,0' at row 0 is not a number (line 2, 3 such cells")

    def test_dates_have_points(self, tmp_path: Path) -> None:
        lines = [f"0{9 - day}.01.2026;1;{day},5;0,1;1,25;0" for day in range(4)]
        path = write(tmp_path / "a.csv", f"when;episode;{self.COLUMNS}", *lines)
        assert TransitionDataset.load(path, columns={"step": "when"}).obs[:, 0].tolist() == [3.5, 2.5, 1.5, 0.5]

    @pytest.mark.parametrize("word", ["-99,9", "-99.9"])
    def test_a_number_that_stands_for_nothing_may_have_either(self, word: str, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", self.COLUMNS, "0,5;0,1;1,5;0", "-99,9;0,1;1,5;0", "0,25;0,1;1,5;0")
        held = TransitionDataset.load(path, missing="hold", missing_words=[word])
        assert held.obs[:, 0].tolist() == [0.5, 0.5, 0.25]


class TestHeaders:
    """Headers that no one writes by hand: each is read or refused in a moment."""

    @pytest.mark.parametrize("name", ["obs_" + "0" * 5_000, "1" * 90_000 + "x", "[" * 5_000])
    def test_a_name_without_end(self, name: str, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", f"{HEADER},{name}", *[f"{line},0" for line in LINES])
        assert refusal(path).endswith(f"its name has {len(name):,} characters; at most 1,000 are read")

    def test_a_name_beyond_what_is_split(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", f"{HEADER},obs_{'1' * 200_000}", *[f"{line},0" for line in LINES])
        assert refusal(path).startswith("the first line must name the columns; it is 'obs_0,")

    def test_a_value_without_end(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", HEADER, *LINES, LINES[0].replace("0.25", "0" * 2**21))
        assert refusal(path) == f"line {len(LINES) + 2}: cannot be read as CSV (field larger than field limit (131072))"

    @pytest.mark.parametrize(
        ("places", "said"),
        [
            ({3: '"'}, 'line 6: a quote (") is opened and never closed'),
            ({3: '"7"x'}, """line 6: cannot be read as CSV (',' expected after '"')"""),
            ({3: '"', 7: '"'}, """line 10: cannot be read as CSV (',' expected after '"'; its row begins in line 6)"""),
        ],
    )
    def test_quotes_are_told_by_their_line(
        self, places: dict[int, str], said: str, tmp_path: Path, reader: str
    ) -> None:
        """What pyarrow takes for a cell is no number then, which tells the line as well."""
        lines = [places.get(row, "") + line for row, line in enumerate(LINES)]
        told = refusal(write(tmp_path / "a.csv", "# remarks above count", HEADER, *lines))
        assert told == said or (reader == "pyarrow" and told.endswith(f" ({said.partition(':')[0]})"))

    def test_very_many_columns(self, tmp_path: Path) -> None:
        names = [f"obs_{number}" for number in range(50_000)]
        path = write(tmp_path / "a.csv", ",".join([*names, "action", "reward", "done"]), ",".join(["1"] * 50_003))
        assert TransitionDataset.load(path).obs_dim == 50_000
        complaint = refusal(path, columns={"rewards": "rewrd"})
        assert complaint.startswith("columns.rewards: no column 'rewrd'; the data have obs_0, obs_1,")

    def test_numbers_of_many_digits_are_no_numbers_of_columns(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", f"{HEADER},obs_0000000002", *[f"{line},0" for line in LINES])
        dataset = TransitionDataset.load(path)
        assert (dataset.obs_dim, dataset.notes[-1]) == (2, "columns not used: obs_0000000002")


def test_a_doubled_time_is_told_as_it_is_written(tmp_path: Path) -> None:
    lines = [f"2025-01-18 22:{minute:02d}:00,{minute},0,1,GH-1" for minute in (0, 15, 15, 30)]
    path = write(tmp_path / "a.csv", "t,obs,action,reward,episode", *lines)
    assert refusal(path) == (
        "column 't': 2025-01-18 22:15:00 (line 3) occurs twice in the episode named GH-1, at rows 1 and 2;"
        " the row is an exact copy: duplicates: drop leaves it out"
    )
    assert len(TransitionDataset.load(path, duplicates="drop")) == 3


@pytest.mark.parametrize("first", [2**53, 2**60, 2**63])
def test_steps_of_many_digits_stay_apart(first: int, tmp_path: Path) -> None:
    rows = [f"{x},{x},0,0,0,a,{first + x}" for x in range(6)]
    path = write(tmp_path / "a.csv", "obs_0,obs_1,action,reward,terminated,episode,t", *rows)
    assert TransitionDataset.load(path, duplicates="drop").episode_lengths().tolist() == [6]
    assert len(TransitionDataset.load(path).in_file.notes) == 1  # obs_0 … obs_1


def test_letters_in_a_column_that_nobody_reads(tmp_path: Path) -> None:
    """As Windows writes them: with pyarrow and without, only columns that are read must be UTF-8."""
    header = "obs,action,reward,terminated,episode,remark"
    path = write(tmp_path / "a.csv", header, "1,0,0,0,a,Türen", "2,0,0,1,a,21 °C", encoding="cp1252")
    assert TransitionDataset.load(path).obs.tolist() == [[1.0], [2.0]]
    write(path, header, "1,0,0,0,ä,Türen", "2,0,0,1,ä,", encoding="cp1252")
    assert refusal(path) == f"is not UTF-8 text (byte 0xe4, which Windows writes for 'ä');{AS_UTF8}"
    write(path, header, "1,0,x,0,a,Türen", "2,0,0,1,a,", encoding="cp1252")
    assert refusal(path).startswith("column 'reward': 'x' at row 0 is not a number")
    write(path, header, "1,0,0,0,ä,Türen", "2,0,0,1,ä,")
    assert TransitionDataset.load(path).episode_lengths().tolist() == [2]
