"""Rewards that are a sum of a table's columns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.cli.hints_as_options import in_options
from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import FileDatasetConfig
from rl_training.data.doctor.episode_checks import check_reward_name
from rl_training.data.formats.reward_terms import Term, split_terms, told
from rl_training.data.reward_guesses import guess_rewards, weighted_sum
from rl_training.errors import ColumnsError, DataError
from rl_training.experiment.costs import added_up, shown_as

NAN = np.nan
ROWS = np.arange(6)
TABLE = {
    "x": ROWS / 6,
    "u": ROWS % 2,
    "run": ROWS // 3,
    "sales": np.array([NAN, NAN, 90.0, NAN, NAN, 70.0]),
    "wages": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "kWh": np.array([10, 20, 30, 40, 50, 60]),
}


def load(rewards: Any, **more: Any) -> TransitionDataset:
    """Two episodes of three rows."""
    columns = {"obs": "x", "actions": "u", "episode_ids": "run", "rewards": rewards}
    table = more.pop("table", TABLE)
    return TransitionDataset.from_table(table, columns, **{"last_rows_are": "termination", **more})


def test_signs_and_numbers() -> None:
    dataset = load(["sales", "-wages", "-0.5*kWh"])
    expected = np.nan_to_num(TABLE["sales"]) - TABLE["wages"] - 0.5 * TABLE["kWh"]
    np.testing.assert_allclose(dataset.rewards, expected)
    assert "rewards are sales - wages - 0.5*kWh" in dataset.notes
    assert "column 'sales': empty in 4 of 6 rows, where it adds nothing to the reward" in dataset.notes


@pytest.mark.parametrize("written", ["- wages", "-1 * wages", "-1.0*wages", " -1e0*wages ", "\N{MINUS SIGN}wages"])
def test_blanks_make_no_difference(written: str) -> None:
    np.testing.assert_allclose(load(["kWh", written]).rewards, TABLE["kWh"] - TABLE["wages"])


def test_all_of_them_are_costs() -> None:
    dataset = load(["wages", "2*kWh"], rewards_are="costs")
    np.testing.assert_allclose(dataset.rewards, -(TABLE["wages"] + 2 * TABLE["kWh"]))


def test_one_with_its_price() -> None:
    for written in ("0.3*kWh", ".3*kWh"):
        np.testing.assert_allclose(load(written).rewards, 0.3 * TABLE["kWh"], rtol=1e-6)


def test_a_column_is_taken_by_its_own_name_whatever_that_looks_like() -> None:
    table = TABLE | {"-wages": ROWS + 100.0, "2*kWh": ROWS + 200.0}
    np.testing.assert_allclose(load(["-wages", "2*kWh"], table=table).rewards, 2 * ROWS + 300.0)
    np.testing.assert_allclose(load("-wages", table=table).rewards, ROWS + 100.0)


def test_an_empty_cell_of_a_column_that_is_mostly_filled_is_a_missing_reward() -> None:
    table = TABLE | {"wages": np.array([1.0, NAN, 3.0, 4.0, 5.0, 6.0])}
    with pytest.raises(DataError, match=r"rewards: NaN at row 1, column 'sales - wages'"):
        load(["sales", "-wages"], table=table)
    with pytest.raises(DataError, match="its 'wages' is empty"):  # not what is paid at the end
        load(["sales", "-wages"], table=table)
    assert len(load(["sales", "-wages"], table=table, missing="drop")) == 5


@pytest.mark.parametrize("rows", [2, 3])  # of which one of two, or of three, is filled
def test_what_is_paid_at_the_end_adds_nothing_before(rows: int) -> None:
    last = ROWS % rows == rows - 1
    table = TABLE | {"run": ROWS // rows, "bonus": np.where(last, 50.0, NAN)}
    dataset = load(["wages", "bonus"], table=table)
    assert dataset.rewards.tolist() == (np.array(TABLE["wages"]) + 50.0 * last).tolist()
    empty = 6 - int(last.sum())
    assert f"column 'bonus': empty in {empty} of 6 rows, where it adds nothing to the reward" in dataset.notes


def test_of_costs_that_are_paid_at_the_end() -> None:
    assert load(["wages", "sales"], rewards_are="costs").rewards.tolist() == [-1, -2, -93, -4, -5, -76]
    backwards = TABLE | {"step": ROWS[::-1] % 3, "end": np.array([9.0, NAN, NAN, 8.0, NAN, NAN])}
    dataset = load(["wages", "end"], table=backwards, rewards_are="costs")
    assert dataset.rewards.tolist() == [-3, -2, -10, -6, -5, -12]


@pytest.mark.parametrize("filled", [(1, 2, 5), (0, 1, 2, 4), (2,)])  # not at ends alone, or at one end of three
def test_what_is_empty_elsewhere_is_missing_whatever_its_share(filled: tuple[int, ...]) -> None:
    table = TABLE | {"run": ROWS // 2, "paid": np.where(np.isin(ROWS, filled), 5.0, NAN)}
    with pytest.raises(DataError, match="its 'paid' is empty: write 0 where that means nothing; where it is missing"):
        load(["wages", "paid"], table=table)
    assert len(load(["wages", "paid"], table=table, missing="drop")) == len(filled)


@pytest.mark.parametrize("share", [0.3, 0.6])
@pytest.mark.parametrize("mark", [-9999, "ERR"])
def test_what_was_named_as_missing_never_adds_nothing(tmp_path: Path, share: float, mark: Any) -> None:
    rows = range(40)
    cost = [mark if i % 10 < 10 * share else 1 for i in rows]
    lines = ["x,u,run,sales,cost"] + [f"{i / 40},{i % 2},{i // 4},2,{cost[i]}" for i in rows]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns = {"obs": "x", "actions": "u", "episode_ids": "run", "rewards": ["sales", "-cost"]}
    more: dict[str, Any] = {"columns": columns, "missing_words": [str(mark)], "last_rows_are": "termination"}
    dataset = TransitionDataset.load(tmp_path / "log.csv", missing="drop", **more)
    assert dataset.rewards.tolist() == [1.0] * round(40 * (1 - share))
    with pytest.raises(DataError, match=r"rewards: NaN at row 0, column 'sales - cost'"):
        TransitionDataset.load(tmp_path / "log.csv", **more)


def test_nor_where_only_last_rows_have_another_value() -> None:
    table = TABLE | {"cost": np.array([-9.0, -9.0, 3.0, -9.0, -9.0, 4.0])}
    dataset = load(["wages", "-cost"], table=table, missing_words=["-9"], missing="drop")
    assert dataset.rewards.tolist() == [0, 2]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("word", ["nan", "NaN"])
def test_nor_where_the_word_is_nan(word: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though Python and pyarrow read it as a number, and an empty cell beside it adds nothing."""
    if not fast:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    columns = {"obs": "x", "actions": "u", "episode_ids": "run", "rewards": ["sales", "-cost"]}
    more: dict[str, Any] = {"columns": columns, "missing_words": [word], "last_rows_are": "termination"}
    for mark in (word, ""):
        cost = [5 if row % 10 == 9 else mark for row in range(40)]
        lines = ["x,u,run,sales,cost"] + [f"{row / 40},{row % 2},{row // 10},2,{cost[row]}" for row in range(40)]
        (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
        if not mark:
            dataset = TransitionDataset.load(tmp_path / "log.csv", **more)
            assert dataset.rewards.tolist() == [-3.0 if row % 10 == 9 else 2.0 for row in range(40)]
        else:
            with pytest.raises(DataError, match=r"rewards: NaN at row 0, column 'sales - cost'"):
                TransitionDataset.load(tmp_path / "log.csv", **more)


def test_an_end_that_is_not_trained_on_is_told() -> None:
    dataset = load(["wages", "sales"], last_rows_are="truncation")
    assert any(
        note.startswith("warning: column 'sales': only last rows of episodes have it, and those of cut episodes")
        for note in dataset.notes
    )


@pytest.mark.parametrize(
    "word", ["a" + 250_000 * " " + "b", 80_000 * "a -", 125_000 * "a ", 250_000 * "1" + "*x", 250_000 * "-"]
)
def test_a_long_text_takes_no_longer_than_its_letters(word: str) -> None:
    """Minutes, if it went by the square."""
    for rewards in (word, [word], ["wages", word]):
        with pytest.raises(DataError) as refused:
            load(rewards)
        assert len(str(refused.value)) < 300


def test_costs_are_told_once() -> None:
    dataset = load(["wages", "2*kWh"], rewards_are="costs")
    told_of = [note for note in dataset.notes if "wages" in note]
    assert told_of == ["costs are wages + 2*kWh, where lower is better; rewards are their negative"]


def test_a_column_that_is_empty_throughout_pays_nothing_that_is_known() -> None:
    with pytest.raises(DataError, match="NaN"):
        load(["sales", "-wages"], table=TABLE | {"sales": np.full(6, NAN)})


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (["sales", "-wage"], r"columns.rewards: no column 'wage'; did you mean 'wages'\?"),
        ("sales - wages", r"several are added up in a list: columns: \{rewards: \[sales, -wages\]\}"),
        ("sales + 0.5*kWh", r"columns: \{rewards: \[sales, 0.5\*kWh\]\}"),
        ("-wages", r"'-wages' is taken off from nothing; .* columns: \{rewards: wages\} and rewards_are: costs"),
        ("-0.3*kWh", r"say columns: \{rewards: 0.3\*kWh\} and rewards_are: costs"),
        (["sales", "-sales"], "'sales' is given twice"),
        (["sales", "0*wages"], "must be worth a finite number other than 0"),
        (["sales", "1e999*wages"], "must be worth a finite number other than 0"),
        ("sales-wages", r"columns: \{rewards: \[sales, -wages\]\}"),
        ("-wages + sales", r"columns: \{rewards: \[-wages, sales\]\}"),
        ("0,31*kWh", r"no column '0,31\*kWh'; write decimals with a point: columns: \{rewards: \[0.31\*kWh\]\}"),
        (["sales", "-0", "31*kWh"], r"write decimals with a point: columns: \{rewards: \[sales, -0.31\*kWh\]\}"),
        ("kWh*0.31", r"no column 'kWh\*0.31'; write the number first: 0.31\*kWh"),
        (["sales", "-kWh*0.31"], "write the number first: -0.31"),
        (["sales", "-1_0*kWh"], r"a part of a sum is written cost, -cost or 0.31\*kWh"),
        ("profit", "columns.rewards: no column 'profit'"),
        ("rew_*", r"no column matches 'rew_\*'"),
    ],
)
def test_refused(rewards: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(rewards)


def test_a_pattern_adds_nothing_up() -> None:
    with pytest.raises(DataError, match="takes one column, got 2: r_0, r_1"):
        load("r_*", table=TABLE | {"r_0": ROWS, "r_1": ROWS})


def test_lists_are_not_added_up() -> None:
    table = TABLE | {"pair": np.ones((6, 2))}
    with pytest.raises(DataError, match="column 'pair': holds lists; rewards are added up of single numbers"):
        load(["wages", "pair"], table=table)


def test_other_fields_take_no_sums() -> None:
    columns = {"obs": ["x", "-wages"], "actions": "u", "rewards": "kWh", "episode_ids": "run"}
    with pytest.raises(ColumnsError, match=r"columns\.obs: no column '-wages'"):
        TransitionDataset.from_table(TABLE, columns)


def test_a_mapping_is_answered_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"of rewards several are added up: \[sales, -cost, 0.3\*kWh\]"):
        FileDatasetConfig(path=Path("log.csv"), columns={"rewards": {"sales": 1, "wages": -1}})  # type: ignore[dict-item]


