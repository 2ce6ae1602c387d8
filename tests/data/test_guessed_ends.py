"""Guesses from what columns hold, not from their names: what ends episodes, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import examine
from rl_training.data.formats import read_table
from rl_training.data.guesses import Guess
from rl_training.data.guessing import guess_fields
from rl_training.data.reason_guesses import guess_reasons, lengths_by_reason, only_at_ends
from rl_training.data.value_looks import repeats
from rl_training.reading_choices import EndReasons, TableChoices

ROWS = 120
EPISODES = np.arange(ROWS) // 20
LAST = np.arange(ROWS) % 20 == 19
NOTHING = np.zeros(0, dtype=np.bool_)


def log(**more: Any) -> dict[str, Any]:
    wave = np.sin(np.arange(ROWS))
    return {"obs": wave, "cmd": wave**2, "reward": wave**3, **more}


def guessed(columns: dict[str, Any], field: str, *, exact: bool = False) -> Guess | None:
    return next((guess for guess in guess_fields(columns, exact_names=exact).fields if guess.field == field), None)


class TestFlagsByTheirRows:
    def test_one_in_last_rows_alone_marks_terminations(self) -> None:
        for name in ("tripped", "zzz"):
            found = guessed(
                log(run=EPISODES, timelimit=LAST * (EPISODES > 2), **{name: LAST * (EPISODES < 3)}), "terminations"
            )
            assert found is not None
            assert found.columns == (name,)
            assert "1 in last rows of episodes only, 3 of 5; if it marks cuts, call it truncations" in found.why

    def test_one_that_marks_every_end_is_of_either_kind(self) -> None:
        found = guessed(log(run=EPISODES, zzz=LAST.astype(int)), "dones")
        assert found is not None
        assert found.columns == ("zzz",)

    def test_an_alarm_in_the_middle_is_no_end(self) -> None:
        alarm = (np.arange(ROWS) % 20 > 15).astype(int)
        found = guessed(log(run=EPISODES, alarm=alarm), "terminations")
        assert found is None or not found.is_clear

    def test_one_row_alone_needs_a_word(self) -> None:
        once = LAST * (EPISODES == 1)
        for name, clear in (("fault", True), ("zzz", False)):
            found = guessed(log(run=EPISODES, **{name: once.astype(int)}), "terminations")
            assert (found is not None and found.is_clear) is clear


class TestCounters:
    def test_an_array_that_counts_and_starts_again_is_the_step(self) -> None:
        arrays = log(**{"perf/q": np.arange(ROWS) % 20, "perf/interlock": (LAST & (EPISODES < 2)).astype(int)})
        del arrays["reward"]
        step = guessed(arrays, "step", exact=True)
        assert step is not None
        assert step.columns == ("perf/q",)
        ends = guessed(arrays, "terminations", exact=True)
        assert ends is not None
        assert ends.columns == ("perf/interlock",)
        rewards = guessed(arrays, "rewards", exact=True)
        assert rewards is not None
        assert not {"perf/q", "perf/interlock"} & {n for c in rewards.candidates for n in c}

    def test_one_that_starts_again_inside_episodes_is_none(self) -> None:
        """Flags tell where episodes end: what counts to five is something else."""
        gear = np.arange(ROWS) % 5
        assert guessed(log(gear=gear, done=LAST.astype(int)), "step") is None
        assert guessed(log(gear=gear, crashed=LAST * (EPISODES < 2), timeout=LAST * (EPISODES > 1)), "step") is None
        assert guessed(log(gear=np.arange(ROWS) % 20, crashed=LAST * (EPISODES < 2)), "step") is not None

    def test_a_saw_of_another_stride_is_none(self) -> None:
        assert guessed(log(saw=np.arange(ROWS) % 20 * 5.0), "step") is None


class TestReasons:
    def test_one_length_is_a_time_limit(self) -> None:
        found = guess_reasons(
            {"day complete": 44, "overheat": 3}, {"day complete": [96] * 44, "overheat": [12, 40, 95]}
        )
        assert found["day complete"].meaning == "truncation"
        assert found["day complete"].why == "all after 96 rows, as by a time limit"
        assert (found["overheat"].meaning, found["overheat"].why) == ("termination", "")

    @pytest.mark.parametrize("text", ["complete", "Completed", "finished", "batch done"])
    def test_that_it_is_over_says_not_why(self, text: str) -> None:
        found = guess_reasons({text: 4}, {text: [10, 20, 30, 40]})[text]
        assert found.meaning == "termination"
        assert found.why.startswith("in doubt")

    def test_a_goal_leaves_no_doubt(self) -> None:
        found = guess_reasons({"goal complete": 4}, {"goal complete": [10, 20, 30, 40]})["goal complete"]
        assert (found.meaning, found.why) == ("termination", "")

    @pytest.mark.parametrize(("text", "meaning"), [("effluent ok", "termination"), ("running", None)])
    def test_what_stands_in_last_rows_alone_does_not_go_on(self, text: str, meaning: str | None) -> None:
        cells = np.array(["", "", text, "", text, "", "", ""], dtype=object)
        ends = only_at_ends(cells, np.array([0, 0, 0, 1, 1, 2, 2, 2]))
        assert ends == {text}
        assert guess_reasons({text: 2}, {text: [3, 2]}, at_ends=ends)[text].meaning == meaning
        assert guess_reasons({text: 2}, {text: [3, 2]})[text].meaning == "ongoing"
        cells[0] = text
        assert only_at_ends(cells, np.array([0, 0, 0, 1, 1, 2, 2, 2])) == set()

    def test_lengths_leave_out_rows_that_come_twice(self) -> None:
        cells = np.array(["", "", "up", "", "", "", "up"], dtype=object)
        doubled = np.array([False, False, False, False, True, False, False])
        assert lengths_by_reason(cells, None, doubled) == {"up": [3, 3]}
        assert lengths_by_reason(cells, np.array([0, 0, 0, 1, 1, 1, 1]), NOTHING) == {"up": [3, 4]}

    def test_rows_that_come_twice(self) -> None:
        mixed = np.empty(4, dtype=object)
        mixed[:] = [[1, 2], [1, 2], "x", "x"]
        columns = {
            "a": np.array([1.0, 1.0, np.nan, np.nan]),
            "b": mixed,
            "c": np.array([[1, 2], [1, 2], [3, 4], [3, 5]]),
        }
        assert repeats(columns).tolist() == [False, True, False, False]
        assert not repeats({**columns, "d": np.zeros(2)}).any()
        assert repeats({"a": np.zeros(1), "b": np.zeros((1, 2))}).tolist() == [False]

    def test_the_doctor_says_what_to_write(self) -> None:
        why = np.where(LAST, "day complete", "").astype(object)
        table = {**log(run=EPISODES, why=why), "action": np.cos(np.arange(ROWS))}
        del table["cmd"]
        columns = {"episode_ids": "run", "end_reasons": "why"}
        raw = read_table(table, columns, TableChoices({"day complete": "termination"}))
        (found,) = (finding for finding in examine(raw).findings if finding.code == "flags.time-limit")
        assert "write `day complete: truncation` under end_reasons" in found.advice

    def test_a_reason_that_once_comes_at_that_length_is_no_limit(self) -> None:
        """A crash in the last possible row is a crash."""
        ids = np.repeat(np.arange(8), 24)[:-9]
        last = np.r_[ids[1:] != ids[:-1], True]
        why = np.where(last, "harvest", "running").astype(object)
        why[[23, len(ids) - 1]] = "Crashed (DO lost)"  # after 24 rows, and after 15
        wave = np.sin(np.arange(len(ids)))
        table = {"obs": wave, "action": wave / 2, "reward": wave, "run": ids, "why": why}
        meanings: EndReasons = {"harvest": "termination", "Crashed (DO lost)": "termination", "running": "ongoing"}
        raw = read_table(table, {"episode_ids": "run", "end_reasons": "why"}, TableChoices(meanings))
        (found,) = (finding for finding in examine(raw).findings if finding.code == "flags.time-limit")
        assert "write `harvest: truncation` under end_reasons" in found.advice


class TestMoney:
    def test_it_may_be_a_cost(self) -> None:
        for name in ("Aufwand [EUR]", "energy €", "spent_$"):
            columns = {**log(run=EPISODES), name: np.cos(np.arange(ROWS))}
            del columns["reward"]
            rewards = guessed(columns, "rewards")
            assert rewards is not None
            assert rewards.candidates == ((name,),)
            assert "if it is a cost, where lower is better, say rewards_are: costs" in rewards.why


class TestMessages:
    """A text that was reported before and after something happened tells no episodes apart, and ends none."""

    @pytest.mark.parametrize("name", ["Meldung", "alarm_text", "Fehlercode", "Statut", "mensaje", "Sammelstörung"])
    def test_of_that_name_are_no_ids(self, name: str) -> None:
        texts = np.array(["a", "b", "c", "d", "e", "f"], dtype=object)[EPISODES]
        assert guessed(log(**{name: texts}), "episode_ids") is None
        found = guessed(log(zzz=texts), "episode_ids")
        assert found is not None
        assert found.columns == ("zzz",)

    def test_an_id_of_events_may_be_one(self) -> None:
        found = guessed(log(event_id=EPISODES), "episode_ids")
        assert found is not None
        assert found.columns == ("event_id",)

    def test_two_words_leave_it_open(self) -> None:
        texts = np.where(np.arange(ROWS) < 90, "as usual", "sensor lost")
        found = guessed(log(zzz=texts), "episode_ids")
        assert found is not None
        assert (found.is_clear, found.candidates) == (False, (("zzz",),))
        found = guessed(log(zzz=np.where(np.arange(ROWS) < 90, "day 1", "day 2")), "episode_ids")
        assert found is not None
        assert found.is_clear

    def test_a_fault_that_lasts_ends_nothing(self) -> None:
        lasting = np.where((np.arange(ROWS) > 50) & (np.arange(ROWS) < 60), "Störung", "ok")
        assert guessed(log(Meldung=lasting), "end_reasons") is None
        found = guessed(log(Meldung=np.where(LAST, "Störung", "ok")), "end_reasons")
        assert found is not None
        assert found.columns == ("Meldung",)


class TestControls:
    @pytest.mark.parametrize(
        "names",
        [
            ("Heizung", "Klappe"), ("Dachklappe", "Bodenheizung"), ("Lüfter", "Umwälzpumpe"), ("TempSollwert",),
            ("Magnetventil_1", "Magnetventil_2"), ("pump", "damper"), ("temp_setpoint",), ("vanne", "chauffage"),
        ],
    )  # fmt: skip
    def test_are_known_in_several_languages(self, names: tuple[str, ...]) -> None:
        wave = np.sin(np.arange(ROWS))
        columns = {"Innentemp": wave, "Feuchte": wave**2, **dict.fromkeys(names, wave**3), "reward": wave, "d": LAST}
        found = guessed(columns, "actions")
        assert found is not None
        assert found.columns == names
        seen = guessed(columns, "obs")
        assert seen is not None
        assert seen.columns == ("Innentemp", "Feuchte")

    @pytest.mark.parametrize("name", ["heater_temp", "pump_pressure", "Heizung_Istwert", "Heizungstemperatur"])
    def test_what_is_measured_there_is_none(self, name: str) -> None:
        wave = np.sin(np.arange(ROWS))
        found = guessed({name: wave, "valve": wave**2, "reward": wave, "d": LAST}, "actions")
        assert found is not None
        assert found.columns == ("valve",)


class TestArraysOfSeveralLengths:
    """More rows of flags are looked at than of anything else, and the arrays of one file need not be of one length."""

    @staticmethod
    def columns(looked_at: int, flags: int, cuts: int) -> dict[str, Any]:
        rows = np.arange(looked_at)
        return {
            "observations": np.ones((looked_at, 2)),
            "actions": np.zeros((looked_at, 1)),
            "rewards": np.ones(looked_at),
            "terminations": np.arange(flags) % 10 == 9,
            "truncations": np.arange(cuts) % 30 == 29,
            "score": np.where(rows % 10 == 9, 1.5, np.nan),
            "count": rows % 10,
        }

    @pytest.mark.parametrize("looked_at", [0, 1, 40, 61])
    @pytest.mark.parametrize(("flags", "cuts"), [(60, 60), (60, 61), (1, 60), (0, 0)])
    def test_flags(self, looked_at: int, flags: int, cuts: int) -> None:
        for exact_names in (True, False):
            guesses = guess_fields(self.columns(looked_at, flags, cuts), exact_names=exact_names)
            assert guesses.column_of("actions") == "actions"

    @pytest.mark.parametrize("ids", [0, 1, 40, 61])
    def test_ids(self, ids: int) -> None:
        columns = {"episode_ids": np.arange(ids) // 10, **self.columns(50, 50, 50), "why": np.array([""] * 49 + ["x"])}
        for exact_names in (True, False):
            guess_fields({name: columns[name] for name in columns if "nations" not in name}, exact_names=exact_names)

    def test_a_score_in_last_rows_is_found_among_those_that_both_have(self) -> None:
        assert guess_fields(self.columns(40, 60, 60), exact_names=True).late == ("score",)

    @pytest.mark.parametrize("ids", [0, 1, 30, 50])
    def test_reasons(self, ids: int) -> None:
        cells = np.array((["run"] * 9 + ["goal"]) * 4)
        found = lengths_by_reason(cells, np.arange(ids) // 10, NOTHING)
        assert sum(map(sum, found.values())) == min(ids, len(cells))
