"""Tables: which columns become which field, in which order rows belong, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import pytest

from rl_training.cli.hints_as_options import in_options
from rl_training.cli.reading_options import Reading
from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats import read_table
from rl_training.data.formats.names import natural, suggest
from rl_training.data.formats.tables import plan
from rl_training.errors import DataError

ROWS = 12


def table(**changes: Any) -> dict[str, Any]:
    """Two episodes of six rows: one terminated, one cut. A column of None is left out."""
    columns = {
        "run": np.repeat([3, 8], 6),
        "x": np.arange(ROWS) * 1.0,
        "y": -np.arange(ROWS) * 1.0,
        "u": np.linspace(-1, 1, ROWS),
        "r": np.ones(ROWS),
        "end": np.arange(ROWS) == 5,
    }
    return {name: values for name, values in (columns | changes).items() if values is not None}


MAPPING = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "end", "episode_ids": "run"}


def refusal(given: Any, columns: Any = None) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_table(given, columns)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def numbered(separator: str = "_", start: int = 0, close: str = "") -> dict[str, Any]:
    names = [f"obs{separator}{i + start}{close}" for i in range(11)]
    return {
        **{name: np.full(ROWS, float(i)) for i, name in reversed(list(enumerate(names)))},
        "action": np.zeros(ROWS),
        "reward": np.zeros(ROWS),
        "terminal": np.zeros(ROWS),
    }


class TestMapping:
    def test_says_which_column_holds_what(self) -> None:
        dataset = TransitionDataset.from_table(table(), MAPPING)
        np.testing.assert_array_equal(dataset.obs, np.stack([np.arange(ROWS), -np.arange(ROWS)], axis=1))
        assert dataset.episode_lengths().tolist() == [6, 6]
        assert dataset.terminations.nonzero()[0].tolist() == [5]
        assert dataset.truncations.nonzero()[0].tolist() == [11]
        assert (dataset.origin, dataset.notes) == ("table of columns", ())

    def test_what_it_leaves_out_is_found_by_name(self) -> None:
        given = {**table(u=None, r=None), "Action": np.zeros(ROWS), "reward": np.ones(ROWS), "extra": np.zeros(ROWS)}
        dataset = TransitionDataset.from_table(given, {"obs": ["x", "y"], "episode_ids": "run"})
        assert dataset.act_dim == 1
        assert dataset.notes == ("columns not used: end, extra",)

    def test_patterns_go_in_numeric_order(self) -> None:
        given = numbered("/")
        dataset = TransitionDataset.from_table(given, {"obs": "obs/*"})
        assert dataset.obs[0].tolist() == list(range(11))
        assert dataset.notes == ("obs from obs/0 … obs/10 (11 columns)",)

    def test_lists_and_patterns_mix(self) -> None:
        given = table() | {"v_1": np.zeros(ROWS), "v_0": np.ones(ROWS)}
        dataset = TransitionDataset.from_table(given, MAPPING | {"obs": ["y", "v_*"]})
        assert dataset.obs[3].tolist() == [-3.0, 1.0, 0.0]

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"timestamp": "x"}, "columns: no field 'timestamp'; did you mean 'step'?"),
            ({"obss": "x"}, "columns: no field 'obss'; did you mean 'obs'?"),
            ({"obs": ["x", "z"]}, "columns.obs: no column 'z'; the data have run, x, y, u, r, end"),
            ({"terminations": "ends"}, "columns.terminations: no column 'ends'; did you mean 'end'?"),
            ({"obs": "q_*"}, "columns.obs: no column matches 'q_*'; the data have run, x, y, u, r, end"),
            ({"obs": ["x", "x"]}, "columns.obs: 'x' is given twice"),
            ({"terminations": ["end", "u"]}, "columns.terminations: takes one column, got 2: end, u"),
            ({"obs": []}, "columns.obs: must be a column's name or a list of names, got []"),
            ({"obs": 3}, "columns.obs: must be a column's name or a list of names, got 3"),
            ({"terminated": "end"}, "columns: terminations is given twice, under two of its names; keep one"),
        ],
    )
    def test_mistakes(self, changes: dict[str, Any], complaint: str) -> None:
        assert refusal(table(), MAPPING | changes) == complaint

    def test_not_a_mapping(self) -> None:
        assert refusal(table(), ["x"]) == "columns: must map fields to columns: {obs: [x, y], actions: u}"


class TestNames:
    @pytest.mark.parametrize(("separator", "close"), [("_", ""), (".", ""), ("[", "]"), (" ", ""), ("", "")])
    @pytest.mark.parametrize("start", [0, 1])
    def test_numbered_columns_are_gathered(self, separator: str, close: str, start: int) -> None:
        dataset = TransitionDataset.from_table(numbered(separator, start, close))
        assert dataset.obs[0].tolist() == list(range(11))
        first, last = f"obs{separator}{start}{close}", f"obs{separator}{start + 10}{close}"
        assert dataset.notes == (f"obs from {first} … {last} (11 columns)",)

    def test_a_number_is_missing(self) -> None:
        given = numbered()
        del given["obs_4"]
        assert refusal(given) == "obs: columns obs_0 … obs_10 (10 columns), but number 4 is missing"

    def test_a_number_occurs_twice(self) -> None:
        assert (
            refusal({**numbered(), "obs.4": np.zeros(ROWS)}) == "obs: both 'obs_4' and 'obs.4' are number 4; keep one"
        )

    def test_two_columns_for_one_field(self) -> None:
        assert refusal({**numbered(), "rewards": np.zeros(ROWS)}) == (
            "rewards: both 'reward' and 'rewards' hold it; say which in columns"
        )
        assert refusal({**numbered(), "observation": np.zeros(ROWS)}) == (
            "obs: both 'observation' and 'obs_0' hold it; say which in columns"
        )
        assert refusal({**numbered(), "observations_0": np.zeros(ROWS)}) == (
            "obs: both 'obs_0' and 'observations_0' hold it; say which in columns"
        )

    def test_a_column_beside_numbered_ones_of_its_own_name(self) -> None:
        lists = [[float(row), 1.0] for row in range(ROWS)]
        assert refusal({**numbered(), "obs": lists}) == "obs: both 'obs' and 'obs_0' hold it; say which in columns"
        actions = {**numbered(), "Action_0": np.zeros(ROWS)}
        assert refusal(actions) == "actions: both 'action' and 'Action_0' hold it; say which in columns"
        chosen = TransitionDataset.from_table({**numbered(), "obs": lists}, {"obs": "obs"})
        np.testing.assert_array_equal(chosen.obs, np.array(lists, dtype=np.float32))

    def test_dones_stand_beside_a_flag_of_true_ends(self) -> None:
        planned = plan(["obs", "actions", "rewards", "dones", "terminateds", "truncateds"])
        assert (planned.fields["terminateds"], planned.fields["dones"]) == (("terminateds",), ("dones",))
        assert planned.notes == ()
        mapped = plan(["obs", "actions", "rewards", "Done", "end"], {"terminations": "end"})
        assert (mapped.fields["terminations"], mapped.fields["done"]) == (("end",), ("Done",))

    def test_what_is_missing(self) -> None:
        assert refusal(table()) == (
            "lacks obs, actions, rewards, terminations (or episode_ids); the data have run, x, y, u, r, end;"
            " say which columns hold them with columns: {obs: …};"
            " column 'run' looks like an episode id: columns: {episode_ids: run}"
        )
        assert refusal({f"c{i}": np.zeros(2) for i in range(15)}).startswith(
            "lacks obs, actions, rewards, terminations (or episode_ids);"
            " the data have c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 3 more;"
        )
        assert refusal({}).startswith(
            "lacks obs, actions, rewards, terminations (or episode_ids); the data have no columns;"
        )

    @pytest.mark.parametrize(
        ("name", "field"),
        [
            *((name, "episode_ids") for name in ("ep", "EpisodeIndex", "traj", "trajectory-id", "run", "Rollout No")),
            *((name, "step") for name in ("time", "timestep", "frame_index", "time_stamp", "step_id")),
            *((name, None) for name in ("runtime", "epsilon", "weights", "tt", "demographic")),
        ],
    )
    def test_unused_columns_that_look_like_ids_or_counters(self, name: str, field: str | None) -> None:
        planned = plan(["obs", "actions", "rewards", "dones", name])
        like = "an episode id" if field == "episode_ids" else "a step counter"
        assert planned.hints == (
            () if field is None else (f"column {name!r} looks like {like}: columns: {{{field}: {name}}}",)
        )
        assert plan(["obs", "actions", "rewards", "dones", "episode_id", "t", name]).hints == ()

    def test_two_columns_of_one_name(self) -> None:
        with pytest.raises(DataError, match=r"^two columns are named 'a'; give each its own name$"):
            plan(["a", "b", "a"])

    def test_natural_order(self) -> None:
        assert sorted(["x10", "x2", "x", "x1a"], key=natural) == ["x", "x1a", "x2", "x10"]


class TestCells:
    def test_lists_become_matrices(self) -> None:
        given = table(x=[[i, 2.0 * i] for i in range(ROWS)])
        assert TransitionDataset.from_table(given, MAPPING | {"obs": "x"}).obs[3].tolist() == [3.0, 6.0]
        assert TransitionDataset.from_table(given, MAPPING).obs[3].tolist() == [3.0, 6.0, -3.0]

    def test_words(self) -> None:
        given = table(end=["false"] * 5 + [" TRUE"] + ["False"] * 6, r=["1"] * ROWS)
        assert TransitionDataset.from_table(given, MAPPING).terminations.nonzero()[0].tolist() == [5]

    def test_names_of_episodes(self) -> None:
        given = table(run=["a"] * 4 + ["b"] * 8)
        assert TransitionDataset.from_table(given, MAPPING).episode_lengths().tolist() == [4, 2, 6]

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"x": ["1"] * 7 + ["abc"] * 5}, "column 'x': 'abc' at row 7 is not a number"),
            (
                {"x": ["1"] * 7 + ["0,5"] * 5},
                "column 'x': '0,5' at row 7 is not a number; write decimals with a point",
            ),
            (
                {"x": ["[1, 2]"] * ROWS},
                "column 'x': '[1, 2]' at row 0 is not a number; give one column per value (obs_0, obs_1, …)",
            ),
            ({"x": [[1, 2]] * 5 + [[1]] + [[1, 2]] * 6}, "column 'x': row 5 has 1 value, row 0 has 2;"),
            ({"x": [[1, 2]] * 5 + [None] * 7}, "column 'x': row 5 holds None, not a list as row 0 does"),
            ({"x": [[1, 2]] * 5 + [[1, "a"]] * 7}, "column 'x': row 5 is not a list of numbers: ['1', 'a']"),
            ({"x": np.zeros(ROWS, dtype="M8[s]")}, "column 'x': datetime64[s] values are not numbers"),
            ({"x": np.zeros(3)}, "columns 'x' and 'y' have 3 and 12 rows; all must agree"),
            ({"x": 3}, "column 'x': holds 3, not one value per row"),
            ({"x": [1.0] * 3 + [None] + [1.0] * 8}, "obs: NaN at row 3, column 'x' (episode named 3, step 3);"),
            ({"run": ["a"] * 3 + [""] + ["b"] * 8}, "column 'run': row 3 has no episode"),
            ({"run": [1.0] * 3 + [np.nan] * 9}, "column 'run': row 3 has no episode"),
            ({"run": np.zeros((ROWS, 2))}, "column 'run': holds lists; the episode of a row is one number or name"),
            (
                {"end": [None] * ROWS},
                "terminations: nan at row 0, column 'end' (episode named 3, step 0); flags must be 0 or 1",
            ),
            (
                {"end": np.full(ROWS, 2)},
                "terminations: 2 at row 0, column 'end' (episode named 3, step 0); flags must be 0 or 1",
            ),
            ({"x": np.zeros((ROWS, 2, 2))}, "column 'x': holds nested lists; expected flat ones"),
        ],
    )
    def test_mistakes(self, changes: dict[str, Any], complaint: str) -> None:
        assert refusal(table(**changes), MAPPING).startswith(complaint)

    def test_not_a_table(self) -> None:
        assert refusal([1, 2]) == ("table: must be a pandas DataFrame, an Arrow table or a mapping of columns, is list")

    def test_no_rows(self) -> None:
        empty = {name: values[:0] for name, values in table().items()}
        assert refusal(empty, MAPPING).startswith("obs: 0 rows")


class TestOrder:
    STEPS = MAPPING | {"step": "k"}

    def test_rows_are_sorted_inside_episodes(self) -> None:
        k = np.tile(np.arange(6), 2)
        straight = TransitionDataset.from_table(table(k=k), self.STEPS)
        shuffled = np.random.default_rng(0).permutation(ROWS)
        shuffled = np.r_[shuffled[shuffled < 6][:1], shuffled[shuffled != shuffled[shuffled < 6][0]]]
        mixed = TransitionDataset.from_table({n: np.asarray(v)[shuffled] for n, v in table(k=k).items()}, self.STEPS)
        assert mixed.notes == ("rows were not in order: they are sorted by episode and k",)
        assert mixed.fingerprint() == straight.fingerprint()
        assert straight.notes == ()

    @pytest.mark.parametrize("stride", [1, 4])
    def test_a_gap_cuts_the_episode(self, stride: int) -> None:
        k = np.array([0, 1, 2, 4, 5, 6, 0, 1, 2, 3, 4, 5]) * stride
        dataset = TransitionDataset.from_table(table(k=k), self.STEPS)
        assert dataset.episode_lengths().tolist() == [3, 3, 6]
        assert dataset.has_next_obs is not None
        assert not dataset.has_next_obs[2]
        assert dataset.notes == (
            f"column 'k' skips in 1 place, after row 2 (episode named {table()['run'][2]}): rows are missing there,"
            " and the pieces count as episodes",
        )

    def test_a_gap_cuts_the_episode_whatever_else_tells_its_end(self) -> None:
        given = table(k=[0, 1, 2, 4, 5, 6, 0, 1, 2, 3, 4, 5], episode_terminals=np.isin(np.arange(ROWS), [5, 11]))
        for columns in (self.STEPS, {name: self.STEPS[name] for name in self.STEPS if name != "episode_ids"}):
            dataset = TransitionDataset.from_table(given, columns)
            assert dataset.episode_lengths().tolist() == [3, 3, 6]
            assert not dataset.usable().truncations[[0, 2, 3]].any()

    def test_a_marked_end_is_no_gap(self) -> None:
        given = table(end=None, run=None, k=np.r_[0:6, 100:106], episode_terminals=np.isin(np.arange(ROWS), [5, 11]))
        dataset = TransitionDataset.from_table(given, {"obs": ["x", "y"], "actions": "u", "rewards": "r", "step": "k"})
        assert (dataset.episode_lengths().tolist(), dataset.notes) == ([6, 6], ())

    def test_faults_are_told_by_the_row_of_the_table(self) -> None:
        """In this table the last step of an episode comes first: row 2 becomes row 3."""
        given = table(
            k=np.tile(np.arange(6), 2)[::-1], y=np.where(np.arange(ROWS) == 2, np.nan, 0.0), end=np.zeros(ROWS)
        )
        told = "obs: NaN at row 2 of the file, column 'y' (episode named 3, step 3); all values must be finite"
        told += " (in float32); where it is missing, missing: hold or drop goes on"
        assert refusal(given, self.STEPS) == told
        (finding,) = examine(read_table(given, self.STEPS)).at("error")
        assert (finding.place.row, finding.place.column_name, finding.place.step) == (2, "y", 3)
        given = table(k=np.tile(np.arange(6), 2)[::-1], end=np.where(np.arange(ROWS) == 2, 7, 0))
        assert refusal(given, self.STEPS).startswith(
            "terminations: 7 at row 2 of the file, column 'end' (episode named 3"
        )

    def test_a_counter_that_never_starts_again_tells_no_episodes(self) -> None:
        given = table(end=None, run=None, k=np.arange(ROWS))
        assert refusal(given, {"obs": ["x", "y"], "actions": "u", "rewards": "r", "step": "k"}) == (
            "column 'k': never starts again, and nothing else tells where episodes end; give terminations,"
            " or episode_ids"
        )

    def test_time_stamps_only_give_the_order(self) -> None:
        k = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.02, ROWS))
        dataset = TransitionDataset.from_table(table(k=k), self.STEPS)
        assert dataset.episode_lengths().tolist() == [6, 6]
        (note,) = dataset.notes
        assert note.startswith("column 'k' is not evenly spaced (first after row ")
        assert note.endswith("): it tells the order of rows, but not whether any is missing")

    CLOCKS: ClassVar[dict[str, Any]] = {
        "rounded": lambda k: np.round(0.05 * k, 2),
        "tenths": lambda k: 0.1 * k,
        "thirtieths": lambda k: k / 30,
        "rounded thirtieths": lambda k: np.round(k / 30, 2),
        "epoch": lambda k: 1.7e9 + 0.05 * k,
        "single precision": lambda k: (1000.0 + 0.05 * k).astype(np.float32),
        "whole seconds": lambda k: (1.7e9 + 60 * k).astype(int) + np.random.default_rng(0).integers(-1, 2, len(k)),
        "dates": lambda k: (1_740_787_200 + 60 * k + (k % 7 == 3)).astype("M8[s]"),
        "months": lambda k: (np.datetime64("2001-01") + k.astype(int)).astype("M8[D]"),
        "jitter": lambda k: 0.05 * (k + np.random.default_rng(0).normal(0.0, 0.04, len(k))),
    }

    @pytest.mark.parametrize("clock", CLOCKS)
    def test_times_tell_holes_and_nothing_else(self, clock: str) -> None:
        """Three episodes of 60 rows by a clock whose strides are equal only up to rounding; then row 80 is lost."""
        k = np.tile(np.arange(60), 3).astype(np.float64)
        rows = {name: np.resize(np.asarray(values), 180) for name, values in table().items()}
        given = rows | {"run": np.repeat(["a", "b", "c"], 60), "end": np.zeros(180), "k": self.CLOCKS[clock](k)}
        whole = TransitionDataset.from_table(given, self.STEPS)
        assert (whole.episode_lengths().tolist(), whole.notes) == ([60, 60, 60], ())
        holed = TransitionDataset.from_table({n: np.delete(v, 80, 0) for n, v in given.items()}, self.STEPS)
        assert holed.episode_lengths().tolist() == [60, 20, 39, 60]
        assert holed.notes[0].startswith("column 'k' skips in 1 place, after row 79 (episode named b)")

    def test_steps_alone_tell_episodes(self) -> None:
        given = table(run=None, end=None, t=[0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 0, 1])
        dataset = TransitionDataset.from_table(given, {"obs": ["x", "y"], "actions": "u", "rewards": "r"})
        assert dataset.episode_lengths().tolist() == [4, 5, 1, 2]
        assert not dataset.terminations.any()

    def test_a_count_over_all_episodes_changes_nothing(self) -> None:
        """Steps may go on from one episode to the next, and may skip where a flag ends one."""
        given = table(run=None, step=np.r_[0:6, 10:16])
        dataset = TransitionDataset.from_table(given, {key: MAPPING[key] for key in MAPPING if key != "episode_ids"})
        assert (dataset.episode_lengths().tolist(), dataset.notes) == ([6, 6], ())
        assert not dataset.truncations.any()

    def test_a_step_twice(self) -> None:
        assert refusal(table(k=[0, 1, 1, 2, 3, 4] * 2), self.STEPS) == (
            "column 'k': 1 occurs twice in the episode named 3, at rows 1 and 2, and 1 more do so;"
            " 2 differ: remove one of the two rows"
        )
        assert refusal(table(k=[4, 1, 3, 2, 1, 0] * 2), self.STEPS).endswith(
            "the episode named 3, at rows 1 and 4, and 1 more do so; 2 differ: remove one of the two rows"
        )

    def test_copies_of_a_row_are_left_out_if_asked_to(self) -> None:
        rows = [0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11]
        doubled = {name: np.asarray(values)[rows] for name, values in table(k=[0, 1, 2, 3, 4, 5] * 2).items()}
        assert refusal(doubled, self.STEPS) == (
            "column 'k': 1 occurs twice in the episode named 3, at rows 1 and 2, and 2 more do so; all 3 rows are exact"
            " copies: duplicates: drop leaves them out"
        )
        kept = TransitionDataset.from_table(doubled, self.STEPS, duplicates="drop")
        plain = TransitionDataset.from_table(table(k=[0, 1, 2, 3, 4, 5] * 2), self.STEPS)
        assert kept.fingerprint() == plain.fingerprint()
        assert kept.notes == (*plain.notes, "3 rows left out: each is a copy of the row before (duplicates: drop)")
        assert kept.in_file is not None
        assert kept.in_file.row_in_file(11) == (14, None)
        doubled["x"][3] += 1
        with pytest.raises(DataError, match=r"1 occurs twice .*, at rows 1 and 3; the two rows differ: remove one$"):
            TransitionDataset.from_table(doubled, self.STEPS, duplicates="drop")
        assert "; duplicates: drop leaves out the 2 that are exact copies; 1 differ" in refusal(doubled, self.STEPS)

    def test_copies_need_a_step(self) -> None:
        with pytest.raises(DataError, match=r"^duplicates: only a column that counts steps shows"):
            TransitionDataset.from_table(table(), MAPPING, duplicates="drop")

    def test_copies_without_ids(self) -> None:
        mapping = {"obs": ["x", "y"], "actions": "u", "rewards": "r", "terminations": "end"}
        given = table(run=None, end=np.arange(ROWS) == 11, t=[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        rows = [0, 1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 11, 11]
        doubled = {name: np.asarray(values)[rows] for name, values in given.items() if values is not None}
        kept = TransitionDataset.from_table(doubled, mapping, duplicates="drop")
        assert kept.fingerprint() == TransitionDataset.from_table(given, mapping).fingerprint()

    @pytest.mark.parametrize("end", [None, np.arange(ROWS) == 11])
    def test_a_step_twice_without_ids(self, end: Any) -> None:
        """It is no new episode; one ends there only by a flag, or where an episode may have had a single row."""
        mapping = {"obs": ["x", "y"], "actions": "u", "rewards": "r"} | ({} if end is None else {"terminations": "end"})
        given = table(run=None, end=end, t=[0, 1, 2, 0, 1, 2, 3, 3, 4, 5, 6, 7])
        assert refusal(given, mapping) == (
            "column 't': 3 occurs twice in one episode, at rows 6 and 7; the two rows differ: remove one"
        )
        flagged = table(run=None, end=np.arange(ROWS) == 6, t=given["t"])
        lengths = TransitionDataset.from_table(flagged, mapping | {"terminations": "end"}).episode_lengths()
        assert lengths.tolist() == [3, 4, 5]

    def test_a_step_that_is_missing(self) -> None:
        complaint = "column 'k': no number at row 2, and the step inside an episode must be one; name one that counts"
        assert refusal(table(k=[0, 1, None, 3, 4, 5] * 2), self.STEPS).startswith(complaint)

    def test_interleaved_episodes_need_steps_or_successors(self) -> None:
        run = np.tile([3, 8], 6)
        assert refusal(table(run=run, end=None), {**MAPPING, "terminations": "r"}).startswith(
            "episode_ids: episode 3 goes on at row 2 after another one"
        )
        sorted_by_step = TransitionDataset.from_table(table(run=run, end=run * 0, k=np.arange(ROWS) // 2), self.STEPS)
        assert sorted_by_step.obs[:, 0].tolist() == [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]

    def test_interleaved_episodes_are_joined_only_where_they_follow(self) -> None:
        x = np.arange(ROWS) * 1.0
        successors = x + 2
        successors[4] = 99.0  # the row after it is lost
        given = table(run=np.tile([3, 8], 6), end=np.zeros(ROWS), x2=successors)
        dataset = TransitionDataset.from_table(given, {**MAPPING, "obs": "x", "next_obs": "x2"})
        assert dataset.obs[:, 0].tolist() == [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
        assert dataset.episode_lengths().tolist() == [3, 3, 6]
        assert dataset.notes == (
            "columns not used: y",
            "episodes were interleaved: rows are brought together by episode, in the order they have in it",
            "in 1 places inside an episode a row's successor is not the next row: rows are missing there, and the"
            " pieces count as episodes",
        )


def test_numbers_as_arrays_without_dimensions() -> None:
    """As some environments give for a reward."""
    rewards = np.empty(4, dtype=object)
    rewards[:] = [np.array(1.5), 2, np.array(3), np.array(4.0)]
    table = {"x": np.arange(4.0), "u": np.zeros(4), "r": rewards, "done": [0, 0, 0, 1]}
    columns = {"obs": "x", "actions": "u", "rewards": "r", "terminations": "done"}
    assert TransitionDataset.from_table(table, columns).rewards.tolist() == [1.5, 2.0, 3.0, 4.0]
    rewards[0] = np.ma.masked
    with pytest.raises(DataError, match="row 0"):
        TransitionDataset.from_table(table, columns)


def test_moments_as_objects_are_no_numbers() -> None:
    for cell in (np.timedelta64(5, "s"), np.datetime64("2024-01-01")):
        table = {"x": np.array([cell] * 4, dtype=object), "u": np.zeros(4), "r": np.ones(4), "done": [0, 0, 0, 1]}
        with pytest.raises(DataError, match="column 'x': holds dates or durations as objects"):
            TransitionDataset.from_table(table, {"obs": "x", "actions": "u", "rewards": "r", "terminations": "done"})


def test_ids_that_a_spreadsheet_has_rounded() -> None:
    """1.23457E+11 is what it shows, and writes, of a thousand long numbers."""
    told = refusal(table(run=["7"] * 6 + ["1.23457E+11"] * 6), MAPPING)
    assert told.startswith("column 'run': 1.23457E+11 at row 6 is a number that was rounded, as spreadsheets do")
    told = refusal(table(run=["1.00E+03"] * 6 + ["1.01E+03"] * 6), MAPPING)  # 1000 to 1004 are all the first
    assert told.startswith("column 'run': 1.00E+03 at row 0 is a number that was rounded, as spreadsheets do")
    exact = TransitionDataset.from_table(table(run=["1.50E+02"] * 6 + ["1.23457E+05"] * 6), MAPPING)
    assert exact.n_episodes == 2
    exact = TransitionDataset.from_table(table(run=["1.5E+11"] * 6 + ["1.23457E+05"] * 6), MAPPING)
    assert exact.n_episodes == 2


class TestRLlib:
    """RLlib's names, in a small twin of what it writes."""

    def columns(self, **changes: Any) -> dict[str, Any]:
        rows = 60
        obs = np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32)
        given = {
            "obs": obs,
            "actions": np.zeros((rows, 1)),
            "rewards": np.ones(rows),
            "dones": np.arange(rows) % 20 == 19,
            "agent_index": np.zeros(rows, dtype=int),
            "eps_id": np.repeat([17, 5, 11], 20),
            "unroll_id": np.repeat([1, 2, 3], 20),
            "new_obs": np.r_[obs[1:], np.zeros((1, 3), np.float32)],
        }
        return {name: values for name, values in (given | changes).items() if values is not None}

    def test_layout(self) -> None:
        dataset = TransitionDataset.from_table(self.columns())
        assert dataset.episode_lengths().tolist() == [20, 20, 20]
        assert dataset.truncations.nonzero()[0].tolist() == [19, 39, 59]
        assert (dataset.n_usable, dataset.terminations.sum()) == (57, 0)
        assert [note.split(":")[0] for note in dataset.notes] == [
            "columns not used",
            "dones",
            "new_obs at the end of an episode is the first observation of the next one (or zeros), not the successor",
        ]

    def test_a_lost_file_cuts_the_episode(self) -> None:
        keep = np.r_[0:25, 30:60]
        dataset = TransitionDataset.from_table({name: values[keep] for name, values in self.columns().items()})
        assert dataset.episode_lengths().tolist() == [20, 5, 10, 20]
        assert "in 1 places inside an episode a row's successor is not the next row" in " ".join(dataset.notes)
        assert dataset.has_next_obs is None or dataset.has_next_obs[24]  # its successor was recorded

    def test_without_successors_a_loss_cannot_be_seen(self) -> None:
        dataset = TransitionDataset.from_table(self.columns(new_obs=None))
        assert "without a step column (t) it cannot be seen whether rows inside an episode are missing" in dataset.notes

    def test_steps_show_it(self) -> None:
        keep = np.r_[0:25, 30:60]
        given = {name: v[keep] for name, v in self.columns(new_obs=None, t=np.tile(np.arange(20), 3)).items()}
        dataset = TransitionDataset.from_table(given)
        assert dataset.episode_lengths().tolist() == [20, 5, 10, 20]

    def test_fragments_without_episodes(self) -> None:
        dataset = TransitionDataset.from_table(self.columns(eps_id=None, new_obs=None, dones=np.arange(60) == 7))
        assert dataset.episode_lengths().tolist() == [8, 12, 20, 20]
        assert "nothing but unroll_id tells fragments apart: each ends an episode where it ends" in dataset.notes

    def test_fragments_whose_successors_show_what_follows(self) -> None:
        given = self.columns(eps_id=None, unroll_id=np.repeat(np.arange(6), 10))
        assert TransitionDataset.from_table(given).episode_lengths().tolist() == [20, 20, 20]

    def test_several_agents(self) -> None:
        assert refusal(self.columns(agent_index=np.arange(60) % 2)) == (
            "column 'agent_index': rows of 2 agents; keep those of one"
        )

    def test_the_name_stays_when_it_is_mapped(self) -> None:
        assert TransitionDataset.from_table(self.columns(), {"next_obs": "new_obs"}).n_usable == 57