def test_a_list_that_yaml_has_cut_at_a_decimal_comma() -> None:
    columns: Any = {"rewards": yaml_dialect.read("[sales, 0,24*kWh, -0,02*wages]")}
    way = r"rewards.1: must be a column's name, got 0; write decimals with a point, 0.24\*kWh"
    with pytest.raises(ValueError, match=way):
        FileDatasetConfig(path=Path("log.csv"), columns=columns)
    with pytest.raises(ValueError, match=r"obs.1: must be a column's name, got 7"):
        FileDatasetConfig(path=Path("log.csv"), columns={"obs": ["x", 7]})  # type: ignore[list-item]


def test_written_and_read_again(tmp_path: Path) -> None:
    rows = ["x,u,run,sales,cost_EUR"] + [f"{i / 6},{i % 2},{i // 3},{'' if i % 3 < 2 else 9},{i}" for i in range(6)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    columns = {"obs": "x", "actions": "u", "episode_ids": "run", "rewards": ["sales", "-cost_EUR"]}
    dataset = TransitionDataset.load(tmp_path / "log.csv", columns=columns, last_rows_are="termination")
    assert dataset.rewards.tolist() == [0, -1, 7, -3, -4, 4]
    dataset.save(tmp_path / "log.npz")
    assert TransitionDataset.load(tmp_path / "log.npz").rewards.tolist() == dataset.rewards.tolist()
    assert dataset.in_file is not None
    assert not list(check_reward_name(dataset.in_file, dataset.rewards))  # a minus says what a cost is


def test_costs_that_are_only_added_are_still_asked_for() -> None:
    table = {("cost" if name == "wages" else name): values for name, values in TABLE.items()}
    dataset = load(["cost", "kWh"], table=table)
    assert dataset.in_file is not None
    assert [found.code for found in check_reward_name(dataset.in_file, dataset.rewards)] == ["rewards.cost"]


def test_the_units_of_a_sum() -> None:
    def section(*rewards: str) -> dict[str, Any]:
        return {"columns": {"rewards": list(rewards)}, "rewards_are": "costs"}

    assert shown_as(section("wages_EUR", "fuel_EUR"), {}).unit == "EUR"
    assert shown_as(section("wages_EUR", "0.3*power_EUR"), {}).unit is None
    assert shown_as(section("wages_EUR", "power_USD"), {}).unit is None
    assert added_up(section("wages_EUR", "-power_USD"), {}) == "wages_EUR - power_USD"
    assert shown_as(section("wages_EUR", "-refund_EUR"), {}).unit == "EUR"


@pytest.mark.parametrize("given", ["0.001*wages_EUR", ["0.001*wages_EUR"]])
def test_a_column_with_a_price_is_not_counted_in_its_own_unit(given: Any) -> None:
    section = {"columns": {"rewards": given}, "rewards_are": "costs"}
    assert shown_as(section, {}).unit is None
    assert added_up(section, {}) == "0.001*wages_EUR"
    assert shown_as(section | {"columns": {"reward": "1*wages_EUR"}}, {}).unit == "EUR"


def test_in_words() -> None:
    assert told(split_terms(["-a", "+b", "- 2*c"])) == "-a + b - 2*c"
    assert told(split_terms(["0.12345678*a", "-1e-9*b"])) == "0.12345678*a - 1e-09*b"
    assert split_terms(["-a"], ["-a"]) == (Term("-a"),)


def test_init_proposes_the_sum() -> None:
    columns = {"sales_EUR": np.array([1.0, 2.0]), "cost_EUR": np.array([1.0, 2.0]), "x": np.array([0.0, 1.0])}
    guess, sign = guess_rewards(columns, [], [])
    assert guess is not None
    assert guess.candidates[0] == ("sales_EUR", "-cost_EUR")
    assert sign is None


def test_init_proposes_the_sum_where_names_tell_that_money_is_paid() -> None:
    columns = {name: np.array([1.0, 2.0]) for name in ("sales_EUR", "wages_EUR", "energy_kWh")}
    guess, sign = guess_rewards(columns, [], [])
    assert guess is not None
    assert guess.candidates == (("sales_EUR", "-wages_EUR"), ("sales_EUR",), ("wages_EUR",))
    assert guess.why.startswith("sales_EUR, wages_EUR look like money; if it is a cost")
    assert guess.why.endswith("or a sum with costs taken off, if gains and costs belong together")
    assert sign is None


def test_init_proposes_that_money_of_no_known_kind_is_paid_too() -> None:
    """Gas beside the loss of a crop: nothing says that either is earned."""
    columns = {name: np.array([1.0, 2.0]) for name in ("Gas EUR", "Crop loss EUR")}
    guess, _ = guess_rewards(columns, [], [])
    assert guess is not None
    assert guess.candidates[:2] == (("Gas EUR", "Crop loss EUR"), ("Gas EUR", "-Crop loss EUR"))
    assert "or the sum of all, if Gas EUR is paid, too" in guess.why
    assert weighted_sum(guess) == []  # one currency needs no numbers


class TestAddedCosts:
    """A cost, by its name, that is added to what is gained: its minus may have been forgotten."""

    TABLE = TABLE | {"gain": np.ones(6), "power cost [EUR]": TABLE["wages"]}

    def warnings(self, rewards: Any, **changes: Any) -> list[str]:
        notes = load(rewards, table=self.TABLE | changes).notes
        return [note for note in notes if note.startswith("warning: ") and "cost" in note]

    def test_is_told_with_what_to_write(self) -> None:
        (told_,) = self.warnings(["gain", "power cost [EUR]"])
        assert told_ == (
            "warning: 'power cost [EUR]' is named like a cost, and is added to 'gain'; to take off what is paid,"
            " write columns: {rewards: [gain, '-power cost [EUR]']}; where all of them are costs, say rewards_are:"
            " costs"
        )
        costs = load(["gain", "power cost [EUR]"], table=self.TABLE, rewards_are="costs")
        assert not [note for note in costs.notes if note.startswith("warning: ")]

    def test_not_where_it_is_taken_off_or_already_below_zero(self) -> None:
        assert not self.warnings(["gain", "-power cost [EUR]"])
        assert not self.warnings(["gain", "power cost [EUR]"], **{"power cost [EUR]": -TABLE["wages"]})

    def test_costs_alone_may_be_added_up(self) -> None:
        dataset = load(["power cost [EUR]", "wage costs"], table=self.TABLE | {"wage costs": ROWS}, rewards_are="costs")
        assert not [note for note in dataset.notes if note.startswith("warning: ")]


def test_a_part_that_is_always_0_is_told() -> None:
    table = TABLE | {"missing kWh": np.array([np.nan, np.nan, 0.0] * 2)}
    idle = [note for note in load(["wages", "missing kWh"], table=table).notes if "missing kWh' is 0" in note]
    assert idle == [
        "warning: 'missing kWh' is 0 wherever it is told: these data do not show what leads to anything else, so that"
        " neither training nor an estimate without a simulator can mind it"
    ]


def test_names_that_yaml_would_misread_are_quoted() -> None:
    table = TABLE | {"OD600 [g/L]": ROWS, "Glucose (g/l)": ROWS}
    columns = {"obs": "OD600 [g/L], Glucose (g/l)", "actions": "u", "episode_ids": "run", "rewards": "wages"}
    with pytest.raises(ColumnsError) as caught:
        TransitionDataset.from_table(table, columns)
    assert str(caught.value).endswith("; several are a list: ['OD600 [g/L]', Glucose (g/l)]")
    with pytest.raises(ColumnsError, match=r"columns: \{rewards: \[Glucose \(g/l\), '-OD600 \[g/L\]'\]\}"):
        load("Glucose (g/l) - OD600 [g/L]", table=table)
    written = in_options("; columns: {rewards: [Glucose (g/l), '-OD600 [g/L]']}")
    assert written == "; --columns 'rewards=Glucose (g/l),-OD600 [g/L]'"


class TestDistances:
    """A log without a reward: how far something is from where it should be."""

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("abs(kWh - 25)", np.abs(TABLE["kWh"] - 25.0)),
            ("square( x-0.5 )", (TABLE["x"] - 0.5) ** 2),
            ("0.5*abs(kWh - wages)", 0.5 * np.abs(TABLE["kWh"] - TABLE["wages"])),
            ("over(kWh - 30)", np.maximum(TABLE["kWh"] - 30.0, 0.0)),
            ("over(30 - kWh)", np.maximum(30.0 - TABLE["kWh"], 0.0)),
            ("square(u)", TABLE["u"] ** 2.0),
            ("abs (x - -1)", TABLE["x"] + 1.0),
        ],
    )
    def test_values(self, written: str, expected: Any) -> None:
        dataset = load(written, rewards_are="costs")
        np.testing.assert_allclose(dataset.rewards, -expected, rtol=1e-6)
        np.testing.assert_allclose(load(["sales", f"-{written}"]).rewards, np.nan_to_num(TABLE["sales"]) - expected)

    def test_in_words(self) -> None:
        assert "rewards are -abs(x - 0.5) - 0.1*square(u)" in load(["-abs(x-0.5)", "-0.1*square(u)"]).notes

    def test_what_is_measured_may_be_observed(self) -> None:
        """Unlike a reward, it is known before acting."""
        assert not [note for note in load(["abs(x - 0.5)", "kWh"]).notes if "observed" in note]
        assert [note for note in load(["x", "kWh"]).notes if "'x' is the reward, and observed" in note]

    def test_names_with_a_minus(self) -> None:
        table = TABLE | {"T - tank": TABLE["kWh"], "T-set": TABLE["wages"]}
        expected = TABLE["kWh"] - TABLE["wages"]
        np.testing.assert_allclose(load(["abs(T - tank - T-set)", "u"], table=table).rewards, expected + TABLE["u"])

    def test_a_column_is_taken_by_its_own_name(self) -> None:
        table = TABLE | {"abs(x - 1)": TABLE["wages"]}
        np.testing.assert_allclose(load(["kWh", "abs(x - 1)"], table=table).rewards, TABLE["kWh"] + TABLE["wages"])

    @pytest.mark.parametrize("rewards", ["abs(x - 0.5)", ["abs(x - 0.5)", "kWh"]])
    def test_a_missing_cell_is_a_missing_reward_and_observation(self, rewards: Any) -> None:
        gappy = TABLE | {"x": np.array(["0.1", "err", "0.3", "0.4", "0.5", "0.6"], dtype=object)}
        dataset = load(rewards, table=gappy, missing="drop", missing_words=["err"])
        assert np.isfinite(dataset.obs).all()
        assert dataset.obs.max() < 1.0
        assert "1 of 6 rows left out: a value is missing there" in " ".join(dataset.notes)

    @pytest.mark.parametrize(
        ("rewards", "message"),
        [
            ("abs(kwh - 20)", r"columns.rewards: no column 'kwh'; did you mean 'kWh'\?"),
            (["sales", "-abs(kWh - wage)"], r"no column 'wage'; did you mean 'wages'\?"),
            ("abs(3 - 2)", r"'abs\(3 - 2\)' names no column"),
            ("-abs(x - 1)", r"columns: \{rewards: abs\(x - 1\)\} and rewards_are: costs"),
            (["abs(x - 1)", "abs(x-1)"], r"'abs\(x - 1\)' is given twice"),
            (["kWh", "exp(x)"], r"no column 'exp\(x\)'"),
            ("abs(__import__)", r"no column '__import__'"),
            ("abs()", r"no column 'abs\(\)'"),
            ("abs(x - 20,5)", r"no column '20,5'; write decimals with a point$"),
            ("-abs(x - 20) - 0.1*square(u)", r"; several are added up in a list, as in \[-abs\(T - 20\), -0.1"),
        ],
    )
    def test_refused(self, rewards: Any, message: str) -> None:
        with pytest.raises(DataError, match=message):
            load(rewards)

    @pytest.mark.parametrize(
        "rewards", ["abs(x - 20)", ["abs(x - 20)", "0.1*square(u)"], ["abs(x - 20)", "wage costs"]]
    )
    def test_that_more_of_it_is_better_is_doubted_until_it_is_said(self, rewards: Any) -> None:
        table = TABLE | {"wage costs": ROWS}
        doubt = "warning: rewards grow with abs(x - 20); where less of it is better, say rewards_are: costs"
        assert doubt in load(rewards, table=table).notes
        for said in ("costs", "rewards"):
            assert doubt not in load(rewards, table=table, rewards_are=said).notes

    @pytest.mark.parametrize("rewards", [["-abs(x - 20)", "-0.1*square(u)"], ["sales", "over(kWh - 30)"]])
    def test_nor_where_something_else_is_gained(self, rewards: Any) -> None:
        assert not [note for note in load(rewards).notes if "rewards grow with" in note]

    def test_costs_are_counted_in_no_unit(self) -> None:
        section = {"columns": {"rewards": "abs(x - 20)"}, "rewards_are": "costs"}
        assert shown_as(section, {}).unit is None
        assert added_up(section, {}) == "abs(x - 20)"

    def test_one_that_is_always_0_is_told(self) -> None:
        assert [note for note in load(["kWh", "over(x - 5)"]).notes if "'over(x - 5)' is 0 wherever" in note]
