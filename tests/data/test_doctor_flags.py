"""The doctor on the ends of episodes and on whether rows follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import data_notices
from rl_training.data.doctor import examine
from rl_training.data.doctor.screening import screen, screened
from rl_training.data.formats import read_table
from rl_training.data.settling import settle
from rl_training.errors import DataError
from sick_data import codes, ends_of, healthy, report_on, without_successors


def flags(rows: int, *at: int) -> Any:
    return np.isin(np.arange(rows), at)


class TestTwoRows:
    """Terminals on the last two rows of an episode, as in d3rlpy's CartPole file."""

    def test_where_episode_terminals_tell_otherwise(self) -> None:
        arrays = healthy(truncations=None)
        terminals = np.flatnonzero(arrays["terminations"])
        ends = ends_of(healthy())
        doubled = flags(len(arrays["obs"]), *terminals, *(terminals - 1))
        found = codes(arrays | {"terminations": doubled, "episode_terminals": flags(len(doubled), *ends)})
        finding = found["flags.two-rows"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", 12, terminals[0] - 1)
        assert "there would be 36 episodes, not 24" in finding.what
        assert "episodes.one-row" not in found

    def test_where_nothing_tells_otherwise(self) -> None:
        arrays = healthy()
        terminals = np.flatnonzero(arrays["terminations"])
        arrays["terminations"] = flags(len(arrays["obs"]), *terminals, *(terminals - 1))
        finding = codes(arrays)["flags.two-rows"]
        assert (finding.level, finding.count, finding.place.episode) == ("error", 12, 0)

    def test_a_single_pair(self) -> None:
        arrays = healthy()
        arrays["terminations"][np.flatnonzero(arrays["terminations"])[0] - 1] = True
        found = codes(arrays)
        assert found["flags.two-rows"].level == "warning"
        assert found["episodes.one-row"].count == 1

    def test_truncations(self) -> None:
        arrays = healthy()
        cuts = np.flatnonzero(arrays["truncations"])
        arrays["truncations"][cuts[3] - 1] = True
        finding = codes(arrays)["flags.two-rows"]
        assert (finding.level, finding.field, finding.place.row) == ("warning", "truncations", cuts[3] - 1)
        arrays["truncations"][cuts - 1] = True
        finding = codes(arrays)["flags.two-rows"]
        assert (finding.level, finding.count) == ("error", 12)

    def test_an_episode_of_one_row_that_ends_otherwise_is_none(self) -> None:
        """Cut, and the next one terminated at once."""
        arrays = healthy()
        arrays["terminations"][np.flatnonzero(arrays["truncations"])[3] + 1] = True
        assert "flags.two-rows" not in codes(arrays)

    def test_the_layout_of_d3rlpy(self) -> None:
        arrays = healthy()
        ends = arrays.pop("truncations") | arrays["terminations"]
        ends, arrays["terminations"] = (flags | np.r_[flags[1:], False] for flags in (ends, arrays["terminations"]))
        finding = codes(arrays | {"episode_terminals": ends})["flags.two-rows"]
        assert (finding.level, finding.field, finding.count) == ("error", "episode_terminals", 24)

    def test_neighbours_with_ids_of_their_own_are_none(self) -> None:
        """Episodes of one row, terminated after another one that did."""
        arrays = healthy()
        first, *_ = np.flatnonzero(arrays["terminations"])
        arrays["terminations"][first + 1] = True
        borders = np.cumsum(np.r_[0, (arrays["terminations"] | arrays["truncations"])[:-1]])
        assert "flags.two-rows" in codes(arrays)
        assert "flags.two-rows" not in codes(arrays | {"episode_ids": borders})

    def test_not_in_healthy_data(self) -> None:
        arrays = healthy(truncations=None, episode_terminals=healthy()["terminations"] | healthy()["truncations"])
        assert codes(arrays) == {}


class TestOverlap:
    def test_of_every_truncation_is_an_error(self) -> None:
        arrays = healthy()
        arrays["terminations"] = arrays["terminations"] | arrays["truncations"]
        finding = codes(arrays)["flags.overlap"]
        assert (finding.level, finding.count) == ("error", 12)

    def test_as_dones_is_refused_and_told_once(self) -> None:
        arrays = healthy()
        arrays["dones"] = arrays.pop("terminations") | arrays["truncations"]
        assert [finding.code for finding in report_on(arrays).at("error")] == ["flags.overlap"]


class TestNoEnds:
    def test_none_at_all(self) -> None:
        rows = len(healthy()["obs"])
        found = codes(without_successors(terminations=np.zeros(rows), truncations=None))
        assert found["flags.none"].level == "warning"
        assert "flags.open-end" not in found

    def test_missing_at_the_very_end(self) -> None:
        arrays = healthy()
        arrays["truncations"][-1] = False
        finding = codes(arrays)["flags.open-end"]
        assert (finding.level, finding.place.row, finding.place.episode) == ("note", len(arrays["obs"]) - 1, 23)

    def test_a_file_that_only_truncates(self) -> None:
        """HalfCheetah never terminates: that is no fault."""
        arrays = healthy()
        arrays |= {"truncations": arrays["terminations"] | arrays["truncations"]}
        arrays["terminations"] = np.zeros(len(arrays["obs"]), dtype=np.bool_)
        assert codes(arrays) == {}


class TestTimeLimits:
    def equal_lengths(self, length: int = 50) -> dict[str, Any]:
        arrays = healthy(episodes=40)
        rows = len(arrays["obs"]) // length * length
        return {name: values[:rows] for name, values in arrays.items()} | {
            "terminations": np.arange(rows) % length == length - 1,
            "truncations": np.zeros(rows, dtype=np.bool_),
            "next_obs": np.r_[arrays["obs"][1:rows], arrays["next_obs"][rows - 1 : rows]],
        }

    def test_marked_as_terminations(self) -> None:
        finding = codes(self.equal_lengths())["flags.time-limit"]
        assert finding.level == "warning"
        assert "every episode ends in a termination after exactly 50 rows" in finding.what
        assert (finding.place.row, finding.place.episode) == (49, 0)

    def test_among_true_terminations(self) -> None:
        arrays = self.equal_lengths()
        for row in range(20, len(arrays["obs"]), 300):
            arrays["terminations"][row] = True
        assert "episodes end in a termination after exactly 50 rows" in codes(arrays)["flags.time-limit"].what

    def test_beside_a_few_truncations(self) -> None:
        arrays = self.equal_lengths()
        for row in (20, 420, 999):
            arrays["truncations"][row], arrays["terminations"][row] = True, False
        finding = codes(arrays)["flags.time-limit"]
        assert "episodes end in a termination after exactly 50 rows" in finding.what
        assert (finding.place.row, finding.place.episode) == (99, 2)

    def test_true_limits_beside_terminations_of_all_lengths(self) -> None:
        arrays = self.equal_lengths()
        arrays |= {"truncations": arrays["terminations"], "terminations": arrays["truncations"]}
        for number, row in enumerate(range(9, len(arrays["obs"]) - 50, 50)):
            arrays["terminations"][row + number % 40] = True
        assert "flags.time-limit" not in codes(arrays)

    def test_marked_as_truncations(self) -> None:
        arrays = self.equal_lengths()
        arrays |= {"truncations": arrays["terminations"], "terminations": arrays["truncations"]}
        assert "flags.time-limit" not in codes(arrays)

    def test_terminations_of_all_lengths(self) -> None:
        arrays = healthy()
        arrays |= {"terminations": arrays["terminations"] | arrays["truncations"], "truncations": None}
        assert "flags.time-limit" not in codes({k: v for k, v in arrays.items() if v is not None})


class TestStoredSuccessors:
    def test_unmarked_borders(self) -> None:
        arrays = healthy()
        lost = np.flatnonzero(arrays["truncations"])[[2, 5]]
        arrays["truncations"][lost] = False
        finding = codes(arrays)["successors.mismatch"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", 2, lost[0])

    def test_shuffled_rows(self) -> None:
        order = np.random.default_rng(0).permutation(len(healthy()["obs"]))
        finding = codes({name: values[order] for name, values in healthy().items()})["successors.mismatch"]
        assert finding.level == "warning"
        assert "shuffled" in finding.what

    def test_a_selection_that_says_so(self) -> None:
        arrays = TransitionDataset.from_dict(healthy()).sample(500, np.random.default_rng(0)).to_dict()
        found = codes(arrays | {"borders_lost": np.array(True)})
        assert found["episodes.lost"].level == "note"
        assert "successors.mismatch" not in found

    def test_copied_observations(self) -> None:
        finding = codes(healthy(next_obs=healthy()["obs"].copy()))["successors.copied"]
        assert finding.level == "error"

    def test_observations_after_the_reset(self) -> None:
        arrays = healthy()
        arrays["obs"][ends_of(arrays)[:-1] + 1] += 4.0  # starts far from where episodes end
        arrays["next_obs"][:-1] = arrays["obs"][1:]
        finding = codes(arrays)["successors.reset"]
        assert (finding.level, finding.count) == ("error", 11)
        assert finding.place.row == np.flatnonzero(arrays["truncations"])[0]

    def test_a_single_observation_after_the_reset(self) -> None:
        arrays = healthy()
        row = np.flatnonzero(arrays["truncations"])[4]
        arrays["obs"][row + 1] += 4.0
        arrays["next_obs"][row] = arrays["obs"][row + 1]
        found = codes(arrays)
        assert (found["successors.reset"].level, found["successors.reset"].place.row) == ("error", row)
        assert "flags.mid-episode" not in found

    @pytest.mark.parametrize("field", ["terminations", "truncations"])
    def test_a_flag_where_the_episode_goes_on(self, field: str) -> None:
        arrays = healthy()
        row = ends_of(arrays)[5] + 12
        arrays[field][row] = True
        found = codes(arrays)
        finding = found["flags.mid-episode"]
        assert (finding.level, finding.field, finding.count, finding.place.row) == ("warning", field, 1, row)
        assert "successors.reset" not in found

    def test_episodes_that_start_where_another_ended(self) -> None:
        """In a world of few states an episode may start where the last one ended."""
        arrays = healthy()
        ends = ends_of(arrays)
        arrays["obs"][ends[:-1] + 1] = 0.0
        arrays["next_obs"][ends[3]] = 0.0
        arrays["obs"][ends[3]] = 0.01
        arrays["next_obs"][ends[3] - 1] = 0.01
        assert "flags.mid-episode" not in codes(arrays)

    def test_one_long_episode_in_pieces(self) -> None:
        """Where the next piece goes on from the last, its first observation is the true successor."""
        arrays = healthy()
        arrays["next_obs"][:-1] = arrays["obs"][1:]
        inside = np.setdiff1d(np.arange(10, 1300, 50), ends_of(arrays))
        arrays["terminations"] = np.zeros(len(arrays["obs"]), dtype=np.bool_)
        arrays["truncations"] = flags(len(arrays["obs"]), *inside, len(arrays["obs"]) - 1)
        assert "successors.reset" not in codes(arrays)

    def test_rounding_is_no_mismatch(self) -> None:
        arrays = healthy()
        arrays["next_obs"] = arrays["next_obs"] * np.float32(1 + 1e-6)
        assert codes(arrays) == {}


class TestJumps:
    def test_unmarked_borders(self) -> None:
        arrays = without_successors(episodes=60)
        lost = np.flatnonzero(arrays["truncations"])[::3]
        arrays["obs"][lost + 1] += 6.0
        arrays["truncations"][lost] = False
        finding = codes(arrays)["successors.jump"]
        assert finding.level == "warning"
        assert finding.place.row == lost[0]
        assert finding.count is not None
        assert finding.count >= len(lost) - 1

    def test_its_columns_are_named(self) -> None:
        arrays = without_successors(episodes=60)
        inside = np.setdiff1d(np.arange(5, len(arrays["obs"]) - 5, len(arrays["obs"]) // 6), ends_of(arrays))
        arrays["obs"][inside + 1, 1] += 30.0
        assert "most of all in column 1." in codes(arrays)["successors.jump"].what
        ids = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"])))
        table = {f"x{n}": column for n, column in enumerate(arrays.pop("obs").T)}
        table |= {"u": arrays["actions"][:, 0], "reward": arrays["rewards"], "trip": ids}
        seen = [name for name in table if name.startswith("x")]
        raw = read_table(table, {"obs": seen, "actions": "u", "episode_ids": "trip"})
        finding = next(found for found in examine(raw).findings if found.code == "successors.jump")
        assert "most of all in column 'x1'." in finding.what
        assert "unmarked" not in finding.advice

    def test_a_set_point_is_switched(self) -> None:
        arrays = without_successors(episodes=60)
        rows = np.arange(len(arrays["obs"]))
        arrays["obs"] = np.column_stack([arrays["obs"], 18.0 + 3.0 * (rows // 70 % 3)]).astype(np.float32)
        assert "successors.jump" not in codes(arrays)

    def test_marked_borders_are_none(self) -> None:
        arrays = without_successors(episodes=60)
        arrays["obs"][ends_of(arrays)[:-1] + 1] += 6.0
        assert "successors.jump" not in codes(arrays)


class TestDuplicates:
    def test_a_whole_episode(self) -> None:
        arrays = healthy()
        start, end = ends_of(arrays)[3] + 1, ends_of(arrays)[4]
        again = {name: np.concatenate([values, values[start : end + 1]]) for name, values in arrays.items()}
        found = codes(again)
        assert (found["duplicates.episodes"].level, found["duplicates.episodes"].count) == ("warning", 1)
        assert "episode 24 is episode 4 again" in found["duplicates.episodes"].what
        rows = found["duplicates.rows"]
        assert (rows.count, rows.place.row, rows.place.episode) == (end - start + 1, len(arrays["obs"]), 24)
        assert f"row {start:,} again" in rows.what

    def test_a_single_row(self) -> None:
        arrays = without_successors()
        for name in ("obs", "actions", "rewards"):
            arrays[name][700] = arrays[name][20]
        found = codes(arrays)
        assert (found["duplicates.rows"].level, found["duplicates.rows"].count) == ("note", 1)
        assert "duplicates.episodes" not in found

    def test_a_row_twice_in_a_row(self) -> None:
        arrays = {name: np.insert(values, 438, values[437], axis=0) for name, values in without_successors().items()}
        finding = codes(arrays)["duplicates.in-a-row"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", 1, 438)

    def test_a_row_again_in_the_next_episode_is_not_in_a_row(self) -> None:
        arrays = without_successors()
        end = ends_of(arrays)[0]
        for name in ("obs", "actions", "rewards"):
            arrays[name][end + 1] = arrays[name][end]
        found = codes(arrays)
        assert "duplicates.rows" in found
        assert "duplicates.in-a-row" not in found

    @pytest.mark.parametrize("field", ["obs", "actions", "rewards"])
    def test_rows_that_differ_in_one_field_are_none(self, field: str) -> None:
        arrays = without_successors()
        for name in ("obs", "actions", "rewards"):
            if name != field:
                arrays[name][700] = arrays[name][20]
        assert "duplicates.rows" not in codes(arrays)

    def test_zero_has_no_sign(self) -> None:
        arrays = without_successors()
        for name in ("obs", "actions", "rewards"):
            arrays[name][20] = 0.0
            arrays[name][700] = -0.0
        assert codes(arrays)["duplicates.rows"].count == 1


def test_rows_of_which_few_can_be_trained_on_are_told() -> None:
    """A column of ids that is another at nearly every row leaves hardly a row with a successor."""
    arrays = healthy(next_obs=None, terminations=None, truncations=None)
    ids = np.arange(len(arrays["obs"])) // np.where(np.arange(len(arrays["obs"])) < 40, 20, 1)
    finding = codes(arrays | {"episode_ids": ids})["flags.few-followed"]
    assert finding.level == "warning"
    assert finding.what.startswith(f"Only 38 of {len(ids):,} rows can be trained on")
    assert "episode_ids" in finding.advice
    assert "last_rows_are: termination" in finding.advice
    assert "flags.few-followed" not in codes(arrays | {"episode_ids": np.arange(len(ids)) // 3})


def test_rows_none_of_which_can_be_trained_on_are_an_error() -> None:
    """Of a bandit's log they were said to be fit for training, beside a note that nothing was to be done."""
    arrays = healthy(next_obs=None, terminations=None, truncations=None)
    report = report_on(arrays | {"episode_ids": np.arange(len(arrays["obs"]))})
    found = {finding.code: finding for finding in report.findings}
    finding = found["flags.few-followed"]
    assert (finding.level, finding.count) == ("error", len(arrays["obs"]))
    assert finding.what.startswith(f"None of {len(arrays['obs']):,} rows can be trained on: all end an episode")
    assert "as where every decision stands alone (a bandit's), say last_rows_are: termination" in finding.advice
    assert "episodes.one-row" not in found
    assert report.verdict().startswith("not fit for training: 1 error")


def test_rows_that_stand_alone_are_trained_on_where_that_is_said() -> None:
    arrays = healthy(next_obs=None, terminations=None, truncations=None)
    table = {"x": arrays["obs"][:, 0], "u": arrays["actions"][:, 0], "r": arrays["rewards"]}
    table |= {"id": np.arange(len(arrays["obs"]))}
    mapping: Any = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "id"}
    dataset = TransitionDataset.from_table(table, mapping)
    assert screened(dataset, "dataset", "", bounds_known=False).notes[-1].startswith("warning: terminations [flags.few")
    with pytest.raises(DataError, match=r"nothing can be trained on; where .* say last_rows_are: termination"):
        data_notices(dataset, None)
    said = TransitionDataset.from_table(table, mapping, last_rows_are="termination")
    assert screen(said, bounds_known=False) == []
    report = examine(settle(read_table(table, mapping), last_rows_are="termination"))
    found = {finding.code: finding for finding in report.findings}
    assert found["episodes.one-row"].level == "note"
    assert "flags.few-followed" not in found