class TestPandas:
    def test_is_the_same_as_a_mapping(self) -> None:
        pandas = pytest.importorskip("pandas")
        plain = TransitionDataset.from_table(table(), MAPPING)
        frame = pandas.DataFrame(table())
        dataset = TransitionDataset.from_table(frame, MAPPING)
        assert dataset.fingerprint() == plain.fingerprint()
        assert dataset.origin == "pandas DataFrame"

    def test_nullable_columns_lists_and_categories(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(table(x=[[i, i] for i in range(ROWS)], run=["a"] * 6 + ["b"] * 6))
        frame["r"] = frame["r"].astype("Float32")
        frame["end"] = frame["end"].astype("boolean")
        frame["run"] = frame["run"].astype("category")
        dataset = TransitionDataset.from_table(frame, MAPPING)
        assert (dataset.obs_dim, dataset.n_episodes) == (3, 2)
        frame.loc[4, "r"] = pandas.NA
        assert refusal(frame, MAPPING).startswith("rewards: NaN at row 4")
        frame["r"] = frame["r"].astype(object)
        assert refusal(frame, MAPPING).startswith("rewards: NaN at row 4")

    def test_missing_cells_of_text(self) -> None:
        """As `read_csv(dtype_backend="numpy_nullable")` has them: NA, which cannot be compared with anything."""
        pandas = pytest.importorskip("pandas")
        text = {
            "ends": ["", pandas.NA, "crash"] * 4,
            "run": ["a"] * 6 + ["b"] * 6,
            "x": ["open", pandas.NA, "shut"] * 4,
        }
        frame = pandas.DataFrame(table(end=None, **text)).convert_dtypes()
        mapping = {**{key: name for key, name in MAPPING.items() if key != "terminations"}, "end_reasons": "ends"}
        words = {"x": {"open": 1, "shut": 0}}
        said: Any = {"end_reasons": {"crash": "termination"}, "words": words, "missing": "hold"}
        dataset = TransitionDataset.from_table(frame, mapping, **said)
        assert np.flatnonzero(dataset.terminations).tolist() == [2, 5, 8, 11]
        assert dataset.obs[:4, 0].tolist() == [1, 1, 0, 1]
        frame.loc[4, "run"] = pandas.NA
        assert refusal(frame, MAPPING | {"terminations": "y"}) == "column 'run': row 4 has no episode"

    def test_the_levels_of_an_index_are_columns(self) -> None:
        """As they are in the Parquet file that pandas writes of such a table."""
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(table(run=["a"] * 6 + ["b"] * 6, t=[*range(6), *range(6)]))
        plain = TransitionDataset.from_table(frame, MAPPING)
        indexed = frame.set_index(["run", "t"]).iloc[[*range(0, 12, 2), *range(11, 0, -2)]]
        dataset = TransitionDataset.from_table(indexed, MAPPING)
        assert dataset.fingerprint() == plain.fingerprint()
        assert dataset.n_episodes == 2
        assert "rows were not in order: they are sorted by episode and t" in dataset.notes
        unnamed = frame.set_index(pandas.Index(range(5, 5 + len(frame))))
        assert TransitionDataset.from_table(unnamed, MAPPING).notes == plain.notes

    def test_two_columns_of_one_name(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
        assert refusal(frame) == "two columns are named 'a'; give each its own name"


class TestArrow:
    def test_is_the_same_as_a_mapping(self) -> None:
        arrow = pytest.importorskip("pyarrow")
        plain = TransitionDataset.from_table(table(), MAPPING)
        dataset = TransitionDataset.from_table(arrow.table(table()), MAPPING)
        assert (dataset.fingerprint(), dataset.origin) == (plain.fingerprint(), "Arrow table")

    def test_kinds_of_columns(self) -> None:
        arrow = pytest.importorskip("pyarrow")
        matrix = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)
        flat = arrow.array(matrix.reshape(-1))
        kinds = {
            "list": arrow.array(matrix.tolist()),
            "large list": arrow.array(matrix.tolist(), arrow.large_list(arrow.float32())),
            "fixed": arrow.FixedSizeListArray.from_arrays(flat, 2),
            "tensor": arrow.FixedShapeTensorArray.from_numpy_ndarray(matrix),
            "chunks": arrow.chunked_array([matrix[:5].tolist(), matrix[5:].tolist()]),
        }
        for name, column in kinds.items():
            given = arrow.table({**table(), "x": column})
            dataset = TransitionDataset.from_table(given, MAPPING | {"obs": "x"})
            np.testing.assert_array_equal(dataset.obs, matrix, err_msg=name)

    @pytest.mark.parametrize("kind", ["float32", "int64"])
    def test_what_is_missing_inside_of_a_tensor(self, kind: str) -> None:
        """Under a value that is missing lies some number, most often 0."""
        arrow = pytest.importorskip("pyarrow")
        cells = [*range(9), None, *range(10, 2 * ROWS)]
        flat = arrow.FixedSizeListArray.from_arrays(arrow.array(cells, kind), 2)
        tensors = arrow.ExtensionArray.from_storage(arrow.fixed_shape_tensor(flat.type.value_type, [2]), flat)
        for column in (flat, tensors, arrow.chunked_array([tensors[:3], tensors[3:]])):
            given = arrow.table({**table(), "x": column})
            told = "obs: NaN at row 4, column 'x[1]' (episode named 3, step 4);"
            assert refusal(given, MAPPING | {"obs": "x"}).startswith(told)
            held = TransitionDataset.from_table(given, MAPPING | {"obs": "x"}, missing="drop")
            assert held.obs[:5].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [10, 11]]

    def test_tensors_keep_their_order_of_axes(self) -> None:
        arrow = pytest.importorskip("pyarrow")
        from rl_training.data.formats.arrow import column_values

        kind = arrow.fixed_shape_tensor(arrow.float64(), [2, 3], permutation=[1, 0])
        for last, expected in ((5.0, 5.0), (None, np.nan)):
            flat = arrow.FixedSizeListArray.from_arrays(arrow.array([0.0, 1.0, 2.0, 3.0, 4.0, last]), 6)
            found = column_values("x", arrow.ExtensionArray.from_storage(kind, flat))
            np.testing.assert_array_equal(found, [[[0.0, 3.0], [1.0, 4.0], [2.0, expected]]])

    def test_text_and_decimals(self) -> None:
        arrow = pytest.importorskip("pyarrow")
        given = arrow.table(table(run=["a"] * 6 + ["b"] * 6, end=["false"] * 5 + ["true"] + ["false"] * 6))
        given = given.set_column(2, "y", given["y"].cast(arrow.decimal128(10, 2)))
        given = given.set_column(0, "run", given["run"].dictionary_encode())
        dataset = TransitionDataset.from_table(given, MAPPING)
        assert (dataset.n_episodes, dataset.obs[3].tolist()) == (2, [3.0, -3.0])

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            ([[1.0, 2.0]] * 3 + [[1.0]] + [[1.0, 2.0]] * 8, "column 'x': row 3 has 1 value, row 0 has 2;"),
            ([[1.0, 2.0]] * 3 + [None] * 9, "column 'x': row 3 is empty"),
            ([["a", "b"]] * ROWS, "column 'x': holds lists of texts; give lists of numbers"),
            ([{"a": 1}] * ROWS, "column 'x': Arrow type struct<a: int64> is not supported;"),
            ([b"\x00"] * ROWS, "column 'x': Arrow type binary is not supported; write it as text (a cast to string)"),
            ([1.0] * 4 + [None] * 8, "obs: NaN at row 4, column 'x' (episode named 3, step 4);"),
        ],
    )
    def test_mistakes(self, values: Any, complaint: str) -> None:
        arrow = pytest.importorskip("pyarrow")
        assert refusal(arrow.table({**table(), "x": arrow.array(values)}), MAPPING | {"obs": "x"}).startswith(complaint)


