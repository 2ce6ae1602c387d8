"""`missing: drop` and `hold`: rows with a missing value go, and no episode is stitched over the hole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.doctor.screening import screen
from rl_training.data.formats import read_table
from rl_training.data.settling import settle
from rl_training.errors import DataError


def table(**holes: list[int]) -> dict[str, Any]:
    """Three episodes of ten rows, the second of which is truncated, with NaN in the given rows."""
    rows = np.arange(30)
    made: dict[str, Any] = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "reward": np.ones(30), "episode": rows // 10}
    made |= {"terminated": np.isin(rows, (9, 29)), "truncated": rows == 19}
    for name, places in holes.items():
        made[name][places] = np.nan
    return made


def test_each_hole_cuts_its_episode() -> None:
    holes = table(obs_0=[3, 4, 19], action=[12], reward=[20])
    with pytest.raises(DataError, match="obs: NaN at row 3"):
        TransitionDataset.from_table(holes)
    data = TransitionDataset.from_table(holes, missing="drop")
    assert data.obs[:, 0].tolist() == [row for row in range(30) if row not in (3, 4, 12, 19, 20)]
    last = data.obs[data.episode_ends, 0].tolist()
    assert last == [2, 9, 11, 18, 29]
    assert data.terminations[data.episode_ends].tolist() == [False, True, False, False, True]
    assert data.has_next_obs is not None
    unknown = data.obs[~data.has_next_obs, 0].tolist()
    assert unknown == [2, 11, 18]
    inside = np.flatnonzero(data.has_next_obs & ~data.terminations)
    assert (data.next_obs[inside, 0] == data.obs[inside, 0] + 1).all()
    told = "5 of 30 rows left out: a value is missing there (missing: drop); 3 recorded episodes became"
    told += " 5 pieces, and returns are those of pieces"
    assert told in data.notes


def test_nothing_missing_changes_nothing() -> None:
    plain, asked = TransitionDataset.from_table(table()), TransitionDataset.from_table(table(), missing="drop")
    assert plain.fingerprint() == asked.fingerprint()
    assert plain.notes == asked.notes


def test_faults_are_told_by_the_files_rows() -> None:
    holes = table(obs_0=[3])
    holes["reward"][15] = 1e300  # infinite in float32
    with pytest.raises(DataError, match="row 15"):
        TransitionDataset.from_table(holes, missing="drop")


def test_all_missing_is_refused() -> None:
    with pytest.raises(DataError, match="every row lacks a value"):
        TransitionDataset.from_table(table(obs_0=list(range(30))), missing="drop")


@pytest.mark.parametrize("missing", ["refuse", "drop", "hold"])
def test_no_rows_at_all_are_refused(missing: Any) -> None:
    with pytest.raises(DataError, match="0 rows; a dataset needs at least one transition"):
        TransitionDataset.from_table({name: column[:0] for name, column in table().items()}, missing=missing)


def test_of_stored_successors(tmp_path: Path) -> None:
    rows = np.arange(8.0)
    arrays = {"obs": rows[:, None], "next_obs": rows[:, None] + 1, "actions": np.zeros((8, 1)), "rewards": rows}
    arrays |= {"terminations": rows == 7}
    arrays["obs"] = np.where(arrays["obs"] == 4, np.nan, arrays["obs"])
    np.savez(tmp_path / "log.npz", **arrays)  # type: ignore[arg-type]
    data = TransitionDataset.load(tmp_path / "log.npz", missing="drop")
    assert data.n_episodes == 2
    assert data.has_next_obs is None  # row 3 knows where it led to
    assert data.next_obs[3, 0] == 4


def test_lost_terminations_are_warned_of(tmp_path: Path) -> None:
    holes = table(reward=[3, 9, 29])
    raw = settle(read_table(holes), missing="drop")
    warning = next(finding for finding in examine(raw).at("warning") if finding.code == "flags.left-out")
    assert warning.what.startswith("Of the 3 rows left out for a missing value, 2 mark a termination")
    told = screen(TransitionDataset.from_table(holes, missing="drop"), bounds_known=False)
    assert [finding.code for finding in told] == ["flags.left-out"]
    some = examine(settle(read_table(table(reward=[3])), missing="drop")).findings
    assert "flags.left-out" not in {finding.code for finding in some}


def test_infinite_values_are_missing_too() -> None:
    holes = table(obs_0=[3])
    holes["obs_0"][15] = np.inf
    data = TransitionDataset.from_table(holes, missing="drop")
    assert len(data) == 28
    assert "(missing: drop; 1 infinite one among them)" in data.notes[-1]


class TestHold:
    def test_the_last_value_of_the_episode_is_taken(self) -> None:
        holes = table(obs_0=[3, 4, 10, 19], action=[12])
        data = TransitionDataset.from_table(holes, missing="hold")
        rows = [row for row in range(30) if row != 10]  # which has no value before it in its episode
        expected = np.array(rows, dtype=float)
        expected[[3, 4, rows.index(19)]] = 2, 2, 18
        assert data.obs[:, 0].tolist() == expected.tolist()
        assert data.actions[rows.index(12), 0] == np.float32(11 % 7 / 7)
        assert data.n_episodes == 3
        assert data.next_obs[2, 0] == 2  # as it would have been seen
        held, left = data.notes[-2:]
        assert held == (
            "4 missing values held at the last one before (missing: hold): action 1, obs_0 3; for 2 rows at most"
        )
        why = "missing: hold, which holds no rewards, and nothing before an episode's first value"
        assert left == f"1 of 30 rows left out: a value is missing there ({why})"

    @staticmethod
    def stored(obs: list[int], next_obs: list[int], mark: float = np.nan) -> TransitionDataset:
        """Two episodes of five rows that store their successors, with `mark` in these rows."""
        own = np.arange(10.0) + np.repeat([0.0, 100.0], 5)
        after = own + 1
        own[obs], after[next_obs] = mark, mark
        made = {"obs": own, "next_obs": after, "action": np.zeros(10), "reward": np.ones(10)}
        return TransitionDataset.from_table(made | {"terminated": np.arange(10) % 5 == 4}, missing="hold")

    def test_a_stored_successor_is_what_the_next_row_holds(self) -> None:
        """Row 3 of either array is missing in one or both; the last successor is the last observation, held."""
        both = self.stored([3], [2, 4])
        assert both.obs[:5, 0].tolist() == [0, 1, 2, 2, 4]
        assert both.next_obs[:5, 0].tolist() == [1, 2, 2, 4, 4]
        assert both.notes[-1] == "3 missing values held at the last one before (missing: hold): obs 1, next_obs 2"
        for one in (self.stored([3], []), self.stored([], [2])):
            assert one.obs[:5, 0].tolist() == [0, 1, 2, 3, 4]
            assert one.next_obs[:5, 0].tolist() == [1, 2, 3, 4, 5]
            assert one.notes[-1] == "1 missing value taken from the same one as the row before or after has it"

    def test_nothing_is_taken_from_a_row_that_does_not_follow(self) -> None:
        made = {"x": [0.0, 1.0, 5.0], "y": [0.0, 1.0, 5.0], "nx": [1.0, np.nan, 6.0], "ny": [1.0, 2.0, 6.0]}
        made |= {"action": [0.0, 0.0, 0.0], "reward": [1.0, 1.0, 1.0], "terminated": [0.0, 0.0, 1.0]}
        data = TransitionDataset.from_table(made, {"obs": ["x", "y"], "next_obs": ["nx", "ny"]}, missing="hold")
        assert data.next_obs.tolist() == [[1, 1], [1, 2], [6, 6]]

    def test_infinite_values_are_told_as_such(self) -> None:
        data = self.stored([3], [2], mark=np.inf)
        told = "2 missing values held at the last one before (missing: hold; 2 infinite ones among them): obs 1"
        assert data.notes[-1] == f"{told}, next_obs 1"
        assert "(1 infinite one among them)" in self.stored([3], [], mark=np.inf).notes[-1]

    def test_rewards_are_never_held(self) -> None:
        data = TransitionDataset.from_table(table(reward=[5]), missing="hold")
        assert (len(data), data.n_episodes) == (29, 4)

    def test_not_over_rows_that_are_missing(self) -> None:
        holes = table(obs_0=[15])
        holes["t"] = np.arange(30) % 10 + (np.arange(30) == 15) + 1.0 * (np.arange(30) > 15)
        data = TransitionDataset.from_table(holes, missing="hold")
        assert len(data) == 29  # row 15 begins a piece

    def test_nothing_missing_changes_nothing(self) -> None:
        plain, asked = TransitionDataset.from_table(table()), TransitionDataset.from_table(table(), missing="hold")
        assert (plain.fingerprint(), plain.notes) == (asked.fingerprint(), asked.notes)


class TestWords:
    @pytest.mark.parametrize("word", ["n/a", "NA", "null", "-", " N/A ", ""])
    def test_that_everyone_writes(self, word: str, tmp_path: Path) -> None:
        self.write(tmp_path, word)
        data = TransitionDataset.load(tmp_path / "log.csv", missing="drop")
        assert len(data) == 29
        with pytest.raises(DataError, match=r"obs: NaN at row 7, .*; where it is missing, missing: hold or drop"):
            TransitionDataset.load(tmp_path / "log.csv")

    def test_that_are_named(self, tmp_path: Path) -> None:
        self.write(tmp_path, "ERR")
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(tmp_path / "log.csv", missing="drop")
        assert str(caught.value).endswith(
            "column 'obs': 'ERR' at row 7 is not a number (line 9);"
            " if it stands for a missing value, say missing_words: [ERR], and missing: hold or drop"
        )
        assert len(TransitionDataset.load(tmp_path / "log.csv", missing="drop", missing_words=["err"])) == 29

    def test_numbers_may_be_named(self, tmp_path: Path) -> None:
        self.write(tmp_path, "-9999")
        data = TransitionDataset.load(tmp_path / "log.csv", missing="hold", missing_words=["-9999"])
        assert data.obs[7, 0] == 6

    @pytest.mark.parametrize("fast", [True, False])
    def test_all_are_told_at_once(self, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not fast:
            monkeypatch.setitem(sys.modules, "pyarrow", None)
        rows = [f"{'ERR' if t in (3, 8) else t},{'bad' if t == 5 else 0},1,{t == 9:d}" for t in range(10)]
        (tmp_path / "log.csv").write_text("\n".join(["obs,action,reward,terminated", *rows]))
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(tmp_path / "log.csv")
        assert str(caught.value).partition("log.csv: ")[2] == (
            "column 'obs': 'ERR' at row 3 is not a number (line 5, 2 such cells);"
            " column 'action': 'bad' at row 5 is not a number (line 7);"
            " if they stand for a missing value, say missing_words: [ERR, bad], and missing: hold or drop"
        )

    @staticmethod
    def write(folder: Path, word: str) -> None:
        rows = [f"{word if t == 7 else t},0.5,1,{t // 10}" for t in range(30)]
        (folder / "log.csv").write_text("\n".join(["obs,action,reward,episode", *rows]))


class TestPieces:
    """What reading cut is told as its own doing."""

    def test_no_advice_on_flags(self) -> None:
        holes = table(obs_0=[8, 17, 18], action=[1])
        holes["episode"] = np.array(["a", "b", "c"])[np.arange(30) // 10]
        found = {finding.code: finding for finding in examine(settle(read_table(holes), missing="drop")).findings}
        assert "flags.two-rows" not in found
        assert found["episodes.one-row"].level == "note"
        assert found["episodes.one-row"].field == "data"
        assert (
            "consist of a single row: what is left of some that were cut on reading." in found["episodes.one-row"].what
        )
        assert str(found["episodes.one-row"].place) == "row 0 (episode named a, step 0)"

    def test_a_run_of_one_row(self) -> None:
        rows = np.arange(31)
        run = np.r_[np.repeat(["a", "b", "c"], 10), ["d"]]
        made = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "reward": rows * 0.1, "episode": run}
        made["truncated"] = np.r_[run[1:] != run[:-1], True]
        made["obs_0"][3] = np.nan
        found = {finding.code: finding for finding in examine(settle(read_table(made), missing="drop")).findings}
        assert "flags.two-rows" not in found
        one = found["episodes.one-row"]
        assert one.field == "truncations"
        assert one.what == "1 episode of 5 (20%) consists of a single row."
        assert "flag" not in one.advice


def test_most_rows_gone_is_a_warning() -> None:
    few = TransitionDataset.from_table(table(action=[3]), missing="drop")
    assert not any(note.startswith("warning: ") for note in few.notes)
    most = TransitionDataset.from_table(table(obs_0=[0], action=list(range(1, 20))), missing="drop")
    told = next(note for note in most.notes if "left out" in note)
    assert told.startswith("warning: 20 of 30 rows left out: a value is missing there (missing: drop), mostly action;")
