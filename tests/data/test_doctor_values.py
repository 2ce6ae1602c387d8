"""The doctor on values: actions, observations, rewards, returns, coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import examine
from rl_training.data.doctor.coverage import effective_dimension
from rl_training.data.doctor.far_values import far_beyond
from rl_training.data.doctor.subject import Columns
from rl_training.data.formats import read_table
from rl_training.data.reference_returns import reference_returns
from rl_training.data.settling import settle
from rl_training.environments import Spaces
from rl_training.reading_choices import TableChoices
from sick_data import codes, ends_of, healthy, report_on, without_successors

ROWS = len(healthy()["obs"])


class TestActionBounds:
    def test_a_few_outside_the_usual_range(self) -> None:
        arrays = healthy()
        arrays["actions"][[100, 200], 0] = 1.8
        finding = codes(arrays)["actions.outside"]
        assert (finding.level, finding.count, finding.place.row, finding.place.column) == ("warning", 2, 100, 0)

    def test_another_range_is_no_fault(self) -> None:
        arrays = healthy()
        arrays["actions"] = arrays["actions"] * 2.0
        report = report_on(arrays)
        assert report.findings == ()
        assert report.facts.bounds_from == "the smallest and largest in the data"

    def test_but_a_single_action_far_from_all_others_is(self) -> None:
        arrays = healthy()
        arrays["actions"] = arrays["actions"] * 2.0
        arrays["actions"][321, 1] = 50.0
        finding = codes(arrays)["actions.far-out"]
        assert (finding.level, finding.count, finding.place.row, finding.place.column) == ("warning", 1, 321, 1)

    def test_rounding_is_inside(self) -> None:
        arrays = healthy()
        arrays["actions"][5, 0] = np.float32(1.0 + 1e-6)
        assert "actions.outside" not in codes(arrays, spaces=Spaces(3, (-1.0, -1.0), (1.0, 1.0)))


class TestActionsOnABound:
    def test_some_are_nothing_to_do_anything_about(self) -> None:
        arrays = healthy()
        arrays["actions"][::9, 0] = 1.0
        assert "actions.at-bound" not in codes(arrays)

    def test_most_are_a_warning(self) -> None:
        arrays = healthy()
        arrays["actions"] = np.clip(8.0 * arrays["actions"], -1.0, 1.0)
        finding = codes(arrays)["actions.at-bound"]
        assert finding.level == "warning"
        assert "of all action entries lie exactly on a bound (most in column" in finding.what

    def test_switches_are_told_as_such(self) -> None:
        arrays = healthy()
        arrays["actions"] = np.where(np.abs(arrays["actions"]) > 0.1, np.sign(arrays["actions"]), arrays["actions"])
        found = codes(arrays)
        assert found["actions.gap"].level == "warning"
        assert "actions.at-bound" not in found


class TestDiscreteActions:
    def test_few_values(self) -> None:
        actions = np.random.default_rng(0).integers(0, 4, ROWS)
        finding = codes(without_successors(actions=actions))["actions.discrete"]
        assert (finding.level, finding.count) == ("warning", 4)
        assert "(0, 1, 2 and 3), which look like the numbers of choices" in finding.what

    def test_columns_of_other_values_are_told_apart(self) -> None:
        rng = np.random.default_rng(0)
        heater, fan, pump = rng.integers(0, 2, ROWS), 10 * rng.integers(0, 7, ROWS), rng.integers(0, 2, ROWS)
        report = report_on(without_successors(actions=np.stack([heater, fan, pump], axis=1)))
        assert [f.what for f in report.findings if f.code == "actions.discrete"] == [
            "Columns 0 and 2 take only 2 distinct values (0 and 1), which look like the numbers of choices.",
            "Column 1 takes only 7 distinct values (0 to 60), which look like the numbers of choices.",
        ]

    def test_as_the_file_says(self) -> None:
        actions = np.random.default_rng(0).integers(0, 2, ROWS)
        report = report_on(without_successors(actions=actions, discrete_action=np.array(True)))
        assert [(f.code, f.count) for f in report.at("error")] == [("actions.discrete", 2)]
        assert report.facts.returns is not None  # the rest is examined all the same

    def test_a_constant_column(self) -> None:
        arrays = healthy()
        arrays["actions"][:, 1] = 0.25
        found = codes(arrays)
        assert (found["actions.constant"].level, found["actions.constant"].what) == (
            "warning",
            "Column 1 never changes (always 0.25).",
        )
        assert "actions.discrete" not in found

    def test_a_constant_column_without_bounds_cannot_be_trained_on(self) -> None:
        arrays = healthy()
        arrays["actions"] = arrays["actions"] * 2.0
        arrays["actions"][:, 1] = 3.0
        assert codes(arrays)["actions.constant"].level == "error"


class TestObservations:
    def widened(self, *columns: Any) -> dict[str, Any]:
        arrays = without_successors()
        extra = [np.broadcast_to(column, ROWS)[:, None] for column in columns]
        return arrays | {"obs": np.concatenate([arrays["obs"], *extra], axis=1).astype(np.float32)}

    def test_constant(self) -> None:
        finding = codes(self.widened(0.0, 0.0))["obs.constant"]
        assert (finding.level, finding.count, finding.what) == (
            "note",
            2,
            "Columns 3 and 4 never change (always 0).",
        )

    def test_near_constant(self) -> None:
        rare = np.zeros(ROWS)
        rare[77] = 1.0
        assert codes(self.widened(rare))["obs.near-constant"].count == 1

    def test_scales(self) -> None:
        finding = codes(self.widened(np.random.default_rng(0).normal(0, 5e4, ROWS)))["obs.scales"]
        assert finding.level == "note"
        assert "column 3 varies by" in finding.what

    def test_a_stand_in_for_what_is_missing(self) -> None:
        arrays = without_successors(episodes=300)
        arrays["obs"][50, 2] = -9999.0
        finding = codes(arrays)["obs.far-out"]
        assert (finding.level, finding.place.row, finding.place.column) == ("warning", 50, 2)
        assert "-9,999" in finding.what

    def test_nines_with_decimals_are_told_as_a_mark(self) -> None:
        arrays = without_successors()
        arrays["obs"][[50, 90], 2] = 999.9
        finding = codes(arrays)["obs.far-out"]
        assert finding.what.startswith("999.9 stands in 2 rows of column 2, far from all other values")
        assert "say missing_words: ['999.9'] with missing: hold" in finding.advice

    def test_nines_are_told_as_a_mark(self) -> None:
        """Near enough to the others to be no outlier by its distance."""
        arrays = without_successors(episodes=60)
        arrays["obs"][:, 2] = 30.0 + arrays["obs"][:, 2]
        arrays["obs"][[50, 90], 2] = -999.0
        (finding,) = (found for found in report_on(arrays).findings if found.code == "obs.far-out")
        assert (finding.level, finding.count, finding.place.row, finding.place.column) == ("warning", 2, 50, 2)
        assert finding.what.startswith("-999 stands in 2 rows of column 2, far from all other values")
        assert "say missing_words: ['-999'] with missing: hold" in finding.advice

    def test_no_more_is_looked_for_than_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looked: list[int] = []

        def counted(values: np.ndarray[Any, Any]) -> Any:
            looked.append(len(values))
            return far_beyond(values)

        monkeypatch.setattr("rl_training.data.doctor.observation_checks.far_beyond", counted)
        arrays = without_successors()
        arrays["obs"] = np.tile(arrays["obs"][:, :1], (1, 40))
        arrays["obs"][50] = 1e9
        assert [found.code for found in report_on(arrays).findings].count("obs.far-out") == 3
        assert len(looked) == 3

    def test_one_value_orders_beyond_the_others(self) -> None:
        arrays = without_successors()
        arrays["obs"][50, 2] = 1e9  # so far out that the deviation grows with it
        finding = codes(arrays)["obs.far-out"]
        assert (finding.level, finding.count, finding.place.row, finding.place.column) == ("warning", 1, 50, 2)
        assert "a thousand times as far out as all others, such as 1e+09" in finding.what
        assert "missing_words" in finding.advice

    def test_already_normalised(self) -> None:
        arrays = without_successors()
        arrays["obs"] = (arrays["obs"] - arrays["obs"].mean(axis=0)) / arrays["obs"].std(axis=0)
        assert codes(arrays)["obs.normalised"].level == "note"

    def test_outside_the_space(self) -> None:
        bounds = (np.full(3, -np.inf), np.array([np.inf, 0.9, np.inf]))
        finding = codes(healthy(), obs_bounds=bounds)["obs.outside-space"]
        above = np.flatnonzero(healthy()["obs"][:, 1] > 0.9)
        assert (finding.level, finding.count, finding.place.row) == ("warning", len(above), above[0])
        assert finding.place.column == 1

    def test_inside_the_space(self) -> None:
        assert codes(healthy(), obs_bounds=(np.full(3, -9.0), np.full(3, 9.0))) == {}


class TestRewards:
    def test_one_orders_beyond_the_others(self) -> None:
        rewards = healthy()["rewards"].copy()
        rewards[70] = 1e9
        finding = codes(healthy(rewards=rewards))["rewards.far-out"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", 1, 70)
        assert "such as 1e+09 where the others are in [" in finding.what

    def test_a_goal_that_is_paid_once(self) -> None:
        rewards = np.zeros(ROWS)
        rewards[70] = 1e4
        assert "rewards.far-out" not in codes(healthy(rewards=rewards))

    def test_a_goal_is_worth_an_episode(self) -> None:
        """MountainCarContinuous: every step costs up to 0.1, and the goal pays 100."""
        rng, rows = np.random.default_rng(0), 20_000
        rewards = -0.1 * rng.uniform(-1, 1, rows) ** 2
        last = np.arange(rows) % 1000 == 999
        rewards[last] += 100.0
        arrays = {
            "obs": rng.normal(size=(rows, 2)), "actions": rng.uniform(-1, 1, (rows, 1)), "rewards": rewards,
            "terminations": last, "truncations": np.zeros(rows, dtype=np.bool_),
        }  # fmt: skip
        assert "rewards.far-out" not in codes(arrays)
        for row in (4321, 4999):
            faulty = rewards.copy()
            faulty[row] = 1e9
            finding = codes(arrays | {"rewards": faulty})["rewards.far-out"]
            assert (finding.count, finding.place.row) == (1, row)

    @pytest.mark.parametrize("added", [-98.0, {"crash": -9_800.0, "stall": -50_000.0}])
    def test_what_is_said_of_terminations_is_no_fault(self, added: Any) -> None:
        rng, rows = np.random.default_rng(0), 2_000
        why = np.full(rows, "", dtype=object)
        why[9::10] = "timeout"
        why[[499, 999]] = "crash", "stall"
        rewards = rng.choice([-0.1, -0.10001], rows)
        given = {"obs": rng.normal(size=rows), "action": rng.uniform(-1, 1, rows), "reward": rewards, "why": why}
        reasons: Any = {"crash": "termination", "stall": "termination", "timeout": "truncation"}
        raw = settle(read_table(given, {"end_reasons": "why"}, TableChoices(reasons)), at_termination=added)
        assert raw.arrays["reward"][499] < -98
        assert "rewards.far-out" not in {finding.code for finding in examine(raw).findings}
        for row in (500, 999):
            faulty = given | {"reward": np.where(np.arange(rows) == row, 1e9, rewards)}
            raw = settle(read_table(faulty, {"end_reasons": "why"}, TableChoices(reasons)), at_termination=added)
            (finding,) = [finding for finding in examine(raw).findings if finding.code == "rewards.far-out"]
            assert (finding.count, finding.place.row) == (1, row)
            assert "where the others are in [-0.1" in finding.what

    def test_zero(self) -> None:
        assert codes(healthy(rewards=np.zeros(ROWS)))["rewards.constant"].level == "warning"

    def test_constant_where_terminations_tell(self) -> None:
        """CartPole: one for every step, until it falls."""
        assert codes(healthy(rewards=np.ones(ROWS)))["rewards.constant"].level == "note"

    def test_constant_where_nothing_terminates(self) -> None:
        arrays = healthy(rewards=np.ones(ROWS))
        arrays["truncations"] = arrays["truncations"] | arrays["terminations"]
        arrays["terminations"] = np.zeros(ROWS, dtype=np.bool_)
        assert codes(arrays)["rewards.constant"].level == "warning"

    def test_sparse(self) -> None:
        rewards = np.zeros(ROWS)
        rewards[ends_of(healthy())] = 1.0
        assert "98% of them are 0" in codes(healthy(rewards=rewards))["rewards.sparse"].what

    @pytest.mark.parametrize(("by", "direction"), [(1, "too late"), (-1, "too early")])
    def test_shifted(self, by: int, direction: str) -> None:
        finding = codes(healthy(rewards=np.roll(healthy()["rewards"], by)))["rewards.shifted"]
        assert finding.level == "warning"
        assert f"one row {direction}" in finding.what

    def test_first_rewards_of_zero_tell_of_a_shift(self) -> None:
        """Where no fit explains the rewards, that every episode begins with 0 does."""
        rewards = np.random.default_rng(0).normal(size=ROWS)
        ends = ends_of(healthy())
        assert "rewards.shifted" not in codes(healthy(rewards=rewards))
        rewards[[0, *(ends[:-1] + 1)]] = 0.0
        finding = codes(healthy(rewards=rewards))["rewards.shifted"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", len(ends), 0)
        assert "one row too late: 24 of 24 episodes begin with a reward of exactly 0" in finding.what
        assert "rewards_at: next" in finding.advice
        rewards[::9] = 0.0
        assert "rewards.shifted" not in codes(healthy(rewards=rewards))

    def test_unrelated_rewards_are_not_shifted(self) -> None:
        assert "rewards.shifted" not in codes(healthy(rewards=np.random.default_rng(0).normal(size=ROWS)))


class TestEpisodes:
    def test_few(self) -> None:
        assert codes(healthy(episodes=4))["episodes.few"].count == 4

    def test_of_one_row(self) -> None:
        arrays = without_successors()
        arrays["truncations"][[200, 201, 202]] = True
        finding = codes(arrays)["episodes.one-row"]
        assert (finding.level, finding.count, finding.place.row) == ("warning", 2, 201)

    def test_far_returns(self) -> None:
        arrays = healthy()
        arrays["rewards"][ends_of(arrays)[7]] = -5000.0
        finding = codes(arrays)["returns.far-out"]
        assert (finding.level, finding.count, finding.place.episode) == ("note", 1, 7)

    def test_a_far_return_names_the_row_that_makes_it(self) -> None:
        """A decimal point that was lost."""
        arrays = healthy()
        row = int(ends_of(arrays)[7]) - 9
        arrays["rewards"][row] = 1694.1
        finding = codes(arrays)["returns.far-out"]
        assert (finding.place.episode, finding.place.row) == (7, row)
        assert finding.what.endswith("; a single reward makes it so, 1,694.1.")

    def test_short_ones_dominate_the_mean(self) -> None:
        """Many short bad episodes and a few long good ones."""
        lengths = np.array([5] * 80 + [200] * 8)
        rows = int(lengths.sum())
        rng = np.random.default_rng(0)
        arrays = {
            "obs": rng.normal(size=(rows, 2)),
            "actions": rng.uniform(-0.9, 0.9, (rows, 1)),
            "rewards": rng.normal(1.0, 0.1, rows),
            "terminations": np.isin(np.arange(rows), np.cumsum(lengths) - 1),
        }
        report = report_on(arrays)
        finding = next(f for f in report.findings if f.code == "returns.by-row")
        assert "holds only 11% of the rows" in finding.what
        assert report.facts.return_by_row == pytest.approx((80 * 25 + 8 * 200 * 200) / rows, rel=0.01)


class TestCoverage:
    def test_directions(self) -> None:
        rng = np.random.default_rng(0)
        independent = rng.normal(size=(5000, 4)).astype(np.float32)
        assert effective_dimension(independent) == pytest.approx(4.0, abs=0.05)
        assert effective_dimension(independent[:, [0, 0, 0]]) == pytest.approx(1.0, abs=1e-6)
        assert effective_dimension(np.ones((10, 3), dtype=np.float32)) == 0.0

    def test_a_narrow_range(self) -> None:
        arrays = healthy()
        arrays["actions"][:, 0] *= 0.1
        finding = codes(arrays)["actions.narrow"]
        assert finding.level == "note"
        assert "in column 0" in finding.what

    def test_a_deterministic_behaviour(self) -> None:
        arrays = without_successors(episodes=300)
        arrays["actions"] = np.tanh(-arrays["obs"][:, :2])
        report = report_on(arrays)
        assert report.facts.action_spread == pytest.approx(0.0, abs=0.02)
        assert "behaviour.deterministic" in codes(arrays)

    def test_a_few_episodes_tell_nothing_of_the_behaviour(self) -> None:
        assert report_on(healthy(episodes=9)).facts.action_spread is None
        assert report_on(healthy(episodes=12)).facts.action_spread is not None

    def test_a_random_behaviour(self) -> None:
        rng = np.random.default_rng(0)
        arrays = without_successors(actions=rng.uniform(-0.99, 0.99, (ROWS, 2)))
        assert codes(arrays)["behaviour.random"].level == "note"
        assert "Cloning it gives the mean action" in codes(arrays)["behaviour.random"].advice

    def test_statistics_by_pieces(self) -> None:
        values = np.random.default_rng(0).normal(1e4, 3.0, (70_000, 3)).astype(np.float32)
        columns = Columns.of(values)
        np.testing.assert_allclose(columns.mean, values.mean(axis=0, dtype=np.float64), rtol=1e-9)
        np.testing.assert_allclose(columns.std, values.std(axis=0, dtype=np.float64), rtol=1e-6)


class TestReferenceReturns:
    @pytest.mark.parametrize(
        ("env_id", "expert"),
        [
            ("Hopper-v4", 3234.3),
            ("hopper-medium-v2", 3234.3),
            ("HalfCheetah-v5", 12135.0),
            ("Ant-v4", 3879.7),
            ("AntMaze_UMaze-v4", 1.0),
            ("antmaze-large-play-v0", 1.0),
            ("AdroitHandDoor-v1", 2880.5693087298737),
            ("D4RL/door/human-v2", 2880.5693087298737),
        ],
    )
    def test_are_found_by_many_names(self, env_id: str, expert: float) -> None:
        reference = reference_returns(env_id)
        assert reference is not None
        assert reference.expert == expert
        assert reference.score(reference.random) == 0.0
        assert reference.score(expert) == pytest.approx(100.0)

    @pytest.mark.parametrize("env_id", [None, "Pendulum-v1", "CartPole-v1", "Giant-v0"])
    def test_or_not(self, env_id: str | None) -> None:
        assert reference_returns(env_id) is None

    def test_score_in_the_facts(self) -> None:
        facts = report_on(healthy(), env_id="Hopper-v4").facts
        assert facts.returns is not None
        assert facts.score_by_episode == pytest.approx(100 * (facts.returns.mean + 20.272305) / (3234.3 + 20.272305))


class TestEndingEarly:
    def terminating_twice(self, at_end: float) -> dict[str, Any]:
        """Every step earns -2; two episodes terminate."""
        arrays = without_successors()
        ends = ends_of(arrays)
        arrays["rewards"] = np.full(len(arrays["rewards"]), -2.0)
        arrays["rewards"][::2] -= 0.5
        arrays["rewards"][1::2] += 0.5
        arrays["truncations"][:], arrays["terminations"][:] = False, False
        arrays["truncations"][ends[2:]], arrays["terminations"][ends[:2]] = True, True
        arrays["rewards"][ends[:2]] = at_end
        return arrays

    def test_is_warned_of_where_it_spares_more_than_it_costs(self) -> None:
        arrays = self.terminating_twice(at_end=-50.0)
        finding = codes(arrays)["rewards.end-early"]
        assert finding.level == "warning"
        assert f"2 of {len(ends_of(arrays))} episodes terminate, and that is the best that can happen" in finding.what
        assert "100 more steps earn -200, the last one earns -50 on average" in finding.what
        assert "at_termination: -150 at the least" in finding.advice

    def test_costs_are_told_with_their_own_sign(self) -> None:
        arrays = self.terminating_twice(at_end=-50.0)
        raw = settle(read_table({**arrays, "rewards": -arrays["rewards"]}), rewards_are="costs")
        found = {finding.code: finding for finding in examine(raw).findings}["rewards.end-early"]
        assert "100 more steps cost 200, the last one costs 50 on average" in found.what
        assert "at_termination: 150 at the least" in found.advice

    def test_is_no_more_than_a_note_where_the_end_is_better_than_other_rows(self) -> None:
        assert codes(self.terminating_twice(at_end=-1.0))["rewards.end-early"].level == "note"

    @pytest.mark.parametrize("at_end", [-201.0, -1_000.0])
    def test_is_not_where_it_costs_more_than_going_on(self, at_end: float) -> None:
        assert "rewards.end-early" not in codes(self.terminating_twice(at_end))

    def test_is_not_where_nothing_terminates_or_rewards_are_positive(self) -> None:
        arrays = self.terminating_twice(-50.0)
        assert "rewards.end-early" not in codes({**arrays, "rewards": -arrays["rewards"]})
        arrays["truncations"] |= arrays["terminations"]
        arrays["terminations"][:] = False
        assert "rewards.end-early" not in codes(arrays)

    def test_costs_that_were_negated_before_are_a_note(self) -> None:
        arrays = without_successors()
        table = {"cost" if field == "rewards" else field: values for field, values in arrays.items()}
        table["cost"] = -np.abs(table["cost"])
        found = {finding.code: finding for finding in examine(read_table(table, {"rewards": "cost"})).findings}
        assert found["rewards.cost"].level == "note"


class TestNamesOfRewards:
    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("cost", True),
            ("step_cost", True),
            ("Costs", True),
            ("penalty_2", True),
            ("score", False),
            ("Energiekosten", True),
            ("Stromverbrauch", True),
            ("tracking_error", True),
            ("coût (€)", True),
            ("Coûts", True),
            ("dépense", True),
            ("closs", False),
            ("Total $/h", True),
            ("Aufwand [EUR]", True),
            ("profit_eur", False),
            ("reward [EUR]", False),
        ],
    )
    def test_a_cost_is_no_reward(self, name: str, told: bool) -> None:
        arrays = without_successors()
        table = {name if field == "rewards" else field: values for field, values in arrays.items()}
        table[name] = np.abs(table[name])
        found = {finding.code: finding for finding in examine(read_table(table, {"rewards": name})).findings}
        assert ("rewards.cost" in found) == told
        if told:
            assert found["rewards.cost"].level == "warning"
            assert f"a column named {name!r}: if lower is better" in found["rewards.cost"].what

    def test_money_of_both_signs_is_earned_and_spent(self) -> None:
        arrays = without_successors()
        table = {"net_eur" if field == "rewards" else field: values for field, values in arrays.items()}
        table["net_eur"][:2] = (-1.0, 1.0)
        assert "rewards.cost" not in {f.code for f in examine(read_table(table, {"rewards": "net_eur"})).findings}
