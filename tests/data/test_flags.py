"""Where episodes end, by the conventions of different logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.flags import cut_at_time_limit, d4rl_conversion
from rl_training.data.formats import RawData
from rl_training.data.settling import settle
from rl_training.errors import DataError


def arrays(rows: int = 8, **changes: Any) -> dict[str, Any]:
    given = {
        "obs": np.arange(rows, dtype=np.float32)[:, None],
        "actions": np.zeros((rows, 1)),
        "rewards": np.ones(rows),
        "terminations": np.isin(np.arange(rows), [2]),
    }
    return given | changes


class TestEpisodeIds:
    def test_tell_where_episodes_end(self) -> None:
        dataset = TransitionDataset.from_dict(arrays(eps_id=[5, 5, 5, 7, 7, 1, 1, 1]))
        assert dataset.episode_lengths().tolist() == [3, 2, 3]
        assert dataset.terminations.nonzero()[0].tolist() == [2]
        assert dataset.truncations.nonzero()[0].tolist() == [4, 7]

    def test_may_be_names(self) -> None:
        dataset = TransitionDataset.from_dict(arrays(episode=list("aaabbccc")))
        assert dataset.episode_lengths().tolist() == [3, 2, 3]

    def test_without_any_other_flag(self) -> None:
        given = arrays(episode_ids=[0, 0, 0, 0, 1, 1, 1, 1])
        del given["terminations"]
        assert TransitionDataset.from_dict(given).truncations.nonzero()[0].tolist() == [3, 7]

    def test_out_of_order(self) -> None:
        with pytest.raises(DataError, match="episode_ids: episode 0 goes on at row 5 after another one; sort rows"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0, 1, 1, 0, 0, 0]))

    def test_not_a_number(self) -> None:
        with pytest.raises(DataError, match="episode_ids: NaN at row 3; every row needs its episode"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0, np.nan, np.nan, 1, 1, 1]))

    def test_of_no_rows(self) -> None:
        with pytest.raises(DataError, match="obs: 0 rows"):
            TransitionDataset.from_dict({name: values[:0] for name, values in arrays(episode_ids=np.arange(8)).items()})

    def test_of_another_length(self) -> None:
        with pytest.raises(DataError, match="episode_ids: 3 rows, but obs has 8; all fields must"):
            TransitionDataset.from_dict(arrays(episode_ids=[0, 0, 0]))


@pytest.mark.parametrize("name", ["obs", "rewards", "dones", "terminals", "timeouts", "episode_terminals", "eps_id"])
@pytest.mark.parametrize("options", [{}, {"time_limits": "d4rl"}, {"max_episode_steps": 2}, {"dones_are": "ends"}])
@pytest.mark.parametrize("value", [np.array(1.0), np.zeros(3), np.zeros((8, 2, 2)), np.array(["a", "b"] * 4)])
def test_a_field_of_any_shape_is_refused_in_one_line(name: str, options: dict[str, Any], value: Any) -> None:
    given = {**arrays(), name: value}
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_raw(RawData(given, "test"), **options)
    assert "\n" not in str(caught.value)
    assert value.ndim or "a single value; one for every row is expected" in str(caught.value)


def test_ids_and_flags_both_end_episodes() -> None:
    given = arrays(episode_terminals=[0, 0, 0, 0, 0, 0, 0, 1], episode_ids=[4, 4, 4, 5, 5, 5, 5, 5])
    assert TransitionDataset.from_dict(given).episode_lengths().tolist() == [3, 5]


class TestTimeLimit:
    def test_cuts_within_episodes(self) -> None:
        given = cut_at_time_limit(arrays(rows=10), 3)
        assert given["truncations"].nonzero()[0].tolist() == [5, 8]

    def test_not_where_truncations_are_known(self) -> None:
        with pytest.raises(DataError, match="max_episode_steps: the data mark their truncations themselves"):
            cut_at_time_limit(arrays(timeouts=np.arange(8) == 5), 3)

    def test_through_the_loader(self) -> None:
        dataset = TransitionDataset.from_raw(RawData(arrays(rows=10), "test"), max_episode_steps=3)
        assert dataset.episode_lengths().tolist() == [3, 3, 3, 1]
        assert dataset.origin == "test"


class TestDones:
    """A `dones` flag alone does not say what ended an episode."""

    def load(self, rows: int = 60, dones: Any = (), **options: Any) -> TransitionDataset:
        given = arrays(rows, dones=np.isin(np.arange(rows), dones), **options.pop("also", {}))
        del given["terminations"]
        return TransitionDataset.from_raw(RawData(given, "test"), **options)

    def ends(self, dataset: TransitionDataset) -> tuple[list[int], list[int]]:
        return dataset.terminations.nonzero()[0].tolist(), dataset.truncations.nonzero()[0].tolist()

    def test_episodes_of_one_length_are_time_limits(self) -> None:
        dataset = self.load(dones=[19, 39, 59])
        assert self.ends(dataset) == ([], [19, 39, 59])
        assert dataset.notes == (
            "dones: all 3 episodes they end have 20 rows, so they are read as time limits (truncations);"
            " if the task itself ended there, say dones_are: terminations",
        )
        assert self.ends(self.load(rows=50, dones=[19, 39])) == ([], [19, 39])

    @pytest.mark.parametrize(
        ("dones", "rows"),
        [([19, 38, 59], 60), ([19], 40), ([3, 7, 11], 12), ([9, 19], 60)],
        ids=["different lengths", "one episode", "very short", "a longer one follows"],
    )
    def test_else_they_are_terminations_with_a_note(self, dones: list[int], rows: int) -> None:
        dataset = self.load(rows, dones)
        assert self.ends(dataset) == (dones, [])
        assert dataset.notes == (
            "dones are read as terminations, which stop the bootstrap; where they also mark time limits, give"
            " max_episode_steps, or dones_are: truncations",
        )

    def test_the_user_may_say(self) -> None:
        said = self.load(dones=[19, 39, 59], dones_are="terminations")
        assert (self.ends(said), said.notes) == (([19, 39, 59], []), ())
        assert self.ends(self.load(dones=[19, 38], dones_are="truncations")) == ([], [19, 38])

    def test_ends_of_either_kind_are_told_apart_by_the_other_flag(self) -> None:
        limits = {"timeouts": np.isin(np.arange(60), [19, 39])}
        assert self.ends(self.load(dones=[19, 25, 39], dones_are="ends", also=limits)) == ([25], [19, 39])
        true_ends = {"terminated": np.isin(np.arange(60), [25])}
        assert self.ends(self.load(dones=[19, 25, 39], dones_are="ends", also=true_ends)) == ([25], [19, 39])

    @pytest.mark.parametrize("also", [{}, {"timeouts": np.zeros(60)}, {"timeouts": np.isin(np.arange(60), [19])}])
    def test_beside_terminations_they_are_the_ends(self, also: dict[str, Any]) -> None:
        dataset = self.load(dones=[19, 25, 39], also={"terminated": np.isin(np.arange(60), [25])} | also)
        assert self.ends(dataset) == ([25], [19, 39])
        count = 2 - int(np.sum(also.get("timeouts", 0)))
        assert dataset.notes == (
            f"dones are read as the ends of episodes: {count} that did not terminate count as truncated",
        )

    def test_beside_both_flags_they_say_nothing_new(self) -> None:
        flags = {"terminated": np.isin(np.arange(60), [25]), "truncated": np.isin(np.arange(60), [19, 39])}
        for dones in ([19, 25, 39], [25]):  # old logs of the new kind: done is terminated
            dataset = self.load(dones=dones, also=flags)
            assert (self.ends(dataset), dataset.notes) == (([25], [19, 39]), ())

    def test_a_termination_that_is_not_done_is_refused(self) -> None:
        raw = RawData(arrays(dones=np.arange(8) == 7), "test")
        complaint = "terminations: set without dones at row 2 .*; dones beside terminations must mark the end of every"
        with pytest.raises(DataError, match=complaint):
            TransitionDataset.from_raw(raw)
        (finding,) = examine(raw).at("error")
        assert (finding.code, "set without dones at row 2" in finding.what) == ("data.refused", True)

    @pytest.mark.parametrize("name", ["truncations", "timeouts"])
    def test_truncations_that_are_never_set_tell_nothing(self, name: str) -> None:
        empty = {name: np.zeros(60)}
        assert self.ends(self.load(dones=[19, 39, 59], also=empty)) == ([], [19, 39, 59])
        assert self.ends(self.load(dones=[19, 25, 45], max_episode_steps=20, also=empty)) == ([25], [19, 45])

    def test_a_time_limit_beside_terminations_and_dones(self) -> None:
        true_ends = {"terminated": np.isin(np.arange(60), [25])}
        dataset = self.load(dones=[25], max_episode_steps=20, also=true_ends)
        assert self.ends(dataset) == ([25], [19, 45])
        with pytest.raises(DataError, match="max_episode_steps: the data mark their truncations themselves"):
            self.load(dones=[19, 25], max_episode_steps=20, also=true_ends)

    def test_of_a_mapping_that_has_both(self) -> None:
        with pytest.raises(DataError, match=r"terminations: given twice, as .*; keep one, or read .* dones_are: ends"):
            TransitionDataset.from_dict(arrays(dones=np.arange(8) == 2))

    def test_a_given_time_limit_tells_them_apart(self) -> None:
        dataset = self.load(dones=[19, 25, 45], max_episode_steps=20)
        assert self.ends(dataset) == ([25], [19, 45])
        assert dataset.notes == ("dones after 20 rows are read as truncations, the others as terminations",)

    def test_a_given_time_limit_that_no_done_marks(self) -> None:
        dataset = self.load(dones=[5], max_episode_steps=20)
        assert (self.ends(dataset), dataset.notes) == (([5], [25, 45]), ())

    def test_episode_ids_count(self) -> None:
        ids = {"eps_id": np.repeat([4, 2, 9], 20)}
        assert self.ends(self.load(dones=[19, 39], also=ids)) == ([], [19, 39, 59])
        with pytest.warns(UserWarning, match="'dones' are read as terminations"):
            TransitionDataset.from_dict(
                {**arrays(), "eps_id": [0] * 3 + [1] * 5, "terminations": None, "dones": [0, 0, 1, 0, 0, 0, 0, 1]}
            )

    @pytest.mark.parametrize(
        ("also", "dones_are", "complaint"),
        [
            ({"terminated": np.zeros(60)}, "terminations", "dones_are: terminations, but the data have terminations"),
            (
                {"timeouts": np.zeros(60)},
                "truncations",
                "dones_are: truncations, but the data have truncations besides",
            ),
            ({}, "ends", "dones_are: ends needs either terminations or truncations besides dones"),
            ({"timeouts": np.zeros(3)}, "ends", "truncations: 3 rows, but obs has 60"),
            ({"dones": None}, "ends", "dones_are: the data have no dones, only obs, actions, rewards"),
            ({"timeouts": np.isin(np.arange(60), [19])}, None, "dones: set on every truncated row, .* dones_are: ends"),
        ],
    )
    def test_refusals(self, also: dict[str, Any], dones_are: Any, complaint: str) -> None:
        given = {**arrays(60, dones=np.isin(np.arange(60), [19, 25])), **also}
        given = {name: values for name, values in given.items() if values is not None and name != "terminations"}
        with pytest.raises(DataError, match=complaint):
            TransitionDataset.from_raw(RawData(given, "test"), dones_are=dones_are)


class TestResetSuccessors:
    """RLlib's `new_obs` may be the observation after a reset."""

    def given(self, **changes: Any) -> dict[str, Any]:
        given = arrays(9, terminations=np.zeros(9), truncations=np.isin(np.arange(9), [2, 5, 8]))
        given["obs"] = given["obs"] + 1
        return given | {"new_obs": np.r_[given["obs"][1:], np.zeros((1, 1))]} | changes

    def test_counts_as_not_recorded(self) -> None:
        dataset = TransitionDataset.from_raw(RawData(self.given(), "test"))
        assert dataset.has_next_obs is not None
        assert np.flatnonzero(~dataset.has_next_obs).tolist() == [2, 5, 8]
        assert dataset.notes[0].startswith("new_obs at the end of an episode is the first observation of the next one")

    @pytest.mark.parametrize("flag", ["terminated", "dones"])
    def test_counts_as_not_recorded_at_a_given_time_limit(self, flag: str) -> None:
        given = {name: values for name, values in self.given().items() if name not in ("terminations", "truncations")}
        given[flag] = np.isin(np.arange(9), [2, 5, 8]) & (flag == "dones")
        dataset = TransitionDataset.from_raw(RawData(given, "test"), max_episode_steps=3)
        assert dataset.has_next_obs is not None
        assert np.flatnonzero(~dataset.has_next_obs).tolist() == [2, 5, 8]

    def test_does_not_matter_after_a_termination(self) -> None:
        given = self.given(terminations=np.isin(np.arange(9), [2]), truncations=np.isin(np.arange(9), [5, 8]))
        dataset = TransitionDataset.from_raw(RawData(given, "test"))
        assert dataset.has_next_obs is not None
        assert np.flatnonzero(~dataset.has_next_obs).tolist() == [5, 8]

    def test_true_successors_stay(self) -> None:
        successors = self.given()["obs"] + 1
        successors[[2, 5, 8]] = 77.0
        assert TransitionDataset.from_raw(RawData(self.given(new_obs=successors), "test")).n_usable == 9

    def test_other_names_are_believed(self) -> None:
        given = self.given()
        given["next_obs"] = given.pop("new_obs")
        assert TransitionDataset.from_raw(RawData(given, "test")).n_usable == 9


