"""The whole way of someone with a log and no simulator: from a CSV of another program to a file to ship."""

from __future__ import annotations

import csv
import json
import random
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import NamedColumn, Spaces
from rl_training.errors import CheckpointError
from rl_training.experiment.config import read_config
from rl_training.experiment.manager import load_policy, resume

SHORT = ("--set", "total_timesteps=3", "--set", "algo_kwargs={batch_size: 8}", "--quiet")
NAMES = ["Speed [km/h]", "Battery"]
REASONS = ["arrived", "crash", "shift change", "arrived", "zzz"]


def write_log(path: Path, *, trips: int = 5, steps: int = 8) -> None:
    """Semicolons, decimal commas, a title above, nobody's names, text for reasons, dates with points."""
    draw = random.Random(0)
    time = datetime(2024, 3, 1, 8)

    def decimal(number: float) -> str:
        return f"{number:.3f}".replace(".", ",")

    with path.open("w", newline="", encoding="utf-8-sig") as file:
        file.write("Fleet report, week 9\r\n")
        table = csv.writer(file, delimiter=";")
        table.writerow(["Time", "Trip", *NAMES, "Throttle", "Energy cost", "Stop reason", "Driver"])
        for trip in range(trips):
            for step in range(steps):
                measured = [decimal(draw.uniform(0, 90)), decimal(1 - step / 10), decimal(draw.uniform(0.1, 0.8))]
                reason = REASONS[trip] if step == steps - 1 else ""
                cost = decimal(draw.uniform(0.5, 2))
                table.writerow([time.strftime("%d.%m.%Y %H:%M:%S"), f"T{trip}", *measured, cost, reason, "ann"])
                time += timedelta(seconds=10)
            time += timedelta(hours=1)


def test_from_a_log_to_a_file_to_ship(command: Any, mistake: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "fleet.csv")
    code, out, err = command("init", "fleet.csv", "--algo", "bc")
    assert (code, err) == (0, "")
    assert "step          Time (a date with a time in every row)" in out
    assert "arrived (2 rows): termination\n" in out
    assert "zzz (1 row): TODO: termination, truncation or ongoing?\n" in out
    assert "to fill in: dataset.end_reasons.zzz in config.yaml" in out
    file = tmp_path / "config.yaml"
    text = file.read_text("utf-8")
    assert "  rewards_are: costs  # lower is better; if higher is, say rewards\n" in text
    assert re.search(r"  # action_low: 0\.1\d+\n  # action_high: 0\.7\d+\n", text)

    file.write_text(text.replace("rewards: Energy cost", "rewards: Energy cots"), "utf-8")
    assert mistake("config", "validate", "config.yaml") == (
        "error: config.yaml: dataset.end_reasons: zzz is still TODO; say termination, truncation or ongoing"
    )
    text = file.read_text("utf-8").replace("zzz: TODO", "zzz: termination")
    file.write_text(
        text.replace("# action_low: 0.1", "action_low: 0.0").replace("# action_high: 0.7", "action_high: 1.7")
    )
    assert mistake("config", "validate", "config.yaml") == (
        "error: config.yaml: dataset: fleet.csv: columns.rewards: no column 'Energy cots'; did you mean 'Energy cost'?"
    )
    file.write_text(file.read_text("utf-8").replace("cots", "cost"), "utf-8")
    assert command("config", "validate", "config.yaml").code == 0

    code, out, _ = command("data", "check", "-c", "config.yaml", "--json")
    facts, findings = json.loads(out)["facts"], json.loads(out)["findings"]
    assert (facts["rows"], facts["episodes"], facts["terminated"], facts["truncated"]) == (40, 5, 4, 1)
    assert facts["rewards"][2] < 0
    assert facts["bounds_from"] == "as you say"
    told = " ".join(finding["what"] for finding in findings)
    assert "4 terminations (arrived 2, crash 1, zzz 1) and 1 truncation (shift change 1)" in told

    assert command("train", "-c", "config.yaml", "--name", "fleet", *SHORT).code == 0
    assert command("report", "fleet", "-o", "fleet.html").code == 0
    page = (tmp_path / "fleet.html").read_text("utf-8")
    assert all(f">{name}<" in page for name in [*NAMES, "Throttle"])
    assert command("export", "fleet", "--format", "onnx", "-o", "fleet.onnx").code == 0
    card = json.loads((tmp_path / "fleet.onnx.json").read_text("utf-8"))
    seen, done = card["inputs"][0]["columns"], card["outputs"][0]
    assert [column["name"] for column in seen] == NAMES
    assert seen[1]["observed"] == pytest.approx([0.3, 1.0])
    assert [column["name"] for column in done["columns"]] == ["Throttle"]
    assert done["low"][0] < done["columns"][0]["observed"][0] < done["columns"][0]["observed"][1] < done["high"][0]
    assert (card["dataset"]["terminations"], card["dataset"]["truncations"]) == (4, 1)

    by_place = command("predict", "fleet", "--obs", "50,0.5").out
    _, out, err = command("predict", "fleet", "--obs", "50,7")
    assert len(json.loads(out)) == 1
    told = err.splitlines()
    assert told[0].startswith("warning: outside what was seen in training: Battery 7 (0.3 ")
    assert told[1:] == ["note: actions are Throttle"]
    just_outside = command("predict", "fleet", "--obs", "50,1.00001").err.splitlines()[0]
    assert just_outside.endswith("Battery 1.00001 (0.3 to 1)")
    assert "column 'Battery' must be one number, got 'full'" in mistake("predict", "fleet", "--obs", "Battery=full")
    assert command("predict", "fleet", "--obs", "Battery=0.5,Speed [km/h]=50").out == by_place
    assert mistake("predict", "fleet", "--obs", "50") == ("error: --obs 50: 1 value, 2 expected: Speed [km/h], Battery")
    assert "lacks Speed [km/h]; expected Speed [km/h], Battery" in mistake("predict", "fleet", "--obs", "Battery=1")
    assert "no column 'Batery'; did you mean 'Battery'?" in mistake("predict", "fleet", "--obs", "Batery=1")
    assert len(command("predict", "fleet", "--obs-file", "fleet.csv").out.splitlines()) == 40
    (tmp_path / "less.csv").write_text("Battery,x\n1,2\n")
    assert "lacks Speed [km/h]; the policy sees" in mistake("predict", "fleet", "--obs-file", "less.csv")


