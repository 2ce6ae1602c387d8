"""A log whose only score stands in the last row of each episode: from `init` to `data check`, and what to say of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rl_training.data.guessing import guess_fields

EPISODES, ROWS = 12, 6


@pytest.fixture
def shots(tmp_path: Path) -> dict[str, list[Any]]:
    """Twelve shots of six rows, tasted when they are done."""
    draw = np.random.default_rng(0)
    rows = np.arange(EPISODES * ROWS)
    last = rows % ROWS == ROWS - 1
    return {
        "Shot": (1 + rows // ROWS).tolist(),
        "Boiler": draw.normal(92, 1, len(rows)).round(2).tolist(),
        "Grind": draw.normal(3, 1, len(rows)).round(2).tolist(),
        "Heater %": draw.uniform(30, 90, len(rows)).round(1).tolist(),
        "Taste": [str(5 + row % 4) if end else "" for row, end in zip(rows, last, strict=True)],
        "Result": ["served" if end else "" for end in last],
    }


def write(path: Path, columns: dict[str, list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def test_it_is_the_reward_and_not_observed(command: Any, shots: dict[str, list[Any]], tmp_path: Path) -> None:
    write(tmp_path / "log.csv", shots)
    told = " ".join(command("init", "log.csv").out.split())
    assert "rewards Taste (it stands in last rows of episodes only, as a score of the whole does" in told
    assert "served (12 rows): termination (the episode is scored there, so that it is over)" in told
    assert "lack cells" not in told
    assert "is missing" not in told
    written = (tmp_path / "config.yaml").read_text("utf-8")
    section = yaml.safe_load(written)["dataset"]
    assert section["columns"]["rewards"] == "Taste"
    assert section["end_reasons"] == {"served": "termination"}
    assert "candidate: obs: [Boiler, Grind]\n" in written


def test_ids_alone_end_what_is_scored(command: Any, shots: dict[str, list[Any]], tmp_path: Path) -> None:
    del shots["Result"]
    write(tmp_path / "log.csv", shots)
    command("init", "log.csv")
    written = (tmp_path / "config.yaml").read_text("utf-8")
    assert yaml.safe_load(written)["dataset"]["last_rows_are"] == "termination"
    (tmp_path / "config.yaml").write_text(written.replace("obs: TODO", "obs: [Boiler, Grind]"))
    code, out, _ = command("data", "check", "-c", "config.yaml")
    assert code == 0
    assert "only last rows of episodes have a reward; it is 0 in all" in out
    assert "12: all terminated" in out


def test_a_gap_elsewhere_is_told_alone(command: Any, shots: dict[str, list[Any]], tmp_path: Path) -> None:
    """The rows without a score are no errors beside it."""
    shots["Boiler"][3] = ""
    write(tmp_path / "log.csv", shots)
    words = ["--columns", "obs=Boiler,Grind", "--columns", "actions=Heater %", "--columns", "rewards=Taste"]
    words += ["--columns", "end_reasons=Result", "--columns", "episode_ids=Shot", "--end-reasons", "served=termination"]
    _, out, _ = command("data", "check", "log.csv", *words)
    assert "Errors (1)" in out
    assert "obs [values.nan]: 1 value is NaN" in " ".join(out.split())


def test_scores_by_a_flag_of_ends() -> None:
    rows = np.arange(40)
    done = rows % 10 == 9
    score = np.where(done, rows * 1.5, np.nan)
    columns = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "quality": score, "done": done.astype(int)}
    guesses = guess_fields(columns)
    assert guesses.column_of("rewards") == "quality"
    assert guesses.late == ("quality",)
    gap = {**columns, "quality": np.where(rows % 10 == 5, np.nan, rows * 1.5)}
    assert guess_fields(gap).late == ()


def test_several_scores_are_left_to_the_user() -> None:
    rows = np.arange(40)
    score = np.where(rows % 10 == 9, rows * 1.5, np.nan)
    columns = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "taste": score, "foam": -score, "shot": rows // 10}
    guess = next(guess for guess in guess_fields(columns).fields if guess.field == "rewards")
    assert guess.candidates == (("taste",), ("foam",))
    assert guess.why == "taste, foam stand in last rows of episodes only, as scores of the whole do"


def test_a_cost_at_the_end_keeps_its_sign_open() -> None:
    """Which of the two is better is not guessed from where it stands."""
    rows = np.arange(40)
    columns = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "shot": rows // 10}
    columns["penalty"] = np.where(rows % 10 == 9, rows * 1.5, np.nan)
    guesses = guess_fields(columns)
    assert (guesses.column_of("rewards"), guesses.rewards_are) == ("penalty", "costs")
    money = {name: values for name, values in columns.items() if name != "penalty"} | {"Total EUR": columns["penalty"]}
    assert guess_fields(money).column_of("rewards") is None


def test_a_configuration_is_answered_in_its_own_words(
    command: Any, shots: dict[str, list[Any]], tmp_path: Path
) -> None:
    shots["Boiler"][:40] = [""] * 40
    write(tmp_path / "log.csv", shots)
    columns = {"obs": ["Boiler", "Grind"], "actions": "Heater %", "rewards": "Taste", "episode_ids": "Shot"}
    section = {"source": "file", "path": "log.csv", "columns": columns, "last_rows_are": "termination"}
    config = {"algo": "bc", "total_timesteps": 2, "dataset": {**section, "missing": "drop"}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    for words in (["split", "-o", "a.npz", "b.npz"], ["convert", "c.npz"]):
        out = command("data", *words, "-c", "c.yaml").out
        assert "  note: 12 last rows of episodes count as terminations (last_rows_are: termination)\n" in out
        assert "\n  warning: 40 of 72 rows left out: a value is missing there (missing: drop)" in out


@pytest.fixture
def rides(shots: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Twelve rides, late at their ends, which one of them slid past."""
    rides = {"Ride": shots["Shot"], "Speed": shots["Boiler"], "Lever %": shots["Heater %"]}
    rides |= {"Energy kWh": shots["Grind"], "Late s": shots["Taste"]}
    ends = ["" if text == "" else "arrived" for text in shots["Result"]]
    return rides | {"Event": [*ends[:-1], "overrun"]}


def test_being_late_is_no_score_to_be_raised(command: Any, rides: dict[str, list[Any]], tmp_path: Path) -> None:
    write(tmp_path / "log.csv", rides)
    told = " ".join(command("init", "log.csv").out.split())
    assert "rewards TODO: [Energy kWh, Late s] or Late s or Energy kWh (Late s looks like a cost" in told
    assert "rewards_are TODO: costs (lower is better) or rewards" in told
    assert "actions Lever % (named like controls)" in told
    assert "overrun (1 row): termination (the episode is scored there" in told
    written = (tmp_path / "config.yaml").read_text("utf-8")
    assert "each times what one unit of it is worth:\n    # rewards: [0.24*Energy kWh, 0.02*Late s]\n" in written
    assert "  # at_termination: {overrun: -100}\n" in written


def test_no_success_is_shown_as_a_failure(command: Any, rides: dict[str, list[Any]], tmp_path: Path) -> None:
    rides["Event"][-1] = "arrived"
    write(tmp_path / "log.csv", rides)
    command("init", "log.csv")
    assert "at_termination" not in (tmp_path / "config.yaml").read_text("utf-8")
