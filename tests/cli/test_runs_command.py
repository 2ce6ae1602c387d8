"""`rl-training runs`: what is listed, in which order, of damaged runs too, and two runs side by side."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rl_training.runtime import run_lock


def make_run(name: str, *, folder: Path = Path("runs"), created: int = 0, **changes: Any) -> Path:
    """A run directory as far as a list reads it; the hour of its making is `created`."""
    score = changes.pop("last", -100.0)
    best = changes.pop("best", score)
    facts = {
        "status": changes.pop("status", "finished"),
        "created": f"2026-01-01T{created:02}:00:00+0000",
        "dataset": None,
        "step": changes.pop("step", 50),
        "unit": "updates",
        "last": None if score is None else {"step": 50, "return_mean": score},
        "best": None if best is None else {"step": 40, "return_mean": best},
    }
    config = {
        "algo": "iql", "env_id": "Pendulum-v1", "dataset": {"source": "scripted"}, "seed": 0, "total_timesteps": 50,
        "algo_kwargs": {"beta": 3.0, "expectile": 0.7}, **changes,
    }  # fmt: skip
    path = folder / name
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(facts))
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    return path


def names(command: Any, *options: Any) -> list[str]:
    return [run["name"] for run in json.loads(command("runs", "--json", *options).out)]


def estimate(gamma: float, low: float, high: float) -> dict[str, Any]:
    gain = {"value": 0.5 * (low + high), "low": low, "high": high, "probability": 0.9}
    return {"step": 50, "gamma": gamma, "data": {"fingerprint": "f"}, "value": {"value": 60.0}, "improvement": gain}


class TestOffline:
    """Estimates by data alone, where an environment gave no score."""

    def estimated(self, name: str, *values: float | None, **changes: Any) -> None:
        path = make_run(name, last=None, **changes)
        records = [{"step": 50, "value": {"value": value}, "repeats": 5} for value in values if value is not None]
        records += [{"step": 50, "value": None, "repeats": 2}] * (None in values)
        (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    def test_of_weights_that_have_been_trained_on(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "140")
        self.estimated("a", -12.5, step=90)
        assert "-12.5 (at 50)" in command("runs").out
        assert json.loads(command("runs", "--json").out)[0]["offline_step"] == 50

    def test_they_order_runs_that_nothing_scored(self, command: Any) -> None:
        self.estimated("a", -12.5)
        self.estimated("b", -3.0)
        make_run("scored", last=-100.0)
        assert names(command, "--sort", "score") == ["scored", "b", "a"]

    def test_nothing_is_said_of_columns_without_a_number(self, command: Any) -> None:
        make_run("a", last=None, dataset={"source": "file", "path": "log.csv", "rewards_are": "costs"})
        assert "lower is better" not in command("runs").out

    def test_costs_are_shown_as_costs_where_all_are(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "140")
        costs = {"source": "file", "path": "log.csv", "rewards_are": "costs"}
        self.estimated("a", -12.5, dataset=costs)
        told = command("runs").out
        assert (" 12.5 " in told, "-12.5" in told) == (True, False)
        assert told.splitlines()[-1] == "last, best, offline: costs, lower is better"
        assert json.loads(command("runs", "--json").out)[0]["offline"] == -12.5
        self.estimated("b", -3.0)
        assert "-12.5" in command("runs").out

    def test_the_newest_is_shown_where_there_is_one(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "140")
        self.estimated("a", -3.0, -12.5)
        self.estimated("b", -3.0, None)
        head, *lines = command("runs").out.splitlines()
        assert head.split()[-4:] == ["last", "best", "offline", "age"]
        shown = {line.split()[0]: line.split()[-5:-2] for line in lines[:2]}
        assert {name: cells[-1] for name, cells in shown.items()} == {"a": "-12.5", "b": "-3"}
        assert lines[2].startswith("offline: value by the newest trusted evaluate --offline; alike only for")
        compared = command("runs", "--compare", "a", "b").out
        assert ["offline", "-12.5", "-3"] in [line.split() for line in compared.splitlines()]
        assert {run["name"]: run["offline"] for run in json.loads(command("runs", "--json").out)} == {
            "a": -12.5,
            "b": -3.0,  # what was refused with less work hides nothing
        }

    def test_what_it_says_beside_the_behaviour(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        whole, near = estimate(1.0, 22.0, 235.4), estimate(0.99, -24.3, 131.6)
        refused = [{"seed": 0, "value": None, "not_trusted_because": ["so; do that"]}]
        found = {
            "good": [whole],
            "open": [near],
            "bad": [estimate(0.99, -9.0, -1.0)],
            "torn": [estimate(0.99, -90.0, -10.0), whole],
            "none": [{"step": 50, "value": None, "policies": refused}],
            "undone": [whole, whole | {"value": None, "improvement": None, "policies": refused}],
        }
        for name, records in found.items():
            path = make_run(name, last=None, step=50)
            (path / "offline_evaluations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        out = command("runs", "--sort", "name").out
        near = " 60.0 (γ 0.99)"
        for said in (" 60.0 better ", f"{near} not shown ", f"{near} worse ", " 60.0 disputed ", " refused "):
            assert said in out
        assert "γ: its discount; such a value is not the sum of a whole episode\n" in out
        assert "disputed: estimates disagree whether it is better; refused: not to be trusted" in out
        told = {run["name"]: run["offline_says"] for run in json.loads(command("runs", "--json").out)}
        expected = {"good": "better", "open": "not shown", "bad": "worse", "torn": "disputed", "none": "refused"}
        assert told == expected | {"undone": "refused"}

    def test_on_the_episodes_of_the_training(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        for name, share in (("own", 1.0), ("others", 0.0)):
            record = estimate(0.99, 1.0, 2.0) | {"data": {"fingerprint": "f", "share_trained_on": share}}
            path = make_run(name, last=None, step=50)
            (path / "offline_evaluations.jsonl").write_text(json.dumps(record) + "\n")
        out = command("runs").out
        assert " 60.0 (γ 0.99, trained on) better " in out
        assert " 60.0 (γ 0.99) better " in out
        assert "trained on: judged by episodes that it was trained on, which flatters it" in out
        told = {run["name"]: run for run in json.loads(command("runs", "--json").out)}
        assert [told["own"]["offline_trained_on"], told["others"]["offline_trained_on"]] == [1.0, 0.0]
        assert told["own"]["offline_gamma"] == 0.99

    def test_without_any_there_is_no_column(self, command: Any) -> None:
        make_run("a")
        self.estimated("b", None)
        (Path("runs") / "a" / "offline_evaluations.jsonl").write_text("[1]\n{broken\n")
        assert "offline" not in command("runs").out


class TestOne:
    def test_a_real_run(self, command: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (found,) = json.loads(command("runs", "--runs-dir", run.parent, "--json").out)
        assert {key: found[key] for key in ("name", "algo", "env_id", "dataset", "seeds", "status", "fault")} == {
            "name": "run", "algo": "bc", "env_id": None, "dataset": "pendulum.npz", "seeds": [4, 2],
            "status": "finished", "fault": None,
        }  # fmt: skip
        assert (found["steps"], found["total_steps"], found["last"]) == (20, 20, None)
        assert found["age_seconds"] < 3_600
        monkeypatch.setenv("COLUMNS", "140")
        out = command("runs", "--runs-dir", run.parent).out
        assert out.splitlines()[1].split()[:8] == ["run", "bc", "pendulum.npz", "none", "4,2", "20/20", "finished", "-"]

    def test_eighty_columns_take_two_lines_each(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        make_run("iql-pendulum-v1-20260101-000000", last=-1234.5, best=-200.25, seed=[0, 1, 2, 3])
        out = command("runs").out
        assert max(map(len, out.splitlines())) <= 80
        head, line, details = out.splitlines()
        assert head.split() == ["run", "status", "last", "best", "age"]
        assert line.split()[:4] == ["iql-pendulum-v1-20260101-000000", "finished", "-1234.5", "-200.2"]
        assert details == "  iql on scripted, Pendulum-v1, 4 seeds, 50/50 updates"


class TestSeveral:
    @pytest.fixture(autouse=True)
    def three(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.chdir(tmp_path)
        make_run("old", created=1, last=-50.0, best=-50.0, step=10)
        middle = make_run("middle", created=2, algo="cql", last=-200.0, best=-10.0, status="running", step=30)
        make_run("new", created=3, last=None, status="interrupted", step=20)
        with run_lock.held(middle):
            yield

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ([], ["new", "middle", "old"]),
            (["--sort", "score"], ["old", "middle", "new"]),
            (["--sort", "best"], ["middle", "old", "new"]),
            (["--sort", "updates"], ["middle", "new", "old"]),
            (["--sort", "name"], ["middle", "new", "old"]),
            (["--algo", "iql"], ["new", "old"]),
            (["--status", "running"], ["middle"]),
            (["--limit", "2"], ["new", "middle"]),
            (["--algo", "iql", "--sort", "score", "--limit", "1"], ["old"]),
            (["--status", "diverged"], []),
        ],
    )
    def test_order_and_choice(self, options: list[str], expected: list[str], command: Any) -> None:
        assert names(command, *options) == expected

    def test_what_is_left_out_is_said(self, command: Any) -> None:
        assert command("runs", "--limit", 1).out.endswith("1 of 3 runs in runs\n")
        assert command("runs", "--status", "diverged").out == "no runs of that kind among 3 runs in runs\n"

    def test_mistakes(self, mistake: Any) -> None:
        assert mistake("runs", "--algo", "cqll") == "error: algo: no algorithm 'cqll'; did you mean 'cql'?"
        assert "'--status': 'done' is not one of 'running', 'finished'" in mistake("runs", "--status", "done")
        assert "'--sort'" in mistake("runs", "--sort", "luck")
        assert "'--limit'" in mistake("runs", "--limit", "0")
        assert mistake("runs", "--compare", "old", "midle") == ("error: no run 'midle' in runs; did you mean 'middle'?")


HOLD = """
import sys
from pathlib import Path
from rl_training.runtime import run_lock

