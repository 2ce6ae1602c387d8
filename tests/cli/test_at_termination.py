"""`--at-termination`: what terminating costs, said on the command line."""

from __future__ import annotations

import csv
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from rl_training import yaml_dialect
from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats import read
from rl_training.data.settling import settle
from rl_training.experiment.report.held_out import read_alike
from rl_training.reading_choices import TableChoices

# Three episodes of three rows: frost ends the first, a fault the second, the day the third.
LOG = """x,u,cost,why
0,-1,1,
1,0,2,
2,1,3,frost
0,-1,4,
1,0,5,
2,1,6,fault
0,-1,7,
1,0,8,
2,1,9,evening
"""
OPTIONS = ["--columns", "obs=x", "--columns", "actions=u", "--columns", "rewards=cost", "--columns", "end_reasons=why"]
OPTIONS += ["--rewards-are", "costs", "--end-reasons", "frost=termination", "--end-reasons", "fault=termination"]
OPTIONS += ["--end-reasons", "evening=truncation"]


@pytest.fixture
def log(tmp_path: Path) -> str:
    (tmp_path / "log.csv").write_text(LOG)
    return "log.csv"


@pytest.mark.parametrize(("said", "expected"), [("100", [-103, -106]), ("frost=100", [-103, -6])])
def test_convert(command: Any, log: str, tmp_path: Path, said: str, expected: list[float]) -> None:
    code, out, err = command("data", "convert", log, "new.npz", *OPTIONS, "--at-termination", said)
    assert (code, err) == (0, "")
    assert "added to the cost of" in out
    data = TransitionDataset.load(tmp_path / "new.npz")
    assert data.rewards[[2, 5]].tolist() == expected
    again = TransitionDataset.load(tmp_path / "new.npz", at_termination=-1.0)
    assert any("at_termination, which is applied a second time" in note for note in again.notes)


def test_below_zero(command: Any, log: str) -> None:
    code, out, _ = command("data", "info", log, *OPTIONS, "--at-termination", "-100")
    assert code == 0
    assert "-100 added to the cost of 2 terminations" in out


@pytest.mark.parametrize("said", [["much"], ["5", "6"], ["frost=much"], ["frost=1", "frost=2"]])
def test_what_cannot_be_understood(command: Any, log: str, said: list[str]) -> None:
    words = [word for one in said for word in ("--at-termination", one)]
    code, out, err = command("data", "info", log, *OPTIONS, *words)
    assert (code, out) == (2, "")
    assert "--at-termination" in err
    assert len(err.splitlines()) == 1


def test_held_out_data_without_reasons(command: Any, log: str, tmp_path: Path) -> None:
    """What is by reason cannot be added to what was written without, and that is said."""
    assert command("data", "convert", log, "held.npz", *OPTIONS).code == 0
    section = {"source": "file", "path": log, "columns": {"end_reasons": "why"}, "rewards_are": "costs"}
    section |= {"end_reasons": {"frost": "termination"}, "at_termination": {"frost": 100.0}}
    alike = read_alike({"algo": "bc", "total_timesteps": 1, "dataset": section}, "held.npz")
    assert alike.section.at_termination is None
    assert any("its rewards are without at_termination" in note for note in alike.notes)


def test_the_warning_names_the_option(command: Any, tmp_path: Path) -> None:
    rows = [
        f"{i % 10},{(i * 7) % 3 - 1},{5 + i % 2},{'frost' if i in (9, 19) else 'evening' * (i % 10 == 9)}"
        for i in range(60)
    ]
    (tmp_path / "days.csv").write_text("\n".join(["x,u,cost,why", *rows]) + "\n")
    options = [word for word in OPTIONS if word not in ("--end-reasons", "fault=termination")]
    options = [w for w in options if "=termination" not in w and "=truncation" not in w]
    options += ["--end-reasons", "frost=termination", "--end-reasons", "evening=truncation"]
    _, out, _ = command("data", "check", "days.csv", *options)
    told = " ".join(out.split())
    assert "2 of 6 episodes terminate, and that is the best that can happen" in told
    assert "--at-termination=550 at the least, on top of what you say there now" in told
    _, out, _ = command("data", "check", "days.csv", *options, "--at-termination", "550")
    assert "rewards.end-early" not in out


