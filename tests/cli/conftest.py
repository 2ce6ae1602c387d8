"""The command line in a folder of its own, and a run for it to use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rl_training.cli.main import main
from rl_training.runtime.trainer import train
from small_runs import files_under, small_config


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`command("train", …)`: the command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rl-training", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return Outcome(int(caught.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def mistake(command: Callable[..., Outcome], tmp_path: Path) -> Any:
    """`mistake(…)` is the one line a wrong command line gives; nothing may be written."""

    def run(*arguments: Any) -> str:
        before = files_under(tmp_path)
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1, err
        assert files_under(tmp_path) == before
        assert "Traceback" not in err
        return err.strip()

    return run


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of two seeds that nothing in here changes."""
    config = small_config(data_file, tmp_path_factory.mktemp("runs"), seed=[4, 2], checkpoint_interval=10)
    return train(config).run.path
