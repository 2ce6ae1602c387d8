"""A log of days without ids, from `init` to the exported policy and `predict` on the log itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.time_features import features

SHORT = ("--set", "total_timesteps=3", "--set", "algo_kwargs={batch_size: 8}", "--quiet")
OBS = "['SoC [%]', price]"
DAYS = 8


def write_log(path: Path, *, jumps: bool = True, days: int = DAYS) -> None:
    """A battery that begins every day as it likes, a row every half hour; a cell without a value, and a few remarks."""
    rng = np.random.default_rng(0)
    rows = ["timestamp;site;SoC [%];price;battery setpoint kW;cost EUR;remark"]
    charge = 50.0
    for i in range(48 * days):
        charge = rng.uniform(5, 95) if jumps and i % 48 == 0 else np.clip(charge + rng.normal(), 5, 95)
        when = np.datetime64("2025-03-01", "m") + 30 * i
        price = 60 + 20 * np.sin(2 * np.pi * (i % 48) / 48) + rng.normal()
        shown = "--" if i == 100 else f"{price:.2f}"
        remark = "manual" if i % 23 == 5 else ""
        stamp = str(when).replace("T", " ") + ":00"
        rows.append(f"{stamp};HAM-2;{charge:.2f};{shown};{rng.uniform(-50, 50):.1f};{rng.uniform(0, 2):.3f};{remark}")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "battery.csv"
    write_log(path)
    return path


@pytest.fixture
def config(log: Path, command: Any, tmp_path: Path) -> Path:
    """What init writes, filled in by what it says."""
    assert command("init", log.name).code == 0
    path = tmp_path / "config.yaml"
    text = path.read_text().replace("obs: TODO", f"obs: {OBS}").replace("# missing: hold", "missing: hold")
    path.write_text(text.replace("# last_rows_are", "last_rows_are"))
    return path


class TestInit:
    @pytest.mark.usefixtures("log")
    def test_days_costs_and_remarks(self, command: Any, tmp_path: Path) -> None:
        told = " ".join(command("init", "battery.csv").out.split())
        assert "rewards cost EUR (the only one that is named like a cost)" in told
        assert "rewards_are costs (lower is better)" in told
        assert "episode_each day (after 7 of 7 midnights the measurements jump)" in told
        assert "the next follows as usual: nothing ended" in told
        assert "to fill in: dataset.columns.obs in config.yaml" in told
        text = (tmp_path / "config.yaml").read_text()
        section = yaml_dialect.read(text)["dataset"]
        assert (section["columns"]["rewards"], section["rewards_are"]) == ("cost EUR", "costs")
        assert (section["episode_each"], section["observe_time"]) == ("day", ["day"])
        assert "end_reasons" not in section
        assert "  # last_rows_are: termination  # if nothing carries over from one day into the next\n" in text

    def test_without_jumps_they_are_suggested(self, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "battery.csv", jumps=False)
        command("init", "battery.csv")
        text = (tmp_path / "config.yaml").read_text()
        assert "  # episode_each: day  # if each day is a task of its own, such as one that is billed\n" in text
        assert "  # observe_time: [day]  # the policy sees the time of day, as sin_day and cos_day\n" in text
        assert "episode_each" not in yaml_dialect.read(text)["dataset"]

    def test_two_days_are_too_few(self, command: Any, tmp_path: Path) -> None:
        write_log(tmp_path / "battery.csv", days=2)
        command("init", "battery.csv")
        assert "episode_each" not in (tmp_path / "config.yaml").read_text()

    def test_reasons_that_end_something_stay(self, command: Any, tmp_path: Path) -> None:
        rows = ["t,x,u,r,why"]
        rng = np.random.default_rng(1)
        x = 0.0
        for i in range(400):
            row = i % 40 if i % 40 < 17 else i % 40 - 17  # episodes of 17 and of 23 rows
            x = rng.uniform(-9, 9) if row == 0 else x + 0.1
            why = "crash" if i % 40 in (16, 39) else "manual" if row == 7 else ""
            rows.append(f"{i},{x:.3f},{rng.uniform(-1, 1):.3f},1,{why}")
        (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
        command("init", "log.csv")
        reasons = yaml_dialect.read((tmp_path / "config.yaml").read_text())["dataset"]["end_reasons"]
        assert reasons == {"manual": "ongoing", "crash": "termination"}


class TestWay:
    def test_from_the_log_to_the_policy_and_back(self, config: Path, log: Path, command: Any, tmp_path: Path) -> None:
        checked = command("data", "check", "-c", "config.yaml", "--json")
        facts = json.loads(checked.out)["facts"]
        assert (facts["episodes"], facts["terminated"], facts["rows"]) == (DAYS, DAYS, 48 * DAYS)
        assert facts["obs_names"] == ["SoC [%]", "price", "sin_day", "cos_day"]
        assert "flags.time-limit" not in checked.out
        assert command("data", "split", "-c", "config.yaml", "-o", "train.csv", "aside.csv").code == 0
        assert command("init", "train.csv", "-o", "train.yaml").code == 0
        assert "flags.time-limit" not in command("data", "check", "-c", "train.yaml", "--json").out
        assert command("train", "-c", "train.yaml", "--name", "first", *SHORT).code == 0
        assert command("export", "first", "-o", "policy.pt2").code == 0
        columns = json.loads((tmp_path / "policy.pt2.json").read_text())["inputs"][0]["columns"]
        where = "of the local time as in the data's column 'timestamp'"
        assert columns[2]["computed"] == f"sin(2π · seconds since midnight / 86400), {where}"
        assert "computed" not in columns[0]
        onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra `export` has it)")
        assert command("export", "first", "-o", "policy.onnx").code == 0
        kept = {entry.key: entry.value for entry in onnx.load(tmp_path / "policy.onnx").metadata_props}
        formulas = json.loads(kept["rl_training.computed"])
        assert formulas == {column["name"]: column["computed"] for column in columns if "computed" in column}
        self.predicts(command, tmp_path, log)

    def predicts(self, command: Any, tmp_path: Path, log: Path) -> None:
        err = command("predict", "first", "--obs-file", "battery.csv").err
        assert "column 'price': line 102 has no value, but '--'; fill it in" in err
        lines = log.read_text().splitlines()
        (tmp_path / "whole.csv").write_text("\n".join(lines[:101]) + "\n")
        raw = command("predict", "first", "--obs-file", "whole.csv")
        assert raw.code == 0
        data = TransitionDataset.load(tmp_path / "train.csv")
        written = command("predict", "first", "--obs-file", "train.csv")
        assert len(written.out.splitlines()) == len(data)
        assert "has none of the policy's names" not in written.err
        cells = [line.split(";") for line in lines[1:101]]
        walls = np.array([np.datetime64(row[0]).astype("datetime64[s]").astype(np.float64) for row in cells])
        times = features(walls, ["day"])
        named = [
            f"SoC [%]={row[2]},price={row[3]},sin_day={sin},cos_day={cos}"
            for row, (sin, cos) in zip(cells, times.tolist(), strict=True)
        ]
        single = command("predict", "first", *(word for one in named[:3] for word in ("--obs", one)))
        ours, theirs = ([json.loads(line) for line in one.out.splitlines()[:3]] for one in (single, raw))
        assert np.array(ours) == pytest.approx(np.array(theirs), abs=1e-4)

    @pytest.mark.usefixtures("config")
    def test_a_run_on_the_log_itself(self, command: Any, tmp_path: Path, log: Path) -> None:
        assert command("train", "-c", "config.yaml", "--name", "raw", *SHORT).code == 0
        err = command("predict", "raw", "--obs-file", "battery.csv").err
        assert "column 'price': line 102 has no value, but '--'; fill it in, with the value before" in err
        assert "lines count from 1 with the header, as rows of a spreadsheet do" in err
        lines = log.read_text().splitlines()
        (tmp_path / "bare.csv").write_text("\n".join(line.partition(";")[2] for line in lines[:50]) + "\n")
        err = command("predict", "raw", "--obs-file", "bare.csv").err
        assert "lacks sin_day, cos_day (or timestamp, the dates that they are computed from)" in err
        (tmp_path / "odd.csv").write_text("\n".join([lines[0], lines[1].replace("2025-03-01 00:00:00", "17")]) + "\n")
        err = command("predict", "raw", "--obs-file", "odd.csv").err
        assert "column 'timestamp': holds no dates" in err

    def test_a_date_among_the_observations_is_warned_of(self, config: Path, command: Any) -> None:
        config.write_text(config.read_text().replace(f"obs: {OBS}", f"obs: [timestamp, {OBS[1:]}"))
        for words in (("data", "check", "-c", "config.yaml"), ("train", "-c", "config.yaml", "--dry-run")):
            outcome = command(*words)
            assert "[values.date]: Column 'timestamp' holds dates" in " ".join((outcome.out + outcome.err).split())

    def test_options_do_the_same(self, config: Path, command: Any, tmp_path: Path) -> None:
        words = [
            *(
                "--columns",
                "obs=SoC [%],price",
                "--columns",
                "actions=battery setpoint kW",
                "--columns",
                "step=timestamp",
            ),
            *("--columns", "rewards=cost EUR", "--rewards-are", "costs", "--missing-words", "--", "--missing", "hold"),
            *("--episode-each", "day", "--observe-time", "day", "--last-rows-are", "termination"),
        ]
        assert command("data", "convert", "battery.csv", "a.npz", *words).code == 0
        assert command("data", "convert", "-c", "config.yaml", "b.npz").code == 0
        one, two = (TransitionDataset.load(tmp_path / name) for name in ("a.npz", "b.npz"))
        assert one.fingerprint() == two.fingerprint()

    @pytest.mark.usefixtures("log")
    def test_mistakes_speak_of_options(self, mistake: Any) -> None:
        columns = [f"--columns={c}" for c in ("obs=price", "actions=battery setpoint kW", "rewards=cost EUR")]
        told = mistake("data", "check", "battery.csv", *columns, "--columns=step=timestamp", "--missing-words=--")
        assert told.endswith("give terminations, or episode_ids, or say --episode-each day")
        columns.append("--missing-words=--")
        told = mistake("data", "check", "battery.csv", *columns, "--columns=step=SoC [%]", "--episode-each=day")
        assert "--episode-each: column 'SoC [%]' holds no dates; name one that does" in told
        told = mistake("data", "check", "battery.csv", *columns, "--observe-time=month")
        assert told == "error: observe_time: 'month' is not known; choose from day, week, year"
