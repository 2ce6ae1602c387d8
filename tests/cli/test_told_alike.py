"""What is wrong with a file is told alike by every command that reads it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

CONFIG = """algo: iql
total_timesteps: 10
dataset:
  source: file
  path: log.csv
  columns: {obs: [Temp °C], actions: u, rewards: r, episode_ids: batch, step: Timestamp}
  missing_words: ['-999']
"""
HEADER = "batch,Timestamp,Temp °C,u,r"
COMMANDS = (
    ("init", "log.csv", "-o", "new.yaml"),
    ("data", "check", "-c", "train.yaml"),
    ("train", "-c", "train.yaml"),
    ("data", "convert", "-c", "train.yaml", "out.npz"),
)


def lines(time: str = " 0{step}:00") -> list[str]:
    rows = [(e, step) for e in range(4) for step in range(6)]
    day = "2026-03-0{e}" + time
    return [f"B{e},{day.format(e=e + 1, step=step)},{20 + step},{step % 2},{e}" for e, step in rows]


@pytest.fixture
def config(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(CONFIG, "utf-8")


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:2]))
class TestEveryCommand:
    def test_a_workbook_that_is_called_csv(self, arguments: tuple[str, ...], mistake: Any, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "log.csv", "w") as archive:
            archive.writestr("[Content_Types].xml", "<Types/>")
            archive.writestr("xl/workbook.xml", "<workbook/>")
        told = mistake(*arguments)
        assert "log.csv: is the workbook of a spreadsheet; save its sheet as CSV (UTF-8)" in told

    def test_a_header_alone(self, arguments: tuple[str, ...], mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text(HEADER + "\n", "utf-8")
        assert "log.csv: has a header, but no rows" in mistake(*arguments)

    def test_letters_of_windows_below_a_remark(self, arguments: tuple[str, ...], mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("\n".join(["# export", HEADER, *lines()]), "latin-1")
        told = mistake(*arguments)
        assert "log.csv: is not UTF-8 text (byte 0xb0, which Windows writes for '°'); save it as UTF-8" in told


def test_a_workbook_in_a_folder(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").write_text("\n".join([HEADER, *lines()]), "utf-8")
    with zipfile.ZipFile(tmp_path / "logs" / "book.csv", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    assert "book.csv: is the workbook of a spreadsheet" in mistake("init", "logs")


@pytest.mark.parametrize(
    ("name", "way"), [("policy.onnx", "onnxruntime runs it"), ("p.pt2", "torch.export.load opens it")]
)
def test_a_policy_is_no_data(name: str, way: str, mistake: Any, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x08\x08\x12\x0brl-training")
    told = mistake("init", name)
    assert f"{name}: is a policy ({Path(name).suffix}), not data; {way} (docs/export.md)" in told
    assert "rl-training predict RUN" in told


def test_a_second_file_behind_the_first(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *lines(), HEADER, *lines()]), "utf-8")
    line = len(lines()) + 2
    assert f"log.csv: line {line} repeats the header: leave it out (a second file" in mistake("init", "log.csv")


def test_ids_that_a_spreadsheet_has_rounded(command: Any, tmp_path: Path) -> None:
    rows = [f"1.0{row // 6}E+03,{row},{row % 5},{row % 3}" for row in range(24)]
    (tmp_path / "log.csv").write_text("\n".join(["batch,a,b,c", *rows]) + "\n")
    out = " ".join(command("init", "log.csv", "-o", "c.yaml").out.split())
    assert "batch holds numbers that were rounded, as spreadsheets do to long ones" in out


def test_what_is_kept_beside_a_table_is_no_data(mistake: Any, tmp_path: Path) -> None:
    for name in ("aside.csv", "aside.csv-metadata.json"):
        (tmp_path / name).write_text("{}")
    told = mistake("init", "aside.csv-metadata.json")
    assert "is kept beside aside.csv, and says how to read it; name aside.csv" in told


@pytest.mark.usefixtures("config")
def test_days_without_a_time(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *lines("")]), "utf-8")
    told = mistake("data", "check", "-c", "train.yaml")
    assert (
        "it tells the day, but not the time, so that rows of a day are not told apart; export it with the time" in told
    )
    assert "remove one" not in told


@pytest.mark.usefixtures("config")
def test_one_day_that_comes_twice_is_a_double(mistake: Any, tmp_path: Path) -> None:
    rows = [f"B0,2026-03-{day:02d},{day},{day % 2},1" for day in (1, 2, 3, 4, 5, 6, 6)]
    rows[-1] = rows[-1].replace(",6,", ",7,")
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *rows]), "utf-8")
    assert "the two rows differ: remove one" in mistake("data", "check", "-c", "train.yaml")


def test_init_tells_of_lines_that_do_not_fit(command: Any, tmp_path: Path) -> None:
    rows = lines()
    rows[4] = rows[4].rsplit(",", 2)[0]
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *rows]), "utf-8")
    out = " ".join(command("init", "log.csv", "-o", "new.yaml").out.split())
    assert "line 6 has 3 values, but the header names 5 columns; complete it, or delete the line" in out


def test_the_second_fault_of_a_configuration_is_named(mistake: Any, tmp_path: Path) -> None:
    """A path that is not indented is a key too many and one that is missing."""
    (tmp_path / "train.yaml").write_text("algo: iql\ntotal_timesteps: 10\ndataset:\n  source: file\npath: log.csv\n")
    told = mistake("train", "-c", "train.yaml")
    assert "train.yaml: path: " in told
    assert "; and dataset.path" in told
    assert "more)" not in told
