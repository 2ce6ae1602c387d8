"""docs/report.md: its commands do what it says, one after another, and the names it has are the program's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

from rl_training.experiment.statistics import LEVEL, RESAMPLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"
FEWER = ("--set", "total_timesteps=4", "--set", "eval_interval=2", "--set", "evaluation.episodes=1", "--quiet")
SMALL = ("--set", "dataset.size=2000", "--set", "engine=eager")


def test_every_line_runs(command: Any, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    said = {}
    for line in block.splitlines():
        words = shlex.split(line)[2:]
        code, out, err = command(*words, *((*FEWER, *SMALL) if words[0] == "train" else ()))
        assert (line, code) == (line, 0), err
        said[line.removeprefix("$ rl-training ")] = out
    assert json.loads(said["evaluate first --seeds 0,2 --which best --json"])["seeds"] == [0, 2]
    assert "probability of improvement" in said["evaluate first second --episodes 5"]
    assert "Diagnostics" in (tmp_path / "report.html").read_text("utf-8")
    assert (tmp_path / "short.html").stat().st_size < (tmp_path / "report.html").stat().st_size


def test_the_figures_it_names() -> None:
    text = PAGE.read_text("utf-8")
    assert f"{RESAMPLES:,} resamples" in text
    assert f"{LEVEL:.0%} interval" in text