def test_the_same_with_options(command: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "fleet.csv")
    columns = "obs=Speed [km/h],Battery", "actions=Throttle", "rewards=Energy cost", "end_reasons=Stop reason"
    options = [word for value in (*columns, "episode_ids=Trip", "step=Time") for word in ("--columns", value)]
    code, _, err = command("data", "info", "fleet.csv", *options)
    assert code == 2
    assert (
        "--end-reasons arrived=termination (or truncation, ongoing) for each; it holds arrived (2 rows), crash" in err
    )
    for text in ("arrived", "crash", "zzz"):
        options += ["--end-reasons", f"{text}=termination"]
    code, _, err = command("data", "info", "fleet.csv", *options)
    assert "is not among --end-reasons; say what it means, --end-reasons 'shift change=termination'" in err
    options += ["--end-reasons", "shift change=truncation", "--rewards-are", "costs"]
    said = json.loads(command("data", "info", "fleet.csv", *options, "--json").out)
    assert (said["terminated"], said["truncated"], said["rewards"][2] < 0) == (4, 1, True)
    bounds = ("--action-low", "0", "--action-high", "0.2")
    code, out, _ = command("data", "check", "fleet.csv", *options, *bounds)
    assert code == 1
    assert "give wider bounds (--action-low, " in " ".join(out.split())
    assert "must be a number" in command("data", "check", "fleet.csv", "--action-low", "x").err


