"""docs/tracking.md: its commands and its example run, its names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rl_training import yaml_dialect
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.records import EVALUATION_METRICS
from rl_training.runtime.trackers import TRACKERS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tracking.md").read_text("utf-8")
FEWER = ("--set", "total_timesteps=4", "--set", "evaluation.episodes=1", "--set", "dataset.size=400", "--quiet")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def test_every_line_runs(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tracking is not installed")
    for line in block("console").splitlines():
        words = shlex.split(line)[2:]
        if words[0] == "resume":
            words[-1] = "8"
        code, out, err = command(*words, *(FEWER if words[0] == "train" else ("--quiet",)))
        assert (line, code) == (line, 0), err
        assert f"tensorboard runs/{'second' if 'second' in words else 'first'}/tensorboard" in " ".join(out.split())
    assert len(list(tmp_path.glob("runs/*/tensorboard/events.*"))) == 2


def test_the_configuration() -> None:
    config = TrainConfig.parse(yaml_dialect.read(block("yaml")))
    assert [(entry.tracker, entry.project) for entry in config.tracking] == [
        ("tensorboard", None),
        ("wandb", "my-robot"),
    ]


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "tracking.md", "exec"), {"__name__": "example"})
    first, *records, last = capsys.readouterr().out.splitlines()
    assert first == "start bc at step 0"
    assert [line.split()[0] for line in records] == ["100", "200"]
    assert last == "finished"


def test_names() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)) == set(TRACKERS)
    assert set(re.findall(r"`evaluation/(\w+)`", PAGE)) == set(EVALUATION_METRICS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--track", "tensorbord"], "error: tracking: no tracker 'tensorbord'; did you mean 'tensorboard'?"),
        (["--quiet", "--verbose"], "error: --quiet and --verbose: choose one of them"),
    ],
)
def test_mistakes(mistake: Any, arguments: list[str], message: str) -> None:
    assert mistake("train", "-c", "bc/pendulum", *arguments) == message
