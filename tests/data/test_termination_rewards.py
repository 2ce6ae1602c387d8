"""`at_termination`: what terminating costs, where the log does not say it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.config import TrainConfig

# Three episodes of three rows: frost ends the first, a fault the second, the day the third.
REASONS = ["", "", "Frost", "", "", "fault", "", "", "evening"]
MEANINGS: dict[str, Any] = {"frost": "termination", "fault": "termination", "evening": "truncation"}
COSTS = np.arange(1.0, 10.0)
COLUMNS = {"end_reasons": "why"}


def table() -> dict[str, Any]:
    return {
        "obs_0": np.linspace(0.0, 1.0, 9),
        "actions_0": np.linspace(-1.0, 1.0, 9),
        "rewards": COSTS.copy(),
        "why": np.array(REASONS, dtype=object),
    }


def loaded(**said: Any) -> TransitionDataset:
    return TransitionDataset.from_table(table(), COLUMNS, end_reasons=MEANINGS, **said)


class TestAdding:
    def test_to_every_termination_and_to_no_other_row(self) -> None:
        assert loaded(at_termination=-100).rewards.tolist() == [1, 2, -97, 4, 5, -94, 7, 8, 9]

    def test_of_costs_it_is_a_cost(self) -> None:
        data = loaded(at_termination=100, rewards_are="costs")
        assert data.rewards.tolist() == [-1, -2, -103, -4, -5, -106, -7, -8, -9]
        assert "100 added to the cost of 2 terminations" in data.notes

    def test_by_reason_whatever_its_capitals(self) -> None:
        data = loaded(at_termination={"frost": -50.0})
        assert data.rewards.tolist() == [1, 2, -47, 4, 5, 6, 7, 8, 9]
        assert "frost -50 added to the reward of 1 termination" in data.notes
        assert "FROST -50 added to the reward of 1 termination" in loaded(at_termination={"FROST": -50.0}).notes

    def test_what_is_named_like_a_cost_is_perhaps_one(self) -> None:
        said: dict[str, Any] = {"end_reasons": MEANINGS, "at_termination": 4}
        tram = {**table(), "Energy kWh": COSTS, "Late s": COSTS}
        del tram["rewards"]
        columns = {**COLUMNS, "rewards": ["0.24*Energy kWh", "0.02*Late s"]}
        way = "If 0.24*Energy kWh + 0.02*Late s is a cost, say rewards_are: costs. Right where"
        assert any(way in note for note in TransitionDataset.from_table(tram, columns, **said).notes)
        signed = {**columns, "rewards": ["Energy kWh", "-Late s"]}
        for told in (TransitionDataset.from_table(tram, signed, **said), loaded(at_termination=4)):
            assert any("ending is rewarded. Right where" in note for note in told.notes)

    @pytest.mark.parametrize(("given", "costs"), [(100, False), (-100, True)])
    def test_an_end_that_is_rewarded_is_warned_of(self, given: float, costs: bool) -> None:
        """It may be a goal; of a failure, the sign is the wrong one."""
        data = loaded(at_termination=given, rewards_are="costs" if costs else "rewards")
        (note,) = [note for note in data.notes if "ending is rewarded" in note]
        assert note.startswith("warning: ")
        assert note.endswith("a number above zero, as costs are" if costs else "a number below zero")

    def test_to_flags_as_well_as_to_reasons(self) -> None:
        arrays = {"obs": np.zeros((4, 1)), "actions": np.linspace(-1, 1, 4)[:, None], "rewards": np.zeros(4)}
        flags = {"terminations": np.array([0, 1, 0, 0]), "truncations": np.array([0, 0, 0, 1])}
        data = TransitionDataset.from_table(arrays | flags, at_termination=-5.0)
        assert data.rewards.tolist() == [0, -5, 0, 0]

    def test_returns_of_the_file_are_of_other_rewards(self) -> None:
        data = TransitionDataset.from_table(
            table() | {"returns_to_go": COSTS}, COLUMNS, end_reasons=MEANINGS, at_termination=-1.0
        )
        assert data.returns_to_go is None
        assert any("returns_to_go are of other rewards, and left out" in note for note in data.notes)

    def test_the_given_table_is_left_as_it_was(self) -> None:
        given = table()
        TransitionDataset.from_table(given, COLUMNS, end_reasons=MEANINGS, at_termination=-100)
        assert (given["rewards"] == COSTS).all()


class TestRefusing:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (float("nan"), "must be finite"),
            (float("-inf"), "must be finite"),
            (True, "must not be true"),
            ("much", "must be a number"),
            ({}, "no text is given"),
            ({"frost": "much"}, "'frost': must be a number"),
        ],
    )
    def test_what_is_no_number(self, given: Any, told: str) -> None:
        with pytest.raises(DataError, match="at_termination") as raised:
            loaded(at_termination=given)
        assert told in str(raised.value)

    def test_reasons_where_no_column_tells_them(self) -> None:
        arrays = {"obs": np.zeros((4, 1)), "actions": np.linspace(-1, 1, 4)[:, None], "rewards": np.zeros(4)}
        with pytest.raises(DataError, match="tells reasons apart, so say which column holds them"):
            TransitionDataset.from_table(arrays | {"terminations": [0, 1, 0, 1]}, at_termination={"frost": -5.0})

    @pytest.mark.parametrize("text", ["frosst", "evening"])
    def test_texts_that_no_row_terminates_with(self, text: str) -> None:
        with pytest.raises(DataError, match=f"'{text}' is none of end_reasons that mean termination"):
            loaded(at_termination={text: -5.0})

    def test_a_text_that_may_come_later(self) -> None:
        """What the log has never seen may be named all the same, once its meaning is said."""
        with pytest.raises(DataError, match=r"if it may yet come, say so: end_reasons: {speed trip: termination}"):
            loaded(at_termination={"speed trip": -5.0})
        with pytest.raises(DataError, match="termination") as raised:
            loaded(at_termination={"evening": -5.0})
        assert "may yet come" not in str(raised.value)

    def test_two_numbers_for_one_text(self) -> None:
        with pytest.raises(DataError, match="'FROST' is given two numbers"):
            loaded(at_termination={"frost": -5.0, "FROST": -6.0})

    def test_rewards_that_stand_in_the_next_row(self) -> None:
        with pytest.raises(DataError, match="at_termination: with rewards_at: next"):
            loaded(at_termination=-5.0, rewards_at="next")

    def test_in_a_configuration_texts_that_end_nothing(self) -> None:
        values = {"source": "file", "path": "log.csv", "end_reasons": MEANINGS, "columns": COLUMNS}
        config = {"algo": "bc", "total_timesteps": 1}
        with pytest.raises(ConfigError, match=r"'frosst' is none of end_reasons .*did you mean 'frost'"):
            TrainConfig.parse(config | {"dataset": values | {"at_termination": {"frosst": -1}}})
        with pytest.raises(ConfigError, match="'evening' is none of end_reasons that mean termination"):
            TrainConfig.parse(config | {"dataset": values | {"at_termination": {"evening": -1}}})
        with pytest.raises(ConfigError, match="at_termination: tells reasons apart"):
            TrainConfig.parse(
                config | {"dataset": {"source": "file", "path": "log.csv", "at_termination": {"frost": -1}}}
            )

    def test_yaml_numbers_are_texts(self) -> None:
        section = FileDatasetConfig.model_validate(
            {"path": "log.csv", "end_reasons": {2: "termination"}, "at_termination": {2: -1}}
        )
        assert section.at_termination == {"2": -1.0}
