"""One file of a folder of files alike, and data that are a single episode: what is said of them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from rl_training.data.formats.siblings import alike_beside

MAPPING = "columns: {obs: [temp, flow], actions: valve, rewards: score, step: time}"
BESIDE = (
    "3 more files with the same columns lie beside it; the folder itself can be given, unless some are held out:"
    " rl-training init"
)
ONE = "the data are a single episode: a policy learns from what went differently in several"


def text_of(day: int, *, ends: bool = False) -> str:
    lines = ["time;temp;flow;valve;score" + (";done" if ends else "")]
    for hour in range(24):
        cells = f"{day:02d}.03.2024 {hour:02d}:00;{15 + hour % 7},5;{hour % 5},2;{hour % 3 - 1},4;{hour % 4},1"
        lines.append(cells + (f";{hour == 23:d}" if ends else ""))
    return "\n".join(lines) + "\n"


def write_days(folder: Path, *, ends: bool = False) -> None:
    folder.mkdir()
    for day in range(1, 5):
        (folder / f"day{day}.csv").write_text(text_of(day, ends=ends))


def write_config(path: Path, data: str) -> None:
    path.write_text(f"algo: bc\ntotal_timesteps: 3\ndataset:\n  source: file\n  path: {data}\n  {MAPPING}\n")


class TestBeside:
    def test_init_names_the_folder(self, command: Any, tmp_path: Path) -> None:
        write_days(tmp_path / "my days")
        out = " ".join(command("init", "my days/day2.csv", "-o", "c.yaml").out.split())
        assert f"note {BESIDE} 'my days'" in out
        assert "more files" not in command("init", "my days", "-o", "d.yaml").out

    def test_training_and_checks_say_so(self, command: Any, mistake: Any, tmp_path: Path) -> None:
        write_days(tmp_path / "days", ends=True)
        write_config(tmp_path / "c.yaml", "days/day1.csv")
        code, out, _ = command("train", "-c", "c.yaml")
        assert code == 0
        assert f"note: days/day1.csv: {BESIDE} days\n" in out
        assert f"note: {ONE}" in out
        said = " ".join(command("data", "check", "-c", "c.yaml").out.split())
        assert f"[data.beside]: {BESIDE} days." in said
        assert f"[data.one_episode]: {ONE.replace('the', 'The', 1)}" in said
        write_config(tmp_path / "c.yaml", "days")
        assert "more files" not in command("data", "check", "-c", "c.yaml").out

    def test_no_link_beside_it_is_opened(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Some files can be opened and never read to an end, such as /proc/kmsg."""
        write_days(tmp_path / "days")
        (tmp_path / "elsewhere.txt").write_text(text_of(1))
        for name in ("e.csv", "f.csv"):
            (tmp_path / "days" / name).symlink_to(tmp_path / "elsewhere.txt")
        os.mkfifo(tmp_path / "days" / "pipe.csv")
        opened, open_file = [], Path.open
        monkeypatch.setattr(Path, "open", lambda path, mode: opened.append(path.name) or open_file(path, mode))
        said = str(alike_beside(tmp_path / "days" / "day1.csv"))
        assert said.startswith("3 more files")
        assert said.endswith("in a folder of their own they can be read together: rl-training init FOLDER")
        assert sorted(opened) == ["day1.csv", "day2.csv", "day3.csv", "day4.csv"]

    def test_where_nothing_tells_where_episodes_end(self, mistake: Any, tmp_path: Path) -> None:
        write_days(tmp_path / "days")
        write_config(tmp_path / "c.yaml", "days/day1.csv")
        for words in (["train"], ["data", "check"]):
            said = mistake(*words, "-c", "c.yaml")
            assert "'time': never starts again, and nothing else tells where episodes end" in said
            assert BESIDE in said

    def test_others_in_the_folder_keep_it_from_being_given(self, tmp_path: Path) -> None:
        write_days(tmp_path / "days")
        (tmp_path / "days" / "summary.csv").write_text("day;mean\n1;2\n")
        said = alike_beside(tmp_path / "days" / "day1.csv")
        assert said == (
            "3 more files with the same columns lie beside it;"
            " in a folder of their own they can be read together: rl-training init FOLDER"
        )


class TestNeighbours:
    def test_one_alone_may_be_held_out(self, tmp_path: Path) -> None:
        for name in ("train.csv", "held_out.csv"):
            (tmp_path / name).write_text(text_of(1))
        assert alike_beside(tmp_path / "train.csv") is None

    def test_parts_that_were_written_here_are_passed_over(self, tmp_path: Path) -> None:
        """Joined to others, their episodes would count twice."""
        write_days(tmp_path / "days")
        (tmp_path / "days" / "day4.csv-metadata.json").write_text("{}")
        assert str(alike_beside(tmp_path / "days" / "day1.csv")).startswith("2 more files")
        assert alike_beside(tmp_path / "days" / "day4.csv") is None

    def test_packed_ones_count(self, tmp_path: Path) -> None:
        write_days(tmp_path / "days")
        (tmp_path / "days" / "day5.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text_of(5).encode()))
        assert str(alike_beside(tmp_path / "days" / "day1.csv")).startswith("4 more files")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_that_may_not_be_read_are_passed_over(self, tmp_path: Path) -> None:
        write_days(tmp_path / "days")
        (tmp_path / "days" / "day4.csv").chmod(0)
        assert str(alike_beside(tmp_path / "days" / "day1.csv")).startswith("2 more files")

    def test_that_are_no_files_are_passed_over(self, tmp_path: Path) -> None:
        write_days(tmp_path / "days")
        (tmp_path / "days" / "folder.csv").mkdir()
        (tmp_path / "days" / "gone.csv").symlink_to("nowhere")
        os.mkfifo(tmp_path / "days" / "pipe.csv")
        assert str(alike_beside(tmp_path / "days" / "day1.csv")).startswith("3 more files")

    def test_a_large_folder_is_not_read_through(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_days(tmp_path / "days")
        monkeypatch.setattr("rl_training.data.formats.siblings._MOST_ENTRIES", 0)
        assert alike_beside(tmp_path / "days" / "day1.csv") is None
