"""Steps and ids are compared as the file has them: none wraps, and no two that differ become the same."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import read_table
from rl_training.data.formats.clocks import clock_of, counted, usual_stride
from rl_training.data.formats.raw import RawData
from rl_training.data.formats.times import steps_of
from rl_training.data.formats.whole_columns import rows_before_restarts
from rl_training.data.formats.whole_numbers import joined
from rl_training.data.value_looks import borders_of, starts_at_ends
from rl_training.errors import DataError
from rl_training.reading_choices import TableChoices

LARGE = 2**53


def log(step: Any, **more: Any) -> dict[str, Any]:
    """Rows that differ in nothing but what is given."""
    rows = len(step)
    return {"obs": [[1.0, 2.0]] * rows, "action": [0.1] * rows, "reward": [1.0] * rows, "t": step, **more}


class TestUnsigned:
    @pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64", "int8", "int32", "int64"])
    def test_a_step_that_falls_begins_an_episode(self, kind: str) -> None:
        steps = np.array([0, 3, 6, 9, 0, 3, 6, 0, 3], dtype=kind)
        assert TransitionDataset.from_table(log(steps)).episode_lengths().tolist() == [4, 3, 2]

    @pytest.mark.parametrize("kind", ["uint32", "int32"])
    def test_a_time_that_scatters_starts_again(self, kind: str) -> None:
        times = np.array([0, 90, 210, 290, 420, 0, 110, 190, 330, 400], dtype=kind)
        raw = read_table(log(times))
        assert raw.arrays["episode_ids"].tolist() == [0] * 5 + [1] * 5
        assert "is not evenly spaced (first after row 0)" in raw.notes[-1]

    @pytest.mark.parametrize(("kind", "most"), [("uint8", 256), ("int8", 128)])
    def test_a_counter_that_is_full_starts_again(self, kind: str, most: int) -> None:
        """From 255 to 0 is one more in eight bits."""
        steps = (np.arange(2 * most) % most).astype(kind)
        assert TransitionDataset.from_table(log(steps)).episode_lengths().tolist() == [most, most]

    @pytest.mark.parametrize(("kind", "least", "most"), [("int8", -128, 127), ("int64", -(2**63), 2**63 - 1)])
    def test_no_stride_overflows(self, kind: str, least: int, most: int) -> None:
        steps = np.array([least, most, least, most, least, most], dtype=kind)
        raw = read_table(log(steps))
        assert raw.arrays["episode_ids"].tolist() == [0, 0, 1, 1, 2, 2]
        assert not any("skips" in note for note in raw.notes)

    def test_rows_are_missing_where_unsigned_steps_skip(self) -> None:
        steps = np.array([250, 251, 252, 255, 250, 251], dtype=np.uint8)
        assert TransitionDataset.from_table(log(steps)).episode_lengths().tolist() == [3, 1, 2]

    def test_truths_are_compared_too(self) -> None:
        steps = np.array([False, True, False, True, False, True])
        assert TransitionDataset.from_table(log(steps)).episode_lengths().tolist() == [2, 2, 2]

    def test_the_usual_stride(self) -> None:
        clock = clock_of("t", np.array([0, 3, 0, 3, 0], dtype=np.uint8))
        assert usual_stride(clock.at, np.ones(4, dtype=np.bool_)) == 3.0

    def test_ids_that_wrap_are_names(self) -> None:
        ids = np.r_[np.arange(256), 0, 0].astype(np.uint8)
        assert RawData({"episode_ids": ids}, "some").episode_name(3) == "3"
        assert RawData({"episode_ids": ids[:256]}, "some").episode_name(3) is None


class TestManyDigits:
    def test_proposals_see_where_steps_start_again(self) -> None:
        steps = np.array([LARGE, LARGE + 1, LARGE, LARGE + 1])
        borders = borders_of(None, steps)
        assert borders is not None
        assert borders.tolist() == [False, True, False]
        assert starts_at_ends(steps, {"dones": borders_of(None, np.r_[steps, 0])})

    def test_the_rows_before_restarts(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(f"t\n{LARGE}\n{LARGE + 1}\n{LARGE}\n{LARGE + 1}\n0.5\n")
        assert rows_before_restarts(tmp_path / "a.csv", "csv", "t") == {1, 3, 4}

    @pytest.mark.parametrize(
        "cells",
        [
            np.array([f"{2**60 + row}" for row in range(6)], dtype=object),
            np.array([f"{2**60 + row}.0" for row in range(6)], dtype=object),
            np.array([f" {2**63 + row} ".encode() for row in range(6)]),
            np.array([2**63 + row for row in range(6)], dtype=object),
            np.array([2**63 + row for row in range(6)], dtype=np.uint64),
        ],
        ids=["texts", "with a point", "bytes", "Python's own", "unsigned"],
    )
    def test_steps_stay_apart(self, cells: Any) -> None:
        raw = read_table(log(cells, episode=["a"] * 6), choices=TableChoices(duplicates="drop"))
        assert len(raw.arrays["episode"]) == 6
        assert raw.notes == ()

    @pytest.mark.parametrize(
        ("cells", "told"),
        [
            ([f"{LARGE}", "1.5"], "its fractions are lost beside numbers beyond 2**53"),
            (["-1", f"{2**64}"], "holds 1.84467e+19, which is too large"),
        ],
    )
    def test_what_cannot_be_told_apart_is_refused(self, cells: list[str], told: str) -> None:
        with pytest.raises(DataError) as caught:
            steps_of("t", np.array(cells, dtype=object))
        way = "write all as whole numbers of 64 bits, such as by subtracting the first"
        assert str(caught.value) == f"column 't': {told}; {way}"

    @pytest.mark.parametrize("kind", [np.float64, object])
    def test_floats_are_what_they_are(self, kind: Any) -> None:
        found = steps_of("t", np.array([2.0**60, 2.0**60 + 256], dtype=kind))
        assert found.tolist() == [2**60, 2**60 + 256]

    def test_what_is_missing_is_told_first(self) -> None:
        found = steps_of("t", np.array([f"{LARGE + 1}", ""], dtype=object))
        assert np.isnan(found).tolist() == [False, True]


class TestPieces:
    def test_floats_become_whole_numbers_beside_large_ones(self) -> None:
        found = joined("id", [np.array([LARGE + 1, LARGE]), np.array([1.0, 2.0])], tells_apart=True)
        assert found.tolist() == [LARGE + 1, LARGE, 1, 2]

    def test_small_numbers_stay_what_they_are(self) -> None:
        parts = [np.array([3, 4]), np.array([1.5])]
        assert joined("id", parts, tells_apart=True).tolist() == [3.0, 4.0, 1.5]

    def test_fractions_beside_large_numbers(self) -> None:
        parts = [np.array([LARGE + 1]), np.array([1.5])]
        with pytest.raises(DataError, match=r"column 'id': holds fractions beside whole numbers beyond 2\*\*53; write"):
            joined("id", parts, tells_apart=True)
        assert joined("obs", parts, tells_apart=False).dtype == np.float64  # values are trained in float32 anyway

    def test_what_is_missing_is_left_to_be_refused_with_its_row(self) -> None:
        assert np.isnan(joined("id", [np.array([LARGE + 1]), np.array([np.nan])], tells_apart=True)[1])

    def test_what_no_type_holds_becomes_text(self) -> None:
        parts = [np.array([-1]), np.array([2**64 - 1], dtype=np.uint64)]
        assert joined("id", parts, tells_apart=True).tolist() == ["-1", f"{2**64 - 1}"]

    def test_episodes_of_a_folder_stay_apart(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        for name, ids in (("a", [LARGE + 1, LARGE + 1, LARGE, LARGE]), ("b", [1.0, 1.0, 2.0, 2.0])):
            whole = log(range(4), episode_ids=ids)
            del whole["t"]
            (tmp_path / "log").mkdir(exist_ok=True)
            pq.write_table(pa.table(whole), tmp_path / "log" / f"{name}.parquet")
        assert TransitionDataset.load(tmp_path / "log").episode_lengths().tolist() == [2, 2, 2, 2]

    def test_steps_of_a_plain_file_that_is_read_in_parts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Small ones are floats there, and large ones are not."""
        monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
        monkeypatch.setattr("rl_training.data.formats.csv._ROWS_AT_A_TIME", 2)
        rows = [f"0,0,1,{step}" for step in (1, 2, LARGE, LARGE + 1)]
        (tmp_path / "a.csv").write_text("\n".join(["obs,action,reward,t", *rows, "0,0,1,0", ""]))
        assert TransitionDataset.load(tmp_path / "a.csv").episode_lengths().tolist() == [2, 2, 1]


