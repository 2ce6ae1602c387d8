"""What libraries warn of while a command runs: one line, without their file names."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.cli import main, plain_warnings
from rl_training.cli.plain_warnings import told_plainly

EXTREME = {"large": 1e200, "largest": 1e308, "smallest": 5e-324, "largest of float32": float(np.finfo(np.float32).max)}
# The command line with arithmetic that overflows and a library that warns, as a user's own process has them.
COMMAND = """
import sys, warnings
import numpy as np
from rl_training.cli import main

def algos():
    np.float64(1e308) * 10
    warnings.warn("\\x1b[33mWARN: first\\nsecond\\x1b[0m")

main.app.registered_commands.clear()
main.app.command("algos")(algos)
sys.argv = ["rl-training", "algos"]
main.main()
"""


@pytest.fixture(autouse=True)
def _unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "warnoptions", [])


def test_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    before = warnings.showwarning
    with told_plainly():
        warnings.simplefilter("always")
        warnings.warn("\x1b[33mWARN: first\nsecond\x1b[0m", stacklevel=1)
        np.array([1e308]) * 10
        warnings.warn("of something else", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "warning: first second\nwarning: of something else\n")
    assert warnings.showwarning is before


def test_as_python_does_where_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "warnoptions", ["always"])
    with told_plainly():
        assert warnings.showwarning is not plain_warnings._show


def test_of_the_command_itself(tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    place = str(Path(main.__file__).parents[2])
    words = [sys.executable, "-c", COMMAND]
    done = subprocess.run(words, cwd=tmp_path, env=given | {"PYTHONPATH": place}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "warning: first second\n")


@pytest.mark.parametrize("column", ["obs_0", "action", "reward"])
@pytest.mark.parametrize("size", EXTREME)
def test_numbers_at_the_ends_of_floating_point(column: str, size: str, command: Any, tmp_path: Path) -> None:
    """In one cell, and in all with both signs: whatever is made of them, nothing is said of arithmetic."""
    rng, rows = np.random.default_rng(0), 40
    names = ["obs_0", "obs_1", "action", "reward"]
    for name, places in (("one", slice(7, 8)), ("all", slice(None))):
        table = rng.uniform(-1, 1, (rows, len(names)))
        table[places, names.index(column)] = EXTREME[size] * np.sign(table[places, 0])
        lines = [",".join([*map(repr, row), str(int(t % 10 == 9))]) for t, row in enumerate(table.tolist())]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join([*names, "done"]), *lines]))
        for words in (("info",), ("check",), ("convert", f"{name}.npz")):
            assert_plain(command, "data", words[0], f"{name}.csv", *words[1:])
        assert_plain(command, "init", f"{name}.csv", "-o", f"{name}.yaml")


def assert_plain(command: Any, *words: str) -> None:
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        code, _, err = command(*words)
    assert code in (0, 1, 2)
    assert err.count("\n") == 1 or code != 2, err
    assert "encountered" not in err