with run_lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class TestKilled:
    def test_is_running_until_its_process_dies(self, command: Any, tmp_path: Path) -> None:
        path = make_run("a run", folder=tmp_path / "runs", status="running")
        with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=-1, stdout=-1, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
            assert names(command, "--status", "running") == ["a run"]
            os.kill(process.pid, signal.SIGKILL)
        (found,) = json.loads(command("runs", "--json").out)
        assert (found["status"], found["reason"]) == ("stopped", "killed")
        assert names(command, "--status", "running") == []
        assert names(command, "--status", "stopped") == ["a run"]

    @pytest.mark.parametrize(("columns", "start"), [("140", "stopped: "), ("60", "  ")])
    def test_the_way_on_is_told(
        self, columns: str, start: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        make_run("a run", folder=tmp_path / "runs", status="running")
        make_run("another", folder=tmp_path / "runs", status="finished")
        out = command("runs").out
        assert out.count("continue:") == 1
        assert f"{start}killed; continue: rl-training resume 'runs/a run'" in out.splitlines()

    def test_looking_changes_nothing_and_is_in_nobodys_way(self, command: Any, tmp_path: Path) -> None:
        path = make_run("run", folder=tmp_path / "runs", status="running")
        assert names(command, "--status", "stopped") == ["run"]
        assert not (path / ".lock").exists()
        with run_lock.held(path):
            pass
        before = (path / ".lock").read_bytes()
        assert names(command, "--status", "stopped") == ["run"]
        assert (path / ".lock").read_bytes() == before
        with run_lock.held(path):
            assert names(command, "--status", "running") == ["run"]


class TestDamaged:
    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("run.json", None),
            ("run.json", "{"),
            ("run.json", "[1]"),
            ("run.json", "{}"),
            ("run.json", '{"status": "finished", "last": 3}'),
            ("run.json", '{"status": "finished", "last": {"return_mean": "high"}}'),
            ("run.json", "[" * 100_000),
            ("run.json", "\udcff"),
            ("config.yaml", None),
            ("config.yaml", "algo: ["),
            ("config.yaml", "- 1"),
            ("config.yaml", "{}"),
            ("config.yaml", "{algo: iql, seed: many}"),
            ("config.yaml", "{algo: iql, total_timesteps: {}}"),
            ("config.yaml", "{algo: iql, dataset: 7}"),
        ],
    )
    def test_is_listed_in_one_line(self, file: str, text: str | None, command: Any, tmp_path: Path) -> None:
        make_run("sound", folder=tmp_path / "runs", created=1)
        broken = make_run("broken", folder=tmp_path / "runs", created=2) / file
        broken.unlink()
        if text is not None:
            broken.write_bytes(text.encode("utf-8", "surrogateescape"))
        found = {run["name"]: run for run in json.loads(command("runs", "--json").out)}
        assert found["sound"]["status"] == "finished"
        assert found["broken"]["status"] == "damaged"
        assert found["broken"]["fault"].startswith("runs/broken")
        assert "\n" not in found["broken"]["fault"]
        code, out, err = command("runs")
        assert (code, err) == (0, "")
        assert "damaged" in out
        assert names(command, "--status", "damaged") == ["broken"]

    def test_folders_that_are_no_runs_are_left_out(self, command: Any, tmp_path: Path) -> None:
        make_run("sound", folder=tmp_path / "runs")
        (tmp_path / "runs" / "notes").mkdir()
        (tmp_path / "runs" / ".sound.tmp-1").mkdir()
        (tmp_path / "runs" / "file").touch()
        assert names(command) == ["sound"]

    def test_no_runs(self, command: Any, tmp_path: Path) -> None:
        assert command("runs").out.startswith("no runs in runs\nstart one: rl-training train")
        assert command("runs", "--json").out == "[]\n"
        out = command("runs", "--runs-dir", "nowhere").out
        assert out.startswith("no runs in nowhere (there is no such folder)\nstart one")
        (tmp_path / "runs").touch()
        assert command("runs").out.startswith("no runs in runs\n")