class TestOtherFiles:
    def test_without_a_header(self, command: Any, tmp_path: Path) -> None:
        rows = [[float(t % 5), np.sin(t), np.cos(t) / 2, -abs(np.sin(t)), int(t % 5 == 4)] for t in range(20)]
        (tmp_path / "log.csv").write_text("\n".join(",".join(f"{value:g}" for value in row) for row in rows))
        code, out, _ = command("init", "log.csv")
        assert code == 0
        assert "column_1: 0.0, 0.841471, 0.909297, …" in out
        text = (tmp_path / "config.yaml").read_text("utf-8")
        assert "# The file has no header line; its columns, by position, begin with:" in text
        for field, column in (("obs", "column_1"), ("actions", "column_2"), ("rewards", "column_3")):
            text = text.replace(f"{field}: TODO", f"{field}: {column}")
        text = text.replace("terminations: TODO", "terminations: column_4")
        (tmp_path / "config.yaml").write_text(text, "utf-8")
        assert command("train", "-c", "config.yaml", "--dry-run").code == 0

    def test_what_stands_in_the_way_of_a_column_is_told(self, command: Any, tmp_path: Path) -> None:
        rows = [f"{t % 5},{'NA' if t == 3 else t},{t / 10},{t},1.{t % 10}00,5 m" for t in range(20)]
        (tmp_path / "log.csv").write_text("\n".join(["step,temp,valve,reward,flow,depth", *rows]))
        out = " ".join(command("init", "log.csv").out.split())
        told = "temp is missing in 1 cell of the first 20; fill them in, or say missing: drop to leave out those rows,"
        told += " missing: hold where sensors are slow"
        assert told in out
        assert "depth (numbers with a unit, such as '5 m': write them without it, to use it)" in out

    def test_a_configuration_is_no_data(self, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("algo: bc\n")
        said = mistake("init", "config.yaml")
        assert said.startswith("error: config.yaml: is a configuration, and init writes one for data:")
        assert "rl-training train -c config.yaml" in said

    def test_data_that_are_elsewhere_are_told(self, command: Any, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("algo: bc\ntotal_timesteps: 1\ndataset: gone.csv\n")
        code, out, err = command("config", "validate", "config.yaml")
        assert (code, out) == (0, "config.yaml: valid (bc, no environment)\n")
        assert err.startswith("note: its data, gone.csv, are not here")

    def test_reading_options_are_kept_in_a_run(self, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "fleet.csv")
        section = (
            "{source: file, path: fleet.csv, rewards_are: costs, columns: {obs: [Battery], actions: Throttle,"
            " rewards: Energy cost, end_reasons: Stop reason, step: Time}, end_reasons: {arrived: termination,"
            " crash: termination, zzz: ongoing, shift change: truncation}, action_low: 0, action_high: [1]}"
        )
        (tmp_path / "config.yaml").write_text(f"algo: bc\ntotal_timesteps: 3\ndataset: {section}\n", "utf-8")
        assert command("train", "-c", "config.yaml", "--name", "one", *SHORT).code == 0
        kept = read_config(str(tmp_path / "runs" / "one" / "config.yaml")).dataset
        assert kept is not None
        assert kept.model_dump()["end_reasons"]["zzz"] == "ongoing"
        assert command("resume", "one", "--total-timesteps", "5", "--quiet").code == 0


class TestNamesInCheckpoints:
    def test_spaces_come_back_with_them(self) -> None:
        spaces = Spaces(1, (0.0,), (1.0,), (NamedColumn("x", -1.0, 2.0),), (NamedColumn("u", 0.0, 1.0),))
        assert Spaces.from_json(json.loads(json.dumps(spaces.to_json()))) == spaces

    def test_older_ones_have_none(self) -> None:
        stored = {"obs_dim": 1, "action_low": [0.0], "action_high": [1.0]}
        assert Spaces.from_json(stored).obs_columns == ()
        assert Spaces.from_json(stored).to_json() == stored

    @pytest.mark.parametrize("columns", [[{"name": "x"}], 5, [{"name": "x", "low": 0, "high": 1}] * 2])
    def test_forged_ones_are_refused(self, columns: Any) -> None:
        with pytest.raises(CheckpointError, match="spaces: stored value is malformed"):
            Spaces.from_json({"obs_dim": 1, "action_low": [0.0], "action_high": [1.0], "obs_columns": columns})


def test_observations_without_a_header_are_just_what_the_policy_sees(command: Any, tmp_path: Path) -> None:
    """Its columns are called by their place in the log, `column_1` and `column_2`; a file of these two alone has other
    places, and the whole log the same ones."""
    rng = np.random.default_rng(0)
    rows = [[e, *rng.normal(size=2).round(3), *rng.uniform(-1, 1, 2).round(3)] for e in range(6) for _ in range(5)]
    (tmp_path / "log.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    columns = "episode_ids: column_0, obs: [column_1, column_2], actions: column_3, rewards: column_4"
    (tmp_path / "config.yaml").write_text(
        f"algo: bc\ntotal_timesteps: 1\ndataset: {{source: file, path: log.csv, columns: {{{columns}}}}}\n"
    )
    assert command("train", "-c", "config.yaml", "--name", "plain", "--quiet").code == 0
    (tmp_path / "two.csv").write_text("".join(f"{row[1]},{row[2]}\n" for row in rows))
    code, out, err = command("predict", "plain", "--obs-file", "two.csv")
    assert (code, err) == (0, "")
    assert out == command("predict", "plain", "--obs-file", "log.csv").out
    assert len(out.splitlines()) == 30


def test_names_outlive_a_file_that_has_none(command: Any, tmp_path: Path) -> None:
    """A run that goes on from the same rows as arrays ends with the names that it would have ended with."""
    rng = np.random.default_rng(0)
    rows = [f"{e},{rng.normal():.3f},{rng.uniform(-1, 1):.3f},{rng.normal():.3f}" for e in range(6) for _ in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,speed,throttle,reward", *rows]))
    columns: dict[str, Any] = {"obs": "speed", "actions": "throttle", "episode_ids": "episode"}
    config = {"algo": "bc", "total_timesteps": 1, "dataset": {"source": "file", "path": "log.csv", "columns": columns}}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert command("train", "-c", "config.yaml", "--name", "named", "--quiet").code == 0
    before = load_policy("runs/named").checkpoint.spaces
    assert [column.name for column in (*before.obs_columns, *before.action_columns)] == ["speed", "throttle"]
    dataset = TransitionDataset.load("log.csv", columns=columns)
    arrays = TransitionDataset.from_dict(dataset.to_dict())
    resume(Path("runs/named"), total_timesteps=2, dataset=arrays)
    assert load_policy("runs/named").checkpoint.spaces == before
