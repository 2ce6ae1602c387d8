"""A folder of CSV files is one table, as a folder of Parquet files is; what does not belong together is refused."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.dataset_files import dataset_files
from rl_training.data.doctor import examine
from rl_training.data.formats import read, recognise
from rl_training.data.formats.mapping_checks import check_columns
from rl_training.data.formats.peek import peek
from rl_training.data.formats.whole_columns import last_rows, rare_texts, texts_of
from rl_training.data.inventory import take_stock
from rl_training.data.provenance import digest_of
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS

EPISODES = 12  # so that e10 comes after e9
ROWS = 6
HEADER = "Batch,tick,Temp,Flow,valve,reward,ended"
COLUMNS: dict[str, Any] = {"obs": ["Temp", "Flow"], "actions": "valve", "episode_ids": "Batch", "end_reasons": "ended"}
REASONS: Any = {"crash": "termination", "limit": "truncation"}
WITHOUT_IDS: dict[str, Any] = {name: value for name, value in COLUMNS.items() if name != "episode_ids"}
PLAIN: dict[str, Any] = {"obs": ["Temp", "Flow"], "actions": "valve"}


def rows_of(episode: int) -> list[list[Any]]:
    why = "crash" if episode % 2 else "limit"
    return [
        [f"B{episode}", t, t + 0.5, episode * t / 8, (t + episode) % 3 / 2, t - 0.25, why if t == ROWS - 1 else ""]
        for t in range(ROWS)
    ]


def text_of(episodes: list[int]) -> str:
    lines = [",".join(map(str, row)) for episode in episodes for row in rows_of(episode)]
    return "\n".join([HEADER, *lines]) + "\n"


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text("utf-8")), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for episode in range(EPISODES):
        (tmp_path / "logs" / f"e{episode}.csv").write_text(text_of([episode]))
    return tmp_path / "logs"


def load(path: Path, columns: Any = COLUMNS, reasons: Any = REASONS, **said: Any) -> TransitionDataset:
    return TransitionDataset.load(path, columns=columns, end_reasons=reasons, **said)


def refusal(path: Path, columns: Any = COLUMNS, reasons: Any = REASONS, **said: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(path, columns, reasons, **said)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.csv", raising=False)


@pytest.fixture(params=["with pyarrow", "without"])
def either_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        without_pyarrow(monkeypatch)


class TestOneTable:
    @pytest.mark.usefixtures("either_reader")
    def test_is_the_same_as_one_file(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "whole.csv").write_text(text_of(list(range(EPISODES))))
        whole, parts = load(tmp_path / "whole.csv"), load(folder)
        assert parts.fingerprint() == whole.fingerprint()
        assert parts.episode_lengths().tolist() == [ROWS] * EPISODES
        assert np.flatnonzero(parts.terminations).tolist() == list(range(2 * ROWS - 1, EPISODES * ROWS, 2 * ROWS))
        assert (parts.origin, parts.notes[0]) == (whole.origin, f"{EPISODES} files, in the order of their names")
        assert parts.notes[1:] == whole.notes

    def test_is_the_same_as_a_folder_of_parquet_files(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "parquet").mkdir()
        for episode in range(EPISODES):
            cells = dict(zip(HEADER.split(","), map(list, zip(*rows_of(episode), strict=True)), strict=True))
            pq.write_table(pa.table(cells), tmp_path / "parquet" / f"e{episode}.parquet")
        for columns in (COLUMNS, COLUMNS | {"episode_ids": "file_name"}, COLUMNS | {"step": "tick"}):
            ours, theirs = load(folder, columns), load(tmp_path / "parquet", columns)
            assert ours.fingerprint() == theirs.fingerprint()
            assert ours.notes == theirs.notes

    def test_files_may_hold_several_episodes(self, folder: Path, tmp_path: Path) -> None:
        expected = load(folder).fingerprint()
        (tmp_path / "days").mkdir()
        for day, episodes in enumerate(([0, 1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11])):
            (tmp_path / "days" / f"2024-03-0{day + 1}.csv").write_text(text_of(episodes))
        for columns in (COLUMNS, WITHOUT_IDS):  # reasons mark the ends as well
            assert load(tmp_path / "days", columns).fingerprint() == expected

    @pytest.mark.usefixtures("either_reader")
    def test_the_name_of_a_file_is_an_episode(self, folder: Path) -> None:
        columns = PLAIN | {"episode_ids": "file_name"}
        dataset = load(folder, columns, None)
        assert np.flatnonzero(dataset.truncations).tolist() == list(range(ROWS - 1, EPISODES * ROWS, ROWS))
        assert dataset.in_file is not None
        assert dataset.in_file.episode_name(60) == "e10.csv"
        check_columns(folder, columns, AS_IT_STANDS)

    def test_columns_go_by_name(self, folder: Path) -> None:
        expected = load(folder).fingerprint()
        turned = [",".join(reversed(line.split(","))) for line in text_of([7]).splitlines()]
        (folder / "e7.csv").write_text("\n".join(turned))
        assert load(folder).fingerprint() == expected
        assert peek(folder, 5_000).columns["Temp"].tolist() == [t + 0.5 for t in range(ROWS)] * EPISODES

    def test_marks_packing_and_endings_are_free(self, folder: Path) -> None:
        expected = load(folder).fingerprint()
        (folder / "e3.csv").write_text(text_of([3]), encoding="utf-8-sig")
        (folder / "e4.csv").rename(folder / "e4.CSV")
        (folder / "e5.csv").unlink()
        (folder / "e5.csv.gz").write_bytes(gzip.compress(text_of([5]).encode()))
        dataset = load(folder)
        assert dataset.fingerprint() == expected
        assert dataset.origin == "CSV, separated by commas, partly packed with gzip"

    def test_what_is_no_table_is_left_alone(self, folder: Path) -> None:
        expected = load(folder).fingerprint()
        for name in ("notes.txt", ".e1.csv.swp", ".hidden.csv", "_tmp.csv", "e1.csv-metadata.json"):
            (folder / name).write_text("what is this")
        (folder / "older").mkdir()
        assert load(folder).fingerprint() == expected

    def test_remarks_above_some_of_them(self, folder: Path) -> None:
        expected = load(folder).fingerprint()
        rewrite(folder / "e3.csv", lambda text: f"# exported\n# again\n{text}")
        dataset = load(folder)
        assert dataset.fingerprint() == expected
        assert "2 lines of remarks above the table left out (1 file of 12, first e3.csv)" in dataset.notes
        assert peek(folder).rows is None  # not told cheaply

    def test_a_file_of_whole_numbers_does_not_show_the_sign_of_decimals(self, folder: Path) -> None:
        """1,234 alone may be a thousand; beside files with 0,5 it is not."""
        for entry in folder.iterdir():
            rewrite(entry, lambda text: text.replace(",", ";").replace(".", ","))
        (folder / "e7.csv").write_text(HEADER.replace(",", ";") + "\nB7;0;1,234;1;1;2;\nB7;1;2,345;2;0;3;limit\n")
        dataset = load(folder)
        assert dataset.obs[7 * ROWS : 7 * ROWS + 2].tolist() == [[np.float32(1.234), 1.0], [np.float32(2.345), 2.0]]
        assert dataset.notes[1] == "decimals are read with a comma"

    def test_what_is_told_beside_the_first_file_counts(self, folder: Path, tmp_path: Path) -> None:
        given = load(folder)
        (tmp_path / "written").mkdir()
        for part in range(2):
            given.save(tmp_path / "written" / f"part{part}.csv")
        again = TransitionDataset.load(tmp_path / "written")
        assert again.in_file is not None
        assert again.in_file.names_of("obs", 2) == ("Temp", "Flow")


class TestBordersOfFiles:
    """An episode goes on in the next file only where its id says so."""

    def test_without_ids_a_file_ends_its_episode(self, folder: Path) -> None:
        rewrite(folder / "e4.csv", lambda text: text.replace("limit", ""))
        rewrite(folder / "e7.csv", lambda text: text.replace("crash", ""))
        dataset = load(folder, WITHOUT_IDS)
        assert dataset.episode_lengths().tolist() == [ROWS] * EPISODES
        assert dataset.truncations[[5 * ROWS - 1, 8 * ROWS - 1]].tolist() == [True, True]
        assert (
            "in 2 places an episode is cut where its file ends: no column tells that it goes on in the next"
            " (columns: {episode_ids: …})"
        ) in dataset.notes

    def test_a_step_that_counts_on_does_not_join_files(self, folder: Path) -> None:
        for episode in range(EPISODES):
            first = episode * ROWS
            lines = [f"B{episode},{first + t}," + ",".join(map(str, row[2:])) for t, row in enumerate(rows_of(episode))]
            (folder / f"e{episode}.csv").write_text("\n".join([HEADER, *lines]))
        dataset = load(folder, PLAIN | {"step": "tick"}, None)
        assert dataset.episode_lengths().tolist() == [ROWS] * EPISODES
        assert any(note.startswith("in 11 places an episode is cut where its file ends") for note in dataset.notes)

    def test_a_step_that_starts_again_inside_a_file(self, tmp_path: Path) -> None:
        for day, episodes in enumerate(([0, 1, 2], [3, 4])):
            (tmp_path / f"day{day}.csv").write_text(text_of(episodes))
        dataset = load(tmp_path, PLAIN | {"step": "tick"}, None)
        assert dataset.episode_lengths().tolist() == [ROWS] * 5
        assert not any("cut where its file ends" in note for note in dataset.notes)

    def test_an_id_joins_files(self, folder: Path) -> None:
        rewrite(folder / "e4.csv", lambda text: text.replace("limit", "").replace("B4", "B5"))
        dataset = load(folder)
        assert dataset.episode_lengths().tolist() == [ROWS] * 4 + [2 * ROWS] + [ROWS] * 6
        assert (
            "in 1 place an episode goes on in the next file, by its id; if ids start again in each file,"
            " give every episode its own"
        ) in dataset.notes

    def test_a_reason_that_is_repeated_in_all_rows_of_a_file(self, folder: Path) -> None:
        expected = load(folder, WITHOUT_IDS)
        for number in range(EPISODES):
            why = "crash" if number % 2 else "limit"
            (folder / f"e{number}.csv").write_text(
                "\n".join([HEADER, *(",".join(map(str, [*row[:-1], why])) for row in rows_of(number))])
            )
        assert load(folder, WITHOUT_IDS).fingerprint() == expected.fingerprint()

    def test_ids_that_start_again(self, tmp_path: Path) -> None:
        for day in range(3):
            (tmp_path / f"day{day}.csv").write_text(text_of([0, 1]))
        assert refusal(tmp_path).startswith("episode_ids: episode B0 goes on at row 0 of day1.csv after another one;")

    def test_nothing_tells_of_ends(self, folder: Path) -> None:
        assert refusal(folder, PLAIN, None).endswith(
            "; where each file is an episode, columns: {episode_ids: file_name} says so"
        )


@pytest.mark.usefixtures("either_reader")
class TestPlacesOfFaults:
    """By the file, and the row or the line in it."""

    def test_a_cell(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("2.5", "ERR"))
        assert refusal(folder).startswith("e7.csv: column 'Temp': 'ERR' at row 2 is not a number (line 4); if it")
        assert load(folder, missing_words=["ERR"], missing="drop").n_episodes == EPISODES + 1

    def test_a_missing_value(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("2.5", ""))
        place = "row 2 of e7.csv, column 'Temp' (episode named B7, step 2)"
        assert refusal(folder).startswith(f"obs: NaN at {place}")
        (finding,) = examine(read(folder, COLUMNS, AS_IT_STANDS.__class__(REASONS))).at("error")
        assert str(finding.place) == place

    def test_a_row_of_another_width(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace(",2.5,", ","))
        assert refusal(folder) == (
            "e7.csv: line 4 has 6 values, but the header names 7 columns; complete it, or delete the line"
        )

    def test_an_episode_without_name(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,2", ",2"))
        assert refusal(folder) == "e7.csv: column 'Batch': row 2 has no episode"

    def test_a_reason(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("crash", "bang"))
        assert refusal(folder).startswith("column 'ended': 'bang' at row 5 of e7.csv is not among end_reasons;")

    def test_a_step(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,3", "B7,2"))
        assert refusal(folder, COLUMNS | {"step": "tick"}) == (
            "column 'tick': 2 (line 4) occurs twice in the episode named B7, at rows 2 and 3 of e7.csv;"
            " the two rows differ: remove one"
        )
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,2,3.5", "B7,,3.5"))
        assert refusal(folder, COLUMNS | {"step": "tick"}).startswith(
            "column 'tick': no number at row 3 of e7.csv, and"
        )

    def test_a_step_in_two_files(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,0", "B6,5"))
        assert "at row 5 of e6.csv and row 0 of e7.csv" in refusal(folder, COLUMNS | {"step": "tick"})

    def test_a_hole(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,3", "B7,9").replace("B7,4", "B7,10"))
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,5", "B7,11"))
        note = "column 'tick' skips in 1 place, after row 2 of e7.csv (episode named B7): rows are missing there"
        assert any(said.startswith(note) for said in load(folder, COLUMNS | {"step": "tick"}).notes)


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (
                lambda text: text.replace("Temp", "Tmp"),
                "has other columns than e0.csv: it lacks Temp and has Tmp besides",
            ),
            (lambda text: text.replace("Temp,", ""), "has other columns than e0.csv: it lacks Temp"),
            (lambda text: text.replace("ed\n", "ed,more\n", 1), "has other columns than e0.csv: it has more besides"),
            (
                lambda text: text.replace(",", ";"),
                "separates columns by semicolons, and e0.csv by commas; write all of them alike",
            ),
            (
                lambda text: text.split("\n", 1)[1],
                "has no header line, and e0.csv has one; write all of them alike",
            ),
            (
                lambda text: text.replace("ed\n", "ed\n,s,°C,l/s,%,,\n", 1),
                "has another line of units below its header than e0.csv (it: ',s,°C,l/s,%,,', e0.csv: none)",
            ),
            (lambda text: "\n\n", "is empty; the first line must name the columns"),
        ],
    )
    def test_a_file_that_is_unlike_the_others(self, change: Callable[[str], str], told: str, folder: Path) -> None:
        rewrite(folder / "e7.csv", change)
        assert refusal(folder) == f"e7.csv: {told}"

    def test_units_that_differ(self, folder: Path) -> None:
        for entry in folder.iterdir():
            rewrite(entry, lambda text: text.replace("ed\n", "ed\n,s,°C,l/s,%,,\n", 1))
        assert load(folder).n_episodes == EPISODES
        (folder / "e7.csv").write_text(HEADER)
        assert refusal(folder) == "e7.csv: has a header, but no rows; remove it"
        (folder / "e7.csv").write_text(HEADER + "\n,s,°F,l/s,%,,\n" + text_of([7]).partition("\n")[2])
        assert refusal(folder) == (
            "e7.csv: has another line of units below its header than e0.csv (it: ',s,°F,l/s,%,,',"
            " e0.csv: ',s,°C,l/s,%,,')"
        )

    def test_decimals_of_two_kinds(self, folder: Path) -> None:
        for entry in folder.iterdir():
            rewrite(entry, lambda text: text.replace(",", ";"))
        rewrite(folder / "e7.csv", lambda text: text.replace(".", ","))
        assert refusal(folder) == "decimals have a point in e0.csv and a comma in e7.csv; write all of them alike"

    def test_widths_without_headers(self, folder: Path) -> None:
        for entry in folder.iterdir():
            rewrite(entry, lambda text: text.split("\n", 1)[1])
        mapping = {"obs": ["column_2", "column_3"], "actions": "column_4", "rewards": "column_5"}
        assert load(folder, mapping | {"episode_ids": "column_0"}, None).n_episodes == EPISODES
        rewrite(folder / "e7.csv", lambda text: text.replace("B7,", "B7,B7,"))
        assert refusal(folder, mapping) == "e7.csv: has 8 columns, and e0.csv 7"

    def test_files_without_rows_are_told_together(self, folder: Path) -> None:
        for name in ("e7.csv", "e10.csv"):
            (folder / name).write_text(HEADER)
        assert refusal(folder) == "e7.csv, e10.csv: have a header, but no rows; remove them"
        (folder / "e10.csv").unlink()
        assert refusal(folder) == "e7.csv: has a header, but no rows; remove it"
        (folder / "e7.csv").write_bytes(b"")
        assert refusal(folder) == "e7.csv: is empty; remove it"
        (folder / "e9.csv").write_bytes(b"")
        assert refusal(folder) == "e7.csv, e9.csv: are empty; remove them"
        with pytest.raises(DataError, match=r"^e7\.csv, e9\.csv: are empty; remove them$"):
            peek(folder, 100)

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (
                "Ä".join(text_of([7]).split("crash")).encode("latin-1"),
                "is not UTF-8 text (byte 0xc4, which Windows writes for 'Ä'); save it as UTF-8",
            ),
            (text_of([7]).encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
            (b"\x89HDF\r\n\x1a\n", "is HDF5 by its content, not CSV"),
            (gzip.compress(text_of([7]).encode())[:-12], "is packed with gzip, and damaged or cut off"),
            (b'{"obs": 1}', "not a dataset in a format this version reads"),
        ],
    )
    def test_a_file_that_cannot_be_read(self, content: bytes, told: str, folder: Path) -> None:
        (folder / "e7.csv").write_bytes(content)
        assert refusal(folder).startswith(f"e7.csv: {told}")

    def test_links_and_folders(self, folder: Path) -> None:
        (folder / "e99.csv").symlink_to("/etc/passwd")
        assert refusal(folder) == "e99.csv: is a link, and none is followed; put the file itself there"
        (folder / "e99.csv").unlink()
        (folder / "e99.csv").mkdir()
        assert refusal(folder) == "e99.csv: is not a file"

    @pytest.mark.parametrize(
        ("name", "title"), [("x.parquet", "Parquet"), ("x.npz", "NumPy archive"), ("x.h5", "HDF5")]
    )
    def test_two_formats(self, name: str, title: str, folder: Path) -> None:
        (folder / name).touch()
        assert refusal(folder) == (
            f"holds files of 2 formats, CSV (e0.csv) and {title} ({name});"
            " a folder is one table: keep those of one there"
        )

    def test_hidden_files_only(self, tmp_path: Path) -> None:
        (tmp_path / "_a.csv").touch()
        assert refusal(tmp_path) == "its CSV files are all hidden ones (. or _ before the name)"

    def test_one_file_has_no_name_of_a_file(self, folder: Path) -> None:
        columns = COLUMNS | {"episode_ids": "file_name"}
        assert refusal(folder / "e0.csv", columns).startswith("columns.episode_ids: no column 'file_name'")

    def test_what_is_too_large_together(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 12_000)
        assert load(folder / "e0.csv").n_episodes == 1
        assert refusal(folder).endswith("MiB of memory to be read, but only 0.0 MiB are free")


class TestFirstLooks:
    def test_some_files_are_looked_into(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for episode in range(200):
            (tmp_path / f"e{episode}.csv").write_text(text_of([episode]))
        looked_at: list[str] = []
        own = __import__("rl_training.data.formats.csv_text", fromlist=["layout_of"]).layout_of
        monkeypatch.setattr(
            "rl_training.data.formats.csv_text.layout_of", lambda path: looked_at.append(path.name) or own(path)
        )
        found = peek(tmp_path, 32)
        assert (found.kind, found.rows, found.files) == ("csv", 200 * ROWS, 16)
        assert found.columns["Batch"].tolist()[::2] == [
            name.removesuffix(".csv").replace("e", "B") for name in looked_at
        ]
        assert (len(looked_at), looked_at[0], looked_at[-1]) == (16, "e0.csv", "e199.csv")

    def test_a_column_that_is_empty_in_some_files(self, folder: Path) -> None:
        for number in (0, 3):
            rewrite(folder / f"e{number}.csv", lambda text: "\n".join(_without(line, 3) for line in text.splitlines()))
        found = peek(folder, 5_000).columns["Flow"]
        assert found.dtype.kind == "f"
        assert int(np.isnan(found).sum()) == 2 * ROWS

    def test_columns_to_their_end(self, folder: Path) -> None:
        rewrite(folder / "e11.csv", lambda text: text.replace("crash", "flood"))
        texts = texts_of(folder, "csv", ["ended"])["ended"]
        assert {text: found.rows for text, found in texts.items()} == {"": 60, "limit": 6, "crash": 5, "flood": 1}
        assert (texts["flood"].file.name, texts["flood"].row) == ("e11.csv", ROWS - 1)
        ends = list(range(ROWS - 1, EPISODES * ROWS, ROWS))
        assert last_rows(folder, "csv", "Batch") == set(ends)
        for number in range(10):
            rewrite(folder / f"e{number}.csv", lambda text: text.replace("crash", "").replace("limit", ""))
        rare = rare_texts(folder, "csv", peek(folder, 5_000, ends=False).columns)
        assert rare == {"ended": {ends[10]: "limit", ends[11]: "flood"}}

    def test_a_column_that_a_file_lacks_further_on(self, folder: Path) -> None:
        rewrite(folder / "e7.csv", lambda text: text.replace("ended", "end"))
        with pytest.raises(DataError, match=r"^e7\.csv: has no column 'ended'$"):
            texts_of(folder, "csv", ["ended"])

    def test_stock(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "several").mkdir()
        for name in ("several/runs.csv", "several/weather.csv"):
            (tmp_path / name).write_text(text_of([0]))
        (tmp_path / "single").mkdir()
        (tmp_path / "single" / "e0.csv").write_text(text_of([0]))
        found = {one.source.removeprefix(f"{tmp_path}/"): one.rows for one in take_stock(tmp_path)}
        assert found == {
            "logs": EPISODES * ROWS, "several/runs.csv": ROWS, "several/weather.csv": ROWS, "single/e0.csv": ROWS,
        }  # fmt: skip

    def test_every_byte_and_name_counts_in_the_digest(self, folder: Path) -> None:
        assert recognise(folder) == "csv"
        before = digest_of(folder, dataset_files(folder))
        rewrite(folder / "e7.csv", lambda text: text.replace("2.5", "2.6"))
        changed = digest_of(folder, dataset_files(folder))
        (folder / "e7.csv").rename(folder / "e70.csv")
        assert len({before, changed, digest_of(folder, dataset_files(folder))}) == 3

    def test_nothing_else_in_the_folder_does(self, folder: Path) -> None:
        before = digest_of(folder, dataset_files(folder))
        (folder / "notes.txt").symlink_to("/dev/zero")
        (folder / "deeper").mkdir()
        (folder / "deeper" / "a.csv").write_text("x\n")
        assert digest_of(folder, dataset_files(folder)) == before


def _without(line: str, place: int) -> str:
    cells = line.split(",")
    return line if line == HEADER else ",".join([*cells[:place], "", *cells[place + 1 :]])


@pytest.mark.parametrize("name", [b"\xff.csv", b"folder/\xff.csv", b"\xff/a.csv"])
def test_a_name_that_is_no_text_is_refused(name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = Path(os.fsdecode(name))
    try:
        place.parent.mkdir(exist_ok=True)
        place.write_text("obs,actions,rewards\n1,2,3\n")
    except OSError:
        pytest.skip("this disk has no such names")
    given = place if place.parent in (Path(), Path("\udcff")) else place.parent
    with pytest.raises(DataError, match="has a name that is not UTF-8 text; rename it") as caught:
        TransitionDataset.load(given)
    assert str(caught.value).isprintable()


class TestWrittenHere:
    """Files that tell of themselves in files beside them."""

    def write(self, name: str, columns: list[str], **told: Any) -> None:
        table = {"speed": np.arange(10.0), "angle": np.arange(10.0) / 7, "u": np.linspace(-1, 1, 10)}
        table |= {"rewards": np.ones(10), "terminations": np.arange(10) == 9}
        dataset = TransitionDataset.from_table(table, {"obs": columns, "actions": "u"}, **told)
        dataset.save(Path("log") / name)

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("log").mkdir()
        self.write("a.csv", ["speed", "angle"], action_low=-2.0, action_high=2.0)

    def test_what_all_tell_is_known(self) -> None:
        self.write("b.csv", ["speed", "angle"], action_low=-2.0, action_high=2.0)
        raw = read(Path("log"))
        assert raw.bounds is not None
        assert not [note for note in raw.notes if "different" in note]

    def test_columns_in_another_order_are_refused(self) -> None:
        self.write("b.csv", ["angle", "speed"], action_low=-2.0, action_high=2.0)
        with pytest.raises(
            DataError, match=r"a\.csv and b\.csv were written from columns of other names or in another"
        ):
            TransitionDataset.load("log")

    def test_bounds_that_differ_are_not_used(self) -> None:
        self.write("b.csv", ["speed", "angle"], action_low=-1.0, action_high=1.0)
        raw = read(Path("log"))
        assert raw.bounds is None
        assert "the files beside them tell different things of bounds: not used" in raw.notes