class TestCompare:
    def test_scores_and_differences(self, command: Any, tmp_path: Path) -> None:
        make_run("a", folder=tmp_path / "runs", last=-50.0, algo_kwargs={"beta": 3.0, "expectile": 0.7})
        make_run("b", folder=tmp_path / "runs", last=-10.0, algo_kwargs={"beta": 10.0, "expectile": 0.7}, seed=[1, 2])
        code, out, _ = command("runs", "--compare", "a", "runs/b")
        assert code == 0
        lines = [line.split(maxsplit=2) for line in out.splitlines()]
        assert lines[0] == ["a", "b"]
        assert ["last", "-50.0", "-10.0"] in lines
        assert ["algo_kwargs.beta", "3.0", "10.0"] in lines
        assert ["seed", "0", "[1, 2]"] in lines
        assert "expectile" not in out
        told = json.loads(command("runs", "--compare", "a", "b", "--json").out)
        assert told["differences"] == {"algo_kwargs.beta": [3.0, 10.0], "seed": [0, [1, 2]]}
        assert [run["last"] for run in told["runs"]] == [-50.0, -10.0]

    def test_the_same(self, command: Any, tmp_path: Path) -> None:
        shutil.copytree(make_run("a", folder=tmp_path / "runs"), tmp_path / "runs" / "b")
        assert command("runs", "--compare", "a", "b").out.endswith("the configurations are the same\n")

    def test_a_damaged_one(self, mistake: Any, tmp_path: Path) -> None:
        make_run("a", folder=tmp_path / "runs")
        (make_run("b", folder=tmp_path / "runs") / "config.yaml").write_text("algo: [")
        assert mistake("runs", "--compare", "a", "b").startswith("error: runs/b/config.yaml: cannot be read")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step", "1e999"),
        ("step", "-1"),
        ("step", '"x"'),
        ("last", '{"step": 1, "return_mean": 1' + "0" * 400 + "}"),
        ("best", '{"return_mean": 1.0}'),
    ],
)
def test_numbers_that_no_run_writes_are_told_of_and_hide_no_other(name: str, text: str, command: Any) -> None:
    sound, odd = make_run("sound"), make_run("odd")
    facts = json.loads((odd / "run.json").read_text())
    (odd / "run.json").write_text(json.dumps({**facts, name: "HERE"}).replace('"HERE"', text))
    found = {run["name"]: run for run in json.loads(command("runs", "--json").out)}
    assert found[sound.name]["status"] == "finished"
    assert found["odd"]["fault"].startswith(f"runs/odd/run.json: {name}: ")
    assert found["odd"]["fault"].endswith("is not a value it can have")


def test_an_endless_budget_hides_no_other_run(command: Any) -> None:
    make_run("sound")
    make_run("odd", total_timesteps=float("inf"))
    found = {run["name"]: run["status"] for run in json.loads(command("runs", "--json").out)}
    assert found == {"sound": "finished", "odd": "damaged"}
