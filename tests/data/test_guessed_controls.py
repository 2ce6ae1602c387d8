"""Columns whose names are like those of controls: proposed as actions, and not as what is observed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training.data.dataset_loaders import infer_spaces
from rl_training.data.guess_words import is_control, is_money, may_be_control
from rl_training.data.guessing import guess_fields
from rl_training.data.offline_dataset import TransitionDataset


@pytest.mark.parametrize(
    "name",
    [
        "compr_pct",
        "drive_cmd",
        "feed_setpoint",
        "valve3",
        "heat_power",
        "action_x",
        "ctrl2",
        "drive_speed_set",
        "defrost",
        "Lever %",
        "Fahrhebel",
        "Setting 2",
    ],
)
def test_may_be_controls(name: str) -> None:
    assert may_be_control(name)


@pytest.mark.parametrize(
    "name", ["level_pct", "humidity_percent", "room_C", "demand", "set", "heater_temp", "12", "power"]
)
def test_are_none(name: str) -> None:
    assert not may_be_control(name)


@pytest.mark.parametrize(
    "name",
    [
        "Agitation rpm SP",
        "SP_temp",
        "TempSP",
        "level set point",
        "Soll-Drehzahl",
        "Druck_soll",
        "flow cmd",
        "speed_SP2",
    ],
)
def test_set_points_are_controls_whatever_they_are_of(name: str) -> None:
    assert is_control(name)
    values = np.random.default_rng(0).normal(size=(60, 5))
    columns = dict(zip(["Glucose (g/l)", "OD600", name, "Feed pump", "gain"], values.T, strict=True))
    guesses = {guess.field: guess for guess in guess_fields(columns).fields}
    assert name in guesses["actions"].columns
    assert all(name not in candidate for candidate in guesses["obs"].candidates)


@pytest.mark.parametrize("name", ["SpO2", "sp. gravity", "SP", "soll", "disposal", "pressure set"])
def test_words_that_only_look_like_set_points(name: str) -> None:
    assert not is_control(name)


@pytest.mark.parametrize("name", ["set_reps", "set_power_kW"])
def test_what_begins_with_set_is_asked_about(name: str) -> None:
    """The repetitions of a set of exercises were taken for what is set, without a question."""
    assert may_be_control(name)
    assert not is_control(name)
    values = np.random.default_rng(0).normal(size=(60, 4))
    columns = dict(zip(["pulse", name, "weight_kg", "gain"], values.T, strict=True))
    guess = next(guess for guess in guess_fields(columns).fields if guess.field == "actions")
    assert not guess.is_clear
    assert any(name in candidate for candidate in (guess.columns, *guess.candidates))
    assert not may_be_control("set_number")


def test_they_come_first_among_what_may_be_done() -> None:
    values = np.random.default_rng(0).normal(size=(60, 5))
    columns = dict(zip(["room_C", "demand", "compr_pct", "defrost", "gain"], values.T, strict=True))
    columns["shift"] = np.repeat(np.arange(6), 10)
    guesses = {guess.field: guess for guess in guess_fields(columns).fields}
    both = ("room_C", "demand", "compr_pct", "defrost")
    assert guesses["actions"].candidates == (("compr_pct", "defrost"), both)
    assert guesses["obs"].candidates == (("room_C", "demand"), both)
    assert guesses["actions"].why.endswith("compr_pct, defrost are named like a control: check")
    assert not guesses["actions"].is_clear


def test_measurements_come_without_them_first() -> None:
    values = np.random.default_rng(0).normal(size=(60, 4))
    columns = dict(zip(["room_temp", "demand", "compr_pct", "reward"], values.T, strict=True))
    obs = next(guess for guess in guess_fields(columns).fields if guess.field == "obs")
    assert obs.candidates == (("room_temp", "demand"), ("room_temp", "demand", "compr_pct"), ("room_temp",))


def cellar(**more: np.ndarray) -> dict[str, np.ndarray]:
    """A vent that is named like a control, a valve that is not, and what that uses."""
    rng = np.random.default_rng(0)
    vent, glycol = rng.uniform(0.0, 60.0, (2, 200))
    state = np.cumsum(rng.normal(size=(3, 200)), axis=1)
    columns = {"T tank": state[0], "pressure": state[1], "Glycol": glycol, "vent": vent, "kWh": 0.028 * glycol + 0.4}
    return {**columns, "reward": state[2], **more}


def test_what_has_the_unit_and_range_of_a_control_may_be_one_too() -> None:
    guesses = guess_fields(cellar(), units={"Glycol": "%", "vent": "%", "T tank": "°C"})
    actions, obs = (guess for guess in guesses.fields if guess.field in ("actions", "obs"))
    actions, obs = (actions, obs) if actions.field == "actions" else (obs, actions)
    assert actions.columns == ("vent",)
    assert actions.candidates == (("Glycol", "vent"),)
    assert actions.why.endswith("Glycol has the unit and range of vent: set, too?")
    assert obs.candidates[0] == ("T tank", "pressure")
    assert obs.why.endswith("kWh follows from Glycol in the same row, as if known only after acting")


def test_what_follows_a_control_in_a_curve_is_told_too() -> None:
    vent = np.round(cellar()["vent"])
    obs = next(g for g in guess_fields(cellar(vent=vent, kWh=0.6 + 9.0 * vent**2.2)).fields if g.field == "obs")
    assert obs.why.endswith("kWh follows from vent in the same row, as if known only after acting")
    assert "kWh" not in obs.candidates[0]


def test_units_in_names_tell_it_too() -> None:
    columns = {{"Glycol": "Glycol [%]", "vent": "vent (%)"}.get(name, name): of for name, of in cellar().items()}
    actions = next(guess for guess in guess_fields(columns).fields if guess.field == "actions")
    assert actions.candidates == (("Glycol [%]", "vent (%)"),)


@pytest.mark.parametrize(("name", "unit"), [("Glycol", "°C"), ("Glycol", ""), ("humidity", "%")])
def test_nothing_is_said_of_another_unit_or_of_measurements(name: str, unit: str) -> None:
    columns = {name if column == "Glycol" else column: values for column, values in cellar().items()}
    actions = next(guess for guess in guess_fields(columns, units={name: unit, "vent": "%"}).fields if guess.columns)
    assert (actions.field, actions.columns, actions.candidates) == ("actions", ("vent",), ())


def test_a_level_in_per_cent_is_no_control() -> None:
    columns = cellar(Glycol=np.clip(30.0 + cellar()["T tank"], 0.0, 100.0))
    guesses = guess_fields(columns, units={"Glycol": "%", "vent": "%"})
    actions = next(guess for guess in guesses.fields if guess.field == "actions")
    assert (actions.columns, actions.candidates) == (("vent",), ())


def test_nothing_is_said_of_a_state_that_a_control_was_set_by() -> None:
    columns = cellar()
    columns["vent"] = 2.0 * columns["T tank"]
    obs = next(guess for guess in guess_fields(columns).fields if guess.field == "obs")
    assert "T tank follows" not in obs.why
    assert "T tank" in obs.candidates[0]


@pytest.mark.parametrize("name", ["part.npz", "part.h5"])
def test_a_part_keeps_the_bounds_of_the_whole(name: str, tmp_path: Path) -> None:
    """What was said once is not guessed anew from fewer rows."""
    rows = [f"{i / 7},{10 * (i % 4)},1,{int(i % 10 == 9)}" for i in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["x,u_pct,reward,done", *rows]) + "\n")
    columns = {"obs": "x", "actions": "u_pct"}
    whole = TransitionDataset.load(tmp_path / "log.csv", columns=columns, action_low=0, action_high=100)
    whole.select(np.arange(2)).save(tmp_path / name) if name.endswith("npz") else whole.save(tmp_path / name)
    spaces = infer_spaces(TransitionDataset.load(tmp_path / name))
    assert (spaces.action_low, spaces.action_high) == ((0.0,), (100.0,))


def test_a_price_is_seen_and_not_paid() -> None:
    """What one unit is worth; what was paid stays a cost."""
    values = np.random.default_rng(0).normal(size=(60, 4))
    columns = dict(zip(["room_temp", "price_EUR", "compressor_pct", "cost_EUR"], values.T, strict=True))
    guesses = {guess.field: guess for guess in guess_fields(columns).fields}
    assert guesses["rewards"].columns == ("cost_EUR",)
    assert "price_EUR" in guesses["obs"].columns
    assert not is_money("Preis EUR")
    assert is_money("price paid [EUR]")
    assert is_money("total price EUR")
