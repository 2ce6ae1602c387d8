"""Small things that a first user runs into: budgets that data do not need, costs, tags of valves, names of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.guess_words import is_valve

COLUMNS = "columns: {obs: [x], actions: u, rewards: energy_cost, episode_ids: batch}"


def write_log(path: Path, *, reward: str = "energy_cost") -> None:
    draw = np.random.default_rng(0)
    lines = [f"batch,x,u,{reward}"]
    for row in range(200):
        lines.append(f"b{row // 20},{draw.normal():.4f},{draw.uniform(-1, 1):.4f},{draw.uniform(0, 5):.4f}")
    path.write_text("\n".join(lines) + "\n")


def config_of(section: str, budget: str = "") -> str:
    return f"algo: iql\ndataset:\n  source: file\n  path: log.csv\n  {section}\n{budget}"


class TestCosts:
    def test_are_told_once_before_training(self, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "log.csv")
        (tmp_path / "c.yaml").write_text(config_of(COLUMNS, "total_timesteps: 2\n"))
        for words in (["--dry-run"], []):
            code, out, err = command("train", "-c", "c.yaml", *words)
            assert code == 0
            told = [line for line in (out + err).splitlines() if "rewards.cost" in line]
            assert len(told) == 1
            assert "say rewards_are: costs" in told[0]

    @pytest.mark.parametrize("said", ["costs", "rewards"])
    def test_of_which_somebody_has_said_what_they_are(self, said: str, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "log.csv")
        (tmp_path / "c.yaml").write_text(config_of(f"{COLUMNS}\n  rewards_are: {said}", "total_timesteps: 2\n"))
        for words in (["train", "--dry-run"], ["data", "check"], ["data", "split", "-o", "a.npz", "b.npz"]):
            code, out, err = command(*words, "-c", "c.yaml")
            assert code == 0
            assert "rewards.cost" not in out + err

    def test_are_told_where_data_are_checked_and_split(self, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "log.csv")
        (tmp_path / "c.yaml").write_text(config_of(COLUMNS))
        for words in (["check"], ["split", "-o", "a.npz", "b.npz"]):
            out = " ".join(command("data", *words, "-c", "c.yaml").out.split())
            assert out.count("[rewards.cost]") == 1
            assert "if lower is better, the worst behaviour is learned as the best" in out


class TestDataOfAConfiguration:
    @pytest.fixture(autouse=True)
    def _without_a_budget(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log.csv")
        (tmp_path / "c.yaml").write_text(config_of(COLUMNS))

    def test_is_checked(self, command: Any) -> None:
        assert command("data", "check", "-c", "c.yaml").code == 0

    def test_is_converted(self, command: Any, tmp_path: Path) -> None:
        code, out, err = command("data", "convert", "-c", "c.yaml", "log.npz")
        assert (code, err) == (0, "")
        assert "written: log.npz" in out
        assert len(TransitionDataset.load(tmp_path / "log.npz")) == 200

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["log.npz"], "Missing argument 'target'; give a source and a target, or -c CONFIG"),
            (
                ["-c", "c.yaml", "log.csv", "log.npz", "--rewards-are", "costs"],
                "--rewards-are: c.yaml says how its data",
            ),
        ],
    )
    def test_is_named_once(self, words: list[str], told: str, mistake: Any) -> None:
        assert told in mistake("data", "convert", *words)


def test_all_reasons_that_are_not_known_are_told_at_once(mistake: Any, tmp_path: Path) -> None:
    lines = ["x,u,r,why", *(f"{row},0.{row % 9},1,{['', 'goal', 'crash', 'jam'][row % 4]}" for row in range(40))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns = [
        word for entry in ("obs=x", "actions=u", "rewards=r", "end_reasons=why") for word in ("--columns", entry)
    ]
    err = mistake("data", "info", "log.csv", *columns, "--end-reasons", "goal=termination")
    assert "'crash' at row 2 is not among --end-reasons (nor is 'jam'); say what each of them means" in err


@pytest.mark.parametrize("name", ["FV-201 feed [L/h]", "TV-202 valve [%]", "plant/LCV_17", "XV 100", "PCV-12.OUT"])
def test_tags_of_valves(name: str) -> None:
    assert is_valve(name)


@pytest.mark.parametrize("name", ["FI-201", "PV-101", "TIC-101.PV", "TV", "CFV", "ATV-20", "FV-"])
def test_other_tags(name: str) -> None:
    assert not is_valve(name)


def test_a_valve_is_an_action(command: Any, tmp_path: Path) -> None:
    lines = ["batch,TI-101,FV-201 feed,TV-202 valve,reward"]
    lines += [f"b{row // 10},{row % 7}.5,{row % 5}.5,{row % 3}.5,1.{row}" for row in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    assert "actions       FV-201 feed, TV-202 valve (named like controls)" in command("init", "log.csv").out


def test_a_folder_of_runs_names_them(mistake: Any, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    said = mistake("report", "runs")
    assert "runs: holds no run (no run.json); name those inside it: runs/first, runs/second" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train -c c.yaml --seeds 0,1", "No such option: --seeds; did you mean --seed 0 --seed 1?"),
        ("train -c c.yaml --seeds=[3,4]", "No such option: --seeds; did you mean --seed 3 --seed 4?"),
        ("train --seeds 0 1 2 -c c.yaml", "No such option: --seeds; did you mean --seed 0 --seed 1 --seed 2?"),
        ("train -c c.yaml --seeds some", "No such option: --seeds; did you mean --seed 0 --seed 1?"),
        ("train -c c.yaml --seed 0,1", "--seed 0,1: takes one number, and is repeated for more: --seed 0 --seed 1"),
        ("evaluate first --seed 0,1", "one number; the policies of these seeds are --seeds 0,1"),
        ("export first --seeds 0,1", "export takes the policy of one seed, --seed 0; --member all writes a file for"),
        ("finetune first --steps 9 --seeds 1", "a fine-tuned run has the seeds of the run that it starts from"),
        ("resume first --seed 1", "No such option: --seed; a resumed run keeps its seeds"),
    ],
)
def test_several_seeds(words: str, told: str, mistake: Any) -> None:
    assert told in mistake(*words.split())
