"""Commands that write are ended in the middle: nothing half-written stays, or the next one removes it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rl_training.data.formats.atomic import new_file, new_folder
from rl_training.runtime.signals import ending_signals

# The command itself; the signal comes while the file is being written, which no clock could hit.
COMMAND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs deaf to it
from rl_training.cli import main
from rl_training.data.formats import writers
whole, number = writers._WRITERS["csv"], int(sys.argv.pop(1))
def cut_short(dataset, target):
    target.path.write_text("half")
    os.kill(os.getpid(), number)
    return whole(dataset, target)
writers._WRITERS["csv"] = cut_short
main.main()
"""

# The same where the first signal's exception is lost, as a callback of a library may lose it.
LOST = """
import os, signal, sys
from rl_training.cli import main
from rl_training.data.formats import writers
from rl_training.runtime import signals
whole, number = writers._WRITERS["csv"], int(sys.argv.pop(1))
def cut_short(dataset, target):
    try:
        os.kill(os.getpid(), number)
    except KeyboardInterrupt:
        print("first", flush=True)
    os.kill(os.getpid(), number)
    print("together with it", flush=True)
    if "later" in sys.argv[-1]:
        signals.IMPATIENCE_SECONDS = 0.0
        os.kill(os.getpid(), number)
    return whole(dataset, target)
writers._WRITERS["csv"] = cut_short
main.main()
"""


# The program itself; the signal comes while it is being loaded, or while its commands are being put together.
LOADED = """
import os, runpy, signal, sys
number, moment = int(sys.argv.pop(1)), sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
class Sends:
    def find_spec(self, name, *rest):
        if name == moment:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Sends())
if moment == "building":
    import typer.main
    plain = typer.main.get_command
    typer.main.get_command = lambda app: (os.kill(os.getpid(), number), plain(app))[1]
if moment == "misread":
    import typer.main
    def misread(app):
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise ImportError("no such library")
    typer.main.get_command = misread
runpy.run_module("rl_training", run_name="__main__")
"""

# The same signal as at first, in a process that would take its time to end, as it does after compiling.
LEAVES_SLOWLY = COMMAND.replace(
    "main.main()",
    """
import atexit
from rl_training.__main__ import main
atexit.register(print, "leave taken")
main()
""",
)


def convert(
    number: signal.Signals, data: Path, target: Path, script: str = COMMAND
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, str(int(number)), "data", "convert", str(data), str(target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


CODES = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGUSR1, 138)]


@pytest.mark.parametrize("moment", ["typer", "building", "misread", "rl_training.experiment.config"])
@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_in_the_first_moments(number: signal.Signals, code: int, moment: str) -> None:
    command = [sys.executable, "-c", LOADED, str(int(number)), moment, "config", "show", "cql/pendulum"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


@pytest.mark.parametrize(("number", "code"), CODES)
def test_the_end_is_not_waited_for(number: signal.Signals, code: int, data_file: Path, tmp_path: Path) -> None:
    ended = convert(number, data_file, tmp_path / "o.csv", LEAVES_SLOWLY)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_leaves_nothing(number: signal.Signals, code: int, data_file: Path, tmp_path: Path) -> None:
    ended = convert(number, data_file, tmp_path / "o.csv")
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_comes_later_ends_what_the_first_did_not(
    number: signal.Signals, data_file: Path, tmp_path: Path
) -> None:
    ended = convert(number, data_file, tmp_path / "later.csv", LOST)
    assert (ended.returncode, ended.stdout) == (-number, "first\ntogether with it\n")
    assert not (tmp_path / "later.csv").exists()


def test_signals_that_come_together_are_one(data_file: Path, tmp_path: Path) -> None:
    ended = convert(signal.SIGTERM, data_file, tmp_path / "o.csv", LOST)
    assert (ended.returncode, ended.stderr) == (143, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "o.csv-metadata.json"]


def test_what_was_killed_is_cleared_away_by_the_next(data_file: Path, tmp_path: Path) -> None:
    assert convert(signal.SIGKILL, data_file, tmp_path / "o.csv").returncode == -9
    (left,) = tmp_path.iterdir()
    assert (left / "new").read_text() == "half"
    with new_file(tmp_path / "other.csv") as temporary:
        temporary.write_text("1")
    assert left.exists()  # of another target
    with new_file(tmp_path / "o.csv") as temporary:
        temporary.write_text("1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "other.csv"]


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    with new_folder(tmp_path / "o") as slow:
        slow.mkdir()
        with new_folder(tmp_path / "o") as quick:
            quick.mkdir()
            (quick / "a").write_text("quick")
        (slow / "a").write_text("slow")
    assert (tmp_path / "o" / "a").read_text() == "slow"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_what_another_machine_left_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may live: a shared disk need not show its lock here."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(platform, "node", lambda: "elsewhere")
        left = workplace_of(tmp_path / "o.csv")
        left.mkdir()
    with new_file(tmp_path / "o.csv") as temporary:
        temporary.write_text("1")
    assert left.exists()
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    with new_file(tmp_path / "o.csv") as temporary:
        temporary.write_text("2")
    assert [path.name for path in tmp_path.iterdir()] == ["o.csv"]


def workplace_of(target: Path) -> Path:
    """Where this process would write it."""
    with new_file(target) as temporary:
        temporary.write_text("0")
    return temporary.parent


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    host = workplace_of(tmp_path / "o.csv").name[: -len("-") - 20]
    (tmp_path / f"{host}-{'0' * 20}").symlink_to(tmp_path / "mine")
    (tmp_path / f"{host}-{'1' * 20}").write_text("mine")
    (tmp_path / ".o.csv.mine").mkdir()
    (tmp_path / f".o.csv.{'2' * 32}").mkdir()  # as earlier versions named theirs, which did not say whose they are
    (tmp_path / "o.csv").unlink()
    before = sorted(tmp_path.iterdir())
    with new_file(tmp_path / "o.csv") as temporary:
        temporary.write_text("1")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "o.csv"])


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with ending_signals() as signalled:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signalled == []
    finally:
        signal.signal(signal.SIGHUP, before)