def test_a_part_of_one_name_stands_for_it() -> None:
    names = ["Kammer Luft [°C]", "Feuchte [%rH]", "Aussen [°C]"]
    assert suggest("Kammer", names) == "; did you mean 'Kammer Luft [°C]'?"
    assert suggest("[°C]", names) == "; the data have Kammer Luft [°C], Feuchte [%rH], Aussen [°C]"
    assert suggest("Speed kmh", ["Speed km/h", "Load t"]) == "; did you mean 'Speed km/h'?"


class TestSuccessorsOfMappedColumns:
    """The `next_obs_*` that the package finds by itself belong to the `obs_*` of the same number."""

    ENDS: ClassVar = {"actions": "u", "rewards": "r", "terminations": "end", "episode_ids": "run"}

    def table(self, stem: str = "obs", start: int = 0) -> dict[str, Any]:
        """Three columns that count by 1, 10 and 100, so that each tells which it is, and their successors."""
        rows = np.arange(ROWS) + 1.0
        here = {f"{stem}_{i}": 10.0**i * rows for i in range(3)}
        then = {f"next_obs_{i + start}": 10.0**i * (rows + 1) for i in range(3)}
        return table(x=None, y=None) | here | then

    @pytest.mark.parametrize("chosen", [[2, 0, 1], [0, 2], [2, 1], [1]])
    def test_follow_their_order(self, chosen: list[int]) -> None:
        dataset = TransitionDataset.from_table(self.table(), self.ENDS | {"obs": [f"obs_{i}" for i in chosen]})
        assert (dataset.next_obs[0] / dataset.obs[0]).tolist() == [2.0] * len(chosen)
        told = ", ".join(f"next_obs_{i}" for i in chosen)
        assert dataset.notes[0] == f"next_obs from {told}, in the order of obs"

    def test_of_all_in_their_own_order(self) -> None:
        dataset = TransitionDataset.from_table(self.table(), self.ENDS | {"obs": "obs_*"})
        assert dataset.notes[1] == "next_obs from next_obs_0 … next_obs_2 (3 columns)"

    def test_of_other_names(self) -> None:
        mapping = self.ENDS | {"obs": ["s_2", "s_0", "s_1"]}
        dataset = TransitionDataset.from_table(self.table("s"), mapping)
        assert (dataset.next_obs[0] / dataset.obs[0]).tolist() == [2.0] * 3

    @pytest.mark.parametrize(("stem", "start"), [("s", 1), ("s", 5), ("obs", 1)])
    def test_counted_from_another_number(self, stem: str, start: int) -> None:
        mapping = self.ENDS | {"obs": [f"{stem}_{i}" for i in range(3)]}
        dataset = TransitionDataset.from_table(self.table(stem, start), mapping)
        assert (dataset.next_obs[0] / dataset.obs[0]).tolist() == [2.0] * 3

    @pytest.mark.parametrize(
        ("obs", "start"),
        [
            (["x", "y", "z"], 0),
            (["s_2", "s_0", "s_1"], 1),
            (["s_1", "v_0", "v_1"], 0),
            (["obs_2", "obs_1"], 1),
            (["s_0", "s_1"], 0),
        ],
        ids=["no numbers", "shifted", "two names", "shifted own", "some"],
    )
    def test_in_an_order_that_nothing_shows_are_asked_for(self, obs: list[str], start: int) -> None:
        stem = obs[0].partition("_")[0] if "_" in obs[0] else "q"
        given = self.table(stem, start) | {name: np.ones(ROWS) for name in ("x", "y", "z", "v_0", "v_1")}
        assert "do not go with columns.obs" in refusal(given, self.ENDS | {"obs": obs})
        mapping = self.ENDS | {"obs": obs, "next_obs": []}
        assert TransitionDataset.from_table(given, mapping).obs_dim == len(obs)

    @pytest.mark.parametrize("obs", [["s_1", "s_0"], ["s_1"], ["x", "y"], ["v", "x"], ["m", "observation"]])
    def test_a_matrix_in_an_order_that_nothing_shows_is_asked_for(self, obs: list[str], tmp_path: Path) -> None:
        given: dict[str, Any] = {
            name: np.arange(ROWS) + 1.0 for name in ("s_0", "s_1", "x", "y", "v", "m", "observation")
        }
        given |= {"u": np.ones(ROWS), "r": np.ones(ROWS), "end": np.zeros(ROWS)}
        given["next_observations"] = np.ones((ROWS, len(obs)))
        np.savez(tmp_path / "log.npz", **given)
        mapping = {"obs": obs, "actions": "u", "rewards": "r", "terminations": "end"}
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(tmp_path / "log.npz", columns=mapping)
        assert str(caught.value).endswith(
            f"next_observations: nothing shows that it goes in the order of columns.obs ({', '.join(obs)}); if it does,"
            " say so: columns: {next_obs: next_observations}, or {next_obs: []} to take it from the next row"
        )
        said = mapping | {"next_obs": "next_observations"}
        assert TransitionDataset.load(tmp_path / "log.npz", columns=said).next_obs.shape == (ROWS, len(obs))

    @pytest.mark.parametrize("obs", [["observations"], ["state"], ["s_0", "s_1"]])
    def test_a_matrix_in_the_one_order_there_is(self, obs: list[str], tmp_path: Path) -> None:
        given: dict[str, Any] = {name: np.ones((ROWS, 2 if len(obs) == 1 else 1)) for name in obs}
        given |= {"u": np.ones(ROWS), "r": np.ones(ROWS), "end": np.zeros(ROWS), "x": np.ones(ROWS)}
        given["next_observations"] = np.full((ROWS, 2), 2.0)
        np.savez(tmp_path / "log.npz", **given)
        mapping = {"obs": obs, "actions": "u", "rewards": "r", "terminations": "end"}
        assert TransitionDataset.load(tmp_path / "log.npz", columns=mapping).next_obs[0].tolist() == [2.0, 2.0]

    @pytest.mark.parametrize("obs", [["obs_2", "r", "obs_0"], ["r", "obs_0", "obs_1"], ["obs_0", "obs_1", "r"]])
    def test_that_do_not_correspond_are_asked_for(self, obs: list[str]) -> None:
        message = refusal(self.table(), self.ENDS | {"obs": obs})
        assert message == (
            f"next_obs: columns next_obs_0 … next_obs_2 (3 columns) do not go with columns.obs ({', '.join(obs)}) by"
            " their numbers; say which belong to it, in the same order: columns: {next_obs: …}, or {next_obs: []} to"
            " take it from the next row"
        )

    def test_observations_follow_mapped_successors(self) -> None:
        mapping = self.ENDS | {"next_obs": ["next_obs_2", "next_obs_0"]}
        dataset = TransitionDataset.from_table(self.table(), mapping)
        assert (dataset.next_obs[0] / dataset.obs[0]).tolist() == [2.0] * 2
        given = self.table() | {name: np.ones(ROWS) for name in ("a", "b", "c")}
        assert TransitionDataset.from_table(given, self.ENDS | {"next_obs": ["a", "b", "c"]}).obs_dim == 3

    def test_of_the_packages_own_file(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.from_table(self.table(), self.ENDS)
        dataset.save(tmp_path / "own.csv")
        turned = TransitionDataset.load(tmp_path / "own.csv", columns={"obs": ["obs_1", "obs_0"]})
        assert turned.next_obs.tolist() == dataset.next_obs[:, [1, 0]].tolist()


class TestColumnsThatBearTheNameOfAField:
    """A log may call something else `timeout`, or `part_ids`."""

    @pytest.mark.parametrize("parts", [np.arange(ROWS), [f"P{i}" for i in range(ROWS)]], ids=["numbers", "texts"])
    def test_parts_of_something_else(self, parts: Any, tmp_path: Path) -> None:
        dataset = TransitionDataset.from_table(table(part_ids=parts), MAPPING)
        assert (dataset.part_ids, dataset.notes) == (None, ("columns not used: part_ids",))
        plain = {"obs": np.ones((4, 2)), "actions": np.arange(4.0), "rewards": np.ones(4), "dones": [0, 1, 0, 1]}
        np.savez(tmp_path / "log.npz", **plain, part_ids=np.asarray(parts)[:4])
        assert TransitionDataset.load(tmp_path / "log.npz").part_ids is None
        with h5py.File(tmp_path / "log.h5", "w") as file:
            file.update({**plain, "part_ids": np.arange(4)})
        assert TransitionDataset.load(tmp_path / "log.h5").part_ids is None

    @pytest.mark.parametrize("name", ["mixed.npz", "mixed.csv", "mixed.hdf5"])
    def test_those_that_were_saved_here_are_kept(self, name: str, tmp_path: Path) -> None:
        part = TransitionDataset.from_table(table(), MAPPING)
        replace(part, part_ids=np.arange(ROWS) // 6).save(tmp_path / name)
        read = TransitionDataset.load(tmp_path / name)
        assert read.part_ids is not None
        assert read.part_ids.tolist() == [0] * 6 + [1] * 6

    @pytest.mark.parametrize(
        ("column", "values", "field"),
        [
            ("timeout", 30, "truncations"),
            ("timeout", "none", "truncations"),
            ("next_action", "call", "next_actions"),
            ("done", 55.5, "dones"),
        ],
    )
    def test_can_be_left_alone(self, column: str, values: Any, field: str) -> None:
        given = table(**{column: [values] * ROWS})
        assert f"; if it is something else, columns: {{{field}: []}} leaves it alone" in refusal(given, MAPPING)
        dataset = TransitionDataset.from_table(given, MAPPING | {field: []})
        assert dataset.notes == (f"columns not used: {column}",)
        assert dataset.in_file is not None
        assert dataset.in_file.hints == ()

    @pytest.mark.parametrize("column", ["terminations", "terminal"])
    def test_terminations_can_be_left_alone(self, column: str) -> None:
        given = {**table(), column: ["by hand"] * ROWS}
        given.pop("end")
        mapping = {key: name for key, name in MAPPING.items() if key != "terminations"}
        dataset = TransitionDataset.from_table(given, mapping | {"terminations": []})
        assert not dataset.terminations.any()
        assert dataset.truncations.any()
        assert dataset.notes[0] == f"columns not used: {column}"
        del mapping["episode_ids"]
        assert "lacks terminations (or episode_ids)" in refusal(given, mapping | {"terminations": []})

    def test_a_step_can_be_left_alone(self) -> None:
        given = table(t=np.arange(ROWS)[::-1])
        assert TransitionDataset.from_table(given, MAPPING).obs[0, 0] == 5
        assert TransitionDataset.from_table(given, MAPPING | {"step": []}).obs[0, 0] == 0

    def test_what_is_needed_cannot(self) -> None:
        assert refusal(table(), MAPPING | {"obs": []}).startswith("columns.obs: must be a column's name or a list of")

    def test_on_the_command_line(self) -> None:
        typed = in_options("; if it is something else, columns: {truncations: []} leaves it alone")
        assert typed == "; if it is something else, --columns truncations= leaves it alone"
        assert Reading(columns=["obs=x", "truncations="]).column_mapping() == {"obs": "x", "truncations": []}
