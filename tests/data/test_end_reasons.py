"""Text that says why episodes ended, words for flags, and the bounds of actions that are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import FileDatasetConfig, infer_spaces, load_dataset
from rl_training.data.doctor import examine
from rl_training.data.formats import read, read_table
from rl_training.data.formats.clocks import clock_of
from rl_training.data.formats.times import Times, steps_of
from rl_training.data.reason_guesses import meaning_of
from rl_training.data.settling import settle
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.reading_choices import TableChoices
from rl_training.validation import explain

MEANINGS: dict[str, Any] = {"goal": "termination", "crash": "termination", "timeout": "truncation"}
TEXTS = ["", "", "Goal", "", "timeout ", "", "", "crash", "", ""]
COLUMNS = {"end_reasons": "why"}

A_NUMBER = "a number that float32 holds (at most 3.3e+38)"


def table(**changes: Any) -> dict[str, Any]:
    rows = np.arange(10)
    return {"obs": rows + 0.5, "action": rows / 20, "reward": rows, "why": np.array(TEXTS, dtype=object), **changes}


def ends(dataset: TransitionDataset) -> tuple[list[int], list[int]]:
    return np.flatnonzero(dataset.terminations).tolist(), np.flatnonzero(dataset.truncations).tolist()


def refusal(given: Any, columns: Any = None, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_table(given, columns or COLUMNS, **options)
    return str(caught.value)


class TestReasons:
    def test_texts_become_flags_and_are_counted(self) -> None:
        dataset = TransitionDataset.from_table(table(), COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([2, 7], [4])
        told = "column 'why' tells of 2 terminations (Goal 1, crash 1) and 1 truncation (timeout 1)"
        assert dataset.notes == (told,)

    @pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
    def test_files(self, name: str, tmp_path: Path) -> None:
        lines = [f"{i}.5,{i / 20},{i},{text}" for i, text in enumerate(TEXTS)]
        if name == "log.csv":
            (tmp_path / name).write_text("\n".join(["obs,action,reward,why", *lines]))
        else:
            pa = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            given = {**table(), "why": [text or None for text in TEXTS]}
            parquet.write_table(pa.table(given), tmp_path / name)
        dataset = TransitionDataset.load(tmp_path / name, columns=COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([2, 7], [4])
        notes = [str(finding) for finding in examine(read(tmp_path / name, COLUMNS, TableChoices(MEANINGS))).findings]
        assert any("tells of 2 terminations (Goal 1, crash 1)" in note for note in notes)

    def test_texts_that_never_tell_of_an_end_are_warned_of(self) -> None:
        texts = ["runs"] * len(TEXTS)
        dataset = TransitionDataset.from_table(
            {**table(), "why": texts}, columns=COLUMNS, end_reasons={"runs": "ongoing"}
        )
        told = "warning: column 'why' tells of no end (runs: all of it means ongoing); say which text ends an episode"
        assert any(note.startswith(told) for note in dataset.notes)

    def test_codes_are_texts(self) -> None:
        codes = np.array([0, 0, 2, 0, 1, 0, 0, 2, 0, 0])
        said = {"0": "ongoing", "1": "truncation", "2": "termination"}
        dataset = TransitionDataset.from_table(table(why=codes), COLUMNS, end_reasons=said)  # type: ignore[arg-type]
        assert ends(dataset) == ([2, 7], [4])
        floats = np.where(codes == 0, np.nan, codes)
        dataset = TransitionDataset.from_table(table(why=floats), COLUMNS, end_reasons=said)  # type: ignore[arg-type]
        assert ends(dataset) == ([2, 7], [4])

    def test_a_reason_in_every_row_of_an_episode_counts_once(self) -> None:
        given = table(why=np.repeat(["goal", "timeout"], 5), episode=np.repeat([7, 3], 5))
        dataset = TransitionDataset.from_table(given, COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([4], [9])
        assert dataset.notes[0].endswith("it says the same in all rows of an episode: the last of them counts")
        shuffled = {name: np.asarray(values)[::-1] for name, values in given.items()} | {"step": np.arange(10)[::-1]}
        assert ends(TransitionDataset.from_table(shuffled, COLUMNS, end_reasons=MEANINGS)) == ([9], [4])

    @pytest.mark.parametrize("by", ["ids", "steps", "days"])
    def test_episodes_that_repeat_it_are_told_by_whatever_tells_them(self, by: str) -> None:
        rows, why = np.arange(96), np.repeat(["goal", "timeout", "goal", "crash"], 24)
        dates = np.datetime64("2025-03-01") + rows * np.timedelta64(1, "h")
        steps = {"ids": {"run": rows // 24}, "steps": {"t": rows % 24}, "days": {"t": dates}}[by]
        given = {"obs": rows * 1.0, "action": rows % 3, "reward": rows % 2, "why": why, **steps}
        columns = COLUMNS | ({"episode_ids": "run"} if by == "ids" else {"step": "t"})
        more: Any = {"episode_each": "day"} if by == "days" else {}
        dataset = TransitionDataset.from_table(given, columns, end_reasons=MEANINGS, **more)
        assert ends(dataset) == ([23, 71, 95], [47])
        assert "it says the same in all rows of an episode: the last of them counts" in dataset.notes[0]

    def test_where_nothing_tells_episodes_it_is_warned_of(self) -> None:
        told = "warning: column 'why': 10 of 10 rows end an episode; if it is repeated through an episode, give"
        repeated = table(why=np.repeat(["goal", "timeout"], 5))
        assert any(told in note for note in TransitionDataset.from_table(repeated, COLUMNS, end_reasons=MEANINGS).notes)
        apart = table(why=["goal", "crash"] * 5)  # as where each row is an episode
        assert len(TransitionDataset.from_table(apart, COLUMNS, end_reasons=MEANINGS).notes) == 1

    def test_copies_of_a_last_row_are_copies_where_every_row_has_the_reason(self) -> None:
        given = table(
            why=np.repeat(["goal", "timeout"], 5), episode=np.repeat([7, 3], 5), step=np.tile(np.arange(5), 2)
        )
        rows = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9, 9]
        doubled = {name: np.asarray(values)[rows] for name, values in given.items()}
        dataset = TransitionDataset.from_table(doubled, COLUMNS, end_reasons=MEANINGS, duplicates="drop")
        assert ends(dataset) == ([4], [9])
        assert dataset.notes[0].startswith("column 'why' tells of 1 termination (goal 1) and 1 truncation (timeout 1);")
        assert "3 rows left out: each is a copy of the row before (duplicates: drop)" in dataset.notes
        assert "all 3 rows are exact copies" in refusal(doubled, end_reasons=MEANINGS)

    @pytest.mark.parametrize(("row", "text"), [(20, ""), (24, ""), (29, ""), (24, "crash")])
    def test_one_cell_that_differs_changes_no_other_episode(self, row: int, text: str) -> None:
        """Five episodes of ten rows with their reason in all, but for one row of the third."""
        why = np.repeat(np.array(["timeout", "crash", "timeout", "crash", "timeout"], dtype=object), 10)
        why[row] = text
        rows = np.arange(50)
        given = {"obs": rows, "action": rows / 50, "reward": rows, "why": why, "episode": rows // 10}
        dataset = TransitionDataset.from_table(given, COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([19, 39], [9, 29, 49])
        assert "it says the same in nearly all rows of an episode: the last of them counts" in dataset.notes[0]

    def test_short_episodes_among_many_that_repeat_their_reason(self) -> None:
        why = ["goal"] * 4 + ["crash"] * 3 + ["", "goal", "goal"]
        given = table(why=np.array(why, dtype=object), episode=np.array([0] * 4 + [1] * 3 + [2] * 3))
        assert ends(TransitionDataset.from_table(given, COLUMNS, end_reasons=MEANINGS)) == ([3, 6, 9], [])

    def test_several_ends_inside_an_id_stay(self) -> None:
        """As of ids that count days."""
        dataset = TransitionDataset.from_table(table(episode=np.zeros(10)), COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([2, 7], [4, 9])

    def test_ends_in_row_after_row_of_an_id_are_refused(self) -> None:
        why = np.array(["goal", "crash", "timeout", "crash", "goal"] * 2, dtype=object)
        said = refusal(table(why=why, episode=np.repeat([7, 3], 5)), end_reasons=MEANINGS)
        assert said == (
            "column 'why': the episode named 3 ends with 'goal' at row 5 and again with 'crash' in its next row, row 6,"
            " and 7 more rows do so; keep the reason in the last row of each episode, or leave out episode_ids if every"
            " row is an episode"
        )
        alone = TransitionDataset.from_table(table(why=why), COLUMNS, end_reasons=MEANINGS)
        assert alone.episode_lengths().tolist() == [1] * 10

    @pytest.mark.parametrize("kind", ["csv", "csv of floats", "parquet", "floats", "narrow", "objects"])
    def test_long_codes_stay_apart(self, kind: str, tmp_path: Path) -> None:
        codes = [None, None, 1000001, None, 1000002, None, None, 1000001, None, None]
        said: dict[Any, Any] = {1000001: "termination", 1000002: "truncation"}
        if kind.startswith("csv"):
            dot = ".0" * (kind != "csv")
            lines = [f"{i}.5,{i / 20},{i},{'' if c is None else f'{c}{dot}'}" for i, c in enumerate(codes)]
            (tmp_path / "log.csv").write_text("\n".join(["obs,action,reward,why", *lines]))
            dataset = TransitionDataset.load(tmp_path / "log.csv", columns=COLUMNS, end_reasons=said)
        elif kind == "parquet":
            pa = pytest.importorskip("pyarrow")
            given = table() | {"why": pa.array(codes, pa.int64())}
            dataset = TransitionDataset.from_table(pa.table(given), COLUMNS, end_reasons=said)
        else:
            dtype: Any = {"floats": np.float64, "narrow": np.float32, "objects": object}[kind]
            dataset = TransitionDataset.from_table(table(why=np.array(codes, dtype=dtype)), COLUMNS, end_reasons=said)
        assert ends(dataset) == ([2, 7], [4])

    def test_fractions_are_texts_as_they_are_written(self) -> None:
        for dtype in (np.float32, np.float64):
            codes = np.array([0.1 if row in (2, 7) else np.nan for row in range(10)], dtype=dtype)
            given = TransitionDataset.from_table(table(why=codes), COLUMNS, end_reasons={0.1: "termination"})  # type: ignore[dict-item]
            assert ends(given) == ([2, 7], [])

    def test_time_alone_needs_no_other_flag(self) -> None:
        dataset = TransitionDataset.from_table(table(step=np.arange(10)), COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([2, 7], [4])

    def test_dones_beside_them_mark_ends(self) -> None:
        dones = np.isin(np.arange(10), [2, 4, 7, 9])
        dataset = TransitionDataset.from_table(table(done=dones), COLUMNS, end_reasons=MEANINGS)
        assert ends(dataset) == ([2, 7], [4, 9])

    def test_what_a_text_means_must_be_said(self) -> None:
        assert refusal(table()) == (
            "columns.end_reasons: say what the texts of column 'why' mean, end_reasons: {Goal: termination} (or"
            " truncation, ongoing) for each; it holds Goal (1 row), timeout (1 row), crash (1 row)"
        )
        assert refusal(table(), end_reasons={"goal": "termination", "time_out": "truncation"}) == (
            "column 'why': 'timeout' at row 4 is not among end_reasons (nor is 'crash'); 'time_out' there is in no row"
            " of the data, and probably means 'timeout'"
        )
        said: dict[str, Any] = {"goal": "termination", "crash": "termination", "time out": "truncation"}
        mistyped = table(why=["", "", "goal", "", "timeout", "", "", "crash", "", "time out"])
        assert refusal(mistyped, end_reasons=said) == (
            "column 'why': 'timeout' at row 4 is not among end_reasons; did you mean 'time out'?; say what it means,"
            " end_reasons: {timeout: termination} (or truncation, ongoing)"
        )

    def test_other_mistakes(self) -> None:
        said = {"end_reasons": MEANINGS}
        assert "name the column that holds these texts as well" in refusal(table(), {"obs": "obs"}, **said)
        assert "cannot mean 'terminated'; did you mean 'termination'?" in refusal(
            table(), end_reasons={"goal": "terminated"}
        )
        both = {**COLUMNS, "terminations": "flag"}
        assert refusal(table(flag=np.zeros(10)), both, **said) == (
            "columns.terminations: columns.end_reasons tells of ends as well; keep one of the two"
        )
        assert "is given two meanings" in refusal(table(), end_reasons={"goal": "termination", "GOAL": "ongoing"})

    def test_a_file_must_have_them(self, tmp_path: Path) -> None:
        TransitionDataset.from_table(table(), COLUMNS, end_reasons=MEANINGS).save(tmp_path / "log.npz")
        with pytest.raises(DataError, match=r"columns\.end_reasons: no column 'why'"):
            TransitionDataset.load(tmp_path / "log.npz", columns=COLUMNS)

    @pytest.mark.parametrize(
        ("text", "meaning"),
        [
            ("crash", "termination"), ("Goal reached", "termination"), ("time_limit", "truncation"),
            ("time limit reached", "truncation"), ("aborted by operator", "truncation"), ("", "ongoing"),
            ("GRENZWERT - Abbruch", "termination"), ("pressure limit exceeded", "termination"),
            ("purge abort", None), ("pressure limit", None), ("step limit", "truncation"), ("limit", "truncation"),
            ("aborted: crash", "termination"), ("operator interrupt", "truncation"),
            ("running", "ongoing"), ("N/A", "ongoing"), ("E17", None), ("xyzzy", None),
            ("no", "ongoing"), ("no fault", None), ("not done", None), ("non-terminal", None),
            ("failed", "termination"), ("power failure", "termination"), ("fallen", "termination"),
            ("game over", "termination"), ("timed out", "truncation"), ("winner", "termination"),
            ("window", None), ("drawdown", None), ("gameplay", None), ("lossless", None), ("connection lost", None),
            ("Fehler", "termination"), ("Ziel erreicht", "termination"), ("Abbruch", "truncation"),
            ("abgestürzt", "termination"), ("Zeitlimit", "truncation"), ("Zeit abgelaufen", "truncation"),
            ("Zeitüberschreitung", "truncation"), ("Abbruch durch Bediener", "truncation"), ("läuft", "ongoing"),
            ("pressure limit reached", None), ("torque limit reached", None), ("max temperature limit", None),
            ("max temperature", None), ("maximum pressure reached", None), ("limit reached", "truncation"),
            ("pressure limit shutdown", None), ("Abbruch durch X17", None), ("aborted for maintenance", "truncation"),
            ("aborted by collision", "termination"), ("interrupted by alarm", "termination"),
            ("Abbruch durch Kollision", "termination"), ("aborted by user", "truncation"),
            ("deadline exceeded", "truncation"), ("horizon reached", "truncation"), ("max steps reached", "truncation"),
            ("maximum steps", "truncation"), ("maximale Schritte erreicht", "truncation"), ("max", "truncation"),
            ("Limite de temps", "truncation"), ("max time", "truncation"),
            ("kein Fehler", None), ("Verbindung verloren", None), ("Tagesende", None), ("échec", "termination"),
        ],
    )  # fmt: skip
    def test_guesses(self, text: str, meaning: str | None) -> None:
        assert meaning_of(text) == meaning


class TestSection:
    def parse(self, **values: Any) -> FileDatasetConfig:
        return FileDatasetConfig.model_validate({"path": "a.csv", **values})

    def complaint(self, **values: Any) -> str:
        with pytest.raises(ValidationError) as caught:
            self.parse(**values)
        return explain(caught.value, FileDatasetConfig)

    def test_texts_that_yaml_takes_for_numbers(self) -> None:
        section = self.parse(end_reasons={2: "termination", None: "ongoing", 1.5: "truncation"})
        assert section.end_reasons == {"2": "termination", "": "ongoing", "1.5": "truncation"}
        assert "put the text in quotes" in self.complaint(end_reasons={True: "termination"})

    def test_mistakes(self) -> None:
        assert "goal is still TODO; say termination, truncation or" in self.complaint(end_reasons={"goal": "TODO"})
        assert "'goal' cannot mean 'end'" in self.complaint(end_reasons={"goal": "end"})
        assert "are given together or not at all" in self.complaint(action_low=0.0)


class TestFlagWords:
    @pytest.mark.parametrize(
        "words", [("Yes", "no"), ("Y", "N"), ("TRUE", "false"), ("on", "off"), ("t", "f"), ("WAHR", "FALSCH")]
    )
    def test_they_are_flags_where_flags_are_expected(self, words: tuple[str, str]) -> None:
        cells = np.array([words[0] if row in (3, 9) else words[1] for row in range(10)], dtype=object)
        given = {name: values for name, values in table().items() if name != "why"}
        assert ends(TransitionDataset.from_table({**given, "terminated": cells}))[0] == [3, 9]

    def test_elsewhere_advice_is_given(self) -> None:
        given = {**table(), "obs": np.array(["y"] * 10, dtype=object), "terminated": np.zeros(10)}
        assert refusal(given, {"obs": "obs"}) == (
            "column 'obs': 'y' at row 0 is not a number; write 1 and 0 for such letters, or yes and no (10 such cells)"
        )


class TestBounds:
    def file(self, tmp_path: Path) -> Path:
        rows = np.arange(10)
        given = {"obs": rows, "u": rows / 4, "v": -rows, "reward": rows, "done": rows == 9}
        lines = [",".join(given), *(",".join(str(float(v)) for v in row) for row in zip(*given.values(), strict=True))]
        (tmp_path / "log.csv").write_text("\n".join(lines))
        return tmp_path / "log.csv"

    def test_they_are_used(self, tmp_path: Path) -> None:
        path = self.file(tmp_path)
        said: dict[str, Any] = {"columns": {"actions": ["u", "v"]}, "dones_are": "terminations"}
        dataset = TransitionDataset.load(path, **said, action_low=[0, -20], action_high=[5.0, 0.0])
        assert infer_spaces(dataset) == Spaces(1, (0.0, -20.0), (5.0, 0.0))
        one = TransitionDataset.load(path, **said, action_low=-20.0, action_high=20.0)
        assert infer_spaces(one) == Spaces(1, (-20.0, -20.0), (20.0, 20.0))

    def test_an_action_outside_is_refused_by_its_row(self, tmp_path: Path) -> None:
        path, said = self.file(tmp_path), {"actions": ["u", "v"]}
        told = r"-4 at row 4, column 'v' .* is outside the bounds \[-3, 3\]; the data reach from -9 to 0 there: give"
        with pytest.raises(DataError, match=told):
            TransitionDataset.load(path, columns=said, action_low=-3, action_high=3)
        raw = settle(read(path, said), action_low=-3, action_high=3)
        (finding,) = examine(raw).at("error")
        assert (finding.code, finding.place and finding.place.row) == ("actions.outside", 4)
        assert "give wider bounds (action_low, action_high); the data reach from -9 to 0." in finding.advice

    def test_mistakes(self) -> None:
        given = {**table(), "done": np.zeros(10)}
        for low, high, complaint in (
            ([0, 0], [1, 1], "action_low: has 2 values, and actions have 1 column; give one for each"),
            (1.0, 1.0, "action_low 1 must be below action_high 1"),
            (0.0, None, "action_low and action_high are given together or not at all"),
            ("a", 1.0, "action_low: must be a number, got 'a'"),
        ):
            assert refusal(given, {"obs": "obs"}, action_low=low, action_high=high) == complaint

    def test_an_environment_has_its_own(self, tmp_path: Path) -> None:
        section = FileDatasetConfig(path=self.file(tmp_path), columns={"actions": "u"}, action_low=0.0, action_high=3.0)
        with pytest.raises(ConfigError, match=r"dataset.action_low: Env-v0 has bounds of its own, \[0, 2.5\]"):
            load_dataset(section, "Env-v0", Spaces(1, (0.0,), (2.5,)))


def test_a_mapping_of_columns_is_enough() -> None:
    assert read_table(table(), COLUMNS, TableChoices(MEANINGS)).arrays["terminations"].sum() == 2


class TestTimes:
    @pytest.mark.parametrize(
        "times",
        [
            ["01.03.2024 08:00:00", "01.03.2024 08:00:01", "01.03.2024 08:00:03"],
            ["2024/03/01 08:00:00", "2024/03/01 08:00:01", "2024/03/01 08:00:03"],
            ["2024-03-01T08:00:00+01:00", "2024-03-01T07:00:01Z", "2024-03-01T09:00:03+02:00"],
            ["8:00:00", "8:00:01", "08:00:03"],
            ["12/31/2024 11:59:58 PM", "12/31/2024 11:59:59 pm", "1/1/2025 12:00:01 AM"],
            ["31/12/2024, 23:59:58", "31/12/2024, 23:59:59", "1/1/2025, 0:00:01"],
            ["1.3.2024 8:00:00", "1.3.2024 8:00:01", "1.3.2024 8:00:03"],
        ],
    )
    def test_how_they_may_be_written(self, times: list[str]) -> None:
        steps = steps_of("time", np.array(times, dtype=object))
        assert np.diff(clock_of("time", steps).at).tolist() == [1.0, 2.0]

    def test_what_could_be_either_is_refused(self) -> None:
        with pytest.raises(
            DataError,
            match=r"'03/01/2024 08:00' at row 5 is neither a number nor a time; days or months may come first, and no "
            r"row tells which; write times as",
        ):
            steps_of("time", np.array(["03/01/2024 08:00"], dtype=object), 5)

    def test_what_comes_first_is_told_once_for_all_parts(self) -> None:
        times = Times()
        times.steps("time", np.array(["03/31/2024 08:00"], dtype=object))
        assert times.steps("time", np.array(["04/01/2024 08:00"], dtype=object))["second"] == 1_711_958_400
        with pytest.raises(DataError, match=r"'31/03/2024 08:00' at row 0 is neither a number nor a time; write times"):
            times.steps("time", np.array(["31/03/2024 08:00"], dtype=object))

    def test_a_time_of_day_among_dates_is_refused(self) -> None:
        rule = "some rows hold a date and others a time of day alone, as at row 1; write all with a date"
        with pytest.raises(DataError, match=rule):
            steps_of("time", np.array(["2024-01-01 8:00", "8:15"], dtype=object))

    @pytest.mark.parametrize("text", ["13:00 PM", "0:30 AM", "31.02.2024 08:00", "12/13/14 08:00", "08:00 XM"])
    def test_no_times(self, text: str) -> None:
        with pytest.raises(DataError, match="is neither a number nor a time"):
            steps_of("time", np.array([text], dtype=object))


class TestCosts:
    def test_rewards_are_their_negative(self) -> None:
        given = {**table(), "done": np.zeros(10)}
        dataset = TransitionDataset.from_table(given, {"rewards": "reward"}, rewards_are="costs")
        assert dataset.rewards.tolist() == (-np.arange(10.0)).tolist()
        assert "column 'reward': costs, where lower is better; rewards are their negative" in dataset.notes
        named = {**{name: values for name, values in given.items() if name != "reward"}, "cost": np.arange(10.0)}
        raw = read_table(named, {"rewards": "cost"})
        assert "rewards.cost" in {finding.code for finding in examine(raw).findings}
        assert "rewards.cost" not in {finding.code for finding in examine(settle(raw, rewards_are="costs")).findings}

    def test_a_running_sum_is_noticed(self) -> None:
        rows = np.arange(60)
        given = {"obs": np.sin(rows), "action": np.cos(rows), "done": rows % 10 == 9}
        draw = np.random.default_rng(0)
        sums = np.concatenate([draw.uniform(0, 1, 10).cumsum() for _ in range(6)])
        for rewards, told in ((sums, True), (-sums, True), (draw.uniform(0, 1, 60), False)):
            codes = {finding.code for finding in examine(read_table({**given, "reward": rewards})).findings}
            assert ("rewards.running-sum" in codes) is told


class TestEndsWithoutAReason:
    """Where most episodes tell why they ended, one whose last row says that it goes on has perhaps lost its end."""

    def notes(self, cut: dict[int, int], episodes: int = 6) -> list[str]:
        """Of episodes of five rows, some after fewer."""
        rows = [(f"B{e}", step) for e in range(episodes) for step in range(cut.get(e, 5))]
        why = np.array(["harvest" if step == 4 else "Running" for _, step in rows], dtype=object)
        count = np.arange(len(rows))
        given = {"obs": count / 9, "action": count % 2, "reward": count, "why": why}
        given |= {"batch": np.array([name for name, _ in rows], dtype=object)}
        columns = {"end_reasons": "why", "episode_ids": "batch"}
        meanings: Any = {"harvest": "termination", "running": "ongoing"}
        return [n for n in TransitionDataset.from_table(given, columns, end_reasons=meanings).notes if "Running" in n]

    def test_are_told_by_id_and_row(self) -> None:
        (told,) = self.notes({1: 3, 4: 2})
        where = "B1 after 3 rows, row 7, B4 after 2 rows, row 19"
        assert told == f"warning: 2 episodes end with 'Running', as if rows were missing: {where}"

    def test_a_reason_that_only_last_rows_have_is_hardly_ongoing(self) -> None:
        ids, last = np.arange(30) // 5, np.arange(30) % 5 == 4
        why = np.where(last, np.where(ids < 5, "effluent ok", "time over"), "")
        given = {"obs": np.arange(30) / 9, "action": ids % 2, "reward": ids, "batch": ids, "why": why}
        columns = {"end_reasons": "why", "episode_ids": "batch"}
        meanings: Any = {"effluent ok": "ongoing", "time over": "truncation"}
        (told,) = (
            note
            for note in TransitionDataset.from_table(given, columns, end_reasons=meanings).notes
            if "ongoing" in note
        )
        assert told == (
            "warning: 5 episodes end with 'effluent ok', which stands in last rows alone and is said to be ongoing, so"
            " that rows seem to be missing; if the task ended there, say termination, if it was cut, truncation"
        )

    def test_the_newest_may_still_be_going_on(self) -> None:
        (told,) = self.notes({5: 2})
        assert told == "1 episode ends with 'Running', as if it was still going on: B5 after 2 rows, row 26"

    def test_nothing_is_told_where_all_is_well_or_reasons_are_rare(self) -> None:
        assert not self.notes({})
        assert not self.notes({0: 3, 1: 3, 2: 3, 3: 3})