class TestNanoseconds:
    T0 = 1_700_000_000_000_000_000

    def dates(self, strides: list[int]) -> Any:
        return np.array(self.T0 + np.cumsum(strides), dtype="datetime64[ns]")

    def test_dates_stay_apart(self) -> None:
        raw = read_table(log(self.dates([100] * 8), episode=["a"] * 8), choices=TableChoices(duplicates="drop"))
        assert len(raw.arrays["episode"]) == 8
        assert raw.notes == ()

    def test_a_hole_between_them_is_seen(self) -> None:
        raw = read_table(log(self.dates([100, 100, 100, 100, 300, 100, 101, 100]), episode=["a"] * 8))
        assert raw.arrays["episode_ids"].tolist() == [0] * 4 + [1] * 4

    def test_an_arrow_table_has_them_as_text(self) -> None:
        pa = pytest.importorskip("pyarrow")
        for zone in (None, "UTC", "Europe/Berlin"):
            kind = pa.timestamp("ns", zone)
            steps = pa.array([self.T0 + 100 * row for row in range(8)], kind)
            rows = {name: values for name, values in log(range(8)).items() if name != "t"}
            raw = read_table(pa.table({**rows, "t": steps, "episode": ["a"] * 8}))
            assert raw.notes == ()

    def test_decimals_are_kept_to_the_last_digit(self) -> None:
        pa = pytest.importorskip("pyarrow")
        steps = pa.array([Decimal(self.T0 + row) for row in range(8)], pa.decimal128(38, 0))
        rows = {name: values for name, values in log(range(8)).items() if name != "t"}
        assert read_table(pa.table({**rows, "t": steps, "episode": ["a"] * 8})).notes == ()

    @pytest.mark.parametrize(
        "texts",
        [
            ["2024-03-31 08:15:00.1234567", "2024-03-31 08:15:00.1234568"],
            ["2024-03-31T08:15:00.123456700Z", "2024-03-31T08:15:00.123456800Z"],
            ["31.3.2024 08:15:00,1234567", "31.3.2024 08:15:00,1234568000"],
            ["03/31/2024 8:15:00.1234567 AM", "03/31/2024 8:15:00.1234568 AM"],
            ["08:15:00.1234567", "08:15:00.1234568"],
        ],
    )
    def test_how_they_may_be_written(self, texts: list[str]) -> None:
        steps = steps_of("t", np.array(texts, dtype=object))
        assert steps["nano"].tolist() == [123_456_700, 123_456_800]
        assert counted("t", steps)[0].tolist() == [123_456_700, 123_456_800]

    def test_what_is_finer_is_refused(self) -> None:
        with pytest.raises(DataError, match="at row 0 is finer than nanoseconds; write nine decimals"):
            steps_of("t", np.array(["2024-03-31 08:15:00.1234567891"], dtype=object))
        with pytest.raises(DataError, match="column 't': holds times finer than nanoseconds; round them"):
            steps_of("t", np.array([1], dtype="datetime64[ps]"))

    def test_dates_far_apart(self) -> None:
        far = ["0001-01-01", "9999-12-31 23:59:59.999999"]
        values, in_parts = counted("t", steps_of("t", np.array(far, dtype=object)))
        assert (values[1] - values[0], in_parts) == (315_537_897_599_999_999, True)
        with pytest.raises(DataError, match="column 't': its dates are too far apart to be told from each other so"):
            counted("t", steps_of("t", np.array([far[0], f"{far[1]}999"], dtype=object)))

    def test_units_of_numpy(self) -> None:
        """Of dates in seconds, nanoseconds would overflow beyond 2262."""
        for unit in ("D", "s", "ms", "us"):
            steps = steps_of("t", np.array(["3000-01-01", "1900-01-02"], dtype=f"datetime64[{unit}]"))
            assert clock_of("t", steps).at.tolist() == [32_503_680_000.0, -2_208_902_400.0]
        before = steps_of("t", np.array(["1969-12-31T23:59:59.25"], dtype="datetime64[ns]"))
        assert before[["second", "nano"]].tolist() == [(-1, 250_000_000)]
