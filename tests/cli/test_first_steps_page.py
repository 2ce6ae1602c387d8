"""docs/first_steps.md: its commands do what it says, one after another."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first_steps.md"
FEWER = ("--set", "total_timesteps=4", "--set", "eval_interval=null", "--set", "evaluation.episodes=1", "--quiet")


def test_every_line_runs(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("COLUMNS", "80")
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    assert len(lines) >= 10
    for line in lines:
        words = shlex.split(line)[2:]
        code, out, err = command(*words, *(FEWER if words[0] == "train" else ()))
        assert (line, code) == (line, 0), err
        if words[0] == "datasets":
            assert "log.csv  CSV     4,000" in out
        if words[0] == "runs":
            assert "finished" in out
            assert "damaged" not in out


def test_the_message_it_quotes(mistake: Any, tmp_path: Path) -> None:
    (quoted,) = re.findall(r"^error: .*", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    text = "algo: bc\ntotal_timesteps: 1\ndataset: {source: file, path: log.csv, columns: {rewards: TODO}}\n"
    (tmp_path / "config.yaml").write_text(text)
    assert mistake("train", "-c", "config.yaml") == quoted
