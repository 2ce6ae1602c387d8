"""What a person sees: a live area that fits any terminal and leaves it sound, plain lines where there is none."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rl_training.runtime import console as console_module
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.console import ConsoleProgress
from rl_training.runtime.display import RunView, clock, trend
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.live_area import LiveArea
from rl_training.runtime.trainer import train
from small_runs import script_scores, small_config, small_values

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


def busy_view() -> RunView:
    """A run of three seeds, one of them stopped, that has everything to show."""
    view = RunView("td3_bc", "updates", 2_000_000, done=1_234_567, began=time.monotonic() - 3_700)
    view.updated = time.monotonic()
    view.losses = {"actor": -123456.0, "critic": 1.25e-7, "value": 3.0, "lagrange": 0.1, "temperature": 0.2}
    view.evaluation = Evaluation(
        1_000_000, (7, 11), np.array([[-1200.0, -900.0], [-80.0, -90.0]]), np.ones((2, 2), int)
    )
    view.stopped, view.scores, view.best = [3], [-500.0, -400.0, -567.5], (-321.5, 900_000)
    view.checkpoint, view.ending = ("step-1000000", time.monotonic()), "SIGINT received"
    return view


@pytest.mark.parametrize("columns", [1, 5, 12, 20, 39, 40, 59, 60, 61, 80, 100, 300])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=columns + 1, height=24)
    area = LiveArea(screen, busy_view().draw)
    drawn = [line for line in area.process_renderables([]) if isinstance(line, Text)]
    assert len(drawn) == 7
    assert all(cell_len(line.plain) <= columns for line in drawn)


def test_what_is_shown_in_eighty_columns() -> None:
    lines = [line.plain for line in busy_view().draw(79)]
    assert re.fullmatch(r"td3_bc      ━+─+  61%  1,234,567/2,000,000 updates", lines[0])
    assert re.fullmatch(r" {12}3\d\d updates/s · 38:\d\d left · 1:01:4\d gone · [\d.]+ [MG]iB", lines[1])
    assert lines[2:] == [
        "loss        actor -1.23e+05 · critic 1.25e-07 · value 3 · lagrange 0.1",
        "return      -567.5 ± 494.0 at 1,000,000 · best -321.5 at 900,000 · ▄█▁",
        "seeds       3: stopped · 7: -1050.0 · 11: -85.0",
        "checkpoint  step-1000000 · 0:00 ago",
        "ending      SIGINT received: finishing and saving",
    ]


def test_what_is_shown_in_forty_columns() -> None:
    lines = [line.plain for line in busy_view().draw(39)]
    assert re.fullmatch(r"td3_bc ━+─+ {2}61% 1,234,567/2,000,000", lines[0])
    assert lines[3] == "return -567.5 ± 494.0 at 1,000,000"


def test_a_short_terminal_shows_the_first_lines() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=3)
    assert len(LiveArea(screen, busy_view().draw).process_renderables([])) == 1 + 2


def test_an_ascii_terminal_gets_ascii() -> None:
    view = busy_view()
    view.is_ascii = True
    assert "\n".join(line.plain for line in view.draw(79)).isascii()


def test_rows_are_counted_again_where_the_terminal_was_made_narrower() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=81, height=24)
    area = LiveArea(screen, lambda columns: [Text("x" * columns), Text("short")])
    area.process_renderables([])
    screen.width = 41
    taken = area.process_renderables([])[0]
    assert str(taken).count("\x1b[2K") == 2 + 1


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-1.0, "0:00"), (8.9, "0:08"), (3_723, "1:02:03"), (273_906, "3d 4:05:06")]
)
def test_clock(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_trend() -> None:
    assert trend([0.0, 7.0, 3.5]) == "▁█▅"
    assert trend([2.0, 2.0]) == "▁▁"


# Not a terminal -----------------------------------------------------------------------------------------------------


def lines_of(config: TrainConfig, **options: Any) -> list[str]:
    written = io.StringIO()
    train(config, callbacks=[ConsoleProgress(Console(file=written, width=40), **options)])
    assert not re.search(r"[\r\x1b]", written.getvalue())
    return [line for line in written.getvalue().splitlines() if not line.startswith("note: ")]


def test_plain_lines_are_few(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(data_file, tmp_path, total_timesteps=40, log_interval=1)
    assert lines_of(config) == [f"training bc on data alone, seed 0, into {tmp_path / 'run'}"]
    monkeypatch.setattr(console_module, "PLAIN_SECONDS", 0.0)
    lines = lines_of(small_config(data_file, tmp_path, name="more", log_interval=5))
    assert [line.split("/")[0].strip() for line in lines[1:]] == ["5", "10", "15", "20"]
    assert re.fullmatch(r" {8}5/20 updates · [\d,.]+ updates/s · 0:00 left · actor [\d.]+", lines[1])


def test_losses_are_no_scores(data_file: Path, tmp_path: Path) -> None:
    """Said once, where nothing else can be shown."""
    said = "note: losses are no scores, and may grow as the policy gets better; `evaluate --offline` estimates how"
    for place, count in ((None, 1), ("Pendulum-v1", 0)):
        written = io.StringIO()
        config = small_config(data_file, tmp_path, name=str(place), env_id=place)
        train(config, callbacks=[ConsoleProgress(Console(file=written))])
        assert written.getvalue().count(said) == count


def test_an_evaluation_is_a_line(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, {10: [-5.0, -7.0], 20: [-8.0, -8.0]})
    first, last = lines_of(small_config(data_file, tmp_path, seed=[1, 2], eval_interval=10))[1:]
    assert "· return -6 ± 1 · the best so far · actor" in first
    assert "· return -8 ± 0.0 · best -6 at 10 · actor" in last


def test_verbose_lines(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, {10: [-5.0, -7.0], 20: [-8.0, -8.0]})
    lines = lines_of(small_config(data_file, tmp_path, seed=[1, 2], eval_interval=10), verbose=True)[1:]
    kinds = ["actor/loss" in line or ("return" in line and "seeds 1: -5, 2: -7" in line) for line in lines[:2]]
    assert kinds == [True, True]
    assert f"checkpoint {tmp_path / 'run' / 'checkpoints' / 'step-20'}" in lines


def test_a_file_that_takes_colours_is_no_terminal(data_file: Path, tmp_path: Path) -> None:
    written = io.StringIO()
    screen = Console(file=written, force_terminal=True, highlight=False)
    train(small_config(data_file, tmp_path), callbacks=[ConsoleProgress(screen)])
    assert "\x1b" not in written.getvalue()


# A terminal ---------------------------------------------------------------------------------------------------------


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, arguments: list[str], folder: Path, columns: int, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
        source = str(Path(console_module.__file__).parents[2])
        clean |= {"TERM": "xterm-256color", "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8", **environment}
        command = [sys.executable, "-m", "rl_training", *arguments]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=clean)
        self.slave = slave
        self.text = ""

    def read_until(self, what: str, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while what not in self.text:
            assert time.monotonic() < end, self.text
            self.text += os.read(self.master, 65536).decode("utf-8", "replace")

    def finish(self) -> tuple[int, str]:
        while self.process.poll() is None:
            os.set_blocking(self.master, False)
            self._drain()
            time.sleep(0.02)
        self._drain()
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode, self.text

    def _drain(self) -> None:
        try:
            while piece := os.read(self.master, 65536):
                self.text += piece.decode("utf-8", "replace")
        except BlockingIOError:
            pass


@pytest.fixture
def long_config(data_file: Path, tmp_path: Path) -> Path:
    import yaml

    values = small_values(data_file, tmp_path / "runs", total_timesteps=10_000_000, engine="eager")
    file = tmp_path / "long.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


def test_ctrl_c_leaves_the_terminal_sound(long_config: Path, tmp_path: Path) -> None:
    terminal = Terminal(["train", "-c", str(long_config)], tmp_path, 40)
    terminal.read_until("loss")
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.finish()
    assert code == 130
    assert text.count(HIDDEN) == text.count(SHOWN) == 1
    assert text.index(HIDDEN) < text.index(SHOWN)
    after = text[text.index(SHOWN) + len(SHOWN) :]
    assert "\x1b" not in after
    assert "interrupted after" in after
    assert "continue: rl-training resume" in after.replace("\r\n", "")
    drawn = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text[text.index(HIDDEN) : text.index(SHOWN)])
    assert max(len(line) for line in re.split(r"[\r\n]+", drawn)) <= 39


@pytest.mark.parametrize(("name", "value", "is_live"), [("NO_COLOR", "1", True), ("TERM", "dumb", False)])
def test_terminals_with_wishes(data_file: Path, tmp_path: Path, name: str, value: str, is_live: bool) -> None:
    import yaml

    file = tmp_path / "short.yaml"
    file.write_text(yaml.safe_dump(small_values(data_file, tmp_path / "runs")))
    code, text = Terminal(["train", "-c", str(file)], tmp_path, 80, **{name: value}).finish()
    assert code == 0
    assert (HIDDEN in text) is is_live
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", text)  # no colour
    assert is_live or "\x1b" not in text