class TestTimeLimitOfDones:
    """A given length counts, whatever the flags look like."""

    def given(self, rows: int, dones: list[int], **options: Any) -> TransitionDataset:
        flags = np.isin(np.arange(rows), dones)
        raw = {name: values for name, values in arrays(rows).items() if name != "terminations"}
        return TransitionDataset.from_raw(RawData(raw | {"dones": flags}, "test"), **options)

    def test_cuts_everywhere(self) -> None:
        dataset = self.given(400, [99, 349], max_episode_steps=100)
        assert dataset.episode_ends.tolist() == [99, 199, 299, 349, 399]
        assert dataset.terminations.nonzero()[0].tolist() == [349]

    def test_is_no_guess(self) -> None:
        dataset = self.given(24, [11, 23], max_episode_steps=1000)
        assert dataset.terminations.nonzero()[0].tolist() == [11, 23]
        assert not dataset.truncations.any()

    def test_not_beside_another_reading_of_them(self) -> None:
        with pytest.raises(DataError, match="max_episode_steps: dones are said to be truncations already"):
            self.given(24, [11, 23], max_episode_steps=6, dones_are="truncations")


class TestD4RLConversion:
    def test_is_the_loop_it_stands_for(self) -> None:
        """Against the loop of `qlearning_dataset`, written out."""
        rng = np.random.default_rng(0)
        rows = 200
        terminals = rng.random(rows) < 0.05
        timeouts = (rng.random(rows) < 0.05) & ~terminals
        given = arrays(rows, terminations=terminals, timeouts=timeouts, rewards=rng.normal(size=rows))
        kept, successors = [], []
        for i in range(rows - 1):
            if timeouts[i]:
                continue
            kept.append(i)
            successors.append(given["obs"][i + 1])
        dataset = TransitionDataset.from_dict(d4rl_conversion(given)[0])
        np.testing.assert_array_equal(dataset.obs, given["obs"][kept])
        np.testing.assert_array_equal(dataset.next_obs, np.stack(successors))
        np.testing.assert_array_equal(dataset.terminations, terminals[kept])
        np.testing.assert_allclose(dataset.rewards, given["rewards"][kept].astype(np.float32))

    @pytest.mark.parametrize("flag", ["terminals", "dones"])
    @pytest.mark.parametrize("steps", [1, 2, 3, 7, 25, 300])
    def test_counts_steps_as_it_does_where_no_timeouts_are_stored(self, flag: str, steps: int) -> None:
        """Against the loop of `qlearning_dataset` and its counter, written out; terminations fall on the limit, too."""
        rng = np.random.default_rng(steps)
        rows = 200
        terminals = rng.random(rows) < 0.1
        terminals[[0, 4, steps - 1 if steps < rows else 7]] = True
        kept, count = [], 0
        for i in range(rows - 1):
            if count == steps - 1:
                count = 0
                continue
            if terminals[i]:
                count = 0
            kept.append(i)
            count += 1
        given = {**arrays(rows, rewards=rng.normal(size=rows)), flag: terminals}
        del given["terminations"]
        raw = RawData(given, "test")
        if not kept:
            with pytest.raises(DataError, match="obs: 0 rows"):
                TransitionDataset.from_raw(raw, time_limits="d4rl", max_episode_steps=steps)
            return
        dataset = TransitionDataset.from_raw(raw, time_limits="d4rl", max_episode_steps=steps)
        np.testing.assert_array_equal(dataset.obs, given["obs"][kept])
        np.testing.assert_array_equal(dataset.next_obs, given["obs"][1:][kept])
        np.testing.assert_array_equal(dataset.terminations, terminals[kept])
        jumps = np.flatnonzero(np.diff(kept) > 1)
        assert (dataset.truncations | dataset.terminations)[jumps].all()

    def test_counts_no_steps_where_timeouts_are_stored(self) -> None:
        with pytest.raises(DataError, match="max_episode_steps: the data mark their truncations themselves"):
            d4rl_conversion(arrays(timeouts=np.arange(8) == 5), 3)

    def test_keeps_the_borders(self) -> None:
        dataset = TransitionDataset.from_dict(d4rl_conversion(arrays(timeouts=np.arange(8) == 5))[0])
        assert dataset.episode_lengths().tolist() == [3, 2, 1]

    def test_faults_are_told_by_the_row_of_the_file(self) -> None:
        """Row 5, a time limit, is dropped: row 6 becomes row 5."""
        rewards = np.where(np.arange(8) == 6, np.nan, 0.0)
        raw = RawData(arrays(timeouts=np.arange(8) == 5, rewards=rewards), "test")
        with pytest.raises(DataError, match="rewards: NaN at row 6 of the file "):
            TransitionDataset.from_raw(raw, time_limits="d4rl")
        (finding,) = examine(settle(raw, time_limits="d4rl")).at("error")
        assert finding.place.row == 6

    def test_fields_of_another_length(self) -> None:
        with pytest.raises(DataError, match="next_actions: 7 rows, but obs has 8; all fields must"):
            d4rl_conversion(arrays(next_actions=np.zeros((7, 1))))

    def test_not_of_rows_out_of_order(self) -> None:
        raw = RawData(arrays() | {"borders_lost": np.array(True)}, "test")
        with pytest.raises(DataError, match="time limits: the rows were sampled or reordered"):
            TransitionDataset.from_raw(raw, time_limits="d4rl")
