"""Episodes by the calendar, the time as an observation, and what last rows mean."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from rl_training.cli.data_of_config import reading_of
from rl_training.data.column_names import named_spaces
from rl_training.data.dataset_loaders import FileDatasetConfig, infer_spaces
from rl_training.data.doctor import examine
from rl_training.data.formats import read as read_raw
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import Provenance
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError
from rl_training.reading_choices import TableChoices
from rl_training.time_features import advanced, features, formula

COLUMNS: dict[str, Any] = {"obs": ["x"], "actions": "u", "rewards": "r", "step": "when"}
BERLIN = ZoneInfo("Europe/Berlin")


def log(start: str = "2025-03-01 00:00:00", rows: int = 96, hours: float = 1.0) -> dict[str, list[Any]]:
    first = datetime.fromisoformat(start)
    return table([str(first + timedelta(hours=hours * i)) for i in range(rows)])


def table(when: list[str]) -> dict[str, list[Any]]:
    n = len(when)
    return {"when": when, "x": [i / 10 for i in range(n)], "u": [(i % 5) / 5 for i in range(n)], "r": [1.0] * n}


def load(cells: dict[str, list[Any]], **said: Any) -> TransitionDataset:
    return TransitionDataset.from_table(cells, COLUMNS | said.pop("columns", {}), **said)


def write_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


def notes(dataset: TransitionDataset) -> str:
    return "; ".join(dataset.notes)


class TestEpisodeEach:
    @pytest.mark.parametrize(
        ("each", "lengths"),
        [("hour", [1] * 2), ("day", [24] * 4), ("week", [48, 48]), ("month", [96])],
    )
    def test_lengths(self, each: Any, lengths: list[int]) -> None:
        if each == "hour":
            data = load(log(rows=8, hours=0.25), episode_each=each)
            assert data.episode_lengths().tolist() == [4, 4]
            return
        data = load(log(), episode_each=each)  # 1 March 2025 was a Saturday
        assert data.episode_lengths().tolist() == lengths
        assert data.truncations.sum() == len(lengths)
        assert not data.terminations.any()

    def test_months_have_their_own_lengths(self) -> None:
        data = load(log("2024-02-01 00:00:00", rows=60, hours=24), episode_each="month")
        assert data.episode_lengths().tolist() == [29, 31]

    def test_parts_are_told(self) -> None:
        data = load(log("2025-03-01 06:00:00", rows=60), episode_each="day")
        assert data.episode_lengths().tolist() == [18, 24, 18]
        told = "the first begins at 2025-03-01 06:00:00 and the last stops at 2025-03-03 17:00:00: part of a day"
        assert told in notes(data)
        assert "part of a day" not in notes(load(log(), episode_each="day"))

    def test_episodes_are_named_by_their_dates(self) -> None:
        data = load(log(), episode_each="day")
        assert data.in_file is not None
        assert [data.in_file.episode_name(row) for row in (0, 24, 95)] == ["2025-03-01", "2025-03-02", "2025-03-04"]
        week = load(log(), episode_each="week")
        assert week.in_file is not None
        assert week.in_file.episode_name(95) == "week of 2025-03-03"

    def test_ids_end_episodes_as_well(self) -> None:
        ids = {"run": ["a"] * 30 + ["b"] * 66}
        data = load({**log(), **ids}, columns={"episode_ids": "run"}, episode_each="day")
        assert data.episode_lengths().tolist() == [24, 6, 18, 24, 24]

    def test_a_hole_cuts_a_day(self) -> None:
        columns = {name: values[:30] + values[33:] for name, values in log().items()}
        data = load(columns, episode_each="day", last_rows_are="termination")
        assert data.episode_lengths().tolist() == [24, 6, 15, 24, 24]
        assert data.terminations[data.episode_ends].tolist() == [True, False, True, True, True]

    def test_rows_out_of_order_are_sorted(self) -> None:
        columns = {name: values[48:] + values[:48] for name, values in log().items()}
        data = load(columns, episode_each="day")
        assert data.episode_lengths().tolist() == [24] * 4
        assert np.diff(data.obs[24:48, 0]).tolist() == pytest.approx([0.1] * 23, abs=1e-5)

    @pytest.mark.parametrize(
        ("columns", "said", "fault"),
        [
            ({"when": list(range(96))}, {"episode_each": "day"}, "episode_each: column 'when' holds no dates"),
            (
                {"when": ["08:15:00", "08:30:00"] * 48},
                {"observe_time": ["day"]},
                "observe_time: column 'when' holds no",
            ),
            (
                {},
                {"episode_each": "day", "columns": {"step": "x"}},
                "episode_each: column 'x' holds no dates; name one",
            ),
        ],
    )
    def test_steps_that_are_no_dates_are_refused(self, columns: Any, said: Any, fault: str) -> None:
        with pytest.raises(DataError, match=fault):
            load({**log(), **columns}, **said)

    def test_without_a_step_it_is_refused(self) -> None:
        columns = {"obs": ["x"], "actions": "u", "rewards": "r", "episode_ids": "run"}
        with pytest.raises(DataError, match="episode_each: needs a column with the date and time of each row"):
            TransitionDataset.from_table({**log(), "run": [0] * 96}, columns, episode_each="day")

    def test_days_of_one_row_are_refused(self) -> None:
        with pytest.raises(DataError, match="every episode would have a single row; choose a longer one"):
            load(log(rows=9, hours=24), episode_each="day")

    @pytest.mark.parametrize(
        ("said", "fault"),
        [
            (
                {"episode_each": "days"},
                "episode_each: must be 'hour', 'day', 'week' or 'month', got 'days'; did you mean 'day'?",
            ),
            ({"observe_time": ["month"]}, "observe_time: 'month' is not known; choose from day, week, year"),
            ({"observe_time": ["day", "day"]}, "observe_time: names a period twice; keep one"),
        ],
    )
    def test_words_that_are_not_known_are_refused(self, said: Any, fault: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load(log(), **said)
        assert str(caught.value) == fault

    def test_arrays_have_no_dates(self, tmp_path: Path) -> None:
        load(log(), episode_each="day").save(tmp_path / "log.npz")
        with pytest.raises(DataError, match=r"episode_each: is for the text of a table's column of dates"):
            TransitionDataset.load(tmp_path / "log.npz", episode_each="day")

    def test_without_it_the_way_is_told(self) -> None:
        with pytest.raises(DataError, match="give terminations, or episode_ids, or say episode_each: day"):
            load(log())


class TestFormats:
    def test_all_tables_alike(self, tmp_path: Path) -> None:
        pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
        said: dict[str, Any] = {"episode_each": "day", "observe_time": ["day", "week", "year"]}
        own = load(log(), **said)
        frame = pandas.DataFrame(log()).assign(when=lambda f: pandas.to_datetime(f["when"]))
        frame.to_parquet(tmp_path / "log.parquet")
        alike = [
            TransitionDataset.from_table(frame, COLUMNS, **said),
            TransitionDataset.from_table(arrow.Table.from_pandas(frame), COLUMNS, **said),
            TransitionDataset.load(tmp_path / "log.parquet", columns=COLUMNS, **said),
            TransitionDataset.load(write_csv(tmp_path / "log.csv", log()), columns=COLUMNS, **said),
        ]
        assert {data.fingerprint() for data in alike} == {own.fingerprint()}

    def test_a_folder_of_files(self, tmp_path: Path) -> None:
        whole = log("2025-03-01 06:00:00", rows=96)
        (tmp_path / "log").mkdir()
        for number in range(4):
            part = {name: values[24 * number : 24 * number + 24] for name, values in whole.items()}
            write_csv(tmp_path / "log" / f"{number}.csv", part)
        data = TransitionDataset.load(tmp_path / "log", columns=COLUMNS, episode_each="day", observe_time=["day"])
        assert data.fingerprint() == load(whole, episode_each="day", observe_time=["day"]).fingerprint()
        assert "goes on in the next file" not in notes(data)

    def test_a_file_of_numbers_beside_one_of_dates_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "log").mkdir()
        write_csv(tmp_path / "log" / "a.csv", log())
        write_csv(tmp_path / "log" / "b.csv", {**log(), "when": list(range(96))})
        with pytest.raises(DataError, match="column 'when': some rows hold times and others numbers, as at row 0"):
            TransitionDataset.load(tmp_path / "log", columns=COLUMNS, episode_each="day")


class TestSummerTime:
    def zoned(self, start: datetime, rows: int) -> dict[str, list[Any]]:
        """An hour between all rows, by the clock in Berlin with its offset."""
        first = start.replace(tzinfo=BERLIN).timestamp()
        return table([datetime.fromtimestamp(first + 3600 * i, BERLIN).isoformat() for i in range(rows)])

    @pytest.mark.parametrize(("day", "hours"), [(datetime(2025, 3, 30), 23), (datetime(2025, 10, 26), 25)])
    def test_with_offsets_days_are_whole(self, day: datetime, hours: int) -> None:
        data = load(self.zoned(day - timedelta(days=1), 24 + hours + 24), episode_each="day", observe_time=["day"])
        assert data.episode_lengths().tolist() == [24, hours, 24]
        noon = data.obs[24 + hours - 12]  # twelve hours before midnight, on the wall
        assert noon[1:].tolist() == pytest.approx([0.0, -1.0], abs=1e-6)
        assert "skips" not in notes(data)

    @pytest.mark.parametrize("offset", ["+05:00", "-08:00", "Z"])
    @pytest.mark.parametrize("gap", ["T", " "])
    def test_of_a_csv_file_the_clock_is_its_own(self, offset: str, gap: str, tmp_path: Path) -> None:
        """Four whole days by the clock that wrote them, whatever day it was in Greenwich."""
        written = table([when.replace(" ", gap) + offset for when in log()["when"]])
        said: dict[str, Any] = {"columns": COLUMNS, "episode_each": "day", "observe_time": ["day"]}
        data = TransitionDataset.load(write_csv(tmp_path / "a.csv", written), **said)
        assert data.episode_lengths().tolist() == [24] * 4
        np.testing.assert_allclose(data.obs[0, 1:], [0.0, 1.0], atol=1e-6)
        np.testing.assert_allclose(data.obs[6, 1:], [1.0, 0.0], atol=1e-6)

    def test_without_them_the_hour_that_comes_again_is_a_cut(self) -> None:
        bare = [when[:19] for when in self.zoned(datetime(2025, 10, 25), 73)["when"]]
        data = load(table(bare), episode_each="day", last_rows_are="termination")
        assert data.episode_lengths().tolist() == [24, 3, 22, 24]
        assert data.terminations[data.episode_ends].tolist() == [True, False, True, True]
        assert "the clock goes back by up to an hour after row 26, as summer time ends" in notes(data)
        assert data.in_file is not None
        assert data.in_file.episode_name(30) == "2025-10-26 (2)"

    def test_without_them_quarters_of_the_hour_come_again(self) -> None:
        first = datetime(2025, 10, 25, tzinfo=BERLIN).timestamp()
        bare = [datetime.fromtimestamp(first + 900 * i, BERLIN).isoformat()[:19] for i in range(73 * 4)]
        data = load(table(bare), episode_each="day")
        assert data.episode_lengths().tolist() == [96, 12, 88, 96]
        assert "the clock goes back by up to an hour after row 107" in notes(data)

    def test_other_times_that_come_twice_are_refused(self) -> None:
        columns = log("2025-10-17 00:00:00", rows=48)
        with pytest.raises(DataError, match="2025-10-18 02:00:00 occurs twice in the episode named 2025-10-18"):
            load({**columns, "when": columns["when"][:27] + columns["when"][26:47]}, episode_each="day")

    def test_without_them_the_hour_that_is_left_out_is_a_hole(self) -> None:
        bare = [when[:19] for when in self.zoned(datetime(2025, 3, 29), 71)["when"]]
        data = load(table(bare), episode_each="day")
        assert data.episode_lengths().tolist() == [24, 2, 21, 24]

    def test_zones_of_pandas_and_parquet_are_local(self, tmp_path: Path) -> None:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        plain = self.zoned(datetime(2025, 3, 29), 71)
        when = pandas.to_datetime(plain["when"], utc=True).tz_convert("Europe/Berlin")
        frame = pandas.DataFrame(plain).assign(when=when)
        frame.to_parquet(tmp_path / "log.parquet")
        said: dict[str, Any] = {"episode_each": "day", "observe_time": ["day"]}
        for data in (
            TransitionDataset.from_table(frame, COLUMNS, **said),
            TransitionDataset.load(tmp_path / "log.parquet", columns=COLUMNS, **said),
        ):
            assert data.fingerprint() == load(plain, **said).fingerprint()


class TestObserveTime:
    def test_formulas(self) -> None:
        when = np.array([datetime.fromisoformat("2025-03-05 06:00:00+00:00").timestamp()])  # a Wednesday
        seconds = {"day": 6 * 3600, "week": 2 * 86400 + 6 * 3600, "year": 63 * 86400 + 6 * 3600}
        lengths = {"day": 86400, "week": 604800, "year": 31557600}
        angles = [2 * np.pi * seconds[period] / lengths[period] for period in ("day", "week", "year")]
        expected = [f(angle) for angle in angles for f in (np.sin, np.cos)]
        assert features(when, ["day", "week", "year"])[0].tolist() == pytest.approx(expected, abs=1e-12)
        assert formula("sin_day") == "sin(2π · seconds since midnight / 86400)"
        assert formula("cos_week") == "cos(2π · seconds since Monday 00:00 / 604800)"
        assert formula("sin_year") == "sin(2π · seconds since 1 January 00:00 / 31557600)"
        assert formula("sin_moon") is None
        later = features(when + 900, ["week", "day"])
        assert advanced(features(when, ["week", "day"]), ["week", "day"], 900) == pytest.approx(later, abs=1e-12)

    def test_behind_what_is_mapped_and_in_successors(self) -> None:
        data = load(log(), episode_each="day", observe_time=["week", "day"])
        assert data.obs.shape == (96, 5)
        hours = 2 * np.pi * np.arange(25) / 24
        assert data.obs[:24, 3:] == pytest.approx(np.stack([np.sin(hours), np.cos(hours)], 1)[:24], abs=1e-6)
        assert data.next_obs[:24, 3:] == pytest.approx(np.stack([np.sin(hours), np.cos(hours)], 1)[1:], abs=1e-6)
        assert data.next_obs[:23].tolist() == data.obs[1:24].tolist()
        assert data.has_next_obs is not None
        assert not data.has_next_obs[23]

    def test_stored_successors_have_it_too(self) -> None:
        columns = {**log(), "x_next": [(i + 1) / 10 for i in range(96)]}
        data = load(columns, columns={"next_obs": ["x_next"]}, episode_each="day", observe_time=["day"])
        assert data.has_next_obs is None
        assert data.next_obs[:23, 1:].tolist() == data.obs[1:24, 1:].tolist()
        assert data.next_obs[23].tolist() == pytest.approx([2.4, 0.0, 1.0], abs=1e-6)

    def test_names_and_dates_stay(self, tmp_path: Path) -> None:
        said: dict[str, Any] = {"episode_each": "day", "observe_time": ["day"], "rewards_are": "costs"}
        path = write_csv(tmp_path / "log.csv", log())
        data = TransitionDataset.load(path, columns=COLUMNS, **said)
        for name in ("new.csv", "new.npz", "new.hdf5", "new.parquet"):
            with pytest.warns(UserWarning, match="kept in") if name == "new.csv" else nullcontext():
                data.save(tmp_path / name)
            again = TransitionDataset.load(tmp_path / name)
            spaces = named_spaces(infer_spaces(again), again)
            assert [(column.name, column.time) for column in spaces.obs_columns] == [
                ("x", ""), ("sin_day", "when"), ("cos_day", "when"),
            ]  # fmt: skip
            assert Spaces.from_json(spaces.to_json()) == spaces
        assert data.provenance is not None
        assert "episode_each: day" in (data.provenance.in_words() or "")

    def test_a_provenance_of_others_tells_nothing(self) -> None:
        assert Provenance("a", options={"observe_time": 3}).time_columns() == {}
        assert Provenance("a", options={"observe_time": ["day", "x"]}).time_columns() == {
            "sin_day": "step", "cos_day": "step",
        }  # fmt: skip

    def test_a_column_of_that_name_is_refused(self) -> None:
        with pytest.raises(DataError, match="observe_time: obs have a column 'sin_day' already; leave out one"):
            load(
                {**log(), "sin_day": [0.0] * 96},
                columns={"obs": ["x", "sin_day"]},
                observe_time=["day"],
                episode_each="day",
            )


class TestLastRows:
    def test_of_ids(self) -> None:
        ids = {"run": [0] * 40 + [1] * 56}
        data = load({**log(), **ids}, columns={"episode_ids": "run"}, last_rows_are="termination")
        assert np.flatnonzero(data.terminations).tolist() == [39, 95]
        assert data.has_next_obs is None
        assert "2 last rows of episodes count as terminations (last_rows_are: termination)" in notes(data)

    def test_of_days_but_for_one_that_is_not_over(self) -> None:
        data = load(log(rows=90), episode_each="day", last_rows_are="termination")
        assert np.flatnonzero(data.terminations).tolist() == [23, 47, 71]
        assert np.flatnonzero(data.truncations).tolist() == [89]
        assert "1 where rows are missing, or the log stops, are cuts" in notes(data)

    def test_flags_and_texts_come_first(self) -> None:
        cut = {"cut": [int(i == 47) for i in range(96)]}
        data = load({**log(), **cut}, columns={"truncations": "cut"}, episode_each="day", last_rows_are="termination")
        assert np.flatnonzero(data.terminations).tolist() == [23, 71, 95]
        texts = {"why": ["timeout" if i == 23 else "" for i in range(96)]}
        said: dict[str, Any] = {"episode_each": "day", "last_rows_are": "termination"}
        data = load({**log(), **texts}, columns={"end_reasons": "why"}, end_reasons={"timeout": "truncation"}, **said)
        assert np.flatnonzero(data.terminations).tolist() == [47, 71, 95]
        assert np.flatnonzero(data.truncations).tolist() == [23]

    def test_arrays_with_ids(self, tmp_path: Path) -> None:
        arrays = {"obs": np.ones((6, 1)), "actions": np.linspace(0, 1, 6)[:, None], "rewards": np.ones(6)}
        np.savez(tmp_path / "log.npz", **arrays, episode_ids=[0, 0, 0, 1, 1, 1])
        data = TransitionDataset.load(tmp_path / "log.npz", last_rows_are="termination")
        assert np.flatnonzero(data.terminations).tolist() == [2, 5]

    def test_where_flags_mark_all_it_is_refused(self) -> None:
        ended = {"end": [int(i % 24 == 23) for i in range(96)]}
        with pytest.raises(DataError, match="last_rows_are: is for episodes that ids or episode_each tell apart"):
            load({**log(), **ended}, columns={"terminations": "end"}, last_rows_are="termination")
        ids = {"run": [i // 24 for i in range(96)]}
        with pytest.raises(DataError, match="last_rows_are: 'dones' marks ends itself; say what it means"):
            load({**log(), **ended, **ids}, columns={"dones": "end", "episode_ids": "run"}, last_rows_are="termination")

    @pytest.mark.parametrize("said", ["termination", "truncation"])
    def test_the_doctor_believes_it(self, said: Any, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "log.csv", log())
        data = TransitionDataset.load(path, columns=COLUMNS, episode_each="day", last_rows_are=said)
        data.save(tmp_path / "log.npz")
        found = [f.code for f in examine(read_raw(tmp_path / "log.npz")).findings]
        assert "flags.time-limit" not in found
        arrays = {**data.to_dict(), "terminations": np.arange(96) % 24 == 23, "truncations": np.zeros(96, dtype=bool)}
        np.savez(tmp_path / "other.npz", **{k: v for k, v in arrays.items() if k != "has_next_obs"})
        (finding,) = (f for f in examine(read_raw(tmp_path / "other.npz")).findings if f.code == "flags.time-limit")
        assert finding.advice.startswith("Does anything carry over into the next episode? Then mark these rows as")
        assert "last_rows_are: termination" in finding.advice


class TestDoctor:
    def raw(self, jump: float = 0.0, **choices: Any) -> Any:
        rng = np.random.default_rng(0)
        rows = 24 * 60
        columns = log(rows=rows)
        walk = np.sin(np.arange(rows) / 9) + 0.01 * rng.normal(size=rows)
        levels = jump * np.repeat(rng.normal(size=60), 24)
        columns |= {"x": (walk + levels).tolist(), "u": rng.uniform(-1, 1, rows).tolist()}
        columns |= {"remark": ["manual" if i % 31 == 7 else "" for i in range(rows)]}
        mapping = COLUMNS | {"end_reasons": "remark"} | choices.pop("columns", {})
        from rl_training.data.formats import read_table

        return read_table(columns, mapping, TableChoices(end_reasons={"manual": "truncation"}, **choices))

    def test_jumps_at_midnight_are_told_as_such(self) -> None:
        (finding,) = (f for f in examine(self.raw(jump=9.0)).findings if f.code == "successors.jump")
        assert "of them lie between two days." in finding.what
        assert finding.advice == "Is each day an episode? Then say episode_each: day."

    def test_reasons_after_which_rows_go_on(self) -> None:
        (finding,) = (f for f in examine(self.raw()).findings if f.code == "flags.going-on")
        assert finding.level == "warning"
        assert "ends by 'manual' are followed by the next step of the same episode" in finding.what
        assert finding.advice == "If so, write `manual: ongoing` under end_reasons."

    def test_dates_among_the_observations(self) -> None:
        raw = self.raw(columns={"obs": ["x", "when"]})
        (finding,) = (f for f in examine(raw).findings if f.code == "values.date")
        assert "a date never comes again" in finding.what
        assert "observe_time: [day]" in finding.advice
        assert not [f for f in examine(self.raw(observe_time=("day",))).findings if f.code == "values.date"]


def test_a_section_and_its_options_say_the_same() -> None:
    said = {"episode_each": "day", "observe_time": "day", "last_rows_are": "termination"}
    section = FileDatasetConfig.model_validate({"source": "file", "path": "log.csv", **said})
    assert section.observe_time == ["day"]
    reading = reading_of(section)
    assert reading.options() == [
        *("--episode-each", "day", "--observe-time", "day", "--last-rows-are", "termination"),
    ]  # fmt: skip
    assert {key: reading.said()[key] for key in said} == said | {"observe_time": ["day"]}


def test_integers_beside_the_time_are_not_rounded_away() -> None:
    cells = log()
    cells["x"] = [2**60 + row for row in range(96)]
    with pytest.raises(
        DataError, match=r"obs: its integers change by less than floats of their size can tell; subtract"
    ):
        load(cells, observe_time=["day"], episode_each="day")