@pytest.mark.parametrize(
    "reason", ["crash, left", "crash: {left}", "crash=left", "it's a 'crash'", "-crash", 'crash "x"']
)
def test_advice_can_be_followed_whatever_the_reason_is_called(reason: str, command: Any, tmp_path: Path) -> None:
    columns = {"obs": "x", "actions": "u", "rewards": "r", "end_reasons": "why"}
    draw = random.Random(0)
    with (tmp_path / "log.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["x", "u", "r", "why"])
        for row in range(120):
            text = ["goal", reason, "crash again"][row // 10 % 3] if row % 10 == 9 else ""
            table.writerow([draw.random(), draw.uniform(-1, 1), -0.2 - 0.001 * draw.random(), text])
    reasons: Any = {"goal": "termination", reason: "termination", "crash again": "termination"}
    options = ["--columns", "obs=x", "--columns", "actions=u", "--columns", "rewards=r", "--columns", "end_reasons=why"]
    options += [f"--end-reasons={text}={meaning}" for text, meaning in reasons.items()]
    given = json.loads(command("data", "check", "log.csv", *options, "--json").out)
    (advice,) = [one["advice"] for one in given["findings"] if one["code"] == "rewards.ends-alike"]
    said = shlex.split(advice.split("`")[1])
    again = json.loads(command("data", "check", "log.csv", *options, *said, "--json").out)
    assert any("added to the reward of 8 terminations" in one["what"] for one in again["findings"])
    codes = {one["code"] for one in again["findings"]}
    assert not codes & {"rewards.ends-alike", "rewards.far-out"}

    raw = settle(read(tmp_path / "log.csv", columns, TableChoices(end_reasons=reasons)))
    (finding,) = [one for one in examine(raw).findings if one.code == "rewards.ends-alike"]
    assert yaml_dialect.read(finding.advice.split("`")[1]) == dict(finding.advised)


def test_failures_that_nothing_tells_from_the_goal(command: Any, tmp_path: Path) -> None:
    ends = ["goal", "hard stop"]
    rows = [f"{i % 10},{(i * 7) % 3 - 1},{5 + i % 2},{ends[i // 10 % 2] * (i % 10 == 9)}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u,cost,why", *rows]) + "\n")
    options = [word for word in OPTIONS if "=t" not in word and word != "--end-reasons"]
    options += ["--end-reasons", "goal=termination", "--end-reasons", "hard stop=termination"]
    told = " ".join(command("data", "check", "log.csv", *options).out.split())
    assert "3 episodes terminate with hard stop, by the name a failure, and the cost there is no worse" in told
    assert "`--at-termination 'hard stop=55'`" in told
    assert "rewards.ends-alike" not in command("data", "check", "log.csv", *options, "--at-termination", "hard stop=55")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{frost: 400,00}", "at_termination: '0' has no number: decimals are written with a point"),
        ("{frost: 5}", "at_termination: no reason means termination yet; say so in end_reasons, of one of frost"),
    ],
)
def test_mistakes_of_a_first_try(entry: str, told: str, mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "days.csv").write_text("x,u,cost,why\n1,2,3,\n2,3,4,frost\n" * 20)
    columns = "{obs: x, actions: u, rewards: cost, end_reasons: why}"
    text = f"algo: bc\ntotal_timesteps: 1\ndataset:\n  source: file\n  path: days.csv\n  columns: {columns}\n"
    text += f"  end_reasons: {{frost: truncation}}\n  at_termination: {entry}\n"
    (tmp_path / "c.yaml").write_text(text)
    assert told in mistake("train", "-c", "c.yaml")


@pytest.mark.parametrize("words", [("--gamma", "0,95"), ("--gamma=0,95",)])
def test_a_decimal_comma_is_answered_with_a_point(words: tuple[str, ...], mistake: Any) -> None:
    assert "got 0,95; write 0.95, with a point" in mistake("evaluate", "runs/x", "--offline", *words)


@pytest.mark.parametrize("words", [("--seeds", "0,1", "--gamma", "abc"), ("--gamma", "abc", "--seeds=0,1")])
def test_a_list_of_another_option_is_no_number_with_a_comma(words: tuple[str, ...], mistake: Any) -> None:
    said = mistake("evaluate", "runs/x", "--offline", *words)
    assert said.startswith("error: Invalid value for '--gamma': ")
    assert "0,1" not in said
    assert "with a point" not in said
