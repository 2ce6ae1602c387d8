"""Dates that go back: rows out of order are sorted, other logs and clocks put back begin an episode."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.formats.clocks import clock_of
from rl_training.data.formats.times import steps_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError

COLUMNS = {"obs": ["x"], "actions": "u", "rewards": "r", "step": "t", "terminations": "d"}
ROWS = 24
START = datetime(2025, 3, 1, 8)


def line(minute: float, *, value: float | None = None, end: bool | None = None) -> str:
    """A row of the log at a minute; every sixth ends an episode."""
    value, end = minute if value is None else value, minute % 6 == 5 if end is None else end
    return f"{START + timedelta(minutes=minute)},{value},{value / 10},{value},{int(end)}"


def load(path: Path, lines: list[str], **said: str) -> TransitionDataset:
    path.write_text("\n".join(["t,x,u,r,d", *lines]))
    return TransitionDataset.load(path, columns=COLUMNS, **said)


def told(dataset: TransitionDataset) -> str:
    return "\n".join(dataset.notes)


def disorders() -> dict[str, list[int]]:
    rows = list(range(ROWS))
    shuffled = random.Random(0).sample(rows, ROWS)
    return {
        "newest first": rows[::-1],
        "two swapped": [*rows[:8], 9, 8, *rows[10:]],
        "one row late": [*rows[:8], *rows[9:15], 8, *rows[15:]],
        "shuffled": shuffled,
        "the newest page first": [*rows[12:], *rows[:12]],
    }


class TestOutOfOrder:
    @pytest.mark.parametrize("disorder", disorders())
    def test_rows_are_sorted_and_counted(self, disorder: str, tmp_path: Path) -> None:
        order = disorders()[disorder]
        dataset = load(tmp_path / "log.csv", [line(row) for row in order])
        assert dataset.rewards.tolist() == list(range(ROWS))
        assert np.flatnonzero(dataset.terminations).tolist() == [5, 11, 17, 23]
        assert not dataset.truncations.any()
        moved = sum(row != place for place, row in enumerate(order))
        assert f"{moved} rows were out of order: rows are sorted by t" in told(dataset)
        assert "missing" not in told(dataset)

    def test_faults_are_told_by_the_rows_of_the_file(self, tmp_path: Path) -> None:
        lines = [line(row) for row in range(ROWS)][::-1]
        lines[3] = lines[3].replace(",20.0,", ",nan,").replace(",20,", ",nan,")
        with pytest.raises(DataError, match="row 3 of the file"):
            load(tmp_path / "log.csv", lines)

    def test_rows_of_one_date_that_a_flag_parts_stay_apart(self, tmp_path: Path) -> None:
        """An episode ends, and the next begins, within one minute."""
        lines = [*(line(row) for row in range(6)), line(5, value=6, end=False), *(line(row) for row in range(6, 12))]
        for order in (lines, lines[::-1]):
            dataset = load(tmp_path / "log.csv", order)
            assert dataset.episode_lengths().tolist() == [6, 7]
            assert dataset.obs[:7, 0].tolist() == list(range(7))

    def test_copies_are_refused_as_ever(self, tmp_path: Path) -> None:
        """Pages that overlap by a row, the newest first."""
        lines = [*(line(row) for row in range(12, ROWS)), *(line(row) for row in range(13))]
        with pytest.raises(DataError, match="occurs twice in one episode, at rows 0 and 24; the row is an exact copy"):
            load(tmp_path / "log.csv", lines)
        assert len(load(tmp_path / "log.csv", lines, duplicates="drop")) == ROWS

    def test_without_flags_nothing_tells_episodes(self, tmp_path: Path) -> None:
        rows = [line(row).rpartition(",")[0] for row in range(ROWS)][::-1]
        (tmp_path / "log.csv").write_text("\n".join(["t,x,u,r", *rows]))
        columns = {field: column for field, column in COLUMNS.items() if field != "terminations"}
        with pytest.raises(DataError, match="never starts again, and nothing else tells where episodes end"):
            TransitionDataset.load(tmp_path / "log.csv", columns=columns)

    def test_within_each_file_of_a_folder(self, tmp_path: Path) -> None:
        """Files of one time are logs of their own."""
        for name, shift in (("a", 0), ("b", 100)):
            rows = [line(row, value=row + shift) for row in range(12)][::-1]
            (tmp_path / f"{name}.csv").write_text("\n".join(["t,x,u,r,d", *rows]))
        dataset = TransitionDataset.load(tmp_path, columns=COLUMNS)
        assert dataset.rewards.tolist() == [*range(12), *range(100, 112)]
        assert dataset.episode_lengths().tolist() == [6, 6, 6, 6]
        assert "24 rows were out of order" in told(dataset)
        assert "cut where its file ends" not in told(dataset)


class TestAnotherTime:
    @pytest.mark.parametrize("late", [0.0, 0.5])
    def test_a_second_log_of_the_same_time_begins_an_episode(self, late: float, tmp_path: Path) -> None:
        """Two machines one after the other: their rows must not be mixed."""
        first = [line(row, end=False) for row in range(12)]
        second = [line(row + late, value=100 + row, end=row == 11) for row in range(12)]
        dataset = load(tmp_path / "log.csv", first + second)
        assert dataset.rewards.tolist() == [*range(12), *range(100, 112)]
        assert dataset.episode_lengths().tolist() == [12, 12]
        assert "column 't': dates go back in 1 place, after row 11, into a time that rows before cover" in told(dataset)

    def test_a_clock_put_back_by_two_rows_begins_one(self, tmp_path: Path) -> None:
        """As half-hourly rows where summer time ends: 02:00, 02:30, 02:00, 02:30, 03:00."""
        lines = [line(row, end=False) for row in range(12)]
        lines += [line(row - 2, value=row, end=row == 23) for row in range(12, 24)]
        dataset = load(tmp_path / "log.csv", lines)
        assert dataset.episode_lengths().tolist() == [12, 12]
        assert dataset.rewards.tolist() == list(range(24))


OVER_MIDNIGHT = [f"{(22 + row // 2) % 24:02}:{30 * (row % 2):02}" for row in range(10)]


def night(times: list[str]) -> TransitionDataset:
    """Two episodes of as many rows, each of which is told by its own number."""
    rows = 2 * len(times)
    log: dict[str, Any] = {"x": np.arange(rows) * 1.0, "u": np.zeros(rows), "r": np.ones(rows), "t": 2 * times}
    columns = {"obs": "x", "actions": "u", "rewards": "r", "step": "t", "episode_ids": "run"}
    run = np.repeat(["a", "b"], len(times))
    return TransitionDataset.from_table(log | {"run": run}, columns, last_rows_are="termination")


def test_times_of_a_day_go_past_midnight_within_an_id() -> None:
    dataset = night(OVER_MIDNIGHT)
    assert dataset.obs[:, 0].tolist() == list(range(20))
    assert np.flatnonzero(dataset.terminations).tolist() == [9, 19]
    assert dataset.notes[0] == "column 't': in 2 episodes the time goes past midnight: a day is added there"


@pytest.mark.parametrize("swapped", [[0, 2, 1, 3], [3, 2, 1, 0], [4, 5, 0, 1]])
def test_times_of_a_day_in_another_order_are_sorted(swapped: list[int]) -> None:
    times = [f"{8 + row:02}:00" for row in swapped]
    dataset = night(times)
    assert dataset.obs[: len(swapped), 0].tolist() == np.argsort(swapped).tolist()
    assert "rows were not in order: they are sorted by episode and t" in dataset.notes


class TestNotTheStep:
    ROWS = 40

    def log(self, **more: Any) -> dict[str, Any]:
        rows = np.arange(self.ROWS)
        return {"obs": rows * 1.0, "action": rows % 3, "reward": rows % 2, **more}

    def test_a_temperature_that_nobody_named(self) -> None:
        run, heat = np.arange(self.ROWS) // 10, 20.5 + np.sin(np.arange(self.ROWS))
        dataset = TransitionDataset.from_table(self.log(run=run, T=heat), {"episode_ids": "run"})
        assert dataset.obs[:, 0].tolist() == list(range(self.ROWS))
        assert "'T' goes back inside episodes, and is not taken for the time: rows stay" in told(dataset)
        named = TransitionDataset.from_table(self.log(run=run, T=heat), {"episode_ids": "run", "step": "T"})
        assert "they are sorted by episode and T" in told(named)

    @pytest.mark.parametrize("unit", [1.0, 0.1])
    def test_what_nobody_named_and_counts(self, unit: float) -> None:
        """Whole numbers in any order, and a time with fractions that never goes back."""
        run, order = np.arange(self.ROWS) // 10, np.arange(self.ROWS)
        order = order if unit < 1 else order[::-1]
        dataset = TransitionDataset.from_table(self.log(run=run[order], t=order * unit), {"episode_ids": "run"})
        assert "goes back" not in told(dataset)
        assert ("sorted by episode and t" in told(dataset)) == (unit == 1)

    def test_newest_first_is_warned_of(self) -> None:
        dataset = TransitionDataset.from_table(self.log(t=1e9 - np.arange(self.ROWS), done=np.zeros(self.ROWS)))
        assert "warning: column 't' goes back after 39 of 40 rows, and each such row ends an episode:" in told(dataset)


def test_times_of_a_day_start_again(tmp_path: Path) -> None:
    lines = [line(row % 12, value=row, end=False).removeprefix("2025-03-01 ") for row in range(ROWS)]
    dataset = load(tmp_path / "log.csv", lines)
    assert dataset.episode_lengths().tolist() == [12, 12]
    assert "sorted" not in told(dataset)


class TestDigits:
    """Dates with nothing between their parts, which read as numbers."""

    @pytest.mark.parametrize("form", ["%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d"])
    def test_are_dates(self, form: str, tmp_path: Path) -> None:
        apart = timedelta(days=1) if form == "%Y%m%d" else timedelta(minutes=5)
        when = [datetime(2025, 2, 20, 22) + row * apart for row in range(60)]
        lines = [f"{time.strftime(form)},{row},0.5,{row},{int(row == 59)}" for row, time in enumerate(when)]
        dataset = load(tmp_path / "log.csv", lines)
        assert dataset.episode_lengths().tolist() == [60]
        first = when[0] if form != "%Y%m%d" else when[0].replace(hour=0)
        assert dataset.notes == (f"column 't': numbers such as {when[0].strftime(form)} are read as dates ({first})",)
        by_day = TransitionDataset.load(tmp_path / "log.csv", columns=COLUMNS, episode_each="month")
        assert by_day.episode_lengths().tolist() == ([9, 31, 20] if form == "%Y%m%d" else [60])

    def test_as_arrays(self) -> None:
        cells = np.array([202502282358, 202502282359, 202503010000, 202503010001])
        for kind in (np.int64, np.uint64, np.float64, object):
            clock = clock_of("t", steps_of("t", cells.astype(kind)))
            assert np.diff(clock.at).tolist() == [60.0] * 3

    @pytest.mark.parametrize(
        "numbers",
        [
            202503010800 + np.arange(100),  # minutes above 59
            [202502290800, 202502290801],  # no day of that year
            [202513010800, 202513010801],
            [202500010800, 202500010801],
            [202503000800, 202503000801],
            [202503012400, 202503012401],
            [202503010800, 20250301080100],
            [202503010800, 202503010801.5],
            1_740_816_000_000 + 1000 * np.arange(3),  # milliseconds since 1970
            np.arange(5),
        ],
    )
    def test_other_numbers_stay(self, numbers: Any) -> None:
        found = steps_of("t", np.asarray(numbers))
        assert found.tolist() == np.asarray(numbers).tolist()


class TestTheFirstDayOf1970:
    """As a device has it that never was told the time."""

    @pytest.mark.parametrize("rows", [10, ROWS])
    def test_a_date_is_one_as_it_is_written(self, rows: int) -> None:
        when = [str(datetime(1970, 1, 1, 23, 50) + timedelta(minutes=row)) for row in range(rows)]
        clock = clock_of("t", steps_of("t", np.array(when, dtype=object)))
        assert clock.wall is not None
        assert np.diff(clock.wall).tolist() == [60.0] * (rows - 1)

    def test_beside_a_time_of_day_it_is_refused(self) -> None:
        with pytest.raises(DataError, match="some rows hold a date and others a time of day alone, as at row 1"):
            steps_of("t", np.array(["1970-01-01 23:59:00", "23:59:30"], dtype=object))
