"""A column that says why episodes ended, and holds text so rarely that the first rows show none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from rl_training.data.formats.peek import peek

LENGTH = 50
EPISODES = 140  # more rows than a first look takes
TRIPS = (110, 120, 130)


def log(path: Path, alarms: dict[int, str]) -> None:
    """alarms: by row."""
    lines = ["Batch,sensor,command,reward,Alarm"]
    for row in range(LENGTH * EPISODES):
        lines.append(f"B{row // LENGTH},{row % 7}.5,{row % 3 / 4},{row % 5}.25,{alarms.get(row, '')}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def trips() -> dict[int, str]:
    return {LENGTH * (episode + 1) - 1: "TRIP_T" for episode in TRIPS}


def test_is_found_beyond_the_first_rows(command: Any, tmp_path: Path, trips: dict[int, str]) -> None:
    log(tmp_path / "log.csv", trips)
    code, out, _ = command("init", "log.csv", "-o", "c.yaml")
    assert code == 0
    assert "end_reasons   Alarm (its texts stand in last rows of episodes only, 3 of 140)" in out
    assert "TRIP_T (3 rows): termination" in out
    assert "unused-reasons" not in command("data", "check", "-c", "c.yaml").out


@pytest.mark.parametrize("alarm", [None, 6_010])
def test_is_found_where_a_step_tells_of_episodes(
    command: Any, tmp_path: Path, trips: dict[int, str], alarm: int | None
) -> None:
    """Each begins where the step does not grow; text that stands elsewhere, too, says nothing of ends."""
    log(tmp_path / "log.csv", trips | ({} if alarm is None else {alarm: "TRIP_T"}))
    lines = (tmp_path / "log.csv").read_text().replace("Batch,", "step,").splitlines()
    steps = [f"{row % LENGTH},{line.partition(',')[2]}" for row, line in enumerate(lines[1:])]
    (tmp_path / "log.csv").write_text("\n".join([lines[0], *steps]) + "\n")
    out = command("init", "log.csv", "-o", "c.yaml").out
    found = "end_reasons   Alarm (its texts stand in last rows of episodes only, 3 of 140)"
    assert (found in out) == (alarm is None)
    if alarm is None:
        assert "episodes      140: 3 terminated, 137 truncated" in command("data", "check", "-c", "c.yaml").out


def test_is_left_alone_where_episodes_go_on(command: Any, tmp_path: Path, trips: dict[int, str]) -> None:
    log(tmp_path / "log.csv", trips | {6_010: "remark"})
    assert "end_reasons" not in command("init", "log.csv", "-o", "c.yaml").out
    assert "unused-reasons" not in command("data", "check", "-c", "c.yaml").out


def test_is_told_of_where_it_is_not_used(command: Any, tmp_path: Path, trips: dict[int, str]) -> None:
    log(tmp_path / "log.csv", trips)
    columns = ["obs=sensor", "actions=command", "rewards=reward", "episode_ids=Batch"]
    options = [word for entry in columns for word in ("--columns", entry)]
    findings = json.loads(command("data", "check", "log.csv", *options, "--json").out)["findings"]
    (found,) = [finding for finding in findings if finding["code"] == "data.unused-reasons"]
    assert (found["level"], found["count"], found["row"]) == ("warning", 3, LENGTH * (TRIPS[0] + 1) - 1)
    assert found["what"] == "The unused column 'Alarm' has text only in the last rows of 3 episodes: TRIP_T (3)."


def test_a_foreign_letter_in_a_column_that_is_not_read_stops_nothing(command: Any, tmp_path: Path) -> None:
    log(tmp_path / "log.csv", {6_999: "TRIP_\u00c4"})
    (tmp_path / "log.csv").write_bytes((tmp_path / "log.csv").read_text("utf-8").encode("latin-1"))
    assert command("init", "log.csv", "-o", "c.yaml")[0] == 0
    assert command("data", "check", "-c", "c.yaml")[0] == 0


def test_texts_that_cannot_be_read_to_their_end_are_refused_in_one_line(command: Any, tmp_path: Path) -> None:
    log(tmp_path / "log.csv", {49: "TRIP", 6_999: "TRIP_\u00c4"})
    (tmp_path / "log.csv").write_bytes((tmp_path / "log.csv").read_text("utf-8").encode("latin-1"))
    code, _, said = command("init", "log.csv", "-o", "c.yaml")
    assert (code, len(said.splitlines())) == (2, 1)
    assert "is not UTF-8 text (byte 0xc4, which Windows writes for 'Ä'); save it as UTF-8, or: iconv -f" in said


def test_damaged_pages_of_a_column_that_is_not_read_stop_nothing(command: Any, tmp_path: Path) -> None:
    rows, path = 8_000, tmp_path / "log.parquet"
    cells: dict[str, list[Any]] = {
        name: [row % 7 / 4 for row in range(rows)] for name in ("sensor", "command", "reward")
    }
    cells |= {"Batch": [row // 100 for row in range(rows)], "Alarm": [None] * (rows - 1) + ["TRIP"]}
    pq.write_table(pa.table(cells), path, row_group_size=1_000)
    place = pq.ParquetFile(path).metadata.row_group(7).column(4).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 12] = bytes(byte ^ 0x5A for byte in content[place : place + 12])
    path.write_bytes(content)
    assert command("init", "log.parquet", "-o", "c.yaml")[0] == 0
    assert command("data", "check", "-c", "c.yaml")[0] == 0


def write(path: Path, cells: dict[str, Any]) -> None:
    (pq.write_table if path.suffix == ".parquet" else write_csv)(pa.table(cells), path)


class TestFolderOfFiles:
    """One episode each; what stands in one of them is not what stands in all."""

    @pytest.fixture(params=["parquet", "csv"])
    def ending(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def folder(self, tmp_path: Path, ending: str) -> Path:
        (tmp_path / "logs").mkdir()
        for episode in range(40):
            command = np.full(20, 0.25 * (episode % 5))
            cells = {"sensor": np.arange(20.0), "command": command, "score": np.arange(20.0) * episode}
            why = "time limit" if episode % 3 else "in spec"
            texts = {"step": np.arange(20), "ended": [None] * 19 + [why], "side": [None] * 19 + [f"n{episode % 7}"]}
            write(tmp_path / "logs" / f"e{episode:02}.{ending}", cells | texts)
        return tmp_path / "logs"

    def test_some_of_them_are_looked_into(self, folder: Path, command: Any, tmp_path: Path) -> None:
        out = command("init", "logs", "-o", "c.yaml").out
        assert "end_reasons   ended (by its name and its texts)" in out
        assert "time limit (26 rows): truncation" in out
        assert "in spec (14 rows)" in out
        text = " ".join((tmp_path / "c.yaml").read_text().replace("\n  # ", " ").split())
        assert "Guesses look at 320 rows of 16 files." in text
        assert "(command 0 to 1, in 320 rows of 16 files)" in text

    def test_text_in_a_few_rows_is_not_called_a_mistake(self, folder: Path, command: Any) -> None:
        out = " ".join(command("init", "logs", "-o", "c.yaml").out.split())
        assert "side (text in 16 of 320 rows of 16 files, such as 'n0'; if it tells why episodes end, name it" in out

    @pytest.mark.parametrize("ending", ["parquet"], indirect=True)
    def test_columns_of_other_kinds(self, folder: Path, command: Any) -> None:
        """Nothing but empty cells in one file, lists of another length, and no rows at all."""
        draw = {"obs": [[1.0, 2.0]] * 5, "word": pa.nulls(5), "odd": [[1.0]] * 5, "action": [0.5] * 5}
        pq.write_table(pa.table(draw), folder / "e00.parquet")
        for entry in sorted(folder.glob("e[1-9]*")) + sorted(folder.glob("e0[1-9]*")):
            pq.write_table(pa.table(draw | {"word": ["x"] * 5, "odd": [[1.0, 2.0]] * 5}), entry)
        pq.write_table(pa.table(draw).slice(0, 0), folder / "e39.parquet")
        found = peek(folder, 5_000)
        assert {name: len(values) for name, values in found.columns.items()} == dict.fromkeys(draw, 75) | {"odd": 0}

    def test_each_is_an_episode_where_nothing_else_tells(self, folder: Path, command: Any, tmp_path: Path) -> None:
        draw = np.random.default_rng(0)
        for entry in folder.iterdir():
            cells = {"sensor": draw.normal(size=20), "command": draw.normal(size=20), "score": draw.integers(0, 2, 20)}
            write(entry, cells)
        out = " ".join(command("init", "logs", "-o", "c.yaml").out.split())
        assert "episode_ids file_name (nothing else marks ends: each file is an episode" in out
        text = (tmp_path / "c.yaml").read_text()
        (tmp_path / "c.yaml").write_text(text.replace("rewards: TODO", "rewards: score"))
        assert command("config", "validate", "c.yaml").code == 0
        assert "episodes      40: all truncated" in command("data", "check", "-c", "c.yaml").out


@pytest.mark.parametrize("usual", ["fermenting", "läuft"])
def test_is_found_where_all_other_rows_say_one_thing(command: Any, tmp_path: Path, usual: str) -> None:
    """Only the rows tell that one word ends something, and that the other does not."""
    ends = {LENGTH * (episode + 1) - 1: "quuxed" for episode in range(EPISODES)}
    log(tmp_path / "log.csv", dict.fromkeys(range(LENGTH * EPISODES), usual) | ends)
    out = " ".join(command("init", "log.csv", "-o", "c.yaml").out.split())
    assert "end_reasons Alarm (its texts stand in last rows of episodes only)" in out
    assert f"{usual} ({LENGTH * EPISODES - EPISODES:,} rows): ongoing" in out
    assert f"quuxed ({EPISODES} rows): truncation (all after {LENGTH} rows, as by a time limit)" in out


def test_what_differs_elsewhere_is_no_end(command: Any, tmp_path: Path) -> None:
    ends = {LENGTH * (episode + 1) - 1: "quuxed" for episode in range(EPISODES)}
    log(tmp_path / "log.csv", dict.fromkeys(range(LENGTH * EPISODES), "fermenting") | ends | {70: "quuxed"})
    assert "end_reasons" not in command("init", "log.csv", "-o", "c.yaml").out
